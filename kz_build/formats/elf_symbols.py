"""The dynamic symbols of an ELF file, read as its loader reads them: from the dynamic segment, which a stripped file has too."""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

ANY = re.compile(rb"[^\0]+")
CXX = re.compile(rb"_Z(?:T[VTISC]|GV|Tv\d+_n?\d+_|Th?n?\d+_)?N?[VK]*St6__ndk1[^\0]*")
"""Names of what the NDK's libc++ defines. A name of other code that only has one of its types in it does not count."""
_MOST = 1 << 20  # symbols: LLVM's library has 30,000
_MOST_NAMES = 48 << 20  # bytes of names, which a damaged file lets overlap
_MOST_CHAIN = 1 << 16
_STB_LOCAL, _STB_WEAK = 0, 2
_LINKED_TO = (1, 2, 6, 10)  # STT_OBJECT, FUNC, TLS, GNU_IFUNC


class Symbol(NamedTuple):
    """One symbol. An undefined one that is not weak must come from another library. `linked_to`: code or data that others can use."""

    name: str
    linked_to: bool
    weak: bool
    defined: bool


def symbols(elf: Any, segment: Any, whole: mmap.mmap, wanted: re.Pattern[bytes]) -> Iterator[Symbol]:
    """Yield the symbols of a dynamic segment whose names match. Raises ValueError or struct.error for damaged tables."""
    table, names = _offset(segment, "DT_SYMTAB"), _offset(segment, "DT_STRTAB")
    size = next((tag.entry.d_val for tag in segment.iter_tags("DT_STRSZ")), 0)
    if table is None or names is None or not wanted.search(whole, names, min(names + size, len(whole))):
        return
    order = "<" if elf.little_endian else ">"
    entry = struct.Struct(order + ("IBBH16x" if elf.elfclass == 64 else "I8xBBH"))
    count = _count(segment, whole, order, elf.elfclass == 64)
    if count > _MOST or table + count * entry.size > len(whole):
        raise ValueError(f"it claims {count:,} dynamic symbols")
    read = 0
    for at, info, _, index in entry.iter_unpack(whole[table : table + count * entry.size]):
        if match := wanted.match(whole, names + at, len(whole)):
            read += len(match[0])
            if read > _MOST_NAMES:
                raise ValueError("the names of its dynamic symbols overlap")
            linked_to = info & 15 in _LINKED_TO and info >> 4 != _STB_LOCAL
            yield Symbol(match[0].decode("utf-8", "replace"), linked_to, info >> 4 == _STB_WEAK, index != 0)


def _offset(segment: Any, tag: str) -> int | None:
    offset = segment.get_table_offset(tag)[1]
    return None if offset is None else int(offset)


def _count(segment: Any, whole: mmap.mmap, order: str, wide: bool) -> int:
    """Return the number of symbols, which only the hash tables say."""
    if (plain := _offset(segment, "DT_HASH")) is not None:
        return int(struct.unpack_from(order + "4xI", whole, plain)[0])
    gnu = _offset(segment, "DT_GNU_HASH")
    if gnu is None:
        return int(segment.num_symbols())  # by the place of the table that follows
    buckets, first, bloom = struct.unpack_from(order + "III", whole, gnu)
    start = gnu + 16 + bloom * (8 if wide else 4)
    if buckets > _MOST or start > len(whole):
        raise ValueError("its hash table is larger than the file")
    last = max(struct.unpack_from(f"{order}{buckets}I", whole, start), default=0)
    if last < first:
        return int(first)
    chains = start + 4 * buckets
    for index in range(last, last + _MOST_CHAIN):
        if struct.unpack_from(order + "I", whole, chains + 4 * (index - first))[0] & 1:
            return index + 1
    raise ValueError("its hash table has no end")

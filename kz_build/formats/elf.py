"""ELF files, through pyelftools.

Facts come from the segments, which the loader of the device reads too: sections may be stripped, and a file
without them must not look as if it required nothing.
"""

from __future__ import annotations

import contextlib
import mmap
import posixpath
import re
import struct
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from elftools.common.exceptions import DWARFError, ELFError
from elftools.construct import ConstructError
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.segments import NoteSegment

from kz_build.core.errors import AuditError
from kz_build.core.files import storage_error
from kz_build.formats.elf_symbols import ANY, CXX, symbols
from kz_build.formats.elf_types import Elf

MOST_FINDINGS = 20
_MOST_PARTS = 2_000  # sections, segments, dynamic entries: a library has dozens
_SMALL = 64 << 20
_MOST_RATIO = 20  # of compressed sections above _SMALL: zlib reaches 1,032, debug information 5
_ANDROID_IDENT = 1  # type of the note that names API level and NDK; type 4 of the same owner is memory tagging
_DF_TEXTREL = 4
_PT_DYNAMIC = 2
_SHF_ALLOC = 2
_DEBUG_PATHS = (".debug_str", ".debug_line_str", ".debug_line")
_IDENTIFIER = re.compile(rb"[\w$/]")
# pyelftools fails on a damaged file in many ways; users see one.
_DAMAGE = (
    ELFError,
    DWARFError,
    ConstructError,
    struct.error,
    zlib.error,
    ValueError,
    KeyError,
    IndexError,
    AttributeError,
    TypeError,
    AssertionError,
    OverflowError,
    MemoryError,
    OSError,
)


@contextlib.contextmanager
def open_elf(path: Path) -> Iterator[tuple[Any, mmap.mmap]]:
    """Open the file as pyelftools and as bytes. Raises AuditError for an incomplete ELF file, also while it is read."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise storage_error(error) or AuditError(f"{path.name} cannot be read: {error.strerror}") from error
    with file:
        size = path.stat().st_size
        if file.read(4) != b"\x7fELF":
            raise AuditError(f"{path.name} is not an ELF file ({size} bytes)")
        try:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
                elf = ELFFile(file)
                _refuse_endless(elf, whole)
                _refuse_truncated(elf, size, path)
                yield elf, whole
        except _DAMAGE as error:
            first: BaseException | None = error
            while first and not isinstance(first, OSError):  # pyelftools puts its own errors around it
                first = first.__cause__ or first.__context__
            if isinstance(first, OSError) and (problem := storage_error(first)):
                raise problem from error
            raise AuditError(
                f"{path.name} is damaged or cut off ({size} bytes): {str(error) or type(error).__name__}"
            ) from error


def read_elf(path: Path, *, exports: bool = True) -> Elf:
    """Return the facts of an ELF file, without its exports if not requested. Raises AuditError for other or cut-off files."""
    with open_elf(path) as (elf, whole):
        return _facts(elf, whole, exports)


def _refuse_endless(elf: Any, whole: mmap.mmap) -> None:
    """Refuse tables that no library has before pyelftools walks them: it reads dynamic entries until one says it is the last."""
    for count, what in ((elf.num_sections(), "sections"), (elf.num_segments(), "segments")):
        if count > _MOST_PARTS:
            raise ValueError(f"it claims {count:,} {what}")
    order, wide = "<" if elf.little_endian else ">", elf.elfclass == 64
    entries = 0
    for number in range(elf.num_segments()):
        at = elf["e_phoff"] + number * elf["e_phentsize"]
        kind, offset = struct.unpack_from(order + ("I4xQ" if wide else "II"), whole, at)
        while kind == _PT_DYNAMIC:
            entries += 1
            if entries > _MOST_PARTS:
                raise ValueError(f"more than {_MOST_PARTS:,} dynamic entries")
            if struct.unpack_from(order + ("Q" if wide else "I"), whole, offset)[0] == 0:
                break
            offset += 16 if wide else 8


def _refuse_truncated(elf: Any, size: int, path: Path) -> None:
    ends = [s["p_offset"] + s["p_filesz"] for s in elf.iter_segments()]
    sections = [s for s in elf.iter_sections() if s["sh_type"] != "SHT_NOBITS"]
    ends += [s["sh_offset"] + s["sh_size"] for s in sections]
    if max(ends, default=0) > size:
        raise AuditError(f"{path.name} is cut off: {size} of {max(ends)} bytes are there")
    if sum(s["sh_size"] for s in sections) > 2 * size:
        raise ValueError("its sections overlap")
    unpacked = sum(s.data_size for s in sections if s.compressed)
    if unpacked > max(_SMALL, _MOST_RATIO * size):
        raise ValueError(f"its compressed sections would unpack to {unpacked:,} bytes: a bomb")


def _facts(elf: Any, whole: mmap.mmap, with_exports: bool) -> Elf:
    segments = list(elf.iter_segments())
    loads = [s for s in segments if s["p_type"] == "PT_LOAD"]
    soname, needed, textrel = "", [], False
    exports, cxx_imports, cxx_exports = set[str](), set[str](), set[str]()
    for segment in segments:
        if not isinstance(segment, DynamicSegment):
            continue
        tag: Any
        for tag in segment.iter_tags():
            if tag.entry.d_tag == "DT_NEEDED":
                needed.append(tag.needed)
            elif tag.entry.d_tag == "DT_SONAME":
                soname = tag.soname
            elif tag.entry.d_tag == "DT_TEXTREL" or (tag.entry.d_tag == "DT_FLAGS" and tag.entry.d_val & _DF_TEXTREL):
                textrel = True
        if with_exports:
            exports |= {s.name for s in symbols(elf, segment, whole, ANY) if s.linked_to and s.defined}
        for symbol in symbols(elf, segment, whole, CXX):
            if symbol.defined:
                cxx_exports.add(symbol.name)
            elif not symbol.weak:
                cxx_imports.add(symbol.name)
    api, ndk, build_id = _notes(segments)
    return Elf(
        elf.elfclass, str(elf.header["e_machine"]), str(elf.header["e_type"]), soname, tuple(needed),
        tuple(s["p_align"] for s in loads),
        all(not s["p_align"] or (s["p_vaddr"] - s["p_offset"]) % s["p_align"] == 0 for s in loads),
        api, ndk, build_id, textrel, frozenset(exports), len(whole), frozenset(cxx_imports), frozenset(cxx_exports),
    )  # fmt: skip


def _notes(segments: Sequence[Any]) -> tuple[int, str, str]:
    """Return (API level, NDK, build-id). The Android note: owner Android, type 1, u32 API level, 64 bytes NDK, 64 bytes build number."""
    api, ndk, build_id = 0, "", ""
    for segment in segments:
        if not isinstance(segment, NoteSegment):
            continue
        for note in segment.iter_notes():
            # pyelftools names the types of every owner as GNU's: 1 reads NT_GNU_ABI_TAG.
            if note["n_type"] == "NT_GNU_BUILD_ID" and note["n_name"] == "GNU":
                build_id = str(note["n_desc"])
            elif note["n_name"] == "Android" and note["n_type"] in (_ANDROID_IDENT, "NT_GNU_ABI_TAG"):
                data = note["n_descdata"]
                api = int.from_bytes(data[:4], "little")
                ndk = " ".join(
                    part.split(b"\0")[0].decode("ascii", "replace") for part in (data[4:68], data[68:132]) if part
                ).strip()
    return api, ndk, build_id


def strings_with(path: Path, prefixes: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return (section, text) of strings that contain one of the folders, in any section, compressed or not; the first few.

    Without a section header the whole file is searched, under the name `file`. Raises AuditError like `read_elf`.
    """
    wanted = [_folder(p) for p in prefixes if p]
    matches: dict[tuple[str, str], None] = {}
    with open_elf(path) as (elf, whole):
        for name, data, start, end in _contents(elf, whole):
            for folder in wanted:
                for match in folder.finditer(data, start, end):
                    matches[name, _text(data, match.start(), end)] = None
                    if len(matches) >= MOST_FINDINGS:
                        return tuple(matches)
    return tuple(matches)


def compiled_from(path: Path, folder: str) -> frozenset[str]:
    """Return the paths in a folder that debug information names: files that code was compiled from, and their folders.

    Raises AuditError like `read_elf`.
    """
    wanted = re.compile(re.escape(folder.rstrip("/").encode()) + rb"/[^\0\n]+")
    with open_elf(path) as (elf, whole):
        return frozenset(
            posixpath.normpath(match[0].decode("utf-8", "replace"))
            for name, data, start, end in _contents(elf, whole)
            if name in _DEBUG_PATHS
            for match in wanted.finditer(data, start, end)
        )


def sections(path: Path) -> dict[str, bytes]:
    """Return the content of each section, decompressed, in the file's order; a second one of a name is `name #2`, and so on.

    `headers` is the ELF header with the program headers, the map of the file. Raises AuditError like `read_elf`.
    """
    contents: dict[str, bytes] = {}
    same: Counter[str] = Counter()
    with open_elf(path) as (elf, whole):
        for name, data, start, end in _contents(elf, whole):
            same[name] += 1
            contents[f"{name} #{same[name]}" if same[name] > 1 else name] = bytes(data[start:end])
        header = elf.header
        programs = header["e_phoff"], header["e_phoff"] + header["e_phnum"] * header["e_phentsize"]
        contents["headers"] = whole[: header["e_ehsize"]] + whole[programs[0] : programs[1]]
    return contents


def section_sizes(path: Path) -> dict[str, int]:
    """Return the bytes that each section takes in the file, in the file's order; `headers, padding` is the rest of the
    file. Raises AuditError like `read_elf`."""
    sizes: Counter[str] = Counter()
    with open_elf(path) as (elf, whole):
        for section in elf.iter_sections():
            if section["sh_type"] not in ("SHT_NOBITS", "SHT_NULL"):
                sizes[section.name] += section["sh_size"]
        sizes["headers, padding"] = max(0, len(whole) - sum(sizes.values()))
    return dict(sizes)


def _folder(path: str) -> re.Pattern[bytes]:
    """Match the folder or what is in it; /home/me is not part of /home/me2."""
    return re.compile(re.escape(path.rstrip("/").encode()) + rb"(?![\w.-])")


def _contents(elf: Any, whole: mmap.mmap) -> Iterator[tuple[str, Any, int, int]]:
    """Yield (section, bytes, start, end): slices of the map are not copied, a library with debug information has 200 MB."""
    sections = [s for s in elf.iter_sections() if s["sh_type"] not in ("SHT_NOBITS", "SHT_NULL")]
    for section in sections:
        if section.compressed:
            data = section.data()
            yield section.name, data, 0, len(data)
        else:
            yield section.name, whole, section["sh_offset"], section["sh_offset"] + section["sh_size"]
    if not sections:
        yield "file", whole, 0, len(whole)


def _text(data: Any, at: int, limit: int) -> str:
    end = data.find(b"\0", at, min(at + 200, limit))
    return str(data[at : end if end >= 0 else min(at + 200, limit)].decode("utf-8", "replace"))


def registered_strings(path: Path, wanted: Sequence[str]) -> frozenset[str]:
    """Return which of these strings are whole in the file's loaded data: ended by NUL and not the tail of a longer identifier.

    Names of symbols and in debug information do not count: they say what is there, not what is registered with the VM.
    """
    matches = set()
    with open_elf(path) as (elf, whole):
        loaded = _loaded_data(elf)
        for text in wanted:
            if any(_is_whole(whole, text.encode() + b"\0", start, end) for start, end in loaded):
                matches.add(text)
    return frozenset(matches)


def _is_whole(data: mmap.mmap, raw: bytes, start: int, end: int) -> bool:
    # A regular expression with look-behind is a hundred times slower on a map than `find`.
    at = data.find(raw, start, end)
    while at >= 0:
        if at == start or not _IDENTIFIER.match(data[at - 1 : at]):
            return True
        at = data.find(raw, at + 1, end)
    return False


def _loaded_data(elf: Any) -> list[tuple[int, int]]:
    """Return the places of the program's strings: loaded sections of its own bytes, or all loaded data without sections."""
    sections = [
        (s["sh_offset"], s["sh_offset"] + s["sh_size"])
        for s in elf.iter_sections()
        if s["sh_type"] == "SHT_PROGBITS" and s["sh_flags"] & _SHF_ALLOC
    ]
    return sections or [
        (s["p_offset"], s["p_offset"] + s["p_filesz"]) for s in elf.iter_segments() if s["p_type"] == "PT_LOAD"
    ]

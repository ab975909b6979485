"""How much code of a library comes from which source file, by its debug information."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from elftools.common.utils import struct_parse
from elftools.dwarf.abbrevtable import AbbrevDecl, AbbrevTable
from elftools.dwarf.ranges import BaseAddressEntry, RangeEntry

from kz_build.formats.elf import open_elf

_MOST_UNITS = 100_000
_MOST_SIZE = 1 << 32  # a longer range is damage, or code that the linker removed


class _Abbreviations(AbbrevTable):
    """A table of abbreviations that is read as far as it is asked: a unit's own entry is the first one of clang's tables,
    and reading all of them takes 25 ms a unit."""

    __slots__ = ()

    def _parse_abbrev_table(self) -> dict[int, AbbrevDecl]:
        return {}

    def get_abbrev(self, code: int) -> AbbrevDecl:
        self.stream.seek(self.offset)
        while found := int(struct_parse(self.structs.the_Dwarf_uleb128, self.stream)):
            declaration = struct_parse(self.structs.Dwarf_abbrev_declaration, self.stream)
            if found == code:
                return AbbrevDecl(code, declaration)
        raise KeyError(code)


def code_by_source(path: Path) -> dict[str, int]:
    """Return source file -> bytes of code that were compiled from it, as far as debug information says; {} without any.

    Raises AuditError for a damaged file.
    """
    sizes: Counter[str] = Counter()
    with open_elf(path) as (elf, _):
        if not elf.has_dwarf_info():
            return {}
        dwarf = elf.get_dwarf_info()
        dwarf.get_abbrev_table = lambda offset: _Abbreviations(dwarf.structs, dwarf.debug_abbrev_sec.stream, offset)
        ranges = dwarf.range_lists()
        for number, unit in enumerate(dwarf.iter_CUs()):
            if number >= _MOST_UNITS:
                raise ValueError(f"more than {_MOST_UNITS:,} compile units")
            attributes = unit.get_top_DIE().attributes
            name, folder = (_text(attributes, key) for key in ("DW_AT_name", "DW_AT_comp_dir"))
            size = sum(end - start for start, end in _extents(attributes, ranges, unit) if 0 < end - start < _MOST_SIZE)
            if name and size:
                sizes[posixpath.normpath(posixpath.join(folder, name))] += size
    return dict(sizes)


def _text(attributes: Any, key: str) -> str:
    value = attributes[key].value if key in attributes else b""
    return str(value.decode("utf-8", "replace")) if isinstance(value, bytes) else ""


def _extents(attributes: Any, ranges: Any, unit: Any) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of a unit's code. What the linker left out has an address that no code has: 0, 1 or the last ones."""
    low = attributes["DW_AT_low_pc"].value if "DW_AT_low_pc" in attributes else 0
    last = (1 << 8 * unit["address_size"]) - 2
    if "DW_AT_ranges" in attributes and ranges:
        base = low
        for entry in ranges.get_range_list_at_offset(attributes["DW_AT_ranges"].value, unit):
            if isinstance(entry, BaseAddressEntry):
                base = entry.base_address
            elif isinstance(entry, RangeEntry):
                start = entry.begin_offset + (0 if entry.is_absolute else base)
                if 1 < start < last:
                    yield start, start + entry.end_offset - entry.begin_offset
    elif "DW_AT_high_pc" in attributes and 1 < low < last:
        high = attributes["DW_AT_high_pc"]
        yield low, high.value if high.form == "DW_FORM_addr" else low + high.value

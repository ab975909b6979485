"""Bytes of a library by the kind of their section."""

from __future__ import annotations

from collections.abc import Iterable

KINDS = ("code", "constants", "data", "linking", "names", "debug", "other")
"""In the order in which they are drawn."""
_PREFIXES = (
    ("code", (".text", ".plt", ".init", ".fini", ".iplt")),
    ("constants", (".rodata", ".eh_frame", ".gcc_except_table", ".ARM.", ".qtmlit")),
    ("data", (".data", ".got", ".init_array", ".fini_array", ".tdata", ".preinit_array", ".relro_padding", ".bss")),
    ("linking", (".dyn", ".rel", ".gnu.", ".hash", ".interp", ".note")),
    ("names", (".symtab", ".strtab", ".shstrtab")),
    ("debug", (".debug", ".zdebug", ".comment", ".gdb")),
)


def kind_of(section: str) -> str:
    """Return the kind of a section, by its name."""
    if section.startswith((".init_array", ".fini_array")):
        return "data"
    return next((kind for kind, prefixes in _PREFIXES if section.startswith(prefixes)), "other")


def by_kind(sections: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return kind -> bytes, in the order of `KINDS`, without those that have none."""
    sizes = dict.fromkeys(KINDS, 0)
    for name, size in sections:
        sizes[kind_of(name)] += size
    return {kind: size for kind, size in sizes.items() if size}

"""ELF files made to order: small, whole, and wrong in just one way."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

AARCH64, X86_64, HEXAGON = 183, 62, 164
DYN, EXEC, RELOCATABLE = 3, 2, 1
PROGBITS, NOBITS = 1, 8
ALLOC, COMPRESSED = 0x2, 0x800
TEXTREL, FLAGS = (22, 0), 30
"""A dynamic entry, and the tag of one with flags."""


class Section(NamedTuple):
    """A section with content of its own; `flags` 2 is loaded, 0x800 is compressed."""

    name: str
    content: bytes
    flags: int = 0
    kind: int = PROGBITS


def note(owner: bytes, kind: int, data: bytes) -> bytes:
    """One entry of a PT_NOTE."""
    name = owner + b"\0"
    return struct.pack("<III", len(name), len(data), kind) + _padded(name, 4) + _padded(data, 4)


def android_note(api: int, ndk: bytes = b"r28c", build: bytes = b"13676358") -> bytes:
    """What the NDK's linker script leaves."""
    return note(b"Android", 1, struct.pack("<I", api) + ndk.ljust(64, b"\0") + build.ljust(64, b"\0"))


def build_id(digits: str) -> bytes:
    """The linker's build-id."""
    return note(b"GNU", 3, bytes.fromhex(digits))


def elf(
    *,
    bits: int = 64,
    machine: int = AARCH64,
    kind: int = DYN,
    order: str = "<",
    alignments: Sequence[int] = (0x4000, 0x4000),
    skew: int = 0,
    soname: str = "",
    needed: Sequence[str] = (),
    dynamic: Sequence[tuple[int, int]] | None = (),
    functions: Sequence[str] = (),
    symbols: Mapping[str, tuple[int, int]] | None = None,
    notes: bytes = b"",
    sections: Sequence[Section] = (),
) -> bytes:
    """A shared object. The first PT_LOAD has all of it, the others nothing of it; the last one's address is off by `skew`.

    `symbols` are more dynamic symbols: name -> (type, section index); 0 is an undefined one, a type of 0x20 and more is weak. `dynamic` are more entries,
    None for a file that is not linked to anything.
    """
    wide = bits == 64
    word = "Q" if wide else "I"
    segments = len(alignments) + bool(notes) + (dynamic is not None)
    head = (64 + 56 * segments) if wide else (52 + 32 * segments)
    names = b"\0" + b"".join(n.encode() + b"\0" for n in (soname, *needed))
    all_symbols = {**dict.fromkeys(functions, (2, 1)), **(symbols or {})}
    at = {name: len(names) + sum(len(n) + 1 for n in list(all_symbols)[:i]) for i, name in enumerate(all_symbols)}
    names += b"".join(n.encode() + b"\0" for n in all_symbols)
    table = bytes(24 if wide else 16)
    for name, (info, index) in all_symbols.items():
        if wide:
            table += struct.pack(order + "IBBHQQ", at[name], info if info > 15 else 0x10 | info, 0, index, 0x40, 4)
        else:
            table += struct.pack(order + "IIIBBH", at[name], 0x40, 4, info if info > 15 else 0x10 | info, 0, index)
    count = len(all_symbols) + 1
    hashes = struct.pack(f"{order}{3 + count}I", 1, count, 0, *[0] * count)
    body = bytearray()
    places = []
    for piece in (names, table, hashes, notes):
        places.append(head + len(body))
        body += _padded(piece, 16)
    entries = [(5, places[0]), (6, places[1]), (4, places[2]), (10, len(names)), (11, 24 if wide else 16)]
    offset = 1
    if soname:
        entries.append((14, offset))
    offset += len(soname) + 1
    for name in needed:
        entries.append((1, offset))
        offset += len(name) + 1
    tags = b"".join(struct.pack(order + word * 2, *entry) for entry in [*entries, *(dynamic or ()), (0, 0)])
    dynamic_at = head + len(body)
    body += _padded(tags, 16)
    section_at = []
    for section in sections:
        section_at.append(head + len(body))
        body += _padded(section.content, 16) if section.kind != NOBITS else b""
    section_names = b"\0" + b"".join(s.name.encode() + b"\0" for s in (*sections, Section(".shstrtab", b"")))
    names_at = head + len(body)
    body += _padded(section_names, 16)
    end = head + len(body)

    def program(kind: int, offset: int, size: int, align: int, skewed: int = 0) -> bytes:
        if wide:
            return struct.pack(order + "IIQQQQQQ", kind, 4, offset, offset + skewed, offset, size, size, align)
        return struct.pack(order + "IIIIIIII", kind, offset, offset + skewed, offset, size, size, 4, align)

    programs = b"".join(
        program(1, 16 if i else 0, 0 if i else end, align, skew if i == len(alignments) - 1 else 0)
        for i, align in enumerate(alignments)
    )
    programs += program(2, dynamic_at, len(tags), 8) if dynamic is not None else b""
    programs += program(4, places[3], len(notes), 4) if notes else b""

    def header(name: int, kind: int, flags: int, offset: int, size: int) -> bytes:
        return struct.pack(order + (f"II{word * 4}II{word * 2}"), name, kind, flags, 0, offset, size, 0, 0, 1, 0)

    headers, index = b"", 1
    for section, place in zip(sections, section_at, strict=True):
        headers += header(index, section.kind, section.flags, place, len(section.content))
        index += len(section.name) + 1
    if sections:
        headers = header(0, 0, 0, 0, 0) + headers + header(index, 3, 0, names_at, len(section_names))
    many = len(sections) + 2 if sections else 0
    ident = b"\x7fELF" + bytes([2 if wide else 1, 1 if order == "<" else 2, 1]) + bytes(9)
    sizes = (64, 56, segments, 64 if sections else 0) if wide else (52, 32, segments, 40 if sections else 0)
    fields = (kind, machine, 1, 0, sizes[0], end if sections else 0, 0, *sizes, many, max(many - 1, 0))
    return ident + struct.pack(f"{order}HHI{word * 3}IHHHHHH", *fields) + programs + bytes(body) + headers


def _padded(data: bytes, to: int) -> bytes:
    return data + bytes(-len(data) % to)

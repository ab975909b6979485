"""ELF files, through pyelftools."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection, SymbolTableSection

from kz_build.model.elf import Elf
from kz_build.model.errors import AuditError

_MOST_FINDINGS = 20


def read_elf(path: Path) -> Elf:
    """Facts of an ELF file. Raises AuditError for what is none, or is cut off."""
    size = path.stat().st_size
    with path.open("rb") as file:
        if file.read(4) != b"\x7fELF":
            raise AuditError(f"{path.name} is not an ELF file ({size} bytes)")
        try:
            elf = ELFFile(file)
            _refuse_truncated(elf, size, path)
            return _facts(elf, size)
        except (
            ELFError,
            struct.error,
            ValueError,
            KeyError,
            IndexError,
            AttributeError,
            TypeError,
            UnicodeDecodeError,
            OSError,
        ) as error:
            # pyelftools meets a damaged file in many ways; to the user they are one.
            raise AuditError(
                f"{path.name} is damaged or cut off ({size} bytes): {str(error) or type(error).__name__}"
            ) from error


def _refuse_truncated(elf: Any, size: int, path: Path) -> None:
    header = elf.header
    ends = [
        header["e_phoff"] + header["e_phnum"] * header["e_phentsize"],
        header["e_shoff"] + header["e_shnum"] * header["e_shentsize"],
    ]
    ends += [s["p_offset"] + s["p_filesz"] for s in elf.iter_segments()]
    ends += [s["sh_offset"] + s["sh_size"] for s in elf.iter_sections() if s["sh_type"] != "SHT_NOBITS"]
    if max(ends) > size:
        raise AuditError(f"{path.name} is cut off: {size} of {max(ends)} bytes are there")


def _facts(elf: Any, size: int) -> Elf:
    loads = [s for s in elf.iter_segments() if s["p_type"] == "PT_LOAD"]
    soname, needed, textrel = "", [], False
    exports = set()
    for section in elf.iter_sections():
        if isinstance(section, DynamicSection):
            tag: Any
            for tag in section.iter_tags():
                if tag.entry.d_tag == "DT_NEEDED":
                    needed.append(tag.needed)
                elif tag.entry.d_tag == "DT_SONAME":
                    soname = tag.soname
                elif tag.entry.d_tag == "DT_TEXTREL" or (tag.entry.d_tag == "DT_FLAGS" and tag.entry.d_val & 4):
                    textrel = True
        elif isinstance(section, SymbolTableSection) and section.name == ".dynsym":
            for symbol in section.iter_symbols():
                if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_shndx"] != "SHN_UNDEF":
                    exports.add(symbol.name)
    api, ndk, build_id = _notes(elf)
    return Elf(
        elf.elfclass, str(elf.header["e_machine"]), str(elf.header["e_type"]), soname, tuple(needed),
        tuple(s["p_align"] for s in loads),
        all(not s["p_align"] or (s["p_vaddr"] - s["p_offset"]) % s["p_align"] == 0 for s in loads),
        api, ndk, build_id, textrel, frozenset(exports), size,
    )  # fmt: skip


def _notes(elf: Any) -> tuple[int, str, str]:
    """(API level, NDK, build-id). The Android note: owner Android, type 1, u32 API level, 64 bytes NDK, 64 bytes build number."""
    api, ndk, build_id = 0, "", ""
    for section in elf.iter_sections():
        if not isinstance(section, NoteSection):
            continue
        for note in section.iter_notes():
            if note["n_type"] == "NT_GNU_BUILD_ID":
                build_id = str(note["n_desc"])
            elif note["n_name"] == "Android" and section.name == ".note.android.ident":
                data = note["n_descdata"]
                api = int.from_bytes(data[:4], "little")
                ndk = " ".join(
                    part.split(b"\0")[0].decode("ascii", "replace") for part in (data[4:68], data[68:132]) if part
                ).strip()
    return api, ndk, build_id


def strings_with(path: Path, prefixes: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """(section, text) of strings that hold one of the prefixes, in any section, compressed ones too; the first few."""
    found: list[tuple[str, str]] = []
    with path.open("rb") as file:
        elf = ELFFile(file)
        for name, data in _contents(elf, file):
            for prefix in prefixes:
                for text in _around(data, prefix.encode()):
                    found.append((name, text))
                    if len(found) >= _MOST_FINDINGS:
                        return tuple(found)
    return tuple(found)


def _contents(elf: Any, file: Any) -> Iterator[tuple[str, Any]]:
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
        for section in elf.iter_sections():
            if section["sh_type"] in ("SHT_NOBITS", "SHT_NULL"):
                continue
            if section.compressed:
                yield section.name, section.data()
            else:
                yield section.name, whole[section["sh_offset"] : section["sh_offset"] + section["sh_size"]]


def _around(data: bytes, prefix: bytes) -> Iterator[str]:
    at = data.find(prefix)
    while at >= 0:
        end = min(e for e in (data.find(b"\0", at), at + 200, len(data)) if e >= 0)
        yield data[at:end].decode("utf-8", "replace")
        at = data.find(prefix, end)


def texts(path: Path, wanted: Sequence[str]) -> frozenset[str]:
    """Which of these strings stand in the file whole: ended by NUL and not the tail of a longer identifier."""
    found = set()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
        for text in wanted:
            raw = text.encode() + b"\0"
            at = whole.find(raw)
            if at >= 0:
                found.add(text)
    return frozenset(found)

"""What makes a library loadable: its machine, its alignment to pages, the libraries that it needs. Pure."""

from __future__ import annotations

from collections.abc import Container, Mapping

from kz_build.formats.elf_types import MACHINES, Elf

PAGE = 16384
"""Bytes of the largest pages that an Android device has."""


def android_abi(abi: str) -> str:
    """Return an ABI as Android names it: targets for Linux say arm64."""
    return "arm64-v8a" if abi == "arm64" else abi


def machine_of(abi: str) -> tuple[int, str] | None:
    """Return class and machine of an ABI's libraries, None for an ABI that Android does not know."""
    return MACHINES.get(android_abi(abi))


def is_for(elf: Elf, machine: tuple[int, str] | None) -> bool:
    """Whether a file is of this class and machine."""
    return (elf.bits, elf.machine) == machine


def aligned(elf: Elf, page: int = PAGE) -> bool:
    """Whether every PT_LOAD is aligned to pages of this size. One without any cannot be loaded."""
    return bool(elf.alignments) and all(a >= page and a % page == 0 for a in elf.alignments)


def names(libraries: Mapping[str, Elf]) -> frozenset[str]:
    """Return what a linker finds these libraries (file name -> facts) by: file names and SONAMEs."""
    return frozenset({*libraries, *(elf.soname for elf in libraries.values())} - {""})


def lacking(elf: Elf, there: Container[str]) -> list[str]:
    """Return the NEEDED libraries that are not there."""
    return [name for name in elf.needed if name not in there]

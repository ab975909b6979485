"""What makes a library loadable: its machine, its alignment to pages, the libraries that it needs. Pure."""

from __future__ import annotations

from collections.abc import Container, Mapping

from kz_build.formats.elf_types import MACHINES, Elf

PAGE = 16384
"""Bytes of the largest pages that an Android device has."""
CXX_RUNTIMES = ("libc++_shared.so", "libc++.so.1", "libstdc++.so.6")
"""The C++ runtimes as shared libraries: the NDK's, LLVM's and GNU's."""
CXX_RUNTIME_INSIDE = "N10__cxxabiv117__class_type_infoE"
"""A string that a library has only with a C++ runtime of its own: the name of a type that LLVM's and GNU's define."""


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


def lacking_cxx(libraries: Mapping[str, Elf], system: Container[str]) -> dict[str, list[str]]:
    """Return the symbols of the C++ runtime that a library (file name -> facts) needs, and that none of those that the loader
    puts together with it defines.

    Where one that is NEEDED is not there, what it defines is unknown: `lacking` names it.
    """
    owner = {elf.soname: name for name, elf in libraries.items()} | {name: name for name in libraries}
    groups = {name: _group(name, libraries, owner) for name in libraries}
    result = {}
    for name in libraries:
        near = [libraries[other] for other in set().union(*(group for group in groups.values() if name in group))]
        if all(needed in owner or needed in system for elf in near for needed in elf.needed):
            result[name] = sorted(libraries[name].cxx_imports.difference(*(elf.cxx_exports for elf in near)))
    return {name: symbols for name, symbols in result.items() if symbols}


def _group(root: str, libraries: Mapping[str, Elf], owner: Mapping[str, str]) -> set[str]:
    """Return a library and all that it needs, directly or not, by file name."""
    group, todo = {root}, [root]
    while todo:
        needed = {owner[name] for name in libraries[todo.pop()].needed if name in owner}
        todo += needed - group
        group |= needed
    return group


def lacking(elf: Elf, there: Container[str]) -> list[str]:
    """Return the NEEDED libraries that are not there."""
    return [name for name in elf.needed if name not in there]


def cxx_runtime(elf: Elf) -> str:
    """Return the shared C++ runtime that a file needs, or ''."""
    return next((name for name in elf.needed if name in CXX_RUNTIMES), "")

"""A build as a list of plain steps: pure, printable, the same for every engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from kz_build.container.mount import Bring


@dataclass(frozen=True)
class Checkout:
    """Lay a git tree into a new folder."""

    repository: Path
    tree: str
    exclude: tuple[str, ...]
    folder: Path


@dataclass(frozen=True)
class Copy:
    """Put one file into its place; `executable` sets its mode."""

    source: Path
    to: Path


@dataclass(frozen=True)
class Command:
    """Run a program. `phase` names it in the progress display and in the name of its log."""

    phase: str
    argv: tuple[str, ...]
    cwd: Path
    env: tuple[tuple[str, str], ...]


Step = Checkout | Copy | Command


CACHING = (
    "CCACHE_DISABLE",
    "CCACHE_DIR",
    "CCACHE_CONFIGPATH",
    "CCACHE_COMPILERCHECK",
    "CCACHE_DEPEND",
    "CMAKE_C_COMPILER_LAUNCHER",
    "CMAKE_CXX_COMPILER_LAUNCHER",
)
"""Variables of a step that say whether a compile cache is used, and where."""

ASSEMBLE = "<CMAKE_ASM_COMPILER> <DEFINES> <INCLUDES> <FLAGS> -o <OBJECT> -c <SOURCE>"
"""CMake's own rule for one file of assembler (CMakeASMInformation.cmake)."""


class Ccache(NamedTuple):
    """A compile cache: the program, and the folder it keeps its results in."""

    program: str
    folder: Path


@dataclass(frozen=True)
class Layout:
    """Where a build's things lie for the programs it runs: folders of this machine, or of a container.

    `image` is the content key of a container's image, '' on this machine, where sources are read in the store.
    """

    tree: Path
    build: Path
    cache: Path
    python: str
    image: str = ""


@dataclass(frozen=True)
class Artifact:
    """A file that the build puts into `dist`: `name` there, under which profile it is audited, where its symbols go.

    `built` is the file as the build left it, with its debug information; None for what goes along as it is.
    """

    name: str
    folder: str
    profile: str
    made: bool
    symbols: bool
    built: Path | None = None


@dataclass(frozen=True)
class Plan:
    """All of one build. `key` stands for every input that can change a byte of what comes out.

    Steps name places of `layout`; tree, build, stage and dist are folders of this machine. `needs` are programs that the
    engine must have.
    """

    line: str
    target: str
    key: str
    tree: Path
    build: Path
    stage: Path
    dist: Path
    steps: tuple[Step, ...]
    artifacts: tuple[Artifact, ...]
    layout: Layout
    brought: tuple[Bring, ...] = ()
    needs: tuple[str, ...] = ()

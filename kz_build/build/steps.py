"""A build as a list of plain steps: pure, printable, the same for every engine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from kz_build.container.mount import Mount
from kz_build.core.errors import CommandError


@dataclass(frozen=True)
class Checkout:
    """Check out a git tree into a new folder."""

    repository: Path
    tree: str
    exclude: tuple[str, ...]
    folder: Path


@dataclass(frozen=True)
class Copy:
    """Copy one file."""

    source: Path
    to: Path


def not_made(source: Path) -> CommandError:
    """Return the error for a file to copy that is not there."""
    return CommandError(
        f"{source} was not made, or is not in its source",
        hint="does the name in pins.yaml (outputs, prebuilt, lay) still fit upstream?",
    )


@dataclass(frozen=True)
class Command:
    """Run a program. `phase` names it in the progress display and in its log's name."""

    phase: str
    argv: tuple[str, ...]
    cwd: Path
    env: tuple[tuple[str, str], ...]


Step = Checkout | Copy | Command


def ninja(build: Command, title: str, *words: str, folder: str = "") -> Command:
    """Return the step `cmake --build FOLDER` with other words for ninja, perhaps in another folder."""
    to = build.argv.index("--build") + 1
    phase = f"{build.phase.removesuffix('-build')}-{title}"
    return replace(build, phase=phase, argv=(*build.argv[:to], folder or build.argv[to], "--", *words))


CACHING = (
    "CCACHE_DISABLE",
    "CCACHE_DIR",
    "CCACHE_CONFIGPATH",
    "CCACHE_COMPILERCHECK",
    "CCACHE_DEPEND",
    "CCACHE_NAMESPACE",
    "CCACHE_STATSLOG",
    "CMAKE_C_COMPILER_LAUNCHER",
    "CMAKE_CXX_COMPILER_LAUNCHER",
)
"""Variables of a step that turn on a compile cache, and place it."""
CCACHE_LOG = "ccache.log"
"""The file in a build's folder that counts what the compile cache had."""

ASSEMBLE = "<CMAKE_ASM_COMPILER> <DEFINES> <INCLUDES> <FLAGS> -o <OBJECT> -c <SOURCE>"
"""CMake's own rule for one file of assembler (CMakeASMInformation.cmake)."""


MAPPED = "/kz"
"""The folder of all sources as programs of a build see it, and in debug info and messages wherever it really is."""


class Ccache(NamedTuple):
    """A compile cache: the program, and the folder of its results."""

    program: str
    folder: Path


class Sccache(NamedTuple):
    """Distributed compiling: the program before each compiler."""

    program: str

    def variables(self) -> dict[str, str]:
        """Return the variables of a build's commands."""
        return {f"CMAKE_{language}_COMPILER_LAUNCHER": self.program for language in ("C", "CXX")}


@dataclass(frozen=True)
class Layout:
    """Paths of a build as its programs see them: below MAPPED, the same for everyone, or folders of this machine, where
    sources are read in the store. `image` is the content key of a container's image, '' on this machine."""

    tree: Path
    build: Path
    cache: Path
    python: str
    image: str = ""

    @property
    def mapped(self) -> bool:
        """Return whether the paths are the same for everyone."""
        return self.tree == Path(MAPPED)


@dataclass(frozen=True)
class Artifact:
    """A file that the build puts into `dist`: its `name` there, its audit profile, and whether it has symbols.

    `built` is the file as the build left it, with its debug information; None for a file copied as it is.
    """

    name: str
    folder: str
    profile: str
    symbols: bool
    built: Path | None = None


@dataclass(frozen=True)
class Plan:
    """A whole build. `key` stands for every input that can change a byte of the outputs.

    Steps use paths of `layout`; tree, build, stage and dist are folders of this machine. `needs` are programs that the
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
    mounts: tuple[Mount, ...] = ()
    needs: tuple[str, ...] = ()

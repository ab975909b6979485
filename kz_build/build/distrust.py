"""A comparison of a finished build's objects with what the compiler itself makes of the same commands.

Objects may come from a compile cache or another machine, whose answers carry no proof. Nobody can tell beforehand which
objects are compared.
"""

from __future__ import annotations

import json
import random
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from kz_build.build.steps import Command, Plan, ninja
from kz_build.core.command_log import Commands
from kz_build.core.errors import AuditError, CommandError
from kz_build.core.progress import Event, Watch

if TYPE_CHECKING:
    from kz_build.build.engine import Engine

LAUNCHERS = frozenset(("ccache", "sccache"))
"""Programs before a compiler that may take its result from elsewhere."""
_OBJECTS = (".o", ".obj")
_AGAIN = ".distrust"
_SHELL = frozenset(("&&", "||", ";", "|", ">", "<"))


class Compilation(NamedTuple):
    """One command of a build that makes an object: without its launcher, and with another file for its result."""

    step: Command
    folder: str
    output: str
    argv: tuple[str, ...]


class Distrust(NamedTuple):
    """How many objects of a build were compiled again and compared, of how many."""

    compared: int
    of: int


def distrust(plan: Plan, engine: Engine, commands: Commands, most: int, watch: Watch) -> Distrust:
    """Compile up to `most` objects of a build again, without caches and on this machine, and compare their bytes.

    The engine is still open, after the last step of the plan. The objects are chosen by the system's random numbers.
    Raises AuditError with the objects that differ.
    """
    compilations = tuple(_compilations(plan, engine, commands))
    chosen = random.SystemRandom().sample(compilations, min(most, len(compilations)))
    different: list[str] = []
    for done, compilation in enumerate(chosen):
        watch(Event("distrust", done, len(chosen), PurePosixPath(compilation.output).name))
        if not _same(compilation, engine, commands):
            different.append(str(PurePosixPath(compilation.folder, compilation.output).relative_to(plan.layout.build)))
    if different:
        raise AuditError(
            f"{len(different)} of {len(chosen)} objects compiled again are not those of the build:\n"
            + "\n".join(f"  {name}" for name in sorted(different)),
            hint="do not trust the compile cache or the workers: delete `ccache` in the store, and build with KZ_CCACHE=0;"
            " `kz reproduce` shows whether the compiler itself gives other bytes each time",
        )
    return Distrust(len(chosen), len(compilations))


def _compilations(plan: Plan, engine: Engine, commands: Commands) -> Sequence[Compilation]:
    """Return the commands of all objects that the build made, nested projects' too."""
    result: list[Compilation] = []
    for step in plan.steps:
        if not (isinstance(step, Command) and step.phase.endswith("-build")):
            continue
        folder = step.argv[step.argv.index("--build") + 1]
        words = ("find", folder, "-type", "f", "(", "-name", "build.ninja", *_names(_OBJECTS), ")")
        files = frozenset(_lines(engine, commands, replace(step, phase="distrust-find", argv=words)))
        for path in sorted(files):
            if path.endswith("/build.ninja"):
                project = ninja(step, "compdb", "-t", "compdb", folder=str(PurePosixPath(path).parent))
                result += compilations("\n".join(_lines(engine, commands, project)), step, files)
    return tuple({(c.folder, c.output): c for c in result}.values())


def _names(suffixes: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for suffix in suffixes for word in ("-o", "-name", f"*{suffix}"))


def compilations(compdb: str, step: Command, files: frozenset[str]) -> Sequence[Compilation]:
    """Return the commands in `ninja -t compdb` whose object is among `files`. Raises CommandError if that is not JSON."""
    try:
        entries = [(str(e["directory"]), str(e["command"]), str(e["output"])) for e in json.loads(compdb)]
    except (ValueError, KeyError, TypeError) as error:
        raise CommandError(f"what `ninja -t compdb` printed cannot be read: {error}") from None
    result = []
    for folder, command, output in entries:
        if output.endswith(_OBJECTS) and str(PurePosixPath(folder, output)) in files:
            argv = shlex.split(command)
            if "-c" in argv and _SHELL.isdisjoint(argv):
                result.append(Compilation(step, folder, output, _elsewhere(argv, output)))
    return result


def _elsewhere(argv: Sequence[str], output: str) -> tuple[str, ...]:
    """Return a compiler's command without a launcher, whose files get other names."""
    words = argv[1:] if PurePosixPath(argv[0]).name in LAUNCHERS else argv
    files = {output: f"{output}{_AGAIN}", f"{output}.d": f"{output}{_AGAIN}.d"}
    pairs = zip(("", *words), words, strict=False)
    return tuple(files.get(word, word) if before in ("-o", "-MF") else word for before, word in pairs)


def _same(compilation: Compilation, engine: Engine, commands: Commands) -> bool:
    again = f"{compilation.output}{_AGAIN}"
    script = f'"$@" && if cmp -s {shlex.quote(again)} {shlex.quote(compilation.output)}; then echo same; else echo differs; fi; '
    script = f"{{ {script} }} && rm -f {shlex.quote(again)} {shlex.quote(again)}.d"
    argv = ("sh", "-ec", script, "sh", *compilation.argv)
    env = (*(pair for pair in compilation.step.env if pair[0] != "CCACHE_DISABLE"), ("CCACHE_DISABLE", "1"))
    step = Command("distrust", argv, Path(compilation.folder), env)
    return _lines(engine, commands, step)[-1:] == ["same"]


def _lines(engine: Engine, commands: Commands, step: Command) -> list[str]:
    lines: list[str] = []
    watch: Callable[[str], None] = lines.append
    engine.run(step, commands, watch)
    return lines

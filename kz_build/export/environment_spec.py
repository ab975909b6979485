"""What a recipe's environment shall hold: its locked requirements, the line's patched wheels and trees, a Python."""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from kz_build.core import files, host
from kz_build.core.errors import ConfigError, LockError, Missing, MissingError, Problem
from kz_build.export import requirements
from kz_build.export.load import FOLDER, REQUIREMENTS
from kz_build.export.preflight_rules import inside
from kz_build.export.recipe import Recipe
from kz_build.pins.project import Project
from kz_build.stack.apply import apply_source
from kz_build.stack.files import stack_sources

CACHE_EPOCH = 1
"""Raise it when environments are made in another way."""
ADAPTOR_TARGET = "linux-x86_64-qnn"
QNN = "QnnBackend"


@dataclass(frozen=True)
class Wanted:
    """What an environment shall hold. `wheels` are the line's patched wheels in it, `laid` its git sources whose
    examples go over the wheel; both source -> tree id. `base` is the path of its files in the project, without .in or .txt. `adaptor` has what the line's own build of it made: file -> sha256."""

    base: str
    asked: tuple[str, ...]
    packages: tuple[requirements.Locked, ...]
    python: str
    version: str
    wheels: Mapping[str, str]
    laid: Mapping[str, str]
    adaptor: Mapping[str, str]

    @property
    def key(self) -> str:
        """Digest of all that can change a byte of it."""
        entries = sorted(one.text for one in self.packages)
        inputs = [CACHE_EPOCH, entries, sorted(self.asked), self.version, platform.machine()]
        inputs += [sorted(self.wheels.items()), sorted(self.laid.items()), sorted(self.adaptor.items())]
        return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()


def chosen(project: Project, recipe: Recipe) -> Wanted:
    """What the files of the project say, and a Python of this machine for it; trees are not known yet.

    Raises ConfigError for requirements that do not fit the line, LockError for those that nobody has locked, MissingError
    where no Python fits.
    """
    if not (recipe.line and recipe.requirements):
        raise ConfigError(
            f"recipe {recipe.name} names no `requirements`, so kz knows no environment for it",
            hint=f"kz export show {recipe.name} says what it needs; its own upstream says how to install that",
        )
    base = f"{FOLDER}/{REQUIREMENTS}/{recipe.requirements}"
    asked = (project.root / f"{base}.in").read_text()
    text = project.root / f"{base}.txt"
    if not text.is_file():
        how = next((m[1] for m in re.finditer(r"^# Locked by: (.*)$", asked, re.MULTILINE)), f"see {base}.in")
        raise LockError(
            f"{recipe.requirements} is not locked: nobody who tried could reach all that {base}.in asks for", hint=how
        )
    packages = requirements.locked(text.read_text())
    pinned, patched = _wheels_of(project, recipe.line, requirements.named(asked))
    versions = {of: project.pins.line(recipe.line)[name] for of, name in pinned.items()}
    exact = requirements.asked(asked)
    problems = requirements.doubts(exact, packages, versions, frozenset(patched))
    if problems:
        shown = tuple(Problem(f"{base}.txt", 0, problem) for problem in problems)
        raise ConfigError(
            "the locked requirements do not fit:", shown, hint=f"the first line of {base}.txt makes it anew"
        )
    program, version = _python(project, recipe, tuple(patched.values()))
    trees = dict.fromkeys(patched.values(), "")
    return Wanted(base, requirements.named(asked), packages, program, version, trees, {}, {})


def _wheels_of(project: Project, line: str, named: tuple[str, ...]) -> tuple[dict[str, str], dict[str, str]]:
    """Package -> source of the line's wheels among the packages named: all of them, and those with a stack."""
    stacks = stack_sources(project, line)
    found = {}
    for name in project.pins.line(line):
        source = project.pins.source(name)
        if source.kind == "wheel" and requirements.canonical(source.location) in named:
            found[requirements.canonical(source.location)] = name
    return found, {package: name for package, name in found.items() if name in stacks}


def _python(project: Project, recipe: Recipe, patched: tuple[str, ...]) -> tuple[str, str]:
    """(program, version) of a Python here that the recipe and the line's wheels are for."""
    tags = {tag for name in patched if (tag := _tag(str(project.locked(recipe.line, name).get("file", ""))))}
    have = host.pythons()
    for version, program in have.items():
        minor = "".join(version.split(".")[:2])
        if inside(version, recipe.needs.python) and tags <= {f"cp{minor}"}:
            return program, version
    asked = " and ".join(
        filter(None, [recipe.needs.python, *(f"{tag}, as the wheels of {recipe.line} are" for tag in tags)])
    )
    dotted = next((f"{tag[2]}.{tag[3:]}" for tag in sorted(tags)), "3.11")
    why = f"{recipe.name} needs {asked}; found: {', '.join(have)}"
    raise MissingError(
        (Missing(f"Python {dotted}", why, f"uv python install {dotted}   # or apt install python{dotted}-venv"),)
    )


def _tag(file: str) -> str:
    """`cp311` of a wheel that is for one Python, '' for others."""
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    try:
        own = {tag.interpreter for tag in parse_wheel_filename(file)[3] if tag.interpreter == tag.abi}
    except InvalidWheelFilename:  # '' where no file is locked
        return ""
    return own.pop() if len(own) == 1 else ""


def with_trees(project: Project, recipe: Recipe, found: Wanted, *, applied: bool) -> Wanted:
    """The same, with the ids of the trees that go in: `applied` now, their sources fetched, or as the lock has them."""
    line = recipe.line
    git = [stage.inside for stage in recipe.command if project.pins.source(stage.inside).kind == "git"]
    adaptor: dict[str, str] = {}
    if QNN in recipe.contract.backends and git:
        folder = project.dist_folder(line, ADAPTOR_TARGET)
        built = (folder / "lib" / "PyQnnManagerAdaptor.so", folder / "bin" / "flatc")
        adaptor = {str(path): files.sha256_file(path) for path in built if path.is_file()}

    def tree(name: str) -> str:
        if applied:
            return apply_source(project, line, name)[0].tree
        patched = project.locked(line, name).get("patched")
        return str(patched["tree"]) if isinstance(patched, dict) else ""

    return replace(
        found, wheels={n: tree(n) for n in found.wheels}, laid={n: tree(n) for n in dict.fromkeys(git)}, adaptor=adaptor
    )

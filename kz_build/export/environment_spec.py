"""What a recipe's environment must hold: its locked requirements, the line's patched wheels and trees, a Python."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from kz_build.core import files, host
from kz_build.core.errors import ConfigError, LockError, Missing, MissingError, Problem
from kz_build.export import requirements
from kz_build.export.load import FOLDER, REQUIREMENTS
from kz_build.export.preflight_rules import in_range
from kz_build.export.recipe import Recipe
from kz_build.pins.pins import digest_of
from kz_build.pins.project import Project
from kz_build.stack.apply import apply_source
from kz_build.stack.files import stack_sources

CACHE_EPOCH = 1
"""Raise it if environments are made in another way."""
ADAPTOR_TARGET = "linux-x86_64-qnn"
QNN = "QnnBackend"


@dataclass(frozen=True)
class EnvironmentSpec:
    """What an environment must hold. `wheels` are the line's patched wheels in it, `overlays` its git sources whose
    examples go over the wheel; both source -> tree id. `base` is the path of its files in the project, without .in or .txt. `adaptor` has the files of the line's own build of it: file -> sha256."""

    base: str
    requested: tuple[str, ...]
    packages: tuple[requirements.Locked, ...]
    python: str
    version: str
    wheels: Mapping[str, str]
    overlays: Mapping[str, str]
    adaptor: Mapping[str, str]

    @property
    def key(self) -> str:
        """Return the digest of all that can change a byte of it."""
        entries = sorted(one.text for one in self.packages)
        inputs = [CACHE_EPOCH, entries, sorted(self.requested), self.version, platform.machine()]
        inputs += [sorted(self.wheels.items()), sorted(self.overlays.items()), sorted(self.adaptor.items())]
        return digest_of(inputs)


def spec_of(project: Project, recipe: Recipe) -> EnvironmentSpec:
    """Read a recipe's requirements and choose a Python of this machine; trees are not known yet.

    Raises ConfigError for requirements that do not fit the line, LockError if they are not locked, MissingError if no
    Python fits.
    """
    if not (recipe.line and recipe.requirements):
        raise ConfigError(
            f"recipe {recipe.name} names no `requirements`, so kz knows no environment for it",
            hint=f"kz export show {recipe.name} says what it needs; its own upstream says how to install that",
        )
    base = f"{FOLDER}/{REQUIREMENTS}/{recipe.requirements}"
    text_in = (project.root / f"{base}.in").read_text()
    lock = project.root / f"{base}.txt"
    if not lock.is_file():
        how = next((m[1] for m in re.finditer(r"^# Locked by: (.*)$", text_in, re.MULTILINE)), f"see {base}.in")
        raise LockError(
            f"{recipe.requirements} is not locked: not all packages of {base}.in are in the indexes that were tried",
            hint=how,
        )
    packages = requirements.locked(lock.read_text())
    pinned, patched = _wheels_of(project, recipe.line, requirements.package_names(text_in))
    versions = {of: project.pins.line(recipe.line)[name] for of, name in pinned.items()}
    exact = {one.name: one.version for one in requirements.locked(text_in)}
    problems = requirements.mismatches(exact, packages, versions, frozenset(patched))
    if problems:
        shown = tuple(Problem(f"{base}.txt", 0, problem) for problem in problems)
        raise ConfigError(
            "the locked requirements do not fit:",
            shown,
            hint=f"run the command in the first line of {base}.txt to lock them again",
        )
    program, version = _python(project, recipe, tuple(patched.values()))
    trees = dict.fromkeys(patched.values(), "")
    return EnvironmentSpec(base, requirements.package_names(text_in), packages, program, version, trees, {}, {})


def _wheels_of(project: Project, line: str, named: tuple[str, ...]) -> tuple[dict[str, str], dict[str, str]]:
    """Return package -> source of the line's wheels among these packages: all of them, and those with a stack."""
    stacks = stack_sources(project, line)
    by_package = {}
    for name in project.pins.line(line):
        source = project.pins.source(name)
        if source.kind == "wheel" and requirements.canonical(source.location) in named:
            by_package[requirements.canonical(source.location)] = name
    return by_package, {package: name for package, name in by_package.items() if name in stacks}


def _python(project: Project, recipe: Recipe, patched: tuple[str, ...]) -> tuple[str, str]:
    """Return (program, version) of a Python here that fits the recipe and the line's wheels."""
    tags = {tag for name in patched if (tag := _tag(str(project.locked(recipe.line, name).get("file", ""))))}
    versions = []
    for version, program in host.pythons():
        minor = "".join(version.split(".")[:2])
        if in_range(version, recipe.needs.python) and tags <= {f"cp{minor}"}:
            return program, version
        versions.append(version)
    needed = " and ".join(
        filter(None, [recipe.needs.python, *(f"{tag}, as the wheels of {recipe.line} are" for tag in tags)])
    )
    dotted = next((f"{tag[2]}.{tag[3:]}" for tag in sorted(tags)), "3.11")
    why = f"{recipe.name} needs {needed}; found: {', '.join(dict.fromkeys(versions))}"
    raise MissingError(
        (Missing(f"Python {dotted}", why, f"uv python install {dotted}   # or apt install python{dotted}-venv"),)
    )


def _tag(file: str) -> str:
    """Return `cp311` for a wheel that is for one Python, '' for others."""
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    try:
        own = {tag.interpreter for tag in parse_wheel_filename(file)[3] if tag.interpreter == tag.abi}
    except InvalidWheelFilename:  # '' where no file is locked
        return ""
    return own.pop() if len(own) == 1 else ""


def with_trees(project: Project, recipe: Recipe, spec: EnvironmentSpec, *, applied: bool) -> EnvironmentSpec:
    """Add the ids of the trees that go in: apply the stacks now if `applied`, else take the ids of the lock."""
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

    overlays = {name: tree(name) for name in dict.fromkeys(git)}
    return replace(spec, wheels={name: tree(name) for name in spec.wheels}, overlays=overlays, adaptor=adaptor)

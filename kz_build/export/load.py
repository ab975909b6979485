"""A reader of a project's recipes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from kz_build.checks.contract import pinned_executorch, with_pins
from kz_build.core.errors import ConfigError, Problem, similar
from kz_build.core.yaml_schema import load, load_all, wrong
from kz_build.export.recipe import FOLDERS, PLACEHOLDER, Recipe, RecipeFile
from kz_build.formats.pte_types import version_key
from kz_build.pins.pins import Pins

FOLDER = "recipes"
REQUIREMENTS = "requirements"
"""Folder beside the recipes: NAME.in has the requested packages, NAME.txt the locked set, with hashes."""
ACTIONS = ("list", "show", "preflight")
"""What `kz export` does with recipes: words that cannot be the name of one."""
_SOC_OPTION = re.compile(r"^--(?:model|soc_model|soc)=((?:SM|SA|SAR|SW|SXR|SSG|QCS|QCM)\d\w*)$")
Fault = tuple[tuple[str | int, ...], str]


def recipes(root: Path, pins: Pins) -> tuple[Recipe, ...]:
    """Read every recipe of a project, by name. Raises ConfigError with every problem of every recipe."""
    return tuple(load_all(root / FOLDER, lambda path: one(path, pins), FOLDER))


def named(root: Path, pins: Pins, name: str) -> Recipe:
    """Read a recipe by name. Raises ConfigError if there is none of that name, or it is wrong."""
    path = root / FOLDER / f"{name}.yaml"
    if "/" in name or not path.is_file():
        names = sorted(p.stem for p in (root / FOLDER).glob("*.yaml"))
        raise ConfigError(
            f"there is no recipe {name!r}{similar(name, names)}",
            hint="kz export list shows them" if names else f"this project has no folder {FOLDER}/",
        )
    return one(path, pins)


def one(path: Path, pins: Pins) -> Recipe:
    """Read a recipe's file. Raises ConfigError with every problem and its line."""
    shown = f"{FOLDER}/{path.name}"
    file, where = load(path, RecipeFile, FOLDER, shown)
    problems = tuple(
        Problem(shown, where(place), f"{'.'.join(map(str, place))}: {text}")
        for place, text in (*_wrong_references(file, pins), *_requirements(file, path.parent))
    )
    if path.stem in ACTIONS:
        name = f"a recipe cannot be named {path.stem}: `kz export {path.stem}` means something else; rename the file"
        problems = (Problem(shown, 0, name), *problems)
    if problems:
        raise wrong(FOLDER, problems)
    contract = with_pins(file.contract, pins.line(file.line) if file.line else {})
    return Recipe(**{**dict(file), "name": path.stem, "contract": contract})


def _requirements(file: RecipeFile, folder: Path) -> Iterator[Fault]:
    name = file.requirements
    if name and not (folder / REQUIREMENTS / f"{name}.in").is_file():
        there = ", ".join(sorted(p.stem for p in (folder / REQUIREMENTS).glob("*.in"))) or "none"
        yield ("requirements",), f"there is no {REQUIREMENTS}/{name}.in; there: {there}"


def _wrong_references(file: RecipeFile, pins: Pins) -> Iterator[Fault]:
    """Find wrong references, which a schema cannot check."""
    line = file.line
    if line and line not in pins.lines:
        yield ("line",), f"there is no line {line!r} in pins.yaml"
        return
    sources = set(pins.line(line)) if line else {"upstream"}
    for i, stage in enumerate(file.command):
        if stage.inside not in sources:
            yield ("command", i, "inside"), f"{stage.inside!r} is not a source of {line or 'this recipe: upstream'}"
    known = {*sources, *FOLDERS, *file.needs.sdk}
    for place, text in _texts(file):
        for used in PLACEHOLDER.findall(text):
            if used not in known:
                yield place, f"{{{used}}} is not one of {', '.join(sorted(known))}"
    for name, version in file.needs.sdk.items():
        if version == "pinned" and name not in sources:
            yield ("needs", "sdk", name), "is not pinned: this line has no such source"
    for name, of in file.weights.items():
        if of.random and of.random.shape not in file.weights:
            yield ("weights", name, "random", "shape"), "is not one of the weights"
    if file.contract.soc:
        yield from _wrong_soc(file, pins.line(line) if line else {})


def _wrong_soc(file: RecipeFile, pinned: Mapping[str, str]) -> Iterator[Fault]:
    """Find what is wrong with the contract's SoC: hours of export would show it."""
    from kz_build.formats.soc import QNN_SINCE, SOCS

    name, arch = file.contract.soc, file.contract.htp_arch
    if not (soc := SOCS.get(name)):
        yield ("contract", "soc"), f"unknown SoC {name}; known: {' '.join(sorted(SOCS))}"
        return
    if arch and arch != soc.arch:
        yield ("contract", "htp_arch"), f"{name} has {soc.arch}"
    executorch = pinned_executorch(pinned)
    if version_key(executorch) and version_key(executorch) < version_key(soc.since):
        why = f"ExecuTorch has {name} since {soc.since}, and {file.line} has {executorch}"
        yield ("contract", "soc"), f"{why}: the export would end with an unknown SoC"
    qnn, first = pinned.get("qnn-sdk", ""), QNN_SINCE.get(soc.arch, "")
    if first and version_key(qnn) and version_key(qnn) < version_key(first):
        why = f"QNN has HTP {soc.arch} since {first}, and {file.line} has {qnn}"
        yield ("contract", "soc"), f"{why}: it cannot compile for {name}"
    for i, stage in enumerate(file.command):
        if others := {other for word in stage.run for other in _SOC_OPTION.findall(word)} - {name}:
            yield ("command", i, "run"), f"exports for {', '.join(sorted(others))}, and the contract says {name}"


def _texts(file: RecipeFile) -> Iterator[tuple[tuple[str | int, ...], str]]:
    for i, stage in enumerate(file.command):
        yield from ((("command", i, "run", j), word) for j, word in enumerate(stage.run))
        yield from ((("command", i, "makes", j), word) for j, word in enumerate(stage.makes))
    yield from ((("decode", j), word) for j, word in enumerate(file.decode))
    for key, table in (("environment", file.environment), ("device", file.device)):
        yield from (((key, name), f"{name} {value}") for name, value in table.items())
    yield from ((("needs", "disk", folder), folder) for folder in file.needs.disk)

"""env: a recipe's locked requirements and the line's patched wheels -> an environment in the store, made once."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kz_build.build.wheel import wheel
from kz_build.core import env as environment
from kz_build.core import files, locks
from kz_build.core.command_log import Commands
from kz_build.core.errors import CommandError, ConfigError, LockError, Missing, MissingError
from kz_build.core.progress import Event, Watch
from kz_build.core.stage_record import StageRecord, load
from kz_build.export import plan as export
from kz_build.export import requirements, sdks, venv
from kz_build.export.environment_spec import ADAPTOR_TARGET, QNN, Wanted, chosen, with_trees
from kz_build.export.qnn_probe import probe
from kz_build.export.recipe import PLACEHOLDER, Recipe
from kz_build.git.repository import Repository
from kz_build.pins.project import Project
from kz_build.stack.apply import apply_source
from kz_build.stack.files import read_stack
from kz_build.stack.parse import parse_stack

MARKER = "kz.json"
FOLDER_IN_STORE = "environments"


@dataclass(frozen=True)
class Environment:
    """An environment, ready for the commands of a recipe.

    `variables` are all that a command gets, `python` its interpreter in `folder`, and `key` what it was made of. `places`
    are what a recipe's placeholders stand for. `holds` says what is in it and where that is from; `fresh` if just made.
    """

    folder: Path
    python: Path
    variables: Mapping[str, str]
    key: str
    places: Mapping[str, Path]
    holds: Mapping[str, str]
    fresh: bool = False


def prepare(project: Project, recipe: Recipe, commands: Commands, watch: Watch) -> Environment:
    """The environment of a recipe: made and proved where it is not there yet, its SDKs found.

    Raises MissingError with what this machine lacks, before anything is downloaded; LockError for requirements that
    nobody has locked, or that are not what the line pins.
    """
    found = _ready(project, recipe)
    places = sdks.folders(project, recipe)
    wanted = with_trees(project, recipe, found, applied=True)
    folder = project.store / FOLDER_IN_STORE / wanted.key[:24]
    record = _there(folder, wanted.key)
    fresh = record is None
    if record is None:
        with locks.locked(project.store, f"environment-{wanted.key[:24]}"):
            record = _there(folder, wanted.key) or _make(project, recipe, wanted, folder, commands, watch)
    os.utime(folder)  # `kz store gc` takes what nobody used for long
    environment = _environment(project, recipe, wanted, folder, record, places, fresh=fresh)
    return _probed(project, recipe, environment, watch)


def _ready(project: Project, recipe: Recipe) -> Wanted:
    """What it shall hold. Raises MissingError with all that this machine lacks: a Python, an SDK, what that is linked with."""
    lacking = sdks.missing(project, recipe)
    try:
        found = chosen(project, recipe)
    except MissingError as error:
        raise MissingError((*error.missing, *lacking)) from None
    if lacking:
        raise MissingError(lacking)
    return found


def _probed(project: Project, recipe: Recipe, environment: Environment, watch: Watch) -> Environment:
    """The same, once it has compiled and run a layer with each SDK that came as a wheel: versions do not tell whether it can."""
    holds = dict(environment.holds)
    for name in sdks.of_wheels(project, recipe):
        watch(Event(f"one layer with {name}"))
        what = f"{name} {project.pins.line(recipe.line)[name]}"
        libraries = environment.places[name] / sdks.HOST_LIBRARIES
        found = probe(project.store, environment, what, libraries, recipe.contract.soc)
        holds["QNN"] = f"{found.build}: it compiled a layer for {found.soc}, and ran it as torch does"
    return replace(environment, holds=holds)


def made(project: Project, recipe: Recipe) -> Environment | None:
    """A recipe's environment where that and its SDKs are there already; nothing is made, fetched or proved."""
    try:
        wanted = with_trees(project, recipe, chosen(project, recipe), applied=False)
        places = sdks.folders(project, recipe) if sdks.here(project, recipe) else None
    except (ConfigError, LockError, MissingError):
        return None
    folder = project.store / FOLDER_IN_STORE / wanted.key[:24]
    record = _there(folder, wanted.key)
    if record is None or places is None:
        return None
    return _environment(project, recipe, wanted, folder, record, places, fresh=False)


def _there(folder: Path, key: str) -> StageRecord | None:
    """The record of a finished environment; None where it is half-made, or its Python has left this machine."""
    record = load(folder / MARKER, key)
    return record if record and (folder / "bin" / "python").exists() else None


def _make(
    project: Project, recipe: Recipe, wanted: Wanted, folder: Path, commands: Commands, watch: Watch
) -> StageRecord:
    """Make it where it is to lie (an environment cannot be moved); the record comes last, without it there is none."""
    files.remove(folder)
    with files.disk_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
    watch(Event("environment"))
    python = venv.make(folder, wanted.python, commands)
    indexes = _indexes(project, recipe.line, wanted)

    def count(at: int, of: int) -> None:
        watch(Event("packages", at, of))

    venv.install(python, Path(wanted.base).name, wanted.packages, indexes, commands, count)
    watch(Event("patched wheels"))
    venv.install_wheels(python, [wheel(project, recipe.line, name).path for name in wanted.wheels], commands)
    for name, tree in wanted.laid.items():
        _lay(project, recipe.line, name, tree, _packages_folder(folder))
    _lay_adaptor(wanted, folder)
    watch(Event("proof"))
    record = StageRecord(folder / MARKER, wanted.key, facts=_proved(recipe, wanted, python, folder))
    record.save()
    return record


def _indexes(project: Project, line: str, wanted: Wanted) -> tuple[str, ...]:
    """Indexes that pins.yaml names for packages of the set, beside those of this machine's pip."""
    known = {
        requirements.canonical(s.location): s
        for name in project.pins.line(line)
        if (s := project.pins.source(name)).kind == "wheel"
    }
    found = [
        known[one.name].options.get("index") for one in wanted.packages if one.name in known and "+" in one.version
    ]
    return tuple(dict.fromkeys(str(index) for index in found if index))


def _lay(project: Project, line: str, name: str, tree: str, packages: Path) -> None:
    """Put the examples of a patched source tree, and the modules its stack touches, over the wheel of that source.

    One package then has both: of two that are found on a path, the first would hide the other.
    """
    applied, path = apply_source(project, line, name)
    repository, stack = Repository(path), read_stack(project, line, name)
    exclude = project.pins.source(name).list("exclude")
    touched = sorted(p for p in parse_stack(stack).touched if p.endswith(".py")) if stack else ()
    entries = repository.entries(tree, exclude, ("examples", *touched))
    repository.fetch_blobs({entry.id for entry in entries if not entry.submodule})
    with TemporaryDirectory(dir=packages) as folder:
        repository.checkout(entries, Path(folder))
        shutil.copytree(folder, packages / name, dirs_exist_ok=True, symlinks=True)


def _lay_adaptor(wanted: Wanted, folder: Path) -> None:
    """The line's own adaptor and flatc, where its build made them."""
    for name in wanted.adaptor:
        path = Path(name)
        place = (
            folder / "bin" if path.name == "flatc" else _packages_folder(folder) / "executorch/backends/qualcomm/python"
        )
        place.mkdir(parents=True, exist_ok=True)
        for wheels_own in place.glob(f"{path.stem}.*.so") if path.suffix == ".so" else ():
            wheels_own.unlink()
        shutil.copy2(path, place / path.name)


def _packages_folder(folder: Path) -> Path:
    return next((folder / "lib").glob("python3.*")) / "site-packages"


def _proved(recipe: Recipe, wanted: Wanted, python: Path, folder: Path) -> dict[str, Any]:
    if said := venv.complete(python):
        raise CommandError(f"{wanted.base}.txt is not a whole set:\n{said}", hint="lock it anew")
    facts = venv.prove(python, wanted.asked, (), _variables(folder, {}))
    if facts["wrong"]:
        raise CommandError(
            f"the environment of {wanted.base}.txt does not work:\n" + _wrong(facts["wrong"]),
            hint="it is not kept; does the set fit the line's wheels? lock it anew",
        )
    return {**facts, "requirements": wanted.base, "wheels": dict(wanted.wheels), "laid": dict(wanted.laid)}


def _wrong(found: Mapping[str, str]) -> str:
    return "\n".join(f"  {name}: {said.splitlines()[-1]}" for name, said in found.items())


def _variables(folder: Path, own: Mapping[str, str]) -> dict[str, str]:
    """All variables of a command: none of the caller's but how to find programs; nothing reaches for the network."""
    base = environment.plain()
    path = f"{folder / 'bin'}{os.pathsep}{base.get('PATH', os.defpath)}"
    return {
        **base,
        "PATH": path,
        "VIRTUAL_ENV": str(folder),
        "PYTHONNOUSERSITE": "1",
        "PYTHONUNBUFFERED": "1",  # progress is read as it is printed
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "EXECUTORCH_BUILDING_WHEEL": "1",  # else the QNN backend downloads an SDK where it finds none
        **own,
    }


def _environment(
    project: Project,
    recipe: Recipe,
    wanted: Wanted,
    folder: Path,
    record: StageRecord,
    sdk: Mapping[str, Path],
    *,
    fresh: bool,
) -> Environment:
    packages = _packages_folder(folder)
    of_wheel = {name: packages for name in project.pins.line(recipe.line) if project.pins.source(name).kind == "wheel"}
    upstream = dict.fromkeys((*wanted.laid, "executorch-wheel"), packages / "executorch")
    python = folder / "bin" / "python"
    places = {**of_wheel, **upstream, **sdk, "python": python, **export.own_places(project, recipe)}
    own = {
        key: PLACEHOLDER.sub(lambda m: str(places.get(m[1], m[0])), value) for key, value in recipe.environment.items()
    }
    variables = _variables(folder, own)
    if QNN in recipe.contract.backends and sdk:
        _opens(python, variables)
    return Environment(folder, python, variables, wanted.key, places, _holds(recipe, wanted, record, sdk), fresh)


def _opens(python: Path, variables: Mapping[str, str]) -> None:
    """Raise MissingError where the linker does not open QNN's host libraries: for want of LLVM's C++ library, mostly."""
    wrong = venv.prove(python, (), ("libQnnHtp.so", "libQnnSystem.so"), variables)["wrong"]
    if wrong:
        brings = (
            "apt install libc++1 libc++abi1 libunwind-dev"
            if "libc++" in str(wrong) or "libunwind" in str(wrong)
            else "LD_LIBRARY_PATH in the recipe: does it name the folder with these libraries?"
        )
        raise MissingError(tuple(Missing(name, said, brings) for name, said in wrong.items()))


def _holds(recipe: Recipe, wanted: Wanted, record: StageRecord, sdk: Mapping[str, Path]) -> dict[str, str]:
    versions = {requirements.canonical(name): version for name, version in record.get("packages", dict).items()}
    holds = {"python": f"{record.get('python', str)}, from {wanted.python}"}
    holds["locked"] = f"{len(wanted.packages)} packages of {wanted.base}.txt"
    holds |= {name: versions[name] for name in wanted.asked if name in versions}
    holds |= {f"{name} over it": f"examples of tree {tree[:12]}" for name, tree in wanted.laid.items()}
    if record.facts["flatc"]:
        holds["flatc"] = (
            f"of {ADAPTOR_TARGET}" if any(path.endswith("/flatc") for path in wanted.adaptor) else "of the wheel"
        )
    if QNN in recipe.contract.backends:
        own = any(path.endswith(".so") for path in wanted.adaptor)
        wheels_own = "of the wheel" if record.facts["adaptor"] else "none"
        holds["PyQnn adaptor"] = f"of {ADAPTOR_TARGET}" if own else wheels_own
    return {**holds, **{name: str(path) for name, path in sdk.items()}}

"""env: make a recipe's environment in the store, once, from locked requirements and the line's patched wheels."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory

from kz_build.build.wheel import wheel
from kz_build.core import env as environment
from kz_build.core import files, locks
from kz_build.core.command_log import Commands
from kz_build.core.errors import CommandError, ConfigError, LockError, Missing, MissingError
from kz_build.core.progress import Event, Watch
from kz_build.core.stage_record import StageRecord, load
from kz_build.export import plan as export
from kz_build.export import requirements, sdks, venv
from kz_build.export.environment_spec import ADAPTOR_TARGET, QNN, EnvironmentSpec, spec_of, with_trees
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

    `variables` are all that a command gets, `python` its interpreter in `folder`, and `key` the digest of its inputs. `places`
    are the values of a recipe's placeholders. `holds` says what is in it and where that is from; `fresh` if just made.
    """

    folder: Path
    python: Path
    variables: Mapping[str, str]
    key: str
    places: Mapping[str, Path]
    holds: Mapping[str, str]
    fresh: bool = False

    def fill(self, text: str) -> str:
        """Replace the placeholders of a recipe by its places; other words in braces stay."""
        return PLACEHOLDER.sub(lambda m: str(self.places.get(m[1], m[0])), text)


def prepare(project: Project, recipe: Recipe, commands: Commands, watch: Watch) -> Environment:
    """Return the environment of a recipe with its SDKs; make and test it if it is not there yet.

    Raises MissingError with what this machine lacks, before anything is downloaded; LockError for requirements that
    are not locked, or differ from what the line pins.
    """
    spec = _requirements_met(project, recipe)
    places = sdks.folders(project, recipe, watch)
    spec = with_trees(project, recipe, spec, applied=True)
    folder = project.store / FOLDER_IN_STORE / spec.key[:24]
    record = _finished(folder, spec.key)
    fresh = record is None
    if record is None:
        with locks.lock(project.store, f"environment-{spec.key[:24]}"):
            record = _finished(folder, spec.key) or _make(project, recipe, spec, folder, commands, watch)
    os.utime(folder)  # `kz store gc` removes what was not used for long
    environment = _environment(project, recipe, spec, folder, record, places, fresh=fresh)
    return _with_probe(project, recipe, environment, watch)


def _requirements_met(project: Project, recipe: Recipe) -> EnvironmentSpec:
    """Return what it must hold. Raises MissingError with all that this machine lacks: a Python, an SDK, its libraries."""
    lacking = sdks.missing(project, recipe)
    try:
        spec = spec_of(project, recipe)
    except MissingError as error:
        raise MissingError((*error.missing, *lacking)) from None
    if lacking:
        raise MissingError(lacking)
    return spec


def _with_probe(project: Project, recipe: Recipe, environment: Environment, watch: Watch) -> Environment:
    """Compile and run a layer with each SDK that is a wheel: versions do not tell whether that works."""
    holds = dict(environment.holds)
    for name in sdks.of_wheels(project, recipe):
        watch(Event(f"one layer with {name}"))
        what = f"{name} {project.pins.line(recipe.line)[name]}"
        libraries = environment.places[name] / sdks.HOST_LIBRARIES
        result = probe(project.store, environment, what, libraries, recipe.contract.soc)
        holds["QNN"] = f"{result.build}: it compiled a layer for {result.soc} and ran it with torch's result"
    return replace(environment, holds=holds)


def existing(project: Project, recipe: Recipe) -> Environment | None:
    """Return a recipe's environment if it and its SDKs are there; nothing is made, fetched or tested."""
    try:
        spec = with_trees(project, recipe, spec_of(project, recipe), applied=False)
        places = sdks.folders(project, recipe) if sdks.here(project, recipe) else None
    except (ConfigError, LockError, MissingError):
        return None
    folder = project.store / FOLDER_IN_STORE / spec.key[:24]
    record = _finished(folder, spec.key)
    if record is None or places is None:
        return None
    return _environment(project, recipe, spec, folder, record, places, fresh=False)


def _finished(folder: Path, key: str) -> StageRecord | None:
    """Return the record of a complete environment; None if it is incomplete, or its Python is gone from this machine."""
    record = load(folder / MARKER, key)
    return record if record and (folder / "bin" / "python").exists() else None


def _make(
    project: Project, recipe: Recipe, spec: EnvironmentSpec, folder: Path, commands: Commands, watch: Watch
) -> StageRecord:
    """Make it in its final place (an environment cannot be moved); the record comes last and makes it valid."""
    files.remove(folder)
    with files.disk_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
    watch(Event("environment"))
    python = venv.make(folder, spec.python, commands)
    indexes = _indexes(project, recipe.line, spec)

    def count(at: int, of: int) -> None:
        watch(Event("packages", at, of))

    venv.install(python, Path(spec.base).name, spec.packages, indexes, commands, count)
    watch(Event("patched wheels"))
    venv.install_wheels(python, [wheel(project, recipe.line, name).path for name in spec.wheels], commands)
    for name, tree in spec.overlays.items():
        _overlay(project, recipe.line, name, tree, _packages_folder(folder))
    _add_adaptor(spec, folder)
    watch(Event("proof"))
    record = StageRecord(folder / MARKER, spec.key, facts=_tested(spec, python, folder))
    record.save()
    return record


def _indexes(project: Project, line: str, spec: EnvironmentSpec) -> tuple[str, ...]:
    """Return the indexes that the pins name for packages of the set, beside those of this machine's pip."""
    known = {
        requirements.canonical(s.location): own.index if (own := project.pins.replacement(name)) else s.options["index"]
        for name in project.pins.line(line)
        if (s := project.pins.source(name)).kind == "wheel"
    }
    indexes = [known[one.name] for one in spec.packages if one.name in known and "+" in one.version]
    paths = [(index, project.local_path(index)) for index in indexes if index]
    return tuple(dict.fromkeys(path.as_uri() if path else index for index, path in paths))


def _overlay(project: Project, line: str, name: str, tree: str, packages: Path) -> None:
    """Copy the examples of a patched source tree, and the modules its stack changes, over the wheel of that source.

    Then one package has both: of two on a path, the first would hide the other.
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


def _add_adaptor(spec: EnvironmentSpec, folder: Path) -> None:
    """Copy the line's own adaptor and flatc, if its build made them."""
    for name in spec.adaptor:
        path = Path(name)
        place = (
            folder / "bin" if path.name == "flatc" else _packages_folder(folder) / "executorch/backends/qualcomm/python"
        )
        place.mkdir(parents=True, exist_ok=True)
        for wheels_own in place.glob(f"{path.stem}.*.so") if path.suffix == ".so" else ():
            wheels_own.unlink()
        shutil.copy2(path, place / path.name)


def _packages_folder(folder: Path) -> Path:
    library = folder / "lib"
    with files.disk_errors(library):
        names = os.listdir(library) if library.is_dir() else []  # `glob` would skip a folder that it cannot read
    for name in names:
        if name.startswith("python3."):
            return library / name / "site-packages"
    raise LockError(
        f"the environment {folder} is damaged: it has no lib/python3.*",
        hint=f"remove it, and kz makes it again: rm -rf {quote(str(folder))}",
    )


def _tested(spec: EnvironmentSpec, python: Path, folder: Path) -> dict[str, object]:
    lock_again = f"run the command in the first line of {spec.base}.txt to lock the requirements again"
    if problem := venv.complete(python):
        raise CommandError(f"{spec.base}.txt is not a complete set:\n{problem}", hint=lock_again)
    facts = venv.inspect(python, spec.requested, (), _variables(folder, {}))
    if facts["wrong"]:
        raise CommandError(
            f"the environment of {spec.base}.txt does not work:\n" + _wrong(facts["wrong"]),
            hint=f"it is not used; if the set does not fit the line's wheels, {lock_again}",
        )
    return {**facts, "requirements": spec.base, "wheels": dict(spec.wheels), "laid": dict(spec.overlays)}


def _wrong(errors: Mapping[str, str]) -> str:
    return "\n".join(f"  {name}: {text.splitlines()[-1]}" for name, text in errors.items())


def _variables(folder: Path, own: Mapping[str, str]) -> dict[str, str]:
    """Return all variables of a command: of the caller's only PATH and the like; nothing may use the network."""
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
        "EXECUTORCH_BUILDING_WHEEL": "1",  # else the QNN backend downloads an SDK if it finds none
        **own,
    }


def _environment(
    project: Project,
    recipe: Recipe,
    spec: EnvironmentSpec,
    folder: Path,
    record: StageRecord,
    sdk: Mapping[str, Path],
    *,
    fresh: bool,
) -> Environment:
    packages = _packages_folder(folder)
    of_wheel = {name: packages for name in project.pins.line(recipe.line) if project.pins.source(name).kind == "wheel"}
    upstream = dict.fromkeys((*spec.overlays, "executorch-wheel"), packages / "executorch")
    python = folder / "bin" / "python"
    places = {**of_wheel, **upstream, **sdk, "python": python, **export.own_placeholders(project, recipe)}
    own = {
        key: PLACEHOLDER.sub(lambda m: str(places.get(m[1], m[0])), value) for key, value in recipe.environment.items()
    }
    variables = _variables(folder, own)
    if QNN in recipe.contract.backends and sdk:
        _check_qnn_libraries(python, variables)
    return Environment(folder, python, variables, spec.key, places, _holds(recipe, spec, record, sdk), fresh)


def _check_qnn_libraries(python: Path, variables: Mapping[str, str]) -> None:
    """Raise MissingError if the linker cannot open QNN's host libraries, mostly because LLVM's C++ library is missing."""
    wrong = venv.inspect(python, (), ("libQnnHtp.so", "libQnnSystem.so"), variables)["wrong"]
    if wrong:
        remedy = (
            "apt install libc++1 libc++abi1 libunwind-dev"
            if "libc++" in str(wrong) or "libunwind" in str(wrong)
            else "LD_LIBRARY_PATH in the recipe: does it name the folder with these libraries?"
        )
        raise MissingError(tuple(Missing(name, text, remedy) for name, text in wrong.items()))


def _holds(recipe: Recipe, spec: EnvironmentSpec, record: StageRecord, sdk: Mapping[str, Path]) -> dict[str, str]:
    versions = {requirements.canonical(name): version for name, version in record.get("packages", dict).items()}
    holds = {"python": f"{record.get('python', str)}, from {spec.python}"}
    holds["locked"] = f"{len(spec.packages)} packages of {spec.base}.txt"
    holds |= {name: versions[name] for name in spec.requested if name in versions}
    holds |= {f"{name} over it": f"examples of tree {tree[:12]}" for name, tree in spec.overlays.items()}
    if record.facts["flatc"]:
        holds["flatc"] = (
            f"of {ADAPTOR_TARGET}" if any(path.endswith("/flatc") for path in spec.adaptor) else "of the wheel"
        )
    if QNN in recipe.contract.backends:
        own = any(path.endswith(".so") for path in spec.adaptor)
        wheels_own = "of the wheel" if record.facts["adaptor"] else "none"
        holds["PyQnn adaptor"] = f"of {ADAPTOR_TARGET}" if own else wheels_own
    return {**holds, **{name: str(path) for name, path in sdk.items()}}

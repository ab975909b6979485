"""weights: the identity of a recipe's weights, and the weights that kz makes."""

from __future__ import annotations

import json
from pathlib import Path

from kz_build.core import files
from kz_build.core.command_log import Commands
from kz_build.core.hash_cache import cached_sha256
from kz_build.core.progress import Watch
from kz_build.core.stage_record import Output, StageRecord, changed, load
from kz_build.export import run_stage, venv
from kz_build.export.environment import Environment
from kz_build.export.plan import weights_folder
from kz_build.export.recipe import Recipe, Weights
from kz_build.pins.project import Project


def identity(project: Project, recipe: Recipe) -> list[object]:
    """Return what identifies a recipe's weights: the inputs of those that kz makes, digests, else sizes and times of files."""
    return [[name, *_identity(weights_folder(project) / name, of)] for name, of in sorted(recipe.weights.items())]


def _identity(place: Path, of: Weights) -> list[object]:
    if not of.repository:
        return of.made_of
    unknown = [file for file, digest in sorted(of.digests.items()) if digest is None and (place / file).is_file()]
    stats = [[file, (place / file).stat().st_size, (place / file).stat().st_mtime_ns] for file in unknown]
    return [of.repository, of.revision, sorted(of.digests.items(), key=lambda item: item[0]), stats]


def place(project: Project, recipe: Recipe, environment: Environment, commands: Commands, watch: Watch) -> None:
    """Make the weights that kz makes, if they are not there; link those of repositories beside them."""
    folder = environment.places["weights"]
    own = {name: of for name, of in recipe.weights.items() if not of.repository}
    if not own:
        return
    with files.disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    store = weights_folder(project)
    for name in ["hub", *(name for name, of in recipe.weights.items() if of.repository)]:
        if (store / name).exists() and not (folder / name).exists():
            (folder / name).symlink_to(store / name)
    # Random weights take their shape from a written file.
    for name, of in sorted(own.items(), key=lambda item: item[1].content is None):
        _make(project.store, folder / name, of, environment, commands, watch)


def _make(store: Path, path: Path, of: Weights, environment: Environment, commands: Commands, watch: Watch) -> None:
    folder, note = path.parent, path.with_name(f".{path.name}.json")
    key = json.dumps([*of.made_of, environment.key], sort_keys=True)
    record = load(note, key)
    if record and not changed(path, record.outputs, lambda path: cached_sha256(store, path)):
        return
    if of.content is not None:
        files.write_atomic(path, json.dumps(of.content, indent=1).encode() + b"\n")
    else:
        script = [str(environment.python), str(venv.SCRIPTS / "weights.py")]
        words = ["random", str(folder / of.random.shape), str(of.random.seed)] if of.random else []
        words += ["tokenizer", str(of.tokenizer.vocabulary)] if of.tokenizer else []
        monitor = run_stage.StageMonitor(path.name, {}, watch)
        out, env = environment.places["out"], environment.variables
        run_stage.run_watched(out, monitor, commands, [*script, *words, str(path)], cwd=folder, env=env)
    StageRecord(note, key, outputs={"": Output(files.sha256_file(path))}).save()

"""The cells of a matrix, built by several machines, in one project: their records and files, checked and copied."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from kz_build.core.errors import ConfigError, LockError
from kz_build.core.files import hardlink_or_copy, new_folder
from kz_build.core.paths import all_below, files_at
from kz_build.core.stage_record import StageRecord, changed, load_any
from kz_build.pins.project import RECORD, Project
from kz_build.report.report import STAGES

MOST_FILES = 20_000
"""How much of a cell's dist is looked at: a real one has some hundred files and folders."""


class Cell(NamedTuple):
    """A target on a line, and the folder that a job left: a checkout, or what it kept of one."""

    line: str
    target: str
    folder: Path


@dataclass(frozen=True)
class Joined:
    """The cells that were copied, as `LINE/TARGET`, and those of the matrix that no folder has."""

    cells: tuple[str, ...]
    missing: tuple[str, ...]


def join(project: Project, folders: Sequence[Path]) -> Joined:
    """Copy each cell's records and files into the project, unless its folder is the project. Raises, before it changes anything, ConfigError if a folder has no cell, or two
    have the same; LockError if a cell was built from other pins or stacks than the project's, or has a file that its build did not make."""
    cells: dict[tuple[str, str], Cell] = {}
    for folder in folders:
        for cell in _cells(project, folder):
            first = cells.setdefault((cell.line, cell.target), cell)
            if first is not cell:
                raise ConfigError(
                    f"{cell.line}/{cell.target} is in {first.folder} and in {cell.folder}: name one of them"
                )
    files = {cell: _files(project, cell) for cell in cells.values()}
    for cell, paths in files.items():
        if cell.folder.resolve() != project.root:
            _copy(project, cell, paths)
    matrix = [f"{line}/{target}" for line, target in project.pins.matrix()]
    names = {f"{cell.line}/{cell.target}" for cell in files}
    return Joined(tuple(sorted(names)), tuple(name for name in matrix if name not in names))


def _cells(project: Project, folder: Path) -> Iterator[Cell]:
    """Yield the cells of a folder."""
    paths = files_at(folder, f"out/build/*/*/{RECORD}")
    if not paths:
        raise ConfigError(
            f"{folder} has no cell: there is no out/build/LINE/TARGET/{RECORD}",
            hint="keep out/*/LINE/TARGET/manifest.json and dist/LINE/TARGET of each job",
        )
    for path in paths:
        line, target = path.parts[-3:-1]
        if (line, target) not in project.pins.matrix():
            raise ConfigError(f"{folder} has {line}/{target}, which is no cell of this project", hint="kz matrix")
        yield Cell(line, target, folder)


def _files(project: Project, cell: Cell) -> list[Path]:
    """Return what a cell has in dist. Raises LockError if its build is not one of this project's pins and stacks, whole."""
    path = cell.folder / "out" / "build" / cell.line / cell.target / RECORD
    build = load_any(path)
    if not build:
        raise LockError(f"{path} was not written by kz", hint="run the job again")
    try:
        _same_pins(project, cell, path, build)
    except (TypeError, KeyError, AttributeError):  # it came from another machine
        raise LockError(f"{path} was not written by kz", hint="run the job again") from None
    dist = cell.folder / "dist" / cell.line / cell.target
    if gone := changed(dist, build.outputs):
        raise LockError(f"{gone} is not the file that was built", hint="keep dist/LINE/TARGET of each job, whole")
    paths = list(islice(all_below(dist), MOST_FILES + 1))
    if len(paths) > MOST_FILES:
        raise LockError(f"{dist} has more than {MOST_FILES:,} files")
    files = [path for path in paths if not stat.S_ISDIR(path.lstat().st_mode)]
    if odd := next((path for path in files if not stat.S_ISREG(path.lstat().st_mode)), None):
        raise LockError(f"{odd} is no regular file: a link leads out of the folder")
    return files


def _same_pins(project: Project, cell: Cell, path: Path, build: StageRecord) -> None:
    """Raise LockError if a build is of other versions than pins.yaml's, or of another tree than pins.lock's."""
    pins = project.pins.line(cell.line)
    for source in build.get("sources", list):
        if source["version"] != pins.get(source["name"], source["version"]):
            raise LockError(f"{path}: {source['name']} was {source['version']}, pins.yaml has {pins[source['name']]}")
    for stack in build.get("stacks", list):
        patched = (project.lock.entry(cell.line, stack["source"]) or {}).get("patched") or {}
        if stack["tree"] != patched.get("tree", stack["tree"]):
            raise LockError(f"{path}: {stack['source']} was tree {stack['tree']}, pins.lock has {patched['tree']}")


def _copy(project: Project, cell: Cell, files: Sequence[Path]) -> None:
    """Copy a cell's files, then its records: what is recorded is there."""
    source = cell.folder / "dist" / cell.line / cell.target
    with new_folder(project.dist_folder(cell.line, cell.target)) as folder:
        for path in files:
            hardlink_or_copy(path, folder / path.relative_to(source))
    for stage in STAGES:
        if record := load_any(cell.folder / "out" / stage / cell.line / cell.target / RECORD):
            replace(record, path=project.record(stage, cell.line, cell.target)).save()

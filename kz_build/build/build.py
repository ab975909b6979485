"""build: a plan -> artifacts in dist/<line>/<target>, all of them or none."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kz_build.build.code_parts import code_parts
from kz_build.build.distrust import Distrust, distrust
from kz_build.build.steps import CCACHE_LOG, Command, Plan
from kz_build.core import files, locks, process_group
from kz_build.core.command_log import Commands
from kz_build.core.errors import CommandError, Missing, MissingError
from kz_build.core.paths import files_below
from kz_build.core.process import find
from kz_build.core.progress import Event, Watch
from kz_build.core.stage_record import Output, StageRecord, changed, load
from kz_build.git import repository as git
from kz_build.pins.pins import JavaSources, Override
from kz_build.pins.project import RECORD, Project
from kz_build.sources.fetch import fetch
from kz_build.sources.fetched import Fetched, Tree
from kz_build.sources.preflight import missing_sources
from kz_build.sources.replaced import has_only_content, no_file
from kz_build.sources.request import Request
from kz_build.sources.used import used

if TYPE_CHECKING:
    from kz_build.build.engine import Engine
    from kz_build.sources.answers import Answers

_NINJA = re.compile(r"^\[(\d+)/(\d+)\] ")


@dataclass(frozen=True)
class Built:
    """A finished build. The outputs of its record are the files of dist; `fresh` if they were just built."""

    plan: Plan
    record: StageRecord
    fresh: bool


def missing(
    project: Project, target: str, request: Request, *, here: bool = True, answers: Answers | None = None
) -> tuple[Missing, ...]:
    """Return all that this machine lacks for a target: its sources, and programs if it builds `here`."""
    wanted = project.pins.target(target, request.line)
    for name in request.names:
        if f"{{{name}.file}}" in str(wanted) and has_only_content(project, request.line, project.pins.source(name)):
            raise no_file(target, name)
    needs = wanted["needs"] if here else {}
    programs = [Missing(name, f"{target} needs this program", way) for name, way in needs.items() if not find(name)]
    return (*missing_sources(project, request, answers), *programs)


def require(project: Project, target: str, request: Request, *, here: bool = True) -> None:
    """Raise MissingError with all that is `missing`."""
    if lacking := missing(project, target, request, here=here):
        raise MissingError(lacking)


def with_stacks(sources: tuple[Fetched, ...], trees: tuple[Tree, ...]) -> tuple[Fetched, ...]:
    """Return sources with their patched trees instead of upstream's."""
    patched = {tree.source: tree for tree in trees}
    return tuple(
        replace(s, trees=(replace(s.trees[0], commit=patched[s.name].commit, tree=patched[s.name].tree), *s.trees[1:]))
        if s.name in patched and s.trees
        else s
        for s in sources
    )


def existing_build(plan: Plan, compared: int = 0) -> Built | None:
    """Return the build of this plan, if there is one, with as many objects compared, and its files have not changed."""
    record = load(plan.build / RECORD, plan.key)
    if record is None or not _has_compared(record, compared) or changed(plan.dist, record.outputs):
        return None
    return Built(plan, record, False)


def _has_compared(record: StageRecord, wanted: int) -> bool:
    """Whether a build compared as many objects, or all that it has."""
    match record.facts.get("distrust"):
        case {"compared": int(compared), "of": int(of)}:
            return compared >= min(wanted, of)
    return not wanted


def build(
    plan: Plan,
    engine: Engine,
    commands: Commands,
    inputs: Mapping[str, object],
    watch: Watch,
    *,
    compare: int = 0,
) -> Built:
    """Run a plan. `inputs` (sources, overrides) go into the record. After a failure dist is unchanged.

    `compare` objects are compiled again and compared (distrust.py).
    """
    running = plan.build.parent / f"{plan.target}.{process_group.RUNNING}"
    with locks.lock(plan.build.parent, plan.target, watch):
        process_group.end_noted(running)  # a compiler that a killed build left would still write here
        return existing_build(plan, compare) or _build(plan, engine, commands.noted_in(running), inputs, watch, compare)


def _build(
    plan: Plan, engine: Engine, commands: Commands, inputs: Mapping[str, object], watch: Watch, compare: int
) -> Built:
    started = time.monotonic()
    files.recover(plan.dist, plan.build)
    # The record stays as long as dist has its files: this build may fail, or be stopped.
    old = [path for path in plan.build.glob("*") if path.name != RECORD]
    aside = plan.build.parents[2] / "old" / plan.line / plan.target
    with files.delete_in_background((plan.tree, *old), aside, lambda: watch(Event("waiting: old files are deleted"))):
        phases, compared = _steps(plan, engine, commands, watch, compare)
        _file_symbols(plan)
        outputs = _outputs(plan)
        parts = code_parts(plan.stage, outputs)
        _publish(plan)
        seconds = round(time.monotonic() - started, 1)
        facts = {"line": plan.line, "target": plan.target, **engine.facts(), "seconds": seconds, "phases": phases}
        if counted := _cached(plan.build / CCACHE_LOG):
            facts["ccache"] = counted
        if compared:
            facts["distrust"] = compared._asdict()
        if parts:
            facts["code"] = parts
        record = StageRecord(plan.build / RECORD, plan.key, inputs, outputs, facts)
        record.save()
    return Built(plan, record, True)


def _steps(
    plan: Plan, engine: Engine, commands: Commands, watch: Watch, compare: int
) -> tuple[dict[str, float], Distrust | None]:
    """Run all steps, and compare objects; return phase -> seconds, and how many were compared."""
    phases: dict[str, float] = {}
    with files.disk_errors(plan.build):
        for folder in {plan.stage / a.folder for a in plan.artifacts} | {plan.stage / "symbols"}:
            folder.mkdir(parents=True, exist_ok=True)
    with engine.opened(plan, commands):
        for step in plan.steps:
            phase = step.phase if isinstance(step, Command) else type(step).__name__.lower()
            watch(Event(phase))
            started = time.monotonic()
            engine.run(step, commands, lambda text, phase=phase: watch(ninja_progress(phase, text)))  # type: ignore[misc]
            phases[phase] = round(phases.get(phase, 0.0) + time.monotonic() - started, 3)
        started = time.monotonic()
        compared = distrust(plan, engine, commands, compare, watch) if compare else None
        if compared:
            phases["distrust"] = time.monotonic() - started
    return {phase: round(seconds, 1) for phase, seconds in phases.items()}, compared


def _cached(log: Path) -> dict[str, int] | None:
    """Count the compilations that the compile cache had (`hits`) and had not, from its log; None without one."""
    try:
        events = log.read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    hits = sum(event in ("direct_cache_hit", "preprocessed_cache_hit") for event in events)
    return {"hits": hits, "misses": events.count("cache_miss")}


def ninja_progress(phase: str, text: str) -> Event:
    """Return the event of a line that a step printed: ninja's `[n/m]` is a counter, anything else a text."""
    match = _NINJA.match(text)
    return Event(phase, int(match[1]), int(match[2]), "") if match else Event(phase, text=text)


def _file_symbols(plan: Plan) -> None:
    """Name each debug file by its build-id, as debuggers and crash services expect: symbols/ab/cdef….debug."""
    from kz_build.formats.elf import read_elf

    for artifact in plan.artifacts:
        if artifact.symbols:
            debug = plan.stage / "symbols" / f"{artifact.name}.debug"
            build_id = read_elf(plan.stage / artifact.folder / artifact.name, exports=False).build_id
            if not build_id:
                raise CommandError(
                    f"{artifact.name} has no build-id, so its symbols cannot be filed",
                    hint="link it with -Wl,--build-id=sha1, or set `symbols: false` for it in pins.yaml",
                )
            to = plan.stage / "symbols" / build_id[:2] / f"{build_id[2:]}.debug"
            to.parent.mkdir(exist_ok=True)
            debug.rename(to)


def _outputs(plan: Plan) -> dict[str, Output]:
    from kz_build.formats.elf import read_elf

    outputs = {}
    for artifact in plan.artifacts:
        path = plan.stage / artifact.folder / artifact.name
        build_id = read_elf(path, exports=False).build_id if artifact.profile != "hexagon" else ""
        outputs[f"{artifact.folder}/{artifact.name}"] = _output(path, artifact.profile, build_id)
    for path in files_below(plan.stage / "symbols", "*.debug"):
        outputs[path.relative_to(plan.stage).as_posix()] = _output(path, "symbols", None)
    return dict(sorted(outputs.items()))  # in the order of a record that was read back


def _output(path: Path, profile: str, build_id: str | None) -> Output:
    return Output(files.sha256_file(path), path.stat().st_size, profile, build_id)


def _publish(plan: Plan) -> None:
    """Replace dist by the new folder. Until the new record is there, the old one does not fit it: nobody takes it for built."""
    if not any((plan.stage / "symbols").iterdir()):
        (plan.stage / "symbols").rmdir()
    with files.new_folder(plan.dist, plan.build) as folder:
        for child in plan.stage.iterdir():
            child.rename(folder / child.name)


def sources_facts(
    project: Project, line: str, sources: tuple[Fetched, ...], trees: tuple[Tree, ...], overrides: Sequence[Override]
) -> dict[str, object]:
    """Return the inputs for a record; `overrides` are those of pins.local.yaml and of the engine."""
    unpinned = [Override(s.name, s.note) for s in sources if s.unpinned]
    return {
        "sources": [
            {
                "name": s.name,
                "version": s.version,
                "identity": s.identity,
                "note": s.note,
                "trees": {t.path or ".": t.tree for t in s.trees},
                **({} if s.trees else {"used": asdict(used(project, line, s))}),
            }
            for s in sources
        ],
        "stacks": [
            {"source": t.source, "tree": t.tree, "commit": t.commit, "base": t.base, "patches": dict(t.patches)}
            for t in trees
        ],
        "canonical": not overrides and not any(s.note for s in sources),
        "overrides": [o._asdict() for o in (*overrides, *unpinned)],
    }


def java_paths(project: Project, line: str, java: JavaSources, watch: Watch) -> frozenset[str]:
    """The files of the Java side of a source, which a fetch may be limited to."""
    at = fetch(project, Request(line, (java["source"],), paths={}, watch=watch))[0].trees[0]
    entries = git.Repository(at.repository).entries(at.tree)
    return frozenset(e.path for e in entries if e.path.startswith(tuple(java["paths"])))


def java_sources(sources: tuple[Fetched, ...], java: JavaSources | None) -> dict[str, bytes]:
    """Return the .java and .kt files that belong to the library, from the patched tree."""
    if not java:
        return {}
    tree = next(s for s in sources if s.name == java["source"]).trees[0]
    repository = git.Repository(tree.repository)
    entries = [
        e
        for e in repository.entries(tree.tree)
        if e.path.endswith((".java", ".kt")) and e.path.startswith(tuple(java["paths"]))
    ]
    with repository.objects() as objects:
        return {e.path: objects.content(e.id) for e in entries}

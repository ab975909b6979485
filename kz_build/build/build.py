"""build: a plan -> artifacts in dist/<line>/<target>, all of them or none."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kz_build.build.engine import Engine
from kz_build.build.steps import Command, Plan
from kz_build.core import files, locks
from kz_build.core.command_log import Commands
from kz_build.core.errors import CommandError, LockError, Missing, MissingError
from kz_build.core.process import find
from kz_build.core.progress import Event, Watch
from kz_build.core.rules import unsafe_path
from kz_build.git import repository as git
from kz_build.pins.pins import Override
from kz_build.pins.project import Project
from kz_build.sources.fetched import Fetched, Tree
from kz_build.sources.preflight import missing_sources
from kz_build.sources.request import Request

_NINJA = re.compile(r"^\[(\d+)/(\d+)\] ")


@dataclass(frozen=True)
class Built:
    """What a build left. `files` maps each file of dist to {sha256, size, profile, build_id}; `fresh` if it was just made."""

    plan: Plan
    files: Mapping[str, Mapping[str, Any]]
    manifest: Mapping[str, Any]
    fresh: bool


def require(project: Project, line: str, target: str, request: Request, *, here: bool = True) -> None:
    """Raise MissingError with all that this machine lacks for a target: networks, SDKs, and programs if it builds `here`."""
    needs = project.pins.target(target, line)["needs"] if here else {}
    missing = missing_sources(project, request)
    missing += tuple(
        Missing(name, f"{target} needs this program", brings) for name, brings in needs.items() if not find(name)
    )
    if missing:
        raise MissingError(missing)


def with_stacks(sources: tuple[Fetched, ...], trees: tuple[Tree, ...]) -> tuple[Fetched, ...]:
    """Sources with their patched trees in the place of upstream's."""
    patched = {tree.source: tree for tree in trees}
    return tuple(
        replace(s, trees=(replace(s.trees[0], commit=patched[s.name].commit, tree=patched[s.name].tree), *s.trees[1:]))
        if s.name in patched and s.trees
        else s
        for s in sources
    )


def done(plan: Plan) -> Built | None:
    """The build of this very plan, if it is there and its files are still what they were."""
    manifest = files.read_manifest(plan.build / "manifest.json", plan.key)
    if manifest is None:
        return None
    for name, facts in manifest["files"].items():
        path = plan.dist / name
        if (
            unsafe_path(name)
            or not path.is_file()
            or path.stat().st_size != facts["size"]
            or files.sha256_file(path) != facts["sha256"]
        ):
            return None
    return Built(plan, manifest["files"], manifest, False)


def recorded_files(manifest: Path) -> Mapping[str, Mapping[str, Any]]:
    """Files of dist by the manifest of a build. Raises LockError where no build wrote that manifest."""
    try:
        found: dict[str, dict[str, Any]] = json.loads(manifest.read_bytes())["files"]
        right = all(not unsafe_path(name) and facts.keys() >= {"sha256", "profile"} for name, facts in found.items())
    except (ValueError, KeyError, TypeError, AttributeError):
        right = False
    if not right:
        raise LockError(f"{manifest} was not written by kz", hint="remove it and build again: kz build")
    return found


def build(plan: Plan, engine: Engine, commands: Commands, facts: Mapping[str, Any], watch: Watch) -> Built:
    """Run a plan. `facts` (sources, overrides) go into the manifest. On any failure dist stays as it was."""
    with locks.locked(plan.build.parent, plan.target, watch):
        return done(plan) or _build(plan, engine, commands, facts, watch)


def _build(plan: Plan, engine: Engine, commands: Commands, facts: Mapping[str, Any], watch: Watch) -> Built:
    started = time.monotonic()
    files.recover(plan.dist, plan.build)
    with files.removing((plan.tree, plan.build), plan.build.parents[2] / "old" / plan.line / plan.target):
        _steps(plan, engine, commands, watch)
    _file_symbols(plan)
    found = _artifacts(plan)
    _publish(plan)
    manifest = {
        **facts,
        "line": plan.line,
        "target": plan.target,
        "files": found,
        **engine.facts(),
        "seconds": round(time.monotonic() - started, 1),
    }
    files.write_manifest(plan.build / "manifest.json", plan.key, manifest)
    return Built(plan, found, manifest, True)


def _steps(plan: Plan, engine: Engine, commands: Commands, watch: Watch) -> None:
    with files.disk_errors(plan.build):
        for folder in {plan.stage / a.folder for a in plan.artifacts} | {plan.stage / "symbols"}:
            folder.mkdir(parents=True, exist_ok=True)
    with engine.opened(plan, commands):
        for step in plan.steps:
            phase = step.phase if isinstance(step, Command) else type(step).__name__.lower()
            watch(Event(phase))
            engine.run(step, commands, lambda text, phase=phase: watch(_progress(phase, text)))  # type: ignore[misc]


def _progress(phase: str, text: str) -> Event:
    at = _NINJA.match(text)
    return Event(phase, int(at[1]), int(at[2]), "") if at else Event(phase, text=text)


def _file_symbols(plan: Plan) -> None:
    """Name each debug file by its build-id, where debuggers and crash services look: symbols/ab/cdef….debug."""
    from kz_build.formats.elf import read_elf

    for artifact in plan.artifacts:
        if artifact.symbols:
            debug = plan.stage / "symbols" / f"{artifact.name}.debug"
            build_id = read_elf(plan.stage / artifact.folder / artifact.name, exports=False).build_id
            if not build_id:
                raise CommandError(
                    f"{artifact.name} has no build-id, so its symbols cannot be filed",
                    hint="link it with -Wl,--build-id=sha1, or say `symbols: false` of it in pins.yaml",
                )
            to = plan.stage / "symbols" / build_id[:2] / f"{build_id[2:]}.debug"
            to.parent.mkdir(exist_ok=True)
            debug.rename(to)


def _artifacts(plan: Plan) -> dict[str, dict[str, Any]]:
    from kz_build.formats.elf import read_elf

    found = {}
    for artifact in plan.artifacts:
        path = plan.stage / artifact.folder / artifact.name
        found[f"{artifact.folder}/{artifact.name}"] = {
            "sha256": files.sha256_file(path),
            "size": path.stat().st_size,
            "profile": artifact.profile,
            "build_id": read_elf(path, exports=False).build_id if artifact.profile != "hexagon" else "",
        }
    for path in sorted((plan.stage / "symbols").rglob("*.debug")):
        found[path.relative_to(plan.stage).as_posix()] = {
            "sha256": files.sha256_file(path),
            "size": path.stat().st_size,
            "profile": "symbols",
        }
    return dict(sorted(found.items()))  # as the manifest gives them back: a report reads the same after either


def _publish(plan: Plan) -> None:
    """Exchange dist for the new folder. The old manifest is gone already: it must never vouch for other files."""
    if not any((plan.stage / "symbols").iterdir()):
        (plan.stage / "symbols").rmdir()
    with files.new_folder(plan.dist, plan.build) as made:
        for child in plan.stage.iterdir():
            child.rename(made / child.name)


def sources_facts(
    sources: tuple[Fetched, ...], trees: tuple[Tree, ...], project: Project, more: tuple[Override, ...] = ()
) -> dict[str, Any]:
    """What a manifest says of what went in; `more` overrides are the engine's."""
    return {
        "sources": [
            {
                "name": s.name,
                "version": s.version,
                "identity": s.identity,
                "note": s.note,
                "trees": {t.path or ".": t.tree for t in s.trees},
            }
            for s in sources
        ],
        "stacks": [
            {"source": t.source, "tree": t.tree, "commit": t.commit, "base": t.base, "patches": dict(t.patches)}
            for t in trees
        ],
        "canonical": project.canonical and not more and not any(s.note for s in sources),
        "overrides": [o._asdict() for o in (*project.pins.overrides, *more)]
        + [{"where": s.name, "value": s.note} for s in sources if s.note],
    }


def java_sources(sources: tuple[Fetched, ...], java: Mapping[str, Any] | None) -> dict[str, bytes]:
    """The .java and .kt files that go with the library, from the patched tree."""
    if not java:
        return {}
    at = next(s for s in sources if s.name == java["source"]).trees[0]
    repository = git.Repository(at.repository)
    wanted = [
        e
        for e in repository.entries(at.tree)
        if e.path.endswith((".java", ".kt")) and e.path.startswith(tuple(java["paths"]))
    ]
    with repository.objects() as objects:
        return {e.path: (objects.get(e.id) or ("", "", b""))[2] for e in wanted}

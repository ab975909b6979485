"""reproduce: build twice in different surroundings, compare every byte, and find the cause of each difference.

Builds go to folders of their own, without any cache; dist and its build are only read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from kz_build.build import byte_diff
from kz_build.build.build import build, existing_build
from kz_build.build.engine import HostEngine, on_disk
from kz_build.build.plan import plan
from kz_build.build.steps import MAPPED, Plan
from kz_build.build.variation import NOTHING, TOGETHER, Difference, ReproduceResult, Variation
from kz_build.build.vary import VariedEngine, unmount, variations
from kz_build.core import files, locks, process_group
from kz_build.core.command_log import Commands
from kz_build.core.errors import CommandError
from kz_build.core.paths import files_below
from kz_build.core.progress import Event, Watch
from kz_build.core.stage_record import Output, StageRecord
from kz_build.pins.project import RECORD, Project
from kz_build.sources.fetched import Fetched

HERE, ELSEWHERE = "a", "another-folder-with-a-longer-name"
_DATE = re.compile(r"\b20\d\d-?[01]\d-?[0-3]\d|\b[A-Z][a-z]{2} [ \d]\d 20\d\d|\b\d\d:\d\d:\d\d|\b[12]\d{9}\b")
_DERIVED = (".note.gnu.build-id",)
_OBJECTS = (".o", ".obj", ".a")
_MOST_OBJECTS = 10
Place = tuple[str, str]


@dataclass(frozen=True)
class ReproduceTarget:
    """What is built repeatedly: a target's fetched and patched sources."""

    project: Project
    line: str
    target: str
    sources: tuple[Fetched, ...]
    soc: str
    jobs: int

    @property
    def folder(self) -> Path:
        """Return the folder for all builds: out/reproduce/<line>/<target>."""
        return self.project.out("reproduce", self.line, self.target)

    def at(self, names: Iterable[str]) -> Path:
        """Return the folder of a build with these variations."""
        return self.folder / (ELSEWHERE if "path" in names else HERE)

    def plan(self, names: Iterable[str], cpus: int, engine: HostEngine | None = None) -> Plan:
        """Return the plan with these variations. If the path is one of them, tools and SDKs move too, and all have the real
        paths of this machine, not those that `kz build` gives them if it can."""
        at = self.at(names)
        sources = self.sources
        if "path" in names:
            sources = tuple(
                replace(s, folder=at / "store" / s.name) if s.folder and not s.trees else s for s in sources
            )
        jobs = min(self.jobs, cpus) if "cpus" in names else self.jobs
        layout = engine.layout(at / "cache") if engine and "path" not in names else None
        return plan(self.project, self.line, self.target, sources, soc=self.soc, jobs=jobs, layout=layout, at=at)


def reproduce(subject: ReproduceTarget, commands: Commands, watch: Watch) -> ReproduceResult:
    """Build twice, the second time with everything varied that this machine can vary; save a record.

    If files differ, build once more with nothing varied, then with one variation at a time until each difference has
    its cause. Raises CommandError if the build fails in other surroundings.
    """
    with locks.lock(subject.folder.parent, subject.target, watch):
        # What a killed run left: first its programs, then its mounts.
        for names in ((), ("path",)):
            out = subject.project._replace(root=subject.at(names)).out
            process_group.end_noted(out("build", subject.line, f"{subject.target}.{process_group.RUNNING}"))
        unmount(subject.folder)
        files.remove(subject.folder)
        subject.folder.mkdir(parents=True)
        return _reproduce(subject, commands, watch)


def _reproduce(subject: ReproduceTarget, commands: Commands, watch: Watch) -> ReproduceResult:
    engine = HostEngine()
    network = engine.network
    path = Variation("path", f"…/{HERE}" if engine.unmapped else MAPPED, f"…/{ELSEWHERE}")
    bench = _BuildBench(subject, engine, (path, *variations(network, subject.folder)), commands, watch)
    first = bench.build("first", ())
    second = bench.build("second", tuple(v.name for v in bench.variations if not v.absent))
    differences = tuple(_all_differences(first, second))
    objects = _objects(first, second) if differences else ()
    if differences:
        differences = _add_causes(bench, first, second, differences)
    result = ReproduceResult(
        subject.line,
        subject.target,
        bench.variations,
        {name: files.sha256_file(path) for name, path in _files(first).items()},
        differences,
        objects,
        bench.seconds,
        _compare_dist(subject, first),
        network,
    )
    _save(subject, result)
    return result


class _BuildBench:
    """Runs builds one after the other, each moved aside when it is finished: the next one needs its folder."""

    def __init__(
        self,
        subject: ReproduceTarget,
        engine: HostEngine,
        variations: tuple[Variation, ...],
        commands: Commands,
        watch: Watch,
    ) -> None:
        self.subject = subject
        self.engine = engine
        self.variations = variations
        self.seconds: dict[str, float] = {}
        self._commands = commands
        self._watch = watch

    def build(self, name: str, names: tuple[str, ...]) -> Path:
        """Build with these variations; return the folder `name` that keeps its outputs."""
        subject = self.subject
        chosen = [v for v in self.variations if v.name in names]
        plan = subject.plan(names, next((int(v.second) for v in chosen if v.name == "cpus"), 1), self.engine)
        at = subject.at(names)
        files.remove(at)
        if "path" in names:
            for source in subject.sources:
                if source.folder and not source.trees:
                    files.link_tree(source.folder, at / "store" / source.name)
        self._watch(Event(f"{name} build"))
        with VariedEngine(chosen, plan.tree) as engine:
            try:
                built = build(plan, engine, self._commands, {}, self._watch)
            except CommandError as error:
                if names:
                    raise CommandError(
                        f"the build does not work with {', '.join(names)} varied: {error}",
                        hint=error.hint,
                        code=error.code,
                        log=error.log,
                    ) from error
                raise
        self.seconds[name] = built.record.get("seconds", float)
        kept = subject.folder / name
        _keep(plan, kept)
        files.remove(at)
        return kept


def _keep(plan: Plan, kept: Path) -> None:
    """Keep what is compared: dist, files with their debug information, and intermediate files, to name the first that differ."""
    kept.mkdir(parents=True)
    plan.dist.rename(kept / "dist")
    (kept / "unstripped").mkdir()
    for artifact in plan.artifacts:
        if artifact.built and artifact.symbols:
            built = on_disk(plan, artifact.built).resolve()  # libx.so may be a link to libx.so.1
            os.link(built, kept / "unstripped" / artifact.name)
    for path in files_below(plan.build):
        if path.suffix in _OBJECTS and plan.stage not in path.parents:
            to = kept / "objects" / path.relative_to(plan.build)
            to.parent.mkdir(parents=True, exist_ok=True)
            os.link(path, to)


def _files(kept: Path, *folders: str) -> dict[str, Path]:
    return {
        path.relative_to(kept).as_posix().removeprefix("dist/"): path
        for folder in folders or ("dist", "unstripped")
        for path in files_below(kept / folder)
    }


def _all_differences(first: Path, second: Path) -> Iterable[Difference]:
    """Yield all places that differ. Debug files are named by build-id: if that differs, the unstripped files are compared instead."""
    ours, theirs = _files(first), _files(second)
    for name in sorted({*ours, *theirs}):
        if name in ours and name in theirs:
            if files.sha256_file(ours[name]) != files.sha256_file(theirs[name]):
                yield from byte_diff.differences(name, ours[name], theirs[name])
        elif not name.startswith("symbols/"):
            there = "there" if name in ours else "absent"
            yield Difference(name, "", there, "absent" if name in ours else "there")


def _objects(first: Path, second: Path) -> tuple[str, ...]:
    ours, theirs = _files(first, "objects"), _files(second, "objects")
    differ = (n for n, path in ours.items() if n in theirs and files.sha256_file(path) != files.sha256_file(theirs[n]))
    return tuple(name.removeprefix("objects/") for name in sorted(differ, key=lambda n: n.endswith(".a")))[
        :_MOST_OBJECTS
    ]


def _add_causes(
    bench: _BuildBench, first: Path, second: Path, differences: tuple[Difference, ...]
) -> tuple[Difference, ...]:
    """Return differences with their causes: first those without any variation, then one variation at a time, likely ones first."""
    causes: dict[Place, list[str]] = {(d.file, d.where): [] for d in differences if not d.where.startswith(_DERIVED)}
    for difference in _all_differences(first, bench.build("control", ())):
        place = difference.file, difference.where
        if place in causes:
            dated = _DATE.search(difference.first) and _DATE.search(difference.second)
            causes[place].append("clock" if dated else NOTHING)
    evidence = " ".join(f"{d.first} {d.second}" for d in differences)
    ways = [v for v in bench.variations if not v.absent]
    wanted = _part_hashes(second)
    open_places = {place for place, known in causes.items() if not known}
    for way in sorted(ways, key=lambda v: not (v.second in evidence or v.name == "path" and ELSEWHERE in evidence)):
        if not open_places:
            break
        alone = bench.build(f"{way.name}-alone", (way.name,))
        parts = _part_hashes(alone)
        for difference in _all_differences(first, alone):
            place = difference.file, difference.where
            if place in open_places:
                causes[place].append(way.name)
                if parts.get(place) == wanted.get(place):
                    open_places.discard(place)
        files.remove(alone)
    named = {place: tuple(dict.fromkeys(known)) or (TOGETHER,) for place, known in causes.items()}
    return tuple(replace(d, causes=named.get((d.file, d.where), ())) for d in differences)


def _part_hashes(kept: Path) -> Mapping[Place, int]:
    """Return a hash of each part of each file: does one variation alone cause the same bytes as all together?"""
    return {
        (name, where): hash(data)
        for name, path in _files(kept).items()
        for where, data in byte_diff.parts(path).items()
    }


def _compare_dist(subject: ReproduceTarget, first: Path) -> str:
    """Say whether dist, by `kz build` of the same inputs, has the same bytes."""
    existing = existing_build(
        plan(subject.project, subject.line, subject.target, subject.sources, soc=subject.soc, jobs=subject.jobs)
    )
    if existing is None:
        return "absent"
    digests = {name: files.sha256_file(path) for name, path in _files(first, "dist").items()}
    return "same" if digests == {name: output.sha256 for name, output in existing.record.outputs.items()} else "differs"


def _save(subject: ReproduceTarget, result: ReproduceResult) -> None:
    """Save the record, and keep `first` and `second` only if they differ, with diffoscope's report if it is installed."""
    for path in subject.folder.iterdir():
        if result.same or path.name not in ("first", "second"):
            files.remove(path)
    for name in dict.fromkeys(d.file for d in result.differences if not d.file.startswith("unstripped/")):
        first, second = (subject.folder / side / "dist" / name for side in ("first", "second"))
        if first.is_file() and second.is_file():
            byte_diff.diffoscope(first, second, subject.folder / f"{Path(name).name}.diffoscope.txt")
    facts = {**asdict(result), "same": result.same}
    outputs = {name: Output(sha256) for name, sha256 in facts.pop("files").items()}
    StageRecord(subject.folder / RECORD, subject.plan((), 1).key, {}, outputs, facts).save()

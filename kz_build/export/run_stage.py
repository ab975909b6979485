"""One stage of a recipe: run, watched phase by phase, and recorded; what went wrong is said with its cause."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from kz_build.build import engine
from kz_build.core import files, host, process_group
from kz_build.core.command_log import Commands
from kz_build.core.errors import CommandError
from kz_build.core.stage_record import StageRecord, load
from kz_build.diagnose.diagnose import diagnose
from kz_build.export import preflight_rules as ask
from kz_build.export.environment import Environment
from kz_build.export.phases import FIRST, Phase, estimate, phase_of
from kz_build.export.recipe import Recipe, Stage

SAMPLE_SECONDS = 0.5
KILLED = -9
RUNNING = "running.json"


@dataclass(frozen=True)
class Moment:
    """Where a stage is: seconds since the phase and the stage began, those that it took before (0: unknown), bytes held."""

    stage: str
    phase: str
    in_phase: float
    elapsed: float
    phase_before: float
    before: float
    ram: int
    swap: int


OnMoment = Callable[[Moment], None]


def filled(stage: Stage, fill: Callable[[str], str]) -> Stage:
    """A stage with the places of this machine in its command line."""
    return replace(stage, run=tuple(map(fill, stage.run)), makes=tuple(map(fill, stage.makes)))


def recorded(environment: Environment, stage: Stage, key: str) -> dict[str, Any] | None:
    """The record of a stage that was run with these inputs, if all that it made is still there; else None."""
    record = load(_record(environment, stage), key)
    if record is None or not stage.makes:
        return None
    for path, facts in record.get("makes", dict).items():
        if not Path(path).is_file() or [*Path(path).stat()[6:7], Path(path).stat().st_mtime_ns] != facts:
            return None
    return record.plain()


def _record(environment: Environment, stage: Stage) -> Path:
    return environment.places["out"] / f"{stage.name}.json"


def seconds_of(record: Mapping[str, Any]) -> dict[str, float]:
    """Phase -> seconds of a record."""
    return estimate(tuple(Phase(**phase) for phase in record["phases"]))


def work_folder(environment: Environment, name: str, inside: str = "") -> Path:
    """A new, empty folder for a command of that name to run in, so that what upstream drops where it runs stays here.

    For a source tree with what is in it as links: its scripts and configurations are found by their relative paths.
    """
    work = environment.places["out"] / "work" / name
    files.remove(work)
    with files.disk_errors(work):
        work.mkdir(parents=True)
        tree = environment.places.get(inside)
        for entry in sorted(tree.iterdir()) if tree and tree.name == inside else ():
            (work / entry.name).symlink_to(entry)
    return work


def run_stage(
    recipe: Recipe,
    stage: Stage,
    environment: Environment,
    key: str,
    before: Mapping[str, float],
    commands: Commands,
    watch: OnMoment,
) -> dict[str, Any]:
    """Run a stage to its end and leave its record, last. `before`: phase -> seconds of an earlier run.

    Raises CommandError with the cause as far as its log tells it. On an interrupt all of its processes end first.
    """
    out = environment.places["out"]
    _record(environment, stage).unlink(missing_ok=True)
    for path in stage.makes:
        files.remove(Path(path))
    work = work_folder(environment, stage.name, stage.inside)
    cut, kills = engine.no_network_prefix(), process_group.oom_kill_count()
    course = Course(stage.name, before, watch)

    try:
        log = attended(out, course, commands, [*cut, *stage.run], cwd=work, env=environment.variables)
    except CommandError as error:
        raise _explained(recipe, stage, error, course.end(), killed=process_group.oom_kill_count() > kills) from error
    missing = [path for path in stage.makes if not Path(path).is_file()]
    if missing:
        raise CommandError(
            f"{stage.name} ended well and did not make {', '.join(missing)}",
            hint=f"does `makes` of the recipe still fit upstream? The whole log: {log}",
        )
    facts = {
        "argv": list(stage.run),
        "makes": {path: [Path(path).stat().st_size, Path(path).stat().st_mtime_ns] for path in stage.makes},
        "phases": [asdict(phase) for phase in course.end()],
        "seconds": round(course.seconds, 1),
        "network": "off" if cut else "on: this kernel allows no `unshare -rn`",
    }
    record = StageRecord(_record(environment, stage), key, facts=facts)
    record.save()
    return record.plain()


def attended(
    out: Path,
    course: Course,
    commands: Commands,
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    line: Callable[[str], None] = lambda text: None,
) -> Path:
    """Run a command to its end, its course watched, and leave nothing of its session running; gives its log."""

    def started(pid: int) -> None:
        entry = {"session": pid, "started": process_group.start_time(pid)}
        files.write_atomic(out / RUNNING, json.dumps(entry).encode())
        course.begin(pid)

    def watch(text: str) -> None:
        course.line(text)
        line(text)

    try:
        return commands.run(course.name, argv, cwd=cwd, env=env, watch=watch, started=started)
    finally:
        course.end()
        if course.session:
            process_group.end(course.session)
        (out / RUNNING).unlink(missing_ok=True)


def end_leftovers(out: Path) -> bool:
    """End what a killed kz left running of this export; whether there was something. The caller holds the export's lock."""
    try:
        found = json.loads((out / RUNNING).read_bytes())
        leader, began = int(found["session"]), int(found["started"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
    # The id may be another's by now: then its leader lives, and started at another time.
    ended = process_group.start_time(leader) in (0, began) and process_group.end(leader)
    (out / RUNNING).unlink(missing_ok=True)
    return ended


class Course:
    """How a stage runs: its phases by what it prints, and the most that its processes held in each."""

    def __init__(self, name: str, before: Mapping[str, float], watch: OnMoment) -> None:
        self.name = name
        self.session = 0
        self.seconds = 0.0
        self._before, self._watch = before, watch
        self._phases: list[Phase] = []
        self._now = Phase(FIRST, 0.0, 0, 0)
        self._began = self._phase_began = time.monotonic()
        self._over = threading.Event()
        self._guard = threading.Lock()
        self._sampler = threading.Thread(target=self._sample, daemon=True)

    def begin(self, pid: int) -> None:
        """The stage runs, as the session `pid`."""
        self.session = pid
        self._sampler.start()

    def line(self, text: str) -> None:
        """Take a line of its output."""
        phase = phase_of(text)
        with self._guard:
            if phase and phase != self._now.name:
                self._close(phase)

    def end(self) -> tuple[Phase, ...]:
        """It ended; gives its phases."""
        if not self._over.is_set():
            self._over.set()
            if self._sampler.is_alive():
                self._sampler.join()
            with self._guard:
                self._close("")
            self.seconds = time.monotonic() - self._began
        return tuple(self._phases)

    def _close(self, following: str) -> None:
        now = time.monotonic()
        self._phases.append(replace(self._now, seconds=round(now - self._phase_began, 1)))
        self._now, self._phase_began = Phase(following, 0.0, 0, 0), now

    def _sample(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            held = process_group.memory_use(self.session)
            with self._guard:
                now, at = self._now, time.monotonic()
                self._now = replace(now, ram=max(now.ram, held.ram), swap=max(now.swap, held.swap))
                times = (at - self._phase_began, at - self._began)
            known = (self._before.get(now.name, 0.0), sum(self._before.values()))
            self._watch(Moment(self.name, now.name, *times, *known, *held))


def _explained(
    recipe: Recipe, stage: Stage, error: CommandError, phases: tuple[Phase, ...], *, killed: bool
) -> CommandError:
    """A failure with what its log says of the cause, and what helps; as it came where nothing is recognised."""
    phase = phases[-1].name if phases else FIRST
    where = f"{stage.name} of {recipe.name} failed in phase {phase}"
    found = [one for one in diagnose(error.log).found if not one.follows] if error.log else []
    if (
        error.code == KILLED
        or killed
        or any(one.id in ("allocation", "allocation-python", "oom-killer") for one in found)
    ):
        return _out_of_memory(recipe, where, error, phases, killed=killed)
    if not found:
        return CommandError(f"{where}\n{error}", hint=error.hint, code=error.code, log=error.log)
    rows = [f"{where}, exit {error.code}: {found[0].title}"]
    rows += [f"  line {one.line}: {one.text.strip()[:300]}\n  cause: {one.cause}" for one in found[:3]]
    hint = "\n     ".join([*(one.next for one in found[:3]), f"the whole log: {error.log}"])
    return CommandError("\n".join(rows), hint=hint, code=error.code, log=error.log)


def _out_of_memory(
    recipe: Recipe, where: str, error: CommandError, phases: tuple[Phase, ...], *, killed: bool
) -> CommandError:
    """What was held, what there is, what the recipe needs, and the commands that add swap."""
    have, most = host.memory(), max((p.ram + p.swap for p in phases), default=0)
    if killed:
        how = "the kernel killed it for the memory limit of this control group"
    elif error.code == KILLED:
        how = "killed from outside (exit 137): nearly always the kernel's out-of-memory killer; dmesg -T tells"
    else:
        how = "the system refused to give more: is there a limit? ulimit -v"
    place = host.disk(Path.cwd())
    check = ask.memory(recipe.needs.memory, have.ram, have.swap, place.mount, place.free)
    rows = [f"{where}: out of memory", f"  {how}", f"  it held {most / ask.GB:.1f} GB at most; {check.evidence}"]
    advice = [
        *check.fix,
        "close what else runs; the same command goes on with this stage",
        f"the whole log: {error.log}",
    ]
    return CommandError("\n".join(rows), hint="\n     ".join(advice), code=error.code, log=error.log)

"""One stage of a recipe: run it, watch its phases, record it, and explain its failure."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from kz_build.build import engine
from kz_build.core import files, host, process_group
from kz_build.core.command_log import Commands
from kz_build.core.errors import CommandError
from kz_build.core.progress import Event, Watch
from kz_build.core.stage_record import StageRecord, load
from kz_build.diagnose.diagnose import diagnose
from kz_build.export import preflight_rules as rules
from kz_build.export.environment import Environment
from kz_build.export.phases import FIRST, Phase, phase_of
from kz_build.export.recipe import Recipe, Stage
from kz_build.export.text import progress

SAMPLE_SECONDS = 0.5
KILLED = -9


def filled(stage: Stage, fill: Callable[[str], str]) -> Stage:
    """Return a stage with its placeholders replaced."""
    return stage.model_copy(update={"run": list(map(fill, stage.run)), "makes": list(map(fill, stage.makes))})


def recorded(environment: Environment, stage: Stage, key: str) -> StageRecord | None:
    """Return the record of a stage that ran with these inputs, if its outputs are still there; else None."""
    record = load(_record(environment, stage), key)
    if record is None or not stage.makes:
        return None
    for path, facts in record.get("makes", dict).items():
        if not Path(path).is_file() or _size_and_time(path) != facts:
            return None
    return record


def _size_and_time(path: str) -> list[int]:
    facts = Path(path).stat()
    return [facts.st_size, facts.st_mtime_ns]


def _record(environment: Environment, stage: Stage) -> Path:
    return environment.places["out"] / f"{stage.name}.json"


def work_folder(environment: Environment, name: str, inside: str = "") -> Path:
    """Make an empty folder for a command to run in, so that files which upstream writes to its folder stay here.

    A source tree's files are linked into it: its scripts and configurations are found by relative paths.
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
    watch: Watch,
) -> StageRecord:
    """Run a stage to its end, and write its record last. `before`: phase -> seconds of an earlier run.

    Raises CommandError with its log. On an interrupt all of its processes end first.
    """
    out = environment.places["out"]
    _record(environment, stage).unlink(missing_ok=True)
    for path in stage.makes:
        files.remove(Path(path))
    work = work_folder(environment, stage.name, stage.inside)
    cut, kills = engine.no_network_prefix(), process_group.oom_kill_count()
    monitor = StageMonitor(stage.name, before, watch)

    try:
        log = run_watched(out, monitor, commands, [*cut, *stage.run], cwd=work, env=environment.variables)
    except CommandError as error:
        raise _explained(recipe, stage, error, monitor.end(), killed=process_group.oom_kill_count() > kills) from error
    missing = [path for path in stage.makes if not Path(path).is_file()]
    if missing:
        raise CommandError(
            f"{stage.name} ended with 0 and did not make {', '.join(missing)}",
            hint=f"does `makes` of the recipe still match upstream? The whole log: {log}",
        )
    facts = {
        "argv": list(stage.run),
        "makes": {path: _size_and_time(path) for path in stage.makes},
        "phases": [asdict(phase) for phase in monitor.end()],
        "seconds": round(monitor.seconds, 1),
        "network": "off" if cut else "on: this kernel allows no `unshare -rn`",
    }
    record = StageRecord(_record(environment, stage), key, facts=facts)
    record.save()
    return record


def run_watched(
    out: Path,
    monitor: StageMonitor,
    commands: Commands,
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    line: Callable[[str], None] = lambda text: None,
) -> Path:
    """Run a command to its end under a monitor, and end all processes of its session. Returns its log."""

    def watch(text: str) -> None:
        monitor.line(text)
        line(text)

    try:
        noted = commands.noted_in(out / process_group.RUNNING)
        return noted.run(monitor.name, argv, cwd=cwd, env=env, watch=watch, started=monitor.begin)
    finally:
        monitor.end()
        if monitor.session:
            process_group.end(monitor.session)


class StageMonitor:
    """The phases of a running stage, by its output, and the most memory that its processes held in each."""

    def __init__(self, name: str, before: Mapping[str, float], watch: Watch) -> None:
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
        """Begin: the stage runs as the session `pid`."""
        self.session = pid
        self._sampler.start()

    def line(self, text: str) -> None:
        phase = phase_of(text)
        with self._guard:
            if phase and phase != self._now.name:
                self._close(phase)

    def end(self) -> tuple[Phase, ...]:
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
            self._watch(Event(now.name, status=progress(self.name, now.name, times, known, *held)))


def _explained(
    recipe: Recipe, stage: Stage, error: CommandError, phases: tuple[Phase, ...], *, killed: bool
) -> CommandError:
    """Say where a stage failed; a lack of memory is explained here, any other cause beside the error of every command."""
    phase = phases[-1].name if phases else FIRST
    where = f"{stage.name} of {recipe.name} failed in phase {phase}"
    matches = diagnose(error.log).causes if error.log else ()
    if (
        error.code == KILLED
        or killed
        or any(one.id in ("allocation", "allocation-python", "oom-killer") for one in matches)
    ):
        return _out_of_memory(recipe, where, error, phases, killed=killed)
    return CommandError(f"{where}\n{error}", hint=error.hint, code=error.code, log=error.log)


def _out_of_memory(
    recipe: Recipe, where: str, error: CommandError, phases: tuple[Phase, ...], *, killed: bool
) -> CommandError:
    """Explain a lack of memory: what was held, what there is, what the recipe needs, and how to add swap."""
    have, most = host.memory(), max((p.ram + p.swap for p in phases), default=0)
    if killed:
        how = "the kernel killed it for the memory limit of this control group"
    elif error.code == KILLED:
        how = "killed from outside (exit 137): nearly always by the kernel's out-of-memory killer; see dmesg -T"
    else:
        how = "the system refused to give more: is there a limit? ulimit -v"
    place = host.disk(Path.cwd())
    check = rules.memory(recipe.needs.memory, have.ram, have.swap, place.mount, place.free)
    rows = [f"{where}: out of memory", f"  {how}", f"  it held {most / rules.GB:.1f} GB at most; {check.evidence}"]
    advice = [
        *check.fix,
        "close other programs; the same command goes on with this stage",
        f"the whole log: {error.log}",
    ]
    return CommandError("\n".join(rows), hint="\n     ".join(advice), code=error.code)

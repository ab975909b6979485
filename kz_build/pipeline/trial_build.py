"""Whether a target builds from a stack on another version of upstream. Nothing in dist or of the target's own build changes."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kz_build.build.build import ninja_progress, with_stacks
from kz_build.build.plan import plan
from kz_build.build.steps import Checkout, Command, Layout, Plan, Step, ninja
from kz_build.build.touched_units import HEADERS, has_code, outputs, touched
from kz_build.core import files, locks
from kz_build.core.errors import CommandError, ConflictError, StoppedError
from kz_build.core.progress import Event, Watch
from kz_build.git.repository import Repository
from kz_build.patch.verdict import Verdict
from kz_build.pins.pins import NATIVE
from kz_build.pipeline import pruned_manifest
from kz_build.pipeline.target import TargetBuild, TargetRequest
from kz_build.sources.fetch import fetch
from kz_build.stack.apply import apply, apply_to
from kz_build.stack.pinned import pinned_stack, with_files_fetched
from kz_build.upstream.verify import TrialBuild, VerifyResult

if TYPE_CHECKING:
    from kz_build.pins.project import Project
    from kz_build.sources.fetched import Fetched, Tree

_LOG_BYTES, _END_BYTES = 32 << 20, 1 << 20
"""How much of a log is read from its beginning, and from its end: the warnings before an error can be megabytes."""
_FAILED = re.compile(r"^FAILED: (?:\[code=\d+\] )?(.+?)\s*$", re.MULTILINE)
_ERROR = re.compile(
    r"^.*(?:\berror: |undefined reference to|undefined symbol|multiple definition of|CMake Error|No such file).*$",
    re.MULTILINE,
)
_MACHINE = re.compile(
    r"^FAILED: \[code=137\]|Subprocess killed|Killed signal terminated program|unable to execute command: Killed"
    r"|^kz: out of memory|No space left on device",
    re.MULTILINE,
)
"""What ends a build, and is nobody's code."""
_MANIFEST = "touched.ninja"
_OBJECT = (".o", ".obj")
_LINES = 3


def with_trial_builds(
    project: Project, result: VerifyResult, request: TargetRequest, watch: Watch, note: Callable[[str], None]
) -> VerifyResult:
    """Build a target from the stack on each version on which all its patches hold.

    Patches that upstream has there are left out. What the stack touches is compiled first, so that most failures are found
    in seconds; then the target's programs and libraries are linked. Raises MissingError and the like where a version
    cannot be tried.
    """
    builds: list[TrialBuild | None] = []
    for target, row in zip(result.targets, result.rows, strict=True):
        if not all(judgement.holds for judgement in row):
            builds.append(None)
            continue
        there = frozenset(j.patch for j in row if j.verdict is Verdict.UPSTREAMED)
        watch(Event(f"build at {target.name}"))
        builds.append(_trial(project, result, target.commit, there, request, watch, note))
    return result._replace(builds=tuple(builds))


def _trial(
    project: Project,
    result: VerifyResult,
    commit: str,
    left_out: frozenset[str],
    request: TargetRequest,
    watch: Watch,
    note: Callable[[str], None],
) -> TrialBuild:
    pins = project.pins
    own = {"git": project.git_url(pins.source(result.source)), "commit": commit}
    data = {**pins.data, "replacements": {**pins.replacements, result.source: own}}
    trial = project._replace(pins=pins._replace(data=data))
    target = TargetBuild(trial, replace(request, line=result.line), watch, note)
    target.require()
    sources = fetch(trial, target.wanted)
    others = [name for name in target.wanted.names if name != result.source]
    tree, changed = _patched(trial, result, left_out, watch)
    sources = with_stacks(sources, (tree, *apply(trial, result.line, watch, others)))
    at = project.out("trial", result.line, target.target)
    with locks.lock(project.out("trial"), f"{result.line}-{target.target}", watch):
        files.remove(at)
        try:
            return _build(target, sources, at, result.source, _units(sources, result.source, changed))
        finally:
            files.remove(at)  # and no other target's, which may be built now


def _patched(
    project: Project, result: VerifyResult, left_out: frozenset[str], watch: Watch
) -> tuple[Tree, frozenset[str]]:
    """Apply a stack without some patches; return the tree, and the files that it changes."""
    pinned = pinned_stack(project, result.line, result.source, watch=watch)
    kept = tuple(patch for patch in pinned.stack.patches if patch.name not in left_out)
    stack = replace(pinned.stack, patches=kept, digest=f"{len(kept)}-{pinned.stack.digest}")
    tree, problems = with_files_fetched(project, pinned, lambda c: apply_to(c.repository, c.base, stack, None))
    if tree is None:
        raise ConflictError("\n".join(["the stack does not hold:", *(f"  {problem}" for problem in problems)]))
    return tree, frozenset().union(*(patch.reads for patch in kept))


def _units(sources: tuple[Fetched, ...], source: str, changed: frozenset[str]) -> frozenset[str]:
    """Return what includes a header that the stack changes, beside what it changes itself."""
    if not any(Path(path).suffix in HEADERS for path in changed):
        return frozenset(filter(has_code, changed))
    at = next(s for s in sources if s.name == source).trees[0]
    repository = Repository(at.repository)
    entries = [e for e in repository.entries(at.tree, at.exclude) if has_code(e.path) and not e.submodule]
    with repository.objects() as objects:
        blobs = zip(entries, objects.get_many([e.id for e in entries]), strict=True)
        contents = {entry.path: blob[2] for entry, blob in blobs if blob}
    return frozenset(filter(has_code, touched(changed, contents)))


def _build(
    target: TargetBuild, sources: tuple[Fetched, ...], at: Path, source: str, units: frozenset[str]
) -> TrialBuild:
    """Run the plan of a target in another folder, up to its last link; before each project the units that the stack touches."""
    project, engine = target.project, target.chosen.engine
    tree, build = (project._replace(root=at).out(kind, target.line, target.target) for kind in ("tree", "build"))
    planned = plan(
        project, target.line, target.target, sources,
        soc=target.request.soc, jobs=target.request.jobs or target.chosen.cores or os.cpu_count() or 1,
        layout=engine.layout(project.store) or Layout(tree, build, project.store, sys.executable),
        ccache=engine.compile_cache(project.store), at=at,
    )  # fmt: skip
    projects = project.pins.target(target.target, target.line)["cmake"]
    steps = _until_linked(
        planned, [name for name, cmake in projects.items() if cmake["source"].split("/")[0] != NATIVE]
    )
    patched = next(s for s in sources if s.name == source).trees[0].tree
    folder = next(step.folder for step in steps if isinstance(step, Checkout) and step.tree == patched)
    compiled: list[str] = []
    started, phase = time.monotonic(), ""
    try:
        with engine.opened(replace(planned, steps=steps, artifacts=()), target.commands):
            for step in steps:
                phase = step.phase if isinstance(step, Command) else type(step).__name__.lower()
                target.watch(Event(phase))
                if isinstance(step, Command) and phase.endswith("-build"):
                    lines: list[str] = []
                    engine.run(ninja(step, "units", "-t", "compdb"), target.commands, lines.append)
                    objects = outputs("\n".join(lines), (f"{folder}/{unit}" for unit in sorted(units)))
                    compiled += objects
                    if objects:
                        for one in _touched(step, planned.layout.python, objects):
                            phase = one.phase
                            engine.run(one, target.commands, _counter(phase, target.watch))
                        phase = step.phase
                engine.run(step, target.commands, _counter(phase, target.watch))
        return TrialBuild(target.target, "builds", len(compiled), "", (), "", round(time.monotonic() - started, 1))
    except StoppedError:
        raise
    except CommandError as error:
        text = _text(Path(error.log)) if error.log else ""
        if not error.log or error.code < 0 or _MACHINE.search(text):
            raise
        outcome, failed, errors = _failure(phase, text.replace(f"{folder}/", ""))
        seconds = round(time.monotonic() - started, 1)
        outside = outcome == "compile" and phase.endswith("-build")
        return TrialBuild(target.target, outcome, len(compiled), failed, errors, error.log, seconds, outside)


def _counter(phase: str, watch: Watch) -> Callable[[str], None]:
    """Return what shows ninja's count of a step; what else it prints is in its log."""

    def show(text: str) -> None:
        event = ninja_progress(phase, text)
        if event.total:
            watch(event)

    return show


def _touched(build: Command, python: str, objects: Sequence[str]) -> tuple[Command, Command]:
    """Return the steps that compile these objects, with the files that are generated for them and without the libraries beside them."""
    compiled = ninja(build, "touched", "-k", "0", "-f", _MANIFEST, *objects)
    folder = Path(compiled.argv[compiled.argv.index("--build") + 1])
    words = (
        python,
        "-c",
        Path(pruned_manifest.__file__).read_text(),
        str(folder / "build.ninja"),
        str(folder / _MANIFEST),
    )
    return replace(build, phase=f"{compiled.phase}-manifest", argv=words), compiled


def _until_linked(planned: Plan, projects: list[str]) -> tuple[Step, ...]:
    """Return a plan's steps until its last program or library is linked; without projects that use nothing of upstream."""
    wanted = {f"{name}-{verb}" for name in projects for verb in ("configure", "build", "install")}
    last = max(i for i, step in enumerate(planned.steps) if isinstance(step, Command) and step.phase in wanted)
    return tuple(s for s in planned.steps[: last + 1] if not isinstance(s, Command) or s.phase in wanted)


def _text(log: Path) -> str:
    with log.open("rb") as file:
        data = file.read(_LOG_BYTES)
        file.seek(max(len(data), log.stat().st_size - _END_BYTES))
        data += file.read(_END_BYTES)
    return data.decode("utf-8", "replace")


def _failure(phase: str, text: str) -> tuple[str, str, tuple[str, ...]]:
    """Return what a build failed at by its log, the first file that could not be made, and the first lines that say why."""
    errors = tuple(match[0].strip() for match in _ERROR.finditer(text))[:_LINES]
    failed = _FAILED.findall(text)
    if not failed:
        return "configure" if phase.endswith("-configure") else "build", "", errors
    compiling = [output for output in failed if output.split()[0].endswith(_OBJECT)]
    return ("compile", compiling[0], errors) if compiling else ("link", failed[0], errors)

"""doctor: what this machine can do now, by the functions that the verbs ask before they begin. Nothing is downloaded."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from kz_build.core.errors import KzError, Missing, MissingError
from kz_build.core.host import old_git
from kz_build.core.locks import scratch_folder
from kz_build.pins.project import Project
from kz_build.pipeline.capability import Capability
from kz_build.sources.answers import Answers

SERVER_SECONDS = 2.0
"""How long a server may be silent."""
MOST_SECONDS = 10.0
"""How long all questions may take: a machine may be busy, and the digest of weights takes longer."""


class Question(NamedTuple):
    """What is asked: `ask` returns evidence, or raises what the verb would raise. `verb` is what asks without a time limit."""

    name: str
    subject: str
    line: str
    verb: str
    ask: Callable[[], str]


def doctor(project: Project) -> tuple[Capability, ...]:
    """Ask all questions about this machine, at the same time."""
    result: dict[int, Capability] = {}
    asked: list[tuple[Question, threading.Thread]] = []
    until = time.monotonic() + MOST_SECONDS
    for at, of in enumerate(_questions(project, Answers(SERVER_SECONDS))):
        # Daemons: what takes too long, such as the digest of large weights, must not keep kz from its end.
        thread = threading.Thread(target=lambda at=at, of=of: result.update({at: _answer(of)}), daemon=True)
        thread.start()
        asked.append((of, thread))
    for _, thread in asked:
        thread.join(max(0.0, until - time.monotonic()))
    return tuple(result.get(at) or _late(of) for at, (of, _) in enumerate(asked))


def _answer(of: Question) -> Capability:
    try:
        return Capability(of.name, of.subject, of.line, of.ask())
    except MissingError as error:
        return Capability(of.name, of.subject, of.line, "", error.missing)
    except KzError as error:
        what, _, why = str(error).partition("\n")
        missing = Missing(what, why or f"{of.verb} ends with it", error.hint or of.verb, error.exit_code)
        return Capability(of.name, of.subject, of.line, "", (missing,))


def _late(of: Question) -> Capability:
    missing = Missing(f"an answer within {MOST_SECONDS:g} s", "it may take longer the first time", of.verb)
    return Capability(of.name, of.subject, of.line, "", (missing,))


def _questions(project: Project, answers: Answers) -> Iterator[Question]:
    """Yield the questions, those about recipes last: servers are asked while their schema is imported, which takes a second."""
    pins = project.pins
    if gap := old_git():
        yield Question("git", "every verb", "", "git --version", partial(_refuse, gap))
    for path in sorted(project.root.glob("examples/*/pins.yaml")):
        verb = f"kz -C {path.parent.relative_to(project.root)} build"
        yield Question("example", verb, "", verb, partial(_example, path.parent, answers))
    for line in pins.lines:
        for name in pins.line(line):
            if pins.source(name).kind == "wheel" and (project.root / project.stack_folder(line, name)).is_dir():
                verb = f"kz wheel {name} --line {line}"
                yield Question("wheel", name, line, verb, partial(_wheel, project, line, name, answers))
    for target in pins.targets:
        for line in pins.lines:
            if pins.can_build(line, target):
                verb = f"kz build --line {line} --target {target}"
                yield Question("build", target, line, verb, partial(_build, project, line, target, answers))
    defaults = [target for target in pins.targets if pins.can_build(pins.default, target)]
    if target := next((name for name in defaults if pins.target(name, pins.default)["container"]), ""):
        verb = f"kz build --engine docker --target {target}"
        yield Question("container", "engine docker", "", verb, partial(_container, project, pins.default, target))
    yield Question("device", "over adb", "", "kz device list", _devices)
    yield Question("device", "EMULATED", "", "kz device emulate", _emulated)
    if any(pins.target(target, pins.default)["package"] for target in defaults):
        yield Question("device", "in an app", "", "kz device check --in-app", _app)
    yield Question("sign", "release files", "", "kz build --sign KEYFILE", _sign)
    from kz_build.export.load import FOLDER

    for path in sorted((project.root / FOLDER).glob("*.yaml")):
        verb = f"kz export preflight {path.stem}"
        yield Question("export", path.stem, "", verb, partial(_export, project, path.stem))


def _refuse(gap: Missing) -> str:
    raise MissingError((gap,))


def _example(root: Path, answers: Answers) -> str:
    from kz_build.pins.load import load_project

    example = load_project(root)
    return _build(example, example.pins.default, example.pins.first_target, answers)


def _build(project: Project, line: str, target: str, answers: Answers) -> str:
    from kz_build.build.build import missing
    from kz_build.build.choose_engine import choose
    from kz_build.sources.request import resolve_target

    request = resolve_target(project, line, target)[2]
    engine = choose(project, line, target, "auto")
    if lacking := missing(project, target, request, here=engine.engine.name == "host", answers=answers):
        raise MissingError(lacking)
    return f"engine {engine.engine.name}"


def _wheel(project: Project, line: str, source: str, answers: Answers) -> str:
    from kz_build.sources.preflight import missing_sources
    from kz_build.sources.request import Request

    if lacking := missing_sources(project, Request(line, (source,)), answers):
        raise MissingError(lacking)
    return f"{source} {project.pins.line(line)[source]}"


def _container(project: Project, line: str, target: str) -> str:
    from kz_build.build.choose_engine import choose

    return f"{choose(project, line, target, 'docker').engine.name} engine, for {target} of {line}"


def _export(project: Project, recipe: str) -> str:
    from kz_build.export.plan import plan
    from kz_build.export.preflight import preflight

    ready = preflight(project, plan(project, recipe))
    if ready.failed:
        raise MissingError(ready.missing)
    return f"{len(ready.checks)} checks of the preflight"


def _devices() -> str:
    from kz_build.device import adb
    from kz_build.device.info import choose_serials

    server = adb.present()
    if server is None:
        raise MissingError((Missing("an adb server", "none runs here", "kz device list"),))
    choose_serials(server, (), every=True)
    attached = server.attached()
    if silent := [f"{one.serial} is {one.state}" for one in attached if one.state != "device"]:
        raise MissingError((Missing("a device that answers", ", ".join(silent), adb.GONE),))
    return ", ".join(f"{one.serial} {one.model}".strip() for one in attached)


def _emulated() -> str:
    from kz_build.emulator.device import EmulatedDevice

    with scratch_folder() as folder, EmulatedDevice("SM8750", folder, owner=Path.home()) as device:
        if lacking := device.missing_for_arm64():
            raise MissingError(lacking)
    return "it starts, and runs arm64 programs"


def _app() -> str:
    from kz_build.device.probe_app import tools

    programs = tools()
    if programs.missing:
        raise MissingError(programs.missing)
    return str(programs.d8)


def _sign() -> str:
    from kz_build.release.minisign import require_program
    from kz_build.release.write import signing_key

    require_program()
    if (key := signing_key("")) is None:
        make = "minisign -G -W -s KEYFILE -p KEYFILE.pub && export KZ_MINISIGN_KEY=KEYFILE"
        raise MissingError((Missing("a key", "KZ_MINISIGN_KEY is unset", make),))
    return str(key)

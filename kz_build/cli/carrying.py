"""Verbs that change a stack, and those that say where it stands."""

from __future__ import annotations

import argparse
from typing import Any

from kz_build.cli.common import changing, show, watching, within
from kz_build.cli.common import project as project_of
from kz_build.core.errors import ConfigError, ConflictError


def _stepped(arguments: argparse.Namespace, project: Any, verb: str) -> bool:
    """Do what --continue, --skip, --abort or --status ask for; whether one of them was given."""
    from kz_build.stack import rebase as stage
    from kz_build.stack import text as carrying

    if not arguments.step:
        return False
    line, source = arguments.line or "", arguments.source
    if arguments.step == "status":
        _standing(arguments, project, verb)
    elif arguments.step == "abort":
        dropped = stage.abort(project, verb, line, source)
        show(
            arguments, dropped, f"{verb} of {dropped.source} on {dropped.line} is thrown away; the project is as it was"
        )
    else:
        done = stage.resume(project, verb, line, source, skip=arguments.step == "skip")
        show(arguments, done, carrying.written_stack(done))
    return True


def _standing(arguments: argparse.Namespace, project: Any, verb: str) -> None:
    from kz_build.stack.session_folder import open_sessions
    from kz_build.stack.text import session_list

    found = [(o.session, o.folder) for o in open_sessions(project, verb)]
    show(arguments, found, session_list(found))


def rebase(arguments: argparse.Namespace) -> int:
    from kz_build.stack.rebase import rebase
    from kz_build.stack.text import written_stack

    with changing(arguments) as project, watching() as watch:
        if arguments.keep and arguments.step:
            raise ConfigError(f"kz rebase: --keep goes with --onto, not with --{arguments.step}")
        if _stepped(arguments, project, "rebase"):
            return 0
        if not arguments.onto:
            raise ConfigError("kz rebase: --onto REV is needed", hint="or --continue, --skip, --abort, --status")
        if arguments.engine == "docker":
            return _rebase_within(arguments, project)
        line = arguments.line or project.pins.default
        done = rebase(project, line, arguments.source, arguments.onto, arguments.into, arguments.keep, watch)
    show(arguments, done, written_stack(done))
    return 0


def _rebase_within(arguments: argparse.Namespace, project: Any) -> int:
    code = within(arguments, project, (arguments.line or project.pins.default,), onto=(arguments.onto,))
    if code == ConflictError.exit_code:
        raise ConflictError(
            "the rebase stopped inside; nothing of it is kept",
            hint="to resolve it, with the worktree here and this machine's git: the same command without --engine docker",
        )
    return code


def edit(arguments: argparse.Namespace) -> int:
    from kz_build.stack.edit import edit
    from kz_build.stack.rebase import abort
    from kz_build.stack.text import edit_result

    with changing(arguments) as project, watching() as watch:
        line = arguments.line or project.pins.default
        if arguments.abort:
            dropped = abort(project, "edit", line, arguments.source)
            show(arguments, dropped, f"the worktree of {dropped.source} on {dropped.line} is thrown away")
            return 0
        found = edit(project, line, arguments.source, watch)
    show(arguments, found, edit_result(found))
    return 0


def refresh(arguments: argparse.Namespace) -> int:
    from kz_build.stack.edit import refresh
    from kz_build.stack.text import written_stack

    with changing(arguments) as project:
        done = refresh(project, arguments.line or project.pins.default, arguments.source)
    show(arguments, done, written_stack(done))
    return 0


def import_pr(arguments: argparse.Namespace) -> int:
    from kz_build.stack.import_pr import import_pr
    from kz_build.stack.text import written_stack

    with changing(arguments) as project, watching() as watch:
        if _stepped(arguments, project, "import-pr"):
            return 0
        if not arguments.number:
            raise ConfigError("kz import-pr: N, the number of a pull request, is needed", hint="kz import-pr --help")
        line = arguments.line or project.pins.default
        done = import_pr(project, line, arguments.source, arguments.number, arguments.path, watch)
    show(arguments, done, written_stack(done))
    return 0


def upstream(arguments: argparse.Namespace) -> int:
    from kz_build.stack.submit import resume, submit_patch
    from kz_build.stack.text import ready

    with changing(arguments) as project, watching() as watch:
        line = arguments.line or ""
        if arguments.step == "continue":
            done = resume(project, line, arguments.source)
        elif _stepped(arguments, project, "upstream"):
            return 0
        elif not arguments.patch:
            raise ConfigError("kz upstream: PATCH is needed", hint="its file name, number or subject")
        else:
            own = line or project.pins.default
            done = submit_patch(project, own, arguments.source, arguments.patch, arguments.onto, watch)
    show(arguments, done, ready(done))
    return 0


def status(arguments: argparse.Namespace) -> int:
    from kz_build.stack.session_folder import open_sessions
    from kz_build.stack.text import session_list
    from kz_build.upstream.status import status
    from kz_build.upstream.text_status import text

    project = project_of(arguments)
    lines = project.pins.lines if arguments.all_lines else (arguments.line or project.pins.default,)
    sessions = [(o.session, o.folder) for o in open_sessions(project)]
    with watching() as watch:
        found = status(project, lines, fetch=arguments.fetch, watch=watch)
    said = [session_list(sessions)] if sessions else []
    show(arguments, {"sessions": sessions, "stacks": found}, "\n".join([*said, *(text(one) for one in found)]))
    return 0


def health(arguments: argparse.Namespace) -> int:
    import datetime

    from kz_build.core.files import write_atomic
    from kz_build.upstream.health import FILE, health
    from kz_build.upstream.text_health import markdown

    with changing(arguments) as project, watching() as watch:
        found = health(project, fetch=arguments.fetch, watch=watch)
        page = markdown(found, datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"))
        write_atomic(project.root / FILE, page.encode())
    show(arguments, found, f"{sum(len(h.verified.patches) for h in found)} patches of {len(found)} stacks: {FILE}")
    return 0


def nightly(arguments: argparse.Namespace) -> int:
    from kz_build.upstream.nightly import nightly
    from kz_build.upstream.text_health import issue
    from kz_build.upstream.text_history import text

    with watching() as watch:
        found = nightly(project_of(arguments), issue, watch)
    said = f"issue: {found.did}" + (f" {found.url}" if found.url else "")
    show(arguments, found, f"{text(found.history, {})}\n{said}")
    return 0

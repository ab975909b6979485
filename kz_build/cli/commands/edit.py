"""kz edit: turn a stack into commits in a worktree, to change them."""

from __future__ import annotations

import argparse

from kz_build.cli.common import WHOSE, line_option, locked_project, show, watching
from kz_build.core.errors import ConfigError

EXAMPLE = "executorch"


def options(parser: argparse.ArgumentParser) -> None:
    line_option(parser)
    what = f"{WHOSE}; after the word abort: delete the worktree, with what was not refreshed"
    parser.add_argument("named", metavar="SOURCE", nargs="*", help=what)


def run(arguments: argparse.Namespace) -> None:
    from kz_build.stack.edit import edit, meant_edit
    from kz_build.stack.rebase import abort, git_source
    from kz_build.stack.text import aborted, edit_result

    step, names = arguments.named[:1] == ["abort"], arguments.named
    names = names[1:] if step else names
    if len(names) > 1:
        raise ConfigError(f"kz edit: unrecognized arguments: {' '.join(names[1:])}", hint="kz edit --help")
    source = names[0] if names else ""
    with locked_project(arguments) as project, watching() as watch:
        if source == "status" and not step and "status" not in project.pins.data["sources"]:
            raise ConfigError("kz edit has no step status", hint="kz status shows the worktrees")
        if step:
            dropped = abort(project, "edit", *meant_edit(project, arguments.line or "", source))
            show(arguments, dropped, aborted(dropped))
            return
        line = arguments.line or project.pins.default
        result = edit(project, line, source or git_source(project, line, ""), watch)
    show(arguments, result, edit_result(result))

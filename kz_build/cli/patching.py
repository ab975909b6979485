"""Verbs about patches."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kz_build.cli.common import project as project_of
from kz_build.cli.common import show, watching, within


def verify(arguments: argparse.Namespace) -> int:
    from kz_build.core.env import append_to, variable
    from kz_build.core.errors import ConflictError
    from kz_build.upstream import text_verdicts
    from kz_build.upstream.verify import verify

    project = project_of(arguments)
    lines = project.pins.lines if arguments.all_lines else (arguments.line or project.pins.default,)
    if arguments.engine == "docker":
        tags = (
            []
            if arguments.tags is None
            else [t.name for f in verify(project, lines, (), arguments.tags) for t in f.targets]
        )
        return within(arguments, project, lines, onto=[*dict.fromkeys([*tags, *arguments.onto])])
    with watching() as watch:
        found = verify(project, lines, arguments.onto, arguments.tags, fetch=arguments.fetch, watch=watch)
    show(arguments, found, "\n".join(text_verdicts.table(f) for f in found) or "no stacks")
    if variable("GITHUB_ACTIONS") == "true":
        # GitHub reads them on either stream, and JSON must stay JSON.
        root = arguments.root.as_posix() if arguments.root != Path() and not arguments.root.is_absolute() else ""
        for row in (row for f in found for row in text_verdicts.workflow_commands(f, root)):
            print(row, file=sys.stderr if arguments.json else sys.stdout)
        append_to("GITHUB_STEP_SUMMARY", "\n".join(text_verdicts.markdown(f) for f in found))
    if not all(f.holds for f in found):
        raise ConflictError(
            text_verdicts.conclusion(found),
            hint="kz history says who broke them; kz rebase --onto REV carries them over",
        )
    return 0


def history(arguments: argparse.Namespace) -> int:
    from kz_build.upstream.history import history, why
    from kz_build.upstream.text_history import plain, text

    project = project_of(arguments)
    line = arguments.line or project.pins.default
    with watching() as watch:
        found = history(project, line, arguments.to, fetch=arguments.fetch, watch=watch)
        diffs = [why(project, one, watch) if arguments.why else {} for one in found]
    told = list(zip(found, diffs, strict=True))
    show(arguments, [plain(*one) for one in told], "\n".join(text(*one) for one in told))
    return 0


def radar(arguments: argparse.Namespace) -> int:
    from kz_build.upstream.radar import PullSelection, radar
    from kz_build.upstream.text_radar import plain, text

    project = project_of(arguments)
    wanted = PullSelection(tuple(arguments.pr), arguments.open, arguments.since, arguments.fetch)
    with watching() as watch:
        found = radar(project, arguments.line or project.pins.default, wanted, arguments.to, watch)
    show(arguments, [plain(one) for one in found], "\n".join(text(one) for one in found))
    return 0

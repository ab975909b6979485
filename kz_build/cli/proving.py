"""Verbs about what was built and what it was built from: builds again, papers, lines x targets, the store."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from kz_build.cli.chain import names_of
from kz_build.cli.common import log_folder, relative, show
from kz_build.cli.common import project as project_of

if TYPE_CHECKING:
    from kz_build.core.check import Check


def attest(arguments: argparse.Namespace) -> int:
    from kz_build.core.errors import AuditError
    from kz_build.core.terminal import checks
    from kz_build.release.verify import verify

    found = verify(arguments.folder, arguments.key)
    show(arguments, found, checks(found))
    failed = [c for c in found if c.failed]
    if failed:
        named = ", ".join(sorted({c.subject for c in failed} - {"-"})) or "the papers"
        raise AuditError(f"{arguments.folder} is not what its papers say: {named}", hint="do not ship it")
    return 0


def matrix(arguments: argparse.Namespace) -> int:
    from kz_build.core.json_text import text
    from kz_build.pins.matrix import matrix

    rows = matrix(project_of(arguments), arguments.line)
    if arguments.format == "github" and not arguments.json:
        import json

        print(json.dumps({"include": [{"line": r.line, "target": r.target} for r in rows]}, separators=(",", ":")))
    else:
        print(text(rows))
    return 0


def reproduce(arguments: argparse.Namespace) -> int:
    from dataclasses import replace

    from kz_build.build.build import require, with_stacks
    from kz_build.build.reproduce import Subject, reproduce
    from kz_build.build.text_reproduce import reproduced
    from kz_build.core.command_log import Commands
    from kz_build.core.errors import AuditError
    from kz_build.core.terminal import Live
    from kz_build.sources.fetch import fetch
    from kz_build.sources.prove import prove
    from kz_build.stack.apply import apply

    project = project_of(arguments)
    line, target, request = names_of(project, arguments)
    require(project, line, target, request)
    with Live() as live:
        request = replace(request, watch=live.event)
        sources = fetch(project, request)
        sources = with_stacks(sources, apply(project, line, live.event, request.names))
        prove(project, sources)
        subject = Subject(project, line, target, sources, arguments.soc, arguments.jobs or os.cpu_count() or 1)
        found = reproduce(subject, Commands(log_folder(project), live.note), live.event)
    show(arguments, {**vars(found), "same": found.same}, reproduced(found))
    if not found.same:
        count = len({d.file for d in found.differences}) or len(found.files)
        raise AuditError(
            f"{target} of {line} does not reproduce",
            hint=f"{count} files differ; both builds are in {relative(subject.folder)}",
        )
    return 0


def store(arguments: argparse.Namespace) -> int:
    from kz_build.core.locks import hold
    from kz_build.pins.load import load_project
    from kz_build.sources import store_admin as stage
    from kz_build.sources import text_store as view

    projects = [load_project(root) for root in (arguments.root, *arguments.project)]
    if arguments.action == "gc" and arguments.delete:
        removed = stage.collect(projects, arguments.older)
        show(arguments, removed, view.collected(removed, deleted=True))
        return 0
    hold(projects[0].store)
    if arguments.action == "gc":
        found = stage.unneeded(projects, arguments.older)
        show(arguments, found, view.collected(found, deleted=False))
    elif arguments.action == "list":
        listed = stage.entries(projects)
        show(arguments, listed, view.listing(listed))
    else:
        _verified(arguments, stage.verify(projects))
    return 0


def _verified(arguments: argparse.Namespace, found: tuple[Check, ...]) -> None:
    from kz_build.core.errors import LockError
    from kz_build.sources.text_store import verified

    show(arguments, found, verified(found))
    bad = [c.subject for c in found if c.failed]
    if bad:
        raise LockError(f"{len(bad)} of {len(found)} entries of the store are not what they say: {', '.join(bad)}")

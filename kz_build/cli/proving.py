"""Verbs that prove what was built."""

from __future__ import annotations

import argparse

from kz_build.cli.building import log_folder, names_of
from kz_build.cli.common import project as project_of
from kz_build.cli.common import relative, show


def reproduce(arguments: argparse.Namespace) -> int:
    from dataclasses import replace

    from kz_build.adapters.process import Commands
    from kz_build.model.errors import AuditError
    from kz_build.stages.apply import apply
    from kz_build.stages.build import require, with_stacks
    from kz_build.stages.fetch import fetch
    from kz_build.stages.reproduce import Subject, reproduce
    from kz_build.views.reproduce import reproduced
    from kz_build.views.terminal import Live

    project = project_of(arguments)
    line, target, request = names_of(project, arguments)
    require(project, line, target, request)
    with Live() as live:
        request = replace(request, progress=live.download)
        sources = fetch(project, request)
        sources = with_stacks(sources, apply(project, line, live.download, request.names))
        subject = Subject(project, line, target, sources, arguments.soc, arguments.jobs)
        found = reproduce(subject, Commands(log_folder(project), live.note), live.event)
    show(arguments, {**vars(found), "same": found.same}, reproduced(found))
    if not found.same:
        count = len({d.file for d in found.differences}) or len(found.files)
        raise AuditError(
            f"{target} of {line} does not reproduce",
            hint=f"{count} files differ; both builds are in {relative(subject.folder)}",
        )
    return 0

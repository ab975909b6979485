"""From pins to a checked library: the stages that `kz build` and `kz all` go through in the same order."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from typing import Any

from kz_build.cli.common import log_folder
from kz_build.sources.request import Request


def names_of(project: Any, arguments: argparse.Namespace) -> tuple[str, str, Request]:
    """(line, target, request for all its sources) of a command line."""
    line = arguments.line or project.pins.default
    target = arguments.target or project.pins.targets[0]
    project.pins.line(line)
    wanted = project.pins.target(target, line)
    unpinned = tuple(getattr(arguments, "allow_unpinned", ()))
    request = Request(line, tuple(wanted["sources"]), unpinned, tuple(wanted["omit"]))
    return line, target, request


class Chain:
    """One target on its way. Each method is a stage, and needs what the ones before it left here."""

    def __init__(self, project: Any, arguments: argparse.Namespace, live: Any, engine: str) -> None:
        from kz_build.build.choose_engine import choose
        from kz_build.core.command_log import Commands

        self.project, self.arguments, self.live = project, arguments, live
        self.line, self.target, request = names_of(project, arguments)
        self.request = replace(request, watch=live.event)
        self.chosen = choose(project, self.line, self.target, engine)
        if self.chosen.instead:
            live.note(f"engine host: {self.chosen.why}")
        self.commands = Commands(log_folder(project), live.note, arguments.timeout * 60)
        self.sources: Any = ()
        self.trees: Any = ()
        self.planned: Any = None
        self.built: Any = None
        self.checks: Any = ()
        self.papers: Any = None

    def require(self) -> None:
        """Raises MissingError with all that this machine lacks to build the target."""
        from kz_build.build.build import require

        require(self.project, self.line, self.target, self.request, here=self.chosen.engine.name == "host")

    def fetch(self) -> None:
        """Sources, proved equal to the lock."""
        from kz_build.sources.fetch import fetch

        self.sources = fetch(self.project, self.request)

    def apply(self) -> None:
        """The patched trees in the place of upstream's."""
        from kz_build.build.build import with_stacks
        from kz_build.stack.apply import apply

        self.trees = tuple(apply(self.project, self.line, self.live.event, self.request.names))
        self.sources = with_stacks(self.sources, self.trees)

    def plan(self) -> None:
        """What a build would do."""
        from kz_build.build.plan import plan

        jobs = self.arguments.jobs or self.chosen.cores or os.cpu_count() or 1
        engine = self.chosen.engine
        self.planned = plan(
            self.project, self.line, self.target, self.sources, soc=self.arguments.soc, jobs=jobs,
            ccache=engine.compile_cache(self.project.store), layout=engine.layout(),
        )  # fmt: skip

    def build(self) -> None:
        """The files of dist; nothing to do where they are there."""
        from kz_build.build import build as stage

        self.built = stage.done(self.planned)
        if self.built is None:
            from kz_build.sources.prove import prove

            prove(self.project, self.sources)
            facts = stage.sources_facts(self.sources, self.trees, self.project, self.chosen.overrides)
            facts["engine_why"] = self.chosen.why
            self.built = stage.build(self.planned, self.chosen.engine, self.commands, facts, self.live.event)

    def audit(self, sign: Any) -> None:
        """What was built, checked; papers beside it where all is well: what is not to be shipped gets none."""
        from kz_build.checks import built as audit
        from kz_build.release import write as papers

        self.checks = audit.audit(self.project, self.built, self.sources)
        if not self.failed:
            self.papers = papers.papers(self.project, self.built, self.sources, self.trees, self.arguments.soc, sign)

    @property
    def failed(self) -> list[Any]:
        """Checks of the audit that failed."""
        return [c for c in self.checks if c.failed]

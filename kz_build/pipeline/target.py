"""One target from its pins to checked libraries: the stages that `kz build` and `kz all` share."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kz_build.build import build as stage
from kz_build.build import farm
from kz_build.build.choose_engine import choose
from kz_build.build.farm_engine import FarmEngine
from kz_build.build.plan import plan
from kz_build.checks import audit
from kz_build.core.command_log import Commands, new_log_folder
from kz_build.core.errors import AuditError
from kz_build.core.progress import Watch, quiet
from kz_build.release.write import write_release_files
from kz_build.sources.fetch import fetch
from kz_build.sources.overrides import overrides
from kz_build.sources.request import Request, resolve_target
from kz_build.stack.apply import apply

if TYPE_CHECKING:
    from kz_build.build.build import Built
    from kz_build.build.steps import Plan
    from kz_build.core.check import Check
    from kz_build.pins.project import Project
    from kz_build.release.write import ReleaseFiles
    from kz_build.sources.fetched import Fetched, Tree


COMPARED = 16
"""How many objects of a distributed build are compiled again here, if the request does not say."""


@dataclass(frozen=True)
class TargetRequest:
    """What to build, and how. If `line` or `target` is '', pins.yaml says which. `jobs` of 0 is one per core, `timeout`
    the seconds that a command may take (0: no limit), `sign` a minisign key, `distrust` how many objects are compared with
    what the compiler makes of them without caches, `distributed` the address of a scheduler of sccache-dist."""

    line: str = ""
    target: str = ""
    engine: str = "auto"
    jobs: int = 0
    soc: str = ""
    timeout: float = 0
    allow_unpinned: Collection[str] = ()
    sign: Path | None = None
    distrust: int = 0
    distributed: str = ""


class TargetBuild:
    """The build of one target. Each method is a stage, and needs the results of those before it."""

    sources: tuple[Fetched, ...]
    trees: tuple[Tree, ...]
    planned: Plan
    built: Built
    checks: tuple[Check, ...]
    release_files: ReleaseFiles | None = None

    def __init__(
        self,
        project: Project,
        request: TargetRequest,
        watch: Watch = quiet,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.project, self.request, self.watch, self.note = project, request, watch, note
        self.line, self.target, wanted = resolve_target(project, request.line, request.target, request.allow_unpinned)
        self.wanted = replace(wanted, watch=watch)
        at = request.distributed
        self.farm = farm.farm_of(project, self.line, at, request.engine) if at else None
        self.chosen = choose(project, self.line, self.target, "host" if self.farm else request.engine)
        if self.chosen.instead:
            note(f"engine host: {self.chosen.why}")
        self.commands = Commands(new_log_folder(project.out("log")), note, request.timeout)

    def run(self, begin: Callable[[str], None] = lambda stage: None) -> None:
        """Run all stages in order; `begin` gets the name of each. A failed check raises nothing: see `failed`."""
        for each in (self.require, self.fetch, self.apply, self.plan, self.build, self.audit):
            begin(each.__name__)
            each()

    def require(self) -> None:
        """Raise MissingError with everything that this machine lacks to build the target."""
        stage.require(self.project, self.target, self.wanted, here=self.chosen.engine.name == "host")

    def fetch(self) -> None:
        """Fetch the sources, verified against the lock."""
        self.sources = fetch(self.project, self.wanted)
        if self.farm:
            self.chosen = farm.join(self.project, self.line, self.farm, self.watch, self.note) or self.chosen

    def apply(self) -> None:
        """Replace upstream's trees by the patched ones."""
        self.trees = tuple(apply(self.project, self.line, self.watch, self.wanted.names))
        self.sources = stage.with_stacks(self.sources, self.trees)

    def plan(self, script: bool = False) -> None:
        """Plan the steps, for engine host with the real paths of this machine if they are for a script."""
        engine = self.chosen.engine
        self.planned = plan(
            self.project, self.line, self.target, self.sources,
            soc=self.request.soc, jobs=self.request.jobs or self.chosen.cores or os.cpu_count() or 1,
            ccache=engine.compile_cache(self.project.store), layout=None if script else engine.layout(self.project.store),
        )  # fmt: skip

    def build(self) -> None:
        """Build the files of dist, unless they are up to date."""
        if existing := stage.existing_build(self.planned, self.request.distrust):
            self.built = existing
            return
        from kz_build.sources.prove import prove

        prove(self.project, self.sources)
        own = (*overrides(self.project, self.line, self.target), *self.chosen.overrides)
        facts = stage.sources_facts(self.project, self.line, self.sources, self.trees, own)
        facts["engine_why"] = self.chosen.why
        engine = self.chosen.engine
        if isinstance(engine, FarmEngine):
            self._build_distributed(engine, facts)
            return
        if engine.unmapped and engine.compile_cache(self.project.store):
            self.note(f"the compile cache hits only in this folder: {engine.unmapped}")
        compare = self.request.distrust
        self.built = stage.build(self.planned, engine, self.commands, facts, self.watch, compare=compare)

    def _build_distributed(self, engine: FarmEngine, facts: Mapping[str, object]) -> None:
        """Build with a farm; without it, from the beginning, if a compared object differs."""
        compare = self.request.distrust or COMPARED
        try:
            self.built = stage.build(self.planned, engine, self.commands, facts, self.watch, compare=compare)
        except AuditError as error:
            engine.leave(str(error))
            self.chosen = self.chosen._replace(cores=0)
            self.plan()
            self.built = stage.build(self.planned, engine, self.commands, facts, self.watch)

    def audit(self) -> None:
        """Check what was built; write release files beside it only if every check passes."""
        self.checks = audit.audit(self.project, self.line, self.target, self.built.record, self.sources)
        if not any(check.failed for check in self.checks):
            self.release_files = write_release_files(
                self.project, self.built, self.sources, self.trees, self.request.soc, self.request.sign
            )


def audit_again(project: Project, line: str, target: str, watch: Watch) -> tuple[Check, ...]:
    """Check the files of the last build again. Raises LockError if they are missing or have changed."""
    record = audit.last_build(project, line, target)
    sources: tuple[Fetched, ...] = ()
    if java := project.pins.target(target, line)["audit"]["java"]:
        name = java["source"]
        paths = {name: stage.java_paths(project, line, java, watch)}
        sources = fetch(project, Request(line, (name,), paths=paths, watch=watch))
        sources = stage.with_stacks(sources, apply(project, line, watch, (name,)))
    return audit.audit(project, line, target, record, sources, again=True)

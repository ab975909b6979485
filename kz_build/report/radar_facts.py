"""The open pull requests that would break a patch, as `kz radar --open` recorded them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kz_build.core.stage_record import load_any
from kz_build.pins.project import Project
from kz_build.report.facts import PullFacts, RadarFacts
from kz_build.report.stack_facts import cell_of
from kz_build.stack.files import stack_sources
from kz_build.stack.verdict_cache import judgement_of
from kz_build.upstream.radar_record import STAGE


def radar_facts(project: Project, line: str) -> list[RadarFacts]:
    """Return what was recorded of each stack of a line, newest pull request first."""
    records = [load_any(project.record(STAGE, line, source)) for source in stack_sources(project, line)]
    return [_radar(record.plain()) for record in records if record]


def _radar(plain: Mapping[str, Any]) -> RadarFacts:
    line, source, asked, to, commit, date = (
        str(plain[name]) for name in ("line", "source", "asked", "to", "commit", "date")
    )
    pulls = tuple(pull for one in plain["pulls"] for pull in _pull(one))
    return RadarFacts(line, source, asked, to, commit, date, int(plain["heads"]), pulls)


def _pull(plain: Mapping[str, Any]) -> list[PullFacts]:
    """Return one fact for each patch that a pull request would break."""
    number, title, conflicts = int(plain["pull"]), str(plain["title"]), bool(plain["conflicts"])
    return [
        PullFacts(
            number, title, conflicts, str(one["patch"]), cell_of(judgement_of(one["before"])), cell_of(judgement_of(one["after"]))
        )
        for one in plain["patches"]
    ]  # fmt: skip

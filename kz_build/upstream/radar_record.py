"""The record of `kz radar --open`: what the open pull requests would do to a stack, and when GitHub was asked for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kz_build.core import plain_json
from kz_build.core.stage_record import StageRecord
from kz_build.pins.pins import digest_of
from kz_build.pins.project import Project
from kz_build.upstream import text_radar

if TYPE_CHECKING:
    from kz_build.upstream.radar import Radar

STAGE = "radar"


def save(project: Project, radar: Radar, asked: str) -> None:
    """Write out/radar/<line>/<source>/manifest.json. `asked` is when; the key is of the answer alone."""
    facts = plain_json.plain(text_radar.plain(radar))
    path = project.record(STAGE, radar.line, radar.source)
    StageRecord(path, digest_of(facts), facts={**facts, "asked": asked}).save()

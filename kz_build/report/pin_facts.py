"""The pins of a line: how old each is, the newest release that the store knows, and what its digest rests on."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from kz_build.core.errors import LockError
from kz_build.git import refs
from kz_build.git import repository as git
from kz_build.pins.project import Project
from kz_build.report.facts import BuildFacts, PinFacts
from kz_build.sources.archive import opened_zip
from kz_build.sources.store import stored_file

_AGREED = (2016, 1, 1, 0, 0, 0)
_ORIGINS = {
    "published": "published in {} places",
    "index": "from its package index",
    "computed": "computed by kz lock",
}


def pin_facts(project: Project, line: str, builds: Sequence[BuildFacts]) -> list[PinFacts]:
    """Return a row for each pin of a line. Licences are those of its builds' bills of materials."""
    licences: dict[str, tuple[str, ...]] = {}
    for build in builds:
        licences |= build.licences
    return [_pin(project, line, source, licences.get(source, ())) for source in project.pins.line(line)]


def _pin(project: Project, line: str, source: str, licences: tuple[str, ...]) -> PinFacts:
    kind = project.pins.source(source).kind
    entry = project.lock.entry(line, source) or {}
    if kind == "git":
        date, newest, newest_date = _in_git(project, source, str(entry.get("commit") or ""))
    else:
        date, newest, newest_date = _made(stored_file(project.store, str(entry.get("sha256") or "none"))), "", ""
    return PinFacts(
        lines=(line,),
        source=source,
        kind=kind,
        version=project.pins.line(line)[source],
        date=date,
        newest=newest,
        newest_date=newest_date,
        origin=_origin(source, kind, entry),
        single=entry.get("sources") == 1,
        licences=licences,
    )


def _origin(source: str, kind: str, entry: Mapping[str, object]) -> str:
    if not entry:
        return "not locked: kz lock --write"
    if kind == "git":
        return "its commit"
    if not (entry.get("sha256") or entry.get("digest")):
        return "no digest yet: kz lock --write" + (f" --trust {source}" if kind != "image" else "")
    if entry.get("sources") == 1:
        return "published in one place"
    return _ORIGINS.get(str(entry.get("origin")), "computed by kz lock").format(entry.get("sources", 0))


def together(pins: Sequence[PinFacts]) -> tuple[PinFacts, ...]:
    """Return a row for lines that have the same pin, by source."""
    rows: dict[PinFacts, list[str]] = {}
    for pin in pins:
        rows.setdefault(pin._replace(lines=()), []).extend(pin.lines)
    merged = [row._replace(lines=tuple(lines)) for row, lines in rows.items()]
    return tuple(sorted(merged, key=lambda row: (row.source, row.lines)))


def _in_git(project: Project, source: str, commit: str) -> tuple[str, str, str]:
    """Return the date of the pin's commit, the newest release in the clone, and its date."""
    url = project.git_url(project.pins.source(source))
    repository = git.Repository(git.repository_path(project.store, source, url), None, url)
    if not commit or not repository.exists():
        return "", "", ""
    newest = (*_by_version(refs.releases(repository)),)[-1:]
    with repository.objects() as objects:
        pinned, *tagged = objects.commits([commit, *newest])
    return (pinned or ("", ""))[1], newest[0] if newest else "", (tagged[0] or ("", ""))[1] if tagged else ""


def _made(path: Path) -> str:
    """Return the date of the newest member of a wheel or zip in the store: the day it was built. '' if it is not there, is no zip,
    or was built with an agreed date, as reproducible builds are (1980, and 2016 by flit and poetry)."""
    try:
        with opened_zip(path) as archive:
            newest = max((member.date_time for member in archive.infolist()), default=_AGREED)
        return "" if newest[:3] <= _AGREED[:3] else datetime.date(*newest[:3]).isoformat()
    except (OSError, LockError, ValueError):  # a zip has room for a month 15
        return ""


def _by_version(names: Iterable[str]) -> list[str]:
    """Return the names that begin as a version does; git has put them in order."""
    return [name for name in names if name.lstrip("v")[:1].isdigit()]


def age(date: str, at: str) -> int | None:
    """Return the days from one date (YYYY-MM-DD) to another, None if one is unknown."""
    if not date or not at:
        return None
    return (datetime.date.fromisoformat(at) - datetime.date.fromisoformat(date)).days

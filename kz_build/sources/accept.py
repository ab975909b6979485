"""accept: the licence of a source, which each user reads and accepts before kz uses that source."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from kz_build.core.errors import ConfigError, LockError, Missing, MissingError
from kz_build.core.progress import Watch, quiet
from kz_build.pins.pins import Source
from kz_build.pins.project import Project
from kz_build.sources import licence as licences
from kz_build.sources.licence import record_file
from kz_build.sources.licence_types import Acceptance, Licence, PinnedLicence
from kz_build.sources.request import Request, file_entry


def licence(project: Project, line: str, name: str, watch: Watch = quiet) -> Licence:
    """Return the licence of a source, from its wheel, which is fetched first: the licence is nowhere else.

    Raises ConfigError for a source without one to accept.
    """
    from kz_build.sources.download import fetched_file

    source = project.pins.source(name)
    if not source.options.get("licence"):
        names = ", ".join(n for n in project.pins.data["sources"] if project.pins.source(n).options.get("licence"))
        raise ConfigError(
            f"{name} has no licence that must be accepted", hint=f"sources that have one: {names or 'none'}"
        )
    line = line or _line_of(project, name)
    place = fetched_file(project, line, source, watch)
    member = source.options["licence"]
    digest = licences.digest(place, member)
    entry = file_entry(project, line, source)
    version = project.pins.line(line)[name]
    wheel = str(entry["file"]) if entry else f"{source.location} {version}"
    if entry and entry.get("licence") and entry["licence"] != digest:
        raise LockError(
            f"{member} of {wheel} has sha256 {digest}, pins.lock says {entry['licence']}",
            hint=f"the lock was edited by hand: kz lock --write --line {line} --trust {name}",
        )
    accepted = [one for one in licences.accepted() if one.sha256 == digest]
    accepted.sort(key=lambda one: (one.source, one.version) == (name, version))
    return Licence(name, line, version, wheel, place, member, digest, accepted[-1] if accepted else None)


def text(licence: Licence) -> str:
    return licences.text(licences.member(licence.place, licence.file))


def _line_of(project: Project, name: str) -> str:
    """Return the default line if it has the source, else the first that has it."""
    having = [line for line in (project.pins.default, *project.pins.lines) if name in project.pins.line(line)]
    if not having:
        raise ConfigError(f"no line has {name}", hint="add it under `lines` in pins.yaml")
    return having[0]


def accept(licence: Licence, how: str) -> Licence:
    """Record that the user accepts exactly these bytes."""
    acceptance = Acceptance(
        licence.sha256, licence.source, licence.version, licence.file, time.strftime("%Y-%m-%d"), how
    )
    licences.record(acceptance)
    return replace(licence, accepted=acceptance)


def pinned_licences(project: Project) -> tuple[tuple[PinnedLicence, ...], Path]:
    """Return every pinned source with a licence that users accept, and the file that records what this user accepted."""
    accepted = licences.accepted()
    pinned = []
    for line in project.pins.lines:
        for name, version in project.pins.line(line).items():
            source = project.pins.source(name)
            if source.options.get("licence"):
                pinned.append(PinnedLicence(line, name, version, _acceptance(project, line, source, accepted)))
    return tuple(pinned), record_file()


def not_accepted(project: Project, request: Request) -> tuple[Missing, ...]:
    """Return the licences of the named sources that this user has not accepted; nothing is downloaded for that."""
    wanted = [s for name in request.names if (s := project.pins.source(name)).options.get("licence")]
    accepted = licences.accepted() if wanted else ()
    return tuple(
        _missing(s.name, accepted)
        for s in wanted
        if not _unlocked(project, request.line, s) and not _acceptance(project, request.line, s, accepted)
    )


def _unlocked(project: Project, line: str, source: Source) -> bool:
    """Return whether the lock does not know the licence yet: then the lock is the problem to report."""
    entry = file_entry(project, line, source)
    return entry is not None and not entry.get("licence")


def _acceptance(project: Project, line: str, source: Source, accepted: tuple[Acceptance, ...]) -> Acceptance | None:
    """Return a user's acceptance of a source's licence: of exactly its bytes, or of its version if no lock has them."""
    entry, version = file_entry(project, line, source), project.pins.line(line)[source.name]
    if entry is None:
        holds = [one for one in accepted if (one.source, one.version) == (source.name, version)]
    else:
        holds = [one for one in accepted if one.sha256 == entry.get("licence")]
    return holds[-1] if holds else None


def _missing(name: str, accepted: tuple[Acceptance, ...]) -> Missing:
    former = next((one for one in reversed(accepted) if one.source == name), None)
    why = "each user reads and accepts it once"
    if former:
        why = f"you accepted that of {former.version} on {former.date}; this one may differ"
    return Missing(f"your acceptance of the licence of {name}", why, f"kz accept {name}")


def require_accepted(source: Source, wheel: Path) -> None:
    """Raise MissingError unless this user accepted the licence that the wheel really contains."""
    digest, accepted = licences.digest(wheel, source.options["licence"]), licences.accepted()
    if not any(one.sha256 == digest for one in accepted):
        raise MissingError((_missing(source.name, accepted),))

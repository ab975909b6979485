"""accept: the licence of a source, which each user reads and accepts for himself before kz uses that source."""

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
from kz_build.sources.licence_types import Accepted, Licence, Pinned
from kz_build.sources.request import Request, file_entry


def licence(project: Project, line: str, name: str, watch: Watch = quiet) -> Licence:
    """The licence of a source, read from its wheel, which is brought first: it lies nowhere else.

    Raises ConfigError for a source that has none to accept.
    """
    from kz_build.sources.fetch import stored

    source = project.pins.source(name)
    if not source.options.get("licence"):
        having = ", ".join(n for n in project.pins.data["sources"] if project.pins.source(n).options.get("licence"))
        raise ConfigError(
            f"{name} has no licence that one has to accept", hint=f"sources that have one: {having or 'none'}"
        )
    line = line or _line_of(project, name)
    place = stored(project, line, source, watch)
    member = source.options["licence"]
    found = licences.digest(place, member)
    entry = file_entry(project, line, source)
    version = project.pins.line(line)[name]
    wheel = str(entry["file"]) if entry else f"{source.location} {version}"
    if entry and entry.get("licence") and entry["licence"] != found:
        raise LockError(
            f"{member} of {wheel} has sha256 {found}, pins.lock says {entry['licence']}",
            hint=f"the lock was edited by hand: kz lock --write --line {line} --trust {name}",
        )
    said = [one for one in licences.accepted() if one.sha256 == found]
    said.sort(key=lambda one: (one.source, one.version) == (name, version))
    return Licence(name, line, version, wheel, place, member, found, said[-1] if said else None)


def text(found: Licence) -> str:
    """What a licence says."""
    return licences.text(licences.member(found.place, found.file))


def _line_of(project: Project, name: str) -> str:
    """The default line where that has the source, else the first that has it."""
    having = [line for line in (project.pins.default, *project.pins.lines) if name in project.pins.line(line)]
    if not having:
        raise ConfigError(f"no line has {name}", hint="add it under `lines` in pins.yaml")
    return having[0]


def accept(found: Licence, how: str) -> Licence:
    """Write down that the user accepts these very bytes."""
    said = Accepted(found.sha256, found.source, found.version, found.file, time.strftime("%Y-%m-%d"), how)
    licences.record(said)
    return replace(found, accepted=said)


def every(project: Project) -> tuple[tuple[Pinned, ...], Path]:
    """Every pinned source with a licence that users accept, and the file of what this one accepted."""
    said = licences.accepted()
    found = []
    for line in project.pins.lines:
        for name, version in project.pins.line(line).items():
            source = project.pins.source(name)
            if source.options.get("licence"):
                found.append(Pinned(line, name, version, _word(project, line, source, said)))
    return tuple(found), record_file()


def not_accepted(project: Project, request: Request) -> tuple[Missing, ...]:
    """Licences of the named sources that this user has not accepted; nothing is downloaded to find out."""
    wanted = [s for name in request.names if (s := project.pins.source(name)).options.get("licence")]
    said = licences.accepted() if wanted else ()
    return tuple(
        _missing(s.name, said)
        for s in wanted
        if not _unlocked(project, request.line, s) and not _word(project, request.line, s, said)
    )


def _unlocked(project: Project, line: str, source: Source) -> bool:
    """Whether the lock does not know the licence yet, which is then what stops."""
    entry = file_entry(project, line, source)
    return entry is not None and not entry.get("licence")


def _word(project: Project, line: str, source: Source, said: tuple[Accepted, ...]) -> Accepted | None:
    """What a user said of a source's licence: of the very bytes; of the version, where no lock holds it."""
    entry, version = file_entry(project, line, source), project.pins.line(line)[source.name]
    if entry is None:
        holds = [one for one in said if (one.source, one.version) == (source.name, version)]
    else:
        holds = [one for one in said if one.sha256 == entry.get("licence")]
    return holds[-1] if holds else None


def _missing(name: str, said: tuple[Accepted, ...]) -> Missing:
    former = next((one for one in reversed(said) if one.source == name), None)
    why = "each user reads and accepts it for himself, once"
    if former:
        why = f"you accepted that of {former.version} on {former.date}; this one may say something else"
    return Missing(f"your word on the licence of {name}", why, f"kz accept {name}")


def proved(source: Source, wheel: Path) -> None:
    """Raise MissingError unless the licence that really lies in a wheel is one that this user accepted."""
    digest, said = licences.digest(wheel, source.options["licence"]), licences.accepted()
    if not any(one.sha256 == digest for one in said):
        raise MissingError((_missing(source.name, said),))

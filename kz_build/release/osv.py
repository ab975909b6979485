"""Known vulnerabilities of what went into a release, by a file of the OSV database: https://ossf.github.io/osv-schema/. Asks no server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kz_build.core import plain_json
from kz_build.core.check import Check, Status
from kz_build.core.errors import AuditError, ConfigError
from kz_build.formats import zip as zips

MOST_FILE, MOST_RECORD = 256 << 20, 16 << 20
"""Bytes of a JSON file, and of one record in a zip, at most."""
_TYPES = {"pypi": "PyPI", "maven": "Maven"}
"""Kinds of package URL that kz writes, and what OSV calls their ecosystems."""


@dataclass(frozen=True)
class Part:
    """A component of an SBOM. `bill` is the serial number of the SBOM, `package` (ecosystem, name) in OSV's words, `repository` the
    address of its git repository without scheme; '' for what it has not. `tool`: it is in no artifact."""

    ref: str
    bill: str
    version: str
    package: tuple[str, str]
    repository: str
    commit: str
    tool: bool


@dataclass(frozen=True)
class Finding:
    """A vulnerability of a component. If not `certain`, only the history of its repository can tell."""

    part: Part
    id: str
    aliases: tuple[str, ...]
    summary: str
    certain: bool
    why: str


def parts(bill: Any) -> tuple[Part, ...]:
    """Return the components of an SBOM as kz writes it. Raises AuditError for another."""
    try:
        return tuple(_part(bill, component) for component in bill["components"])
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise AuditError(f"the SBOM is not as kz writes it: {type(error).__name__} {error}") from error


def _part(bill: Any, component: Any) -> Part:
    from packageurl import PackageURL

    purl = PackageURL.from_string(component["purl"])
    name = f"{purl.namespace}:{purl.name}" if purl.type == "maven" else purl.name
    revisions = [swhid.rpartition(":")[2] for swhid in component.get("swhid", ()) if ":rev:" in swhid]
    qualifiers = purl.qualifiers if isinstance(purl.qualifiers, dict) else {}
    vcs = f"github.com/{purl.namespace}/{purl.name}" if purl.type == "github" else qualifiers.get("vcs_url", "")
    return Part(
        _whole(component["bom-ref"]), _whole(bill["serialNumber"]), str(component["version"]),
        (_TYPES.get(purl.type, ""), _package_name(name)), _repository(vcs.rpartition("@")[0] if "://" in vcs else vcs),
        revisions[0] if revisions else "", component.get("scope") == "excluded",
    )  # fmt: skip


def _whole(value: Any) -> str:
    """Return a name. Raises ValueError for half a character, which JSON can have and no file."""
    return str(value).encode().decode()


def _package_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower() if ":" not in name else name


def _repository(address: str) -> str:
    return re.sub(r"^(git\+)?\w+://", "", address).removesuffix("/").removesuffix(".git").lower()


def records(path: Path) -> Iterator[Any]:
    """Yield the records of a file: one, a list, a server's answer (`vulns`), or a zip of records as OSV publishes them."""
    try:
        with path.open("rb") as file:
            if file.read(4) == b"PK\x03\x04":
                file.seek(0)
                with zips.opened(str(path), file) as archive:
                    entries = [entry for entry in archive.entries if entry.name.endswith(".json")]
                    if not entries:
                        raise ValueError("no file in it ends in .json")
                    for entry in entries:
                        yield json.loads(archive.read(entry, MOST_RECORD))
                return
        whole = plain_json.read(path, MOST_FILE)
        yield from whole if isinstance(whole, list) else whole.get("vulns", [whole] if whole else ())
    except (OSError, ValueError, AttributeError, TypeError, RecursionError, AuditError) as error:
        raise ConfigError(f"{path} is no file of OSV: {error}", hint="JSON of OSV's schema, or a zip of it") from error


def findings(named: tuple[Part, ...], record: Any) -> Iterator[Finding]:
    """Yield which of these components a record is about."""
    name = _whole(record["id"])
    if record.get("withdrawn"):
        return
    for part in named:
        answers = [answer for one in record.get("affected", ()) if (answer := _affected(one, part))]
        if answers:
            certain, why = max(answers)
            summary = str(record.get("summary") or record.get("details") or "").strip().splitlines()
            aliases = tuple(map(str, record.get("aliases", ())))
            yield Finding(part, name, aliases, summary[0][:200] if summary else "", certain, why)


def _affected(affected: Mapping[str, Any], part: Part) -> tuple[bool, str] | None:
    """Return (certain, why) if a record's package is this component in a version that is affected, or that may be; else None."""
    package = affected.get("package") or {}
    ecosystem = str(package.get("ecosystem", "")).partition(":")[0]
    same = bool(part.package[0]) and (ecosystem, _package_name(str(package.get("name", "")))) == part.package
    ranges = [
        r for r in affected.get("ranges", ()) if same or _repository(str(r.get("repo", ""))) == part.repository != ""
    ]
    if not same and not ranges:
        return None
    public = part.version.partition("+")[0]  # 2.5.1+cpu is a build of 2.5.1
    if {part.version, public} & {*affected.get("versions", ())}:
        return True, f"{part.version} is listed"
    answers = [
        _in_history(r["events"], part.commit) if r["type"] == "GIT" else _in_range(r["events"], public)
        for r in ranges
        if r["type"] != "GIT" or part.commit
    ]
    if True in answers:
        return True, f"{part.version} is in an affected range{_fixed(ranges)}"
    # A list of versions is complete where they are a package's; commits are in none.
    if None in answers or not (answers or affected.get("versions")):
        what = (
            f"be in an affected range{_fixed(ranges)}: its history tells"
            if ranges
            else "be affected: no version is named"
        )
        return False, f"{part.commit or part.version} may {what}"
    return None


def _fixed(ranges: list[Any]) -> str:
    fixed = [str(event["fixed"])[:40] for r in ranges for event in r["events"] if "fixed" in event]
    return f", fixed in {', '.join(dict.fromkeys(fixed))}" if fixed else ", not fixed"


def _in_history(events: list[Any], commit: str) -> bool | None:
    """Return whether a commit is in a range of commits, None if only the repository can tell."""
    named = [(kind, value) for event in events for kind, value in event.items()]
    if ("introduced", commit) in named or ("last_affected", commit) in named:
        return True
    if ("fixed", commit) in named or ("limit", commit) in named:
        return False
    return True if named == [("introduced", "0")] else None


def _in_range(events: list[Any], version: str) -> bool | None:
    """Return whether a version is in a range of versions, None if one of them cannot be compared."""
    from packaging.version import InvalidVersion, Version

    try:
        own = Version(version)
        steps = sorted(
            (Version("0.dev0" if value == "0" else str(value)), kind) for one in events for kind, value in one.items()
        )
    except InvalidVersion:
        return None
    inside = False
    for at, kind in steps:
        if kind == "introduced" and own >= at:
            inside = True
        elif (kind in ("fixed", "limit") and own >= at) or (kind == "last_affected" and own > at):
            inside = False
    return inside


def ask(named: tuple[Part, ...], path: Path) -> tuple[tuple[Finding, ...], int]:
    """Return what a file of OSV knows of components, and how many records it has. Raises ConfigError."""
    results: list[Finding] = []
    count = 0
    for record in records(path):
        count += 1
        try:
            results += findings(named, record)
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            name = record.get("id") if isinstance(record, dict) else None
            raise ConfigError(f"{path}: record {name or count} is not of OSV's schema: {error!r}") from error
    return tuple(sorted(results, key=lambda one: (one.part.ref, one.id))), count


def checks(found: tuple[Finding, ...], named: tuple[Part, ...], count: int) -> Iterator[Check]:
    """Yield a failure for each vulnerability of what is shipped, a warning for a tool's or where only history tells."""
    for one in found:
        status = Status.FAIL if one.certain and not one.part.tool else Status.WARN
        more = f" ({', '.join(one.aliases)})" if one.aliases else ""
        tool = "; it is a tool, in no artifact" if one.part.tool else ""
        yield Check(one.part.ref, "osv", status, f"{one.id}{more}: {one.summary}; {one.why}{tool}", True)
    if not found:
        yield Check("-", "osv", Status.PASS, f"{count:,} records, none is about these {len(named)} components", True)

"""What a patch does to each of its files today: which of upstream's files it is about, and the ways to make each edit."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kz_build.resolve.option import Option, Rule
from kz_build.resolve.placement import options
from kz_build.resolve.three_versions import ThreeVersions

Files = Mapping[str, bytes]
"""Contents by path; a path that is not in it is no file."""

CONFLICTS = 100
"""A patch with more edits than this that do not merge has no candidate."""
COMPARED = 40
"""How many files are compared with one that is gone."""
ALIKE = 0.5


@dataclass(frozen=True)
class FilePlan:
    """One of upstream's files, to be written as `path`.

    `facts` are what is known of the file as a whole. `slots` has, for each edit of the patch, the ways to make it in the lines
    `ours`; without edits the file becomes `whole`, None if it goes away.
    """

    path: str
    facts: tuple[Option, ...] = ()
    ours: tuple[bytes, ...] = ()
    slots: tuple[tuple[Option, ...], ...] = ()
    whole: bytes | None = None
    leaves: str = ""
    """The path that is gone afterwards, '' for none."""


def plans(base: Files, ours: Files, theirs: Files) -> list[FilePlan]:
    """Return what to do to each file; nothing where that is hopeless."""
    renames = _renames(base, theirs)
    made = []
    conflicts = 0
    for path in sorted({*base, *theirs} - set(renames.values())):
        after_path = renames.get(path, path)
        before, after = base.get(path), theirs.get(after_path)
        if before == after and path == after_path:
            continue
        plan = _plan(path, after_path, before, after, ours, base)
        if plan is None:
            return []
        conflicts += sum(1 for slot in plan.slots if slot[0].rule is not Rule.MERGED)
        if conflicts > CONFLICTS:
            return []
        made.append(plan)
    return made


def _plan(
    path: str, after_path: str, before: bytes | None, after: bytes | None, ours: Files, base: Files
) -> FilePlan | None:
    there = ours.get(path)
    if before is None:
        facts = () if there is None or there == after else (_fact(Rule.ADDED_TWICE, 1.0),)
        return FilePlan(path, facts, whole=after)
    facts = ()
    now = path
    if there is None:
        now = most_alike(path, before, {name: ours[name] for name in ours if name not in base})
        if not now:
            # A file that both sides delete is no loss.
            return FilePlan(path, () if after is None else (_fact(Rule.FILE_GONE, 2.0),), leaves=path)
        facts = (_fact(Rule.RENAMED, 6.0),)
        there = ours[now]
    if after is None:
        return FilePlan(now, facts if there == before else (*facts, _fact(Rule.DELETED, 6.0)), leaves=now)
    to = after_path if after_path != path else now
    leaves = now if to != now else ""
    if there == before:
        return FilePlan(to, facts, whole=after, leaves=leaves)
    if b"\0" in before + there + after:
        return None
    versions = ThreeVersions.of(before, there, after)
    slots = []
    for edit in versions.edits:
        slots.append(options(versions, edit))
        if sum(1 for slot in slots if slot[0].rule is not Rule.MERGED) > CONFLICTS:
            return None
    return FilePlan(to, facts, tuple(versions.ours), tuple(slots), leaves=leaves)


def _fact(rule: Rule, score: float) -> Option:
    return Option(0, 0, (), rule, score)


def _renames(base: Files, theirs: Files) -> dict[str, str]:
    """Return the files that the patch renames, by their old path."""
    added = {path: theirs[path] for path in theirs if path not in base}
    renames = {}
    for path in sorted(path for path in base if path not in theirs)[:COMPARED]:
        if to := most_alike(path, base[path], added):
            renames[path] = to
            del added[to]
    return renames


def most_alike(path: str, data: bytes, others: Files) -> str:
    """Return which of other files is a file under a new name, '' for none: half of their lines are the same, or a few of its name."""
    name = path.rpartition("/")[2]
    lines = _telling(data.splitlines())
    best = (ALIKE, "")
    for other in sorted(others, key=lambda one: (one.rpartition("/")[2] != name, one))[:COMPARED]:
        theirs = _telling(others[other].splitlines())
        alike = 2 * len(lines & theirs) / max(len(lines) + len(theirs), 1)
        best = max(best, (alike + 0.3 * (other.rpartition("/")[2] == name), other))
    return best[1]


def _telling(lines: Collection[bytes]) -> set[bytes]:
    return {line.strip() for line in lines if len(line) > 8}

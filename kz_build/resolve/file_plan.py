"""What a patch does to each of its files today: which of upstream's files it is about, and the ways to make each edit."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import nlargest

from kz_build.patch.change import split_lines
from kz_build.patch.line_map import Edit
from kz_build.resolve.option import Option, Rule
from kz_build.resolve.placement import options
from kz_build.resolve.syntax import allowed, faults, names
from kz_build.resolve.three_versions import ThreeVersions, key

Files = Mapping[str, bytes]
"""Contents by path; a path that is not in it is no file."""

CONFLICTS = 100
"""A patch with more edits than this that do not merge has no candidate."""
COMPARED = 40
"""How many files are compared with one that is gone."""
ALIKE = 0.5
MOST_SEARCHED = 1 << 20
"""How many bytes of upstream's other files are searched for code that it moved."""
FAR = 3.0
"""An edit with no way of at least this score is searched for in upstream's other files."""


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
    before: bytes = b""
    after: bytes = b""
    """The file of the patch before and after it."""

    def judged(self, result: bytes) -> bool:
        """Whether a result parses as well as what it was made from."""
        return faults(self.path, result) in self._allowed

    def names_left(self, result: bytes) -> list[bytes]:
        """Return the names of the file that the patch removes, all of them, and that a result still has."""
        return sorted(self._removed & names(result)) if self._removed else []

    @cached_property
    def _removed(self) -> set[bytes]:
        return names(self.before) - names(self.after)

    @cached_property
    def _allowed(self) -> set[tuple[int, ...]]:
        return allowed(self.path, self.before, b"".join(self.ours), self.after)


def plans(base: Files, ours: Files, theirs: Files) -> list[FilePlan]:
    """Return what to do to each file; nothing where that is hopeless."""
    renames = _renames(base, theirs)
    result: list[FilePlan] = []
    conflicts = 0
    for path in sorted({*base, *theirs} - set(renames.values())):
        after_path = renames.get(path, path)
        before, after = base.get(path), theirs.get(after_path)
        if before == after and path == after_path:
            continue
        used = {*base, *theirs, *(plan.path for plan in result)}
        others = {name: ours[name] for name in sorted(ours) if name not in used}
        some = _plan(path, after_path, before, after, ours, others)
        conflicts += sum(1 for plan in some for slot in plan.slots if slot[0].rule is not Rule.MERGED)
        if not some or conflicts > CONFLICTS:
            return []
        result += some
    return result


def _plan(
    path: str, after_path: str, before: bytes | None, after: bytes | None, ours: Files, others: Files
) -> list[FilePlan]:
    """Return what to do to a file, and to others that have its code by now; nothing where that is hopeless."""
    there = ours.get(path)
    if before is None:
        facts = () if there is None or there == after else (_fact(Rule.ADDED_TWICE, 1.0),)
        return [FilePlan(path, facts, whole=after)]
    facts = ()
    now = path
    if there is None:
        # Upstream may have renamed it as the patch does.
        renamed = {after_path: ours[after_path]} if after_path in ours else {}
        now = most_alike(path, before, renamed) or most_alike(path, before, others)
        if not now:
            if after is None or b"\0" in before + after:
                # A file that both sides delete is no loss.
                return [FilePlan(path, () if after is None else (_fact(Rule.FILE_GONE, 2.0),), leaves=path)]
            versions = ThreeVersions.of(before, b"", after)
            moved, done = _moved(versions, versions.edits[:CONFLICTS], others)
            left_out = len(done) < len(versions.edits)
            return [FilePlan(path, (_fact(Rule.FILE_GONE, 2.0),) if left_out else (), leaves=path), *moved]
        facts = (_fact(Rule.RENAMED, 6.0),)
        there = ours[now]
    if after is None:
        return [FilePlan(now, facts if there == before else (*facts, _fact(Rule.DELETED, 3.0)), leaves=now)]
    to = after_path if after_path != path else now
    leaves = now if to != now else ""
    if leaves and to in ours:
        facts = (*facts, _fact(Rule.ADDED_TWICE, 1.0))
    if there == before:
        return [FilePlan(to, facts, whole=after, leaves=leaves)]
    if b"\0" in before + there + after:
        return []
    versions = ThreeVersions.of(before, there, after)
    slots: dict[Edit, tuple[Option, ...]] = {}
    conflicts = 0
    for edit in (part for whole in versions.edits for part in versions.parts(whole)):
        slots[edit] = options(versions, edit)
        conflicts += slots[edit][0].rule is not Rule.MERGED
        if conflicts > CONFLICTS:
            return []
    homeless = [edit for edit, ways in slots.items() if ways[0].score < FAR or ways[0].rule is Rule.GONE]
    rest = {name: data for name, data in others.items() if name != now}
    moved, gone = _moved(versions, homeless, rest)
    kept = [slot for edit, slot in slots.items() if edit not in gone]
    return [FilePlan(to, facts, tuple(versions.ours), tuple(kept), there, leaves, before, after), *moved]


def _moved(versions: ThreeVersions, homeless: Sequence[Edit], others: Files) -> tuple[list[FilePlan], set[Edit]]:
    """Return what to do to other files that have by now the code that edits are about, and these edits."""
    near = {edit: versions.base_keys[max(edit.start - 3, 0) : edit.end + 3] for edit in homeless}
    likely: dict[str, list[Edit]] = {}
    searched = 0
    for path, data in others.items() if homeless else ():
        searched += len(data)
        if searched > MOST_SEARCHED:
            break
        keys = set(map(key, split_lines(data)))
        likely[path] = [edit for edit, lines in near.items() if 2 * sum(one in keys for one in lines) > len(lines)]
    moved = []
    done: set[Edit] = set()
    for path in nlargest(2, (path for path in likely if likely[path]), key=lambda path: len(likely[path])):
        there = replace(versions, ours=split_lines(others[path]))
        todo = [(edit, options(there, edit)) for edit in likely[path] if edit not in done]
        ways = {
            edit: slot for edit, slot in todo if slot[0].score >= FAR and slot[0].rule not in (Rule.THERE, Rule.GONE)
        }
        if ways:
            lines, slots = tuple(there.ours), tuple(ways.values())
            before, after = b"".join(there.base), b"".join(there.theirs)
            moved.append(FilePlan(path, (_fact(Rule.MOVED, 6.0),), lines, slots, before=before, after=after))
            done |= ways.keys()
    return moved, done


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

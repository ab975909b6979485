"""What becomes of a stack on another version of its files: every patch judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kz_build.git.object_types import LINK, Blob
from kz_build.patch.apply import Applied, Read, Refused, Stack, apply_patch, content, overlaid
from kz_build.patch.attempt import ELSEWHERE, PART, attempt, in_target
from kz_build.patch.change import NOT_THERE, FileChange, Hunk, Patch, split_lines
from kz_build.patch.intent_checks import evaluate
from kz_build.patch.judgement import Judgement, Verdict
from kz_build.patch.place import Place

Merge = Callable[[bytes, bytes, bytes], bytes | None]
"""git's three-way merge of (ours, base, theirs); None where it conflicts."""


@dataclass(frozen=True)
class Image:
    """A patch's files before and after it, where it was written: what a three-way merge starts from."""

    before: Mapping[str, Blob | None]
    after: Mapping[str, Blob | None]


def images(patches: Sequence[Patch], read: Read) -> dict[str, Image]:
    """Each patch's files before and after it on its own base; none for a patch that does not apply there."""
    overlay: dict[str, Blob | None] = {}
    current = overlaid(read, overlay)
    found = {}
    for patch in patches:
        outcome = attempt(patch, current)
        if isinstance(outcome, Applied):
            found[patch.name] = Image({path: current(path) for path in patch.reads}, outcome.files)
            overlay.update(outcome.files)
    return found


Seen = dict[tuple[object, ...], Any]
"""What was found before, by the blobs it was found on: many commits share them."""


Parts = tuple[bytes, bytes, bytes]
"""(ours, base, theirs)"""
Merges = tuple[tuple[str, Parts], ...]
"""(path, what must merge there)"""
Open = tuple[Judgement, Merges]
"""A judgement, and what must merge for it to be MERGED; nothing where that is out of the question."""


def judge(stack: Stack, read: Read, origin: Mapping[str, Image], merge: Merge, seen: Seen) -> tuple[Judgement, ...]:
    """Judge every patch in order; a patch that does not hold is left out for those after it."""
    return settled(judge_open(stack, read, origin, seen), merge)


def settled(row: Sequence[Open], merge: Merge) -> tuple[Judgement, ...]:
    """The judgements with what the merges found."""
    return tuple(
        _settled(judgement, [(path, three, merge(*three)) for path, three in merges]) for judgement, merges in row
    )


def _settled(judgement: Judgement, merges: Sequence[tuple[str, Parts, bytes | None]]) -> Judgement:
    results = [(path, three[0], result) for path, three, result in merges if result is not None]
    if not merges or len(results) < len(merges):
        return judgement
    said = f"{judgement.reason}; only a three-way merge finds a result"
    diffs = "\n".join(_diff(path, before, after) for path, before, after in results)
    return judgement._replace(verdict=Verdict.MERGED, reason=said, merged=diffs)


def _diff(path: str, before: bytes, after: bytes) -> str:
    from difflib import unified_diff

    old, new = (data.decode("utf-8", "replace").splitlines() for data in (before, after))
    return "\n".join(unified_diff(old, new, f"a/{path}", f"b/{path}", lineterm=""))


def judge_open(stack: Stack, read: Read, origin: Mapping[str, Image], seen: Seen) -> tuple[Open, ...]:
    """As `judge`, before any merge: no patch's fate hangs on another's, so that all of them can be tried at once."""
    overlay: dict[str, Blob | None] = {}
    current = overlaid(read, overlay)
    found: list[Judgement] = []
    merges: list[Merges] = []
    lost: dict[str, frozenset[str]] = {}
    for patch in stack.patches:
        paths = patch.reads
        key = (patch.name, *(_key(current(path)) for path in sorted(paths)))
        if key not in seen:
            outcome = attempt(patch, current)
            if isinstance(outcome, Applied):
                seen[key] = (_applied(outcome), outcome.files, (), ())
            else:
                judgement, parts, places = _refused(outcome, current, origin.get(patch.name))
                seen[key] = (judgement, {}, parts, places)
        judgement, files, parts, places = seen[key]
        if places:
            judgement = judgement._replace(there=_in_target(places, read, current, seen))
        merges.append(parts)
        overlay.update(files)
        without = tuple(name for name, theirs in lost.items() if theirs & paths)
        found.append(judgement._replace(without=() if judgement.verdict is Verdict.UPSTREAMED else without))
        if not judgement.verdict.holds:
            lost[patch.name] = paths
    return tuple(zip(_with_intents(stack, found, current, seen), merges, strict=True))


def _in_target(places: tuple[Place, ...], read: Read, current: Read, seen: Seen) -> tuple[str, ...]:
    key = (places, *(_key(side(place.path)) for place in places for side in (read, current)))
    if key not in seen:
        seen[key] = tuple(map(str, in_target(places, read, current)))
    there: tuple[str, ...] = seen[key]
    return there


def _key(blob: Blob | None) -> tuple[str, str]:
    return (blob.mode, blob.id) if blob else ("", "")


def _with_intents(stack: Stack, found: Sequence[Judgement], current: Read, seen: Seen) -> tuple[Judgement, ...]:
    said: dict[str, list[str]] = {}
    slugs = {patch.slug: patch.name for patch in stack.patches}
    holding = {j.patch for j in found if j.verdict.holds}
    for number, check in enumerate(stack.checks):
        name, blob = slugs[check.slug], current(check.file)
        if name not in holding:
            continue
        key = (number, _key(blob))
        if key not in seen:
            seen[key] = evaluate(check, content(blob))
        if seen[key]:
            said.setdefault(name, []).append(f"{check.kind} ({check.where}): {seen[key]}")
    return tuple(j._replace(intents=tuple(said.get(j.patch, ()))) for j in found)


def _applied(outcome: Applied) -> Judgement:
    if not outcome.offsets:
        return Judgement(outcome.patch.name, Verdict.CLEAN)
    path, line, offset = max(outcome.offsets, key=lambda o: abs(o[2]))
    return Judgement(outcome.patch.name, Verdict.OFFSET, path, line, offset)


def _refused(refused: Refused, current: Read, origin: Image | None) -> tuple[Judgement, Merges, tuple[Place, ...]]:
    """The judgement, what must merge for it to be MERGED, and the lines that have what the patch changes, or part of it."""
    patch = refused.patch
    if refused.upstreamed:
        said = (refused.path, refused.patch_line, 0, refused.reason)
        return Judgement(patch.name, Verdict.UPSTREAMED, *said), (), refused.there
    # Every file is asked by itself: a patch is as bad off as the worst of its files.
    failed = []
    for change in patch.files:
        part = replace(patch, files=(change,))
        outcome = apply_patch(part, current)
        if isinstance(outcome, Applied):
            continue
        verdict, reason = _why(change, outcome, current(change.origin))
        alone = attempt(part, current)
        there = alone.there if isinstance(alone, Refused) else ()
        if isinstance(alone, Refused) and alone.upstreamed:
            verdict, reason = Verdict.CONTENT, PART
        elif there:
            reason += f"; {ELSEWHERE}"
        path = change.origin if verdict is Verdict.MISSING else outcome.path
        failed.append((change, Judgement(patch.name, verdict, path, outcome.patch_line, 0, reason), there))
    # Where each goes by itself, together they do not.
    whole = Judgement(patch.name, Verdict.CONTENT, refused.path, refused.patch_line, 0, refused.reason)
    worst, there = max(
        ((judgement, there) for _, judgement, there in failed),
        key=lambda one: (one[0].verdict.rank, one[0].reason != PART),
        default=(whole, refused.there),
    )
    if worst.verdict is Verdict.MISSING or origin is None:
        return worst, (), there
    merges = [(change.path, _parts(change, current, origin)) for change, *_ in failed]
    found = tuple((path, three) for path, three in merges if three)
    return worst, found if len(found) == len(failed) else (), there


def _why(change: FileChange, refused: Refused, there: Blob | None) -> tuple[Verdict, str]:
    data = content(there)
    if data is None and not change.creates:
        return Verdict.MISSING, "the file is not there"
    if data is None or change.creates or change.deletes or refused.reason != NOT_THERE:
        return Verdict.CONTENT, refused.reason
    lines = split_lines(data)
    hunks = [hunk for hunk in change.hunks if not _stands(hunk, lines)]
    if hunks:
        return Verdict.CONTENT, _first_gone(hunks[0], lines)
    return Verdict.CONTEXT, "only the lines around it changed"


def stands_on(hunk: Hunk) -> list[tuple[bytes, ...]]:
    """What a hunk stands on: the lines it removes, and for an insertion the lines on either side of it."""
    from difflib import SequenceMatcher  # only a patch that failed needs it

    runs = []
    for kind, i, j, _, _ in SequenceMatcher(None, hunk.before, hunk.after, autojunk=False).get_opcodes():
        if kind in ("replace", "delete"):
            runs.append(hunk.before[i:j])
        elif kind == "insert":
            runs.append(hunk.before[max(i - 1, 0) : i + 1])
    return runs


def _stands(hunk: Hunk, lines: Sequence[bytes]) -> bool:
    at = 0
    for run in stands_on(hunk):
        at = find_run(run, lines, at)
        if at < 0:
            return False
    return True


def find_run(run: tuple[bytes, ...], lines: Sequence[bytes], start: int = 0) -> int:
    """Where lines stand together in a file, from 0; -1 where they do not."""
    for at in range(start, len(lines) - len(run) + 1):
        if tuple(lines[at : at + len(run)]) == run:
            return at
    return -1


def _first_gone(hunk: Hunk, lines: Sequence[bytes]) -> str:
    there, bare = set(lines), {line.strip() for line in lines}
    lost = [line for run in stands_on(hunk) for line in run if line not in there]
    for line in sorted(lost, key=lambda line: line.strip() in bare):  # one that is gone whole says the most
        what = "has other white space now" if line.strip() in bare else "is gone"
        return f"it stands on `{line.decode('utf-8', 'replace').strip()}`, which {what}"
    return "the lines that it stands on are no longer together"


def _parts(change: FileChange, current: Read, origin: Image) -> Parts | None:
    blobs = (current(change.origin), origin.before.get(change.origin), origin.after.get(change.path))
    parts = [content(blob) for blob in blobs if blob and blob.mode != LINK]
    ours, base, theirs = parts if len(parts) == 3 else (None, None, None)
    if ours is None or base is None or theirs is None:
        return None
    return ours, base, theirs

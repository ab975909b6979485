"""Judge every patch of a stack on another version of its files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from kz_build.git.object_types import LINK, Blob
from kz_build.patch.apply import Applied, Read, Refused, Stack, apply_patch, content, overlaid
from kz_build.patch.attempt import ELSEWHERE, PARTLY_THERE, attempt, in_target, located
from kz_build.patch.change import NOT_THERE, FileChange, Hunk, Patch, split_lines
from kz_build.patch.intent_checks import evaluate
from kz_build.patch.line_map import edits
from kz_build.patch.place import Place
from kz_build.patch.verdict import Judgement, Verdict

Merge = Callable[[bytes, bytes, bytes], bytes | None]
"""Git's three-way merge of (ours, base, theirs); None where it conflicts."""


@dataclass(frozen=True)
class Image:
    """A patch's files before and after it on its own base: the start of a three-way merge."""

    before: Mapping[str, Blob | None]
    after: Mapping[str, Blob | None]


def images(patches: Sequence[Patch], read: Read) -> dict[str, Image]:
    """Return each patch's files before and after it on its own base; none for a patch that does not apply there."""
    overlay: dict[str, Blob | None] = {}
    current = overlaid(read, overlay)
    images_by_patch = {}
    for patch in patches:
        outcome = attempt(patch, current)
        if isinstance(outcome, Applied):
            images_by_patch[patch.name] = Image({path: current(path) for path in patch.reads}, outcome.files)
            overlay.update(outcome.files)
    return images_by_patch


Memo = dict[tuple[object, ...], Any]
"""Results by the blobs they were computed from: many commits share them."""


ThreeWay = tuple[bytes, bytes, bytes]
"""(ours, base, theirs)"""
Merges = tuple[tuple[str, ThreeWay], ...]
"""(path, the three versions to merge)"""
OpenJudgement = tuple[Judgement, Merges]
"""A judgement, and what must merge to make it MERGED; nothing if no merge can."""


def judge(stack: Stack, read: Read, origin: Mapping[str, Image], merge: Merge, memo: Memo) -> tuple[Judgement, ...]:
    """Judge every patch in order; a patch that does not hold is left out for those after it."""
    return with_merges(judge_without_merges(stack, read, origin, memo), merge, memo)


def with_merges(judgements: Sequence[OpenJudgement], merge: Merge, memo: Memo) -> tuple[Judgement, ...]:
    """Complete the judgements with the results of the merges."""
    return tuple(_with_merge(judgement, merges, merge, memo) for judgement, merges in judgements)


def _with_merge(judgement: Judgement, merges: Merges, merge: Merge, memo: Memo) -> Judgement:
    diffs: list[str] = []
    for path, three in merges:
        if (path, three) not in memo:
            result = merge(*three)
            memo[path, three] = None if result is None else _diff(path, three[0], result)
        diff = memo[path, three]
        if diff is None:
            return judgement
        diffs.append(diff)
    if not diffs:
        return judgement
    reason = f"{judgement.reason}; only a three-way merge finds a result"
    return judgement._replace(verdict=Verdict.MERGED, reason=reason, merged="\n".join(diffs))


def _diff(path: str, before: bytes, after: bytes) -> str:
    from difflib import unified_diff

    cut = b"\n\\ No newline at end of file"
    rows = [
        [line[:-1] if line.endswith(b"\n") else line + cut for line in split_lines(data)] for data in (before, after)
    ]
    old, new = ([row.decode("utf-8", "replace") for row in side] for side in rows)
    return "\n".join(unified_diff(old, new, f"a/{path}", f"b/{path}", lineterm=""))


def judge_without_merges(
    stack: Stack, read: Read, origin: Mapping[str, Image], memo: Memo
) -> tuple[OpenJudgement, ...]:
    """Judge as `judge` does, before any merge. No result depends on another's merge, so all merges can run at once."""
    overlay: dict[str, Blob | None] = {}
    current = overlaid(read, overlay)
    judgements: list[Judgement] = []
    merges: list[Merges] = []
    failed: dict[str, frozenset[str]] = {}
    for patch in stack.patches:
        paths = patch.reads
        key = (patch.name, *(_key(current(path)) for path in sorted(paths)))
        if key not in memo:
            outcome = attempt(patch, current)
            if isinstance(outcome, Applied):
                memo[key] = (_judge_applied(outcome), outcome.files, (), ())
            else:
                judgement, parts, places = _judge_refused(outcome, current, origin.get(patch.name), memo)
                memo[key] = (judgement, {}, parts, places)
        judgement, files, parts, places = memo[key]
        if places:
            judgement = judgement._replace(there=_in_target(places, read, current, memo))
        merges.append(parts)
        overlay.update(files)
        without = tuple(name for name, theirs in failed.items() if theirs & paths)
        judgements.append(judgement._replace(without=() if judgement.verdict is Verdict.UPSTREAMED else without))
        if not judgement.verdict.holds:
            failed[patch.name] = paths
    return tuple(zip(_with_intents(stack, judgements, current, memo), merges, strict=True))


def _in_target(places: tuple[Place, ...], read: Read, current: Read, memo: Memo) -> tuple[str, ...]:
    key = (places, *(_key(side(place.path)) for place in places for side in (read, current)))
    if key not in memo:
        memo[key] = tuple(map(str, in_target(places, read, current)))
    there: tuple[str, ...] = memo[key]
    return there


def _key(blob: Blob | None) -> tuple[str, str]:
    return (blob.mode, blob.id) if blob else ("", "")


def _with_intents(stack: Stack, judgements: Sequence[Judgement], current: Read, memo: Memo) -> tuple[Judgement, ...]:
    broken: dict[str, list[str]] = {}
    slugs = {patch.slug: patch.name for patch in stack.patches}
    holding = {j.patch for j in judgements if j.verdict.holds}
    for number, check in enumerate(stack.checks):
        name, blob = slugs[check.slug], current(check.file)
        if name not in holding:
            continue
        key = (number, _key(blob))
        if key not in memo:
            memo[key] = evaluate(check, content(blob))
        if memo[key]:
            broken.setdefault(name, []).append(f"{check.kind} ({check.where}): {memo[key]}")
    return tuple(j._replace(intents=tuple(broken.get(j.patch, ()))) for j in judgements)


def _judge_applied(outcome: Applied) -> Judgement:
    name, reason = outcome.patch.name, outcome.remark or outcome.patch.left_out_text
    if not outcome.offsets:
        return Judgement(name, Verdict.CLEAN, reason=reason)
    path, line, offset = max(outcome.offsets, key=lambda o: abs(o[2]))
    return Judgement(name, Verdict.OFFSET, path, line, offset, reason)


def _judge_refused(
    refused: Refused, current: Read, origin: Image | None, memo: Memo
) -> tuple[Judgement, Merges, tuple[Place, ...]]:
    """Return the judgement, what must merge to make it MERGED, and the lines that have the change, or part of it."""
    patch = refused.patch
    if refused.upstreamed:
        facts = (refused.path, refused.patch_line, 0, refused.reason)
        return Judgement(patch.name, Verdict.UPSTREAMED, *facts), (), refused.there
    if refused.by_rules:
        verdict = Verdict.MISSING if content(current(refused.path)) is None else Verdict.CONTENT
        return Judgement(patch.name, verdict, refused.path, reason=refused.reason), (), ()
    # Each file is judged alone: a patch is as bad as the worst of its files.
    judged = [(change, _judge_change(patch, number, current, memo)) for number, change in enumerate(patch.files)]
    failed = [(change, *alone) for change, alone in judged if alone]
    # Each file applies alone, but not all together.
    whole = Judgement(patch.name, Verdict.CONTENT, refused.path, refused.patch_line, 0, refused.reason)
    worst, there = max(
        ((judgement, there) for _, judgement, there in failed),
        key=lambda one: (one[0].verdict.rank, one[0].reason != PARTLY_THERE),
        default=(whole, refused.there),
    )
    if worst.verdict is Verdict.MISSING or origin is None:
        return worst, (), there
    merges = [(change.path, _merge_parts(change, current, origin)) for change, *_ in failed]
    mergeable = tuple((path, three) for path, three in merges if three)
    return worst, mergeable if len(mergeable) == len(failed) else (), there


def _judge_change(patch: Patch, number: int, current: Read, memo: Memo) -> tuple[Judgement, tuple[Place, ...]] | None:
    """Judge one file of a patch alone; None if it applies. A commit seldom touches more than one file of a large patch."""
    change = patch.files[number]
    key = (patch.name, number, change.path, change.source, *(_key(current(path)) for path in sorted(change.reads)))
    if key not in memo:
        outcome = apply_patch(replace(patch, files=(change,)), current)
        memo[key] = None if isinstance(outcome, Applied) else _judge_refused_change(change, outcome, current)
    alone: tuple[Judgement, tuple[Place, ...]] | None = memo[key]
    return alone


def _judge_refused_change(change: FileChange, refused: Refused, current: Read) -> tuple[Judgement, tuple[Place, ...]]:
    verdict, reason = _reason(change, refused, current(change.origin))
    there = (by_itself := located(refused, current)).there
    if by_itself.upstreamed:
        verdict, reason = Verdict.CONTENT, PARTLY_THERE
    elif there:
        reason += f"; {ELSEWHERE}"
    path = change.origin if verdict is Verdict.MISSING else refused.path
    return Judgement(refused.patch.name, verdict, path, refused.patch_line, 0, reason), there


def _reason(change: FileChange, refused: Refused, there: Blob | None) -> tuple[Verdict, str]:
    data = content(there)
    if data is None and not change.creates:
        return Verdict.MISSING, "the file is not there"
    if data is None or change.deletes or refused.reason != NOT_THERE:
        return Verdict.CONTENT, refused.reason
    lines = split_lines(data)
    hunks = [hunk for hunk in change.hunks if not _has_required_lines(hunk, lines)]
    if hunks:
        return Verdict.CONTENT, _missing_line(hunks[0], data, lines)
    return Verdict.CONTEXT, "only the lines around it changed"


@cache
def required_lines(hunk: Hunk) -> tuple[tuple[bytes, ...], ...]:
    """Return the lines that a hunk requires: those it removes, and for an insertion the lines on either side of it."""
    return tuple(
        hunk.before[edit.start : edit.end]
        if edit.start < edit.end
        else hunk.before[max(edit.start - 1, 0) : edit.start + 1]
        for edit in edits(hunk.before, hunk.after)
    )


def _has_required_lines(hunk: Hunk, lines: Sequence[bytes]) -> bool:
    at = 0
    for run in required_lines(hunk):
        at = find_run(run, lines, at)
        if at < 0:
            return False
    return True


def find_run(run: tuple[bytes, ...], lines: Sequence[bytes], start: int = 0) -> int:
    """Find lines that are together in a file, from 0; -1 if they are not."""
    if not run:
        return start if start <= len(lines) else -1
    try:
        while True:  # the search for the first line is most of it
            start = lines.index(run[0], start)
            if tuple(lines[start : start + len(run)]) == run:
                return start
            start += 1
    except ValueError:
        return -1


def _missing_line(hunk: Hunk, data: bytes, lines: Sequence[bytes]) -> str:
    lost = [line for run in required_lines(hunk) for line in run if line not in lines]
    near = any(line.strip() in data for line in lost)  # seldom; only then is it worth while to strip all lines
    bare = {line.strip() for line in lines} if near else set()
    for line in sorted(lost, key=lambda line: line.strip() in bare):  # a line that is gone completely says the most
        what = "has other white space now" if line.strip() in bare else "is gone"
        return f"it requires `{line.decode('utf-8', 'replace').strip()}`, which {what}"
    return "the lines that it requires are no longer together"


def _merge_parts(change: FileChange, current: Read, origin: Image) -> ThreeWay | None:
    blobs = (current(change.origin), origin.before.get(change.origin), origin.after.get(change.path))
    parts = [content(blob) for blob in blobs if blob and blob.mode != LINK]
    ours, base, theirs = parts if len(parts) == 3 else (None, None, None)
    if ours is None or base is None or theirs is None:
        return None
    return ours, base, theirs

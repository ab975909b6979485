"""Candidates for a patch that no longer applies: complete results for its files, the best first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import NamedTuple

from kz_build.resolve.confidence import OFFERED, changed_lines, confidence, features, stray_lines
from kz_build.resolve.file_plan import FilePlan, Files, plans
from kz_build.resolve.option import Option, Rule
from kz_build.resolve.token_merge import renamed

SHOWN = 3
"""How many candidates there are at most."""
_BEAM = 12


class Rewrite(NamedTuple):
    """What upstream made of the lines around an edit of the patch: lines of the file `path` today, and those that were there."""

    path: str
    was: tuple[bytes, ...]
    now: tuple[bytes, ...]


@dataclass(frozen=True)
class Candidate:
    """One result: `files` has what it changes in upstream's files, None for a file that goes away.

    `confidence` is the share of such candidates that are what a maintainer makes of the conflict. `rule` names the least
    certain step, `reason` explains all that are not plain merges in one sentence, and `rewrites` are what upstream did there.
    """

    files: Mapping[str, bytes | None]
    rule: str
    confidence: float
    reason: str
    rewrites: tuple[Rewrite, ...] = ()


@dataclass(frozen=True)
class Made:
    """A candidate with the steps that made it, and what its confidence depends on."""

    candidate: Candidate
    steps: tuple[Option, ...]
    features: tuple[float, ...]


def candidates(base: Files, ours: Files, theirs: Files) -> tuple[Candidate, ...]:
    """Return up to three candidates, the best first; none where even the best is not likely to be right.

    `base` and `theirs` are the files of the patch before and after it, on the version it was made for. `ours` are upstream's
    files now: those of the patch and, where upstream moved code, the files that may have it. Nothing outside of these paths
    changes.
    """
    made = [one.candidate for one in made_candidates(base, ours, theirs)]
    return tuple(made) if likely(made) else ()


def likely(made: Sequence[Candidate]) -> bool:
    """Whether the first of some candidates changes anything, and is likely right."""
    return bool(made and made[0].files) and made[0].confidence >= OFFERED


def made_candidates(base: Files, ours: Files, theirs: Files) -> tuple[Made, ...]:
    """Return up to three candidates with their steps, the best first, likely or not."""
    todo = plans(base, ours, theirs)
    made: list[Made] = []
    patch = changed_lines(base.values(), theirs.values())
    for chosen in _choices([slot for plan in todo for slot in plan.slots]) if todo else ():
        result = _result(todo, chosen, ours)
        if result is None or any(result == one.candidate.files for one in made):
            continue
        steps = (*(fact for plan in todo for fact in plan.facts), *chosen)
        worst = min(steps, key=lambda step: step.score, default=None)
        rule = (worst.rule if worst else Rule.MERGED).name.lower().replace("_", " ")
        rewrites = _rewrites(todo, chosen)
        written = ((plan, result.get(plan.path)) for plan in todo if plan.slots)
        names = [name for plan, data in written if data is not None for name in plan.names_left(data)]
        paths = {*base, *theirs, *result}
        here = [ours.get(path) for path in paths]
        there = [result.get(path, ours.get(path)) for path in paths]
        strays = stray_lines(patch, changed_lines(base.values(), here), changed_lines(here, there))
        known = features(steps, len(made), bool(names), strays)
        reason = _reason(todo, chosen, rewrites, names)
        made.append(Made(Candidate(result, rule, confidence(known), reason, rewrites), steps, known))
        if len(made) == SHOWN:
            break
    return tuple(made)


def _choices(slots: Sequence[Sequence[Option]]) -> list[tuple[Option, ...]]:
    """Return the best ways to choose one option for each edit."""
    best: list[tuple[float, tuple[Option, ...]]] = [(0.0, ())]
    for slot in slots:
        longer = ((total + one.score, (*chosen, one)) for total, chosen in best for one in slot)
        best = nlargest(_BEAM, longer, key=lambda way: way[0])
    return [chosen for _, chosen in best]


def _result(todo: Sequence[FilePlan], chosen: Sequence[Option], ours: Files) -> dict[str, bytes | None] | None:
    """Return the changed files; None if two edits would change the same lines, or a file would no longer parse."""
    result: dict[str, bytes | None] = {}
    done = 0
    for plan in todo:
        data = plan.whole
        if plan.slots:
            data = _edited(plan.ours, chosen[done : done + len(plan.slots)])
            done += len(plan.slots)
            if data is None or not plan.judged(data):
                return None
        if plan.leaves:
            result[plan.leaves] = None
        if plan.leaves != plan.path:
            result[plan.path] = data
    return {path: data for path, data in result.items() if ours.get(path) != data}


def _edited(ours: Sequence[bytes], chosen: Sequence[Option]) -> bytes | None:
    lines: list[bytes] = []
    done = 0
    for option in sorted(chosen, key=lambda one: one[:2]):
        if option.start < done:
            return None
        lines += [*ours[done : option.start], *option.lines]
        done = option.end
    lines += ours[done:]
    # A last line without newline gets one where lines follow it now.
    ended = [line if line.endswith(b"\n") else line + b"\n" for line in lines[:-1]]
    return b"".join([*ended, *lines[-1:]])


def _rewrites(todo: Sequence[FilePlan], chosen: Sequence[Option]) -> tuple[Rewrite, ...]:
    paths = (plan.path for plan in todo for _ in plan.slots)
    rewrites = (Rewrite(path, one.was, one.now) for path, one in zip(paths, chosen, strict=True) if one.was or one.now)
    return tuple(dict.fromkeys(rewrites))


def _reason(
    todo: Sequence[FilePlan], chosen: Sequence[Option], rewrites: Sequence[Rewrite], names_left: Sequence[bytes]
) -> str:
    """Explain what is not a plain merge."""
    parts: dict[Rule, list[str]] = {}
    done = 0
    for plan in todo:
        for fact in plan.facts:
            parts.setdefault(fact.rule, []).append(plan.path)
        for option in chosen[done : done + len(plan.slots)]:
            if option.rule is not Rule.MERGED:
                parts.setdefault(option.rule, []).append(f"{plan.path}:{option.start + 1}")
        done += len(plan.slots)
    told = [f"{rule.value} ({', '.join([*at[:3], *(['…'] if at[3:] else [])])})" for rule, at in parts.items()]
    names = dict.fromkeys(pair for one in rewrites if (pair := renamed(one.was, one.now)))
    told[:0] = [
        f"upstream changed `{old.decode(errors='replace')}` to `{new.decode(errors='replace')}`" for old, new in names
    ]
    told += [f"the patch removes `{name.decode()}`, but it is still used" for name in names_left[:3]]
    return "; ".join(told) or "the patch's changes merge with upstream's without conflict"

"""A patch over upstream's commits: where it broke, for how long, and who broke it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kz_build.git.object_types import Commit, State
from kz_build.patch.verdict import Judgement, Verdict


@dataclass(frozen=True)
class Step:
    """A commit after which a patch has another verdict. `back` if it restores an earlier version of a file."""

    commit: Commit
    judgement: Judgement
    back: bool


@dataclass(frozen=True)
class PatchHistory:
    """One patch from its pin to `to`: the verdicts at the pin, at the start of the walk and at its end; each change."""

    patch: str
    pin: Judgement
    start: Judgement
    steps: tuple[Step, ...]
    now: Judgement

    @property
    def _holds(self) -> list[bool]:
        """Whether it holds at the start, and after each step."""
        return [self.start.holds, *(s.judgement.holds for s in self.steps)]

    @property
    def broke(self) -> Step | None:
        """The first commit that broke the patch while it held."""
        return next(
            (s for s, before in zip(self.steps, self._holds, strict=False) if before and not s.judgement.holds), None
        )

    @property
    def taken(self) -> Step | None:
        """The first commit that removed lines which the patch requires."""
        lost = [_lost(self.start), *(_lost(s.judgement) for s in self.steps)]
        return next((s for s, before in zip(self.steps, lost, strict=False) if _lost(s.judgement) and not before), None)

    @property
    def since(self) -> Step | None:
        """The commit since which the patch has not held, to the end of the walk; None if it holds, or never held."""
        holds = self._holds
        if holds[-1] or True not in holds:
            return None
        return self.steps[len(holds) - 1 - holds[::-1].index(True)]

    @property
    def upstreamed(self) -> Step | None:
        """The commit since which upstream has had the patch's change, to the end of the walk; None if it has not."""
        since = None
        for step in reversed(self.steps):
            if step.judgement.verdict is not Verdict.UPSTREAMED:
                break
            since = step
        return since

    @property
    def flaps(self) -> int:
        """How often the patch held again after it had failed."""
        holds = self._holds
        return sum(not a and b for a, b in zip(holds, holds[1:], strict=False))


def _lost(judgement: Judgement) -> bool:
    return judgement.verdict.rank >= Verdict.CONTENT.rank


def states_after(start: State, commits: Sequence[Commit]) -> list[State]:
    """Return the state after each commit."""
    state = dict(start)
    states: list[State] = []
    for commit in commits:
        for path, mode, _, after in commit.changes:
            if path in state:
                state[path] = None if not after.strip("0") else (mode, after)
        states.append(dict(state))
    return states


def patch_histories(
    pin: Sequence[Judgement],
    start: Sequence[Judgement],
    commits: Sequence[Commit],
    judged: Sequence[Sequence[Judgement]],
) -> tuple[PatchHistory, ...]:
    """Return one history per patch, from the judgements after each commit."""
    histories = []
    for i, first in enumerate(start):
        before, steps = first, []
        seen: set[tuple[str, str]] = set()
        for commit, row in zip(commits, judged, strict=True):
            back = any((path, after) in seen for path, _, _, after in commit.changes)
            seen |= {(path, before_id) for path, _, before_id, _ in commit.changes}
            if _differs(before, row[i]):
                steps.append(Step(commit, row[i], back))
            before = row[i]
        histories.append(PatchHistory(first.patch, pin[i], first, tuple(steps), before))
    return tuple(histories)


def _differs(a: Judgement, b: Judgement) -> bool:
    """Return whether the verdict changed; an offset counts as clean."""
    return (a.verdict, a.intents) != (b.verdict, b.intents) and not (
        a.holds and b.holds and Verdict.UPSTREAMED not in (a.verdict, b.verdict)
    )

"""The verdict on a patch, and its reason."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Verdict(Enum):
    """From best to worst; the first three require no action at once."""

    CLEAN = "clean"
    OFFSET = "offset"
    UPSTREAMED = "upstreamed"
    MERGED = "merged"
    CONTEXT = "context"
    CONTENT = "content"
    MISSING = "missing"

    @property
    def rank(self) -> int:
        """0 if the patch holds; a higher rank has lost more."""
        return max(0, list(Verdict).index(self) - 2)

    @property
    def holds(self) -> bool:
        """Whether the patch applies, or is no longer needed."""
        return self.rank == 0


class Judgement(NamedTuple):
    """One patch on one version of its files. `line` is the hunk's line in the patch file, `offset` the widest, in lines.

    `without` names earlier patches that failed and change the same files: this one was judged without them.
    `intents` has a sentence for each intent check that fails on the patched result. `merged` is the diff of a three-way
    merge, where that is the verdict. `there` are the lines, `path:first-last` in the files of the version, that have the
    change or part of it; for an upstreamed patch those of every hunk.
    """

    patch: str
    verdict: Verdict
    path: str = ""
    line: int = 0
    offset: int = 0
    reason: str = ""
    without: tuple[str, ...] = ()
    intents: tuple[str, ...] = ()
    merged: str = ""
    there: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether the patch applies or is already there, and serves its purpose."""
        return self.verdict.holds and not self.intents

    @property
    def rank(self) -> int:
        """The rank of the verdict; a broken intent counts as lost content."""
        return max(self.verdict.rank, Verdict.CONTENT.rank if self.intents else 0)

"""What is coming for a stack, as lines for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kz_build.model.history import Commit
from kz_build.model.judgement import Judgement
from kz_build.views.patches import cell


class Threat(Protocol):
    """A pull request that hurts a patch."""

    @property
    def pull(self) -> int: ...
    @property
    def title(self) -> str: ...
    @property
    def head(self) -> str: ...
    @property
    def patch(self) -> str: ...
    @property
    def before(self) -> Judgement: ...
    @property
    def after(self) -> Judgement: ...
    @property
    def conflicts(self) -> bool: ...
    @property
    def landed(self) -> Commit | None: ...


class Radar(Protocol):
    """What is coming for one stack."""

    @property
    def line(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def to(self) -> str: ...
    @property
    def commit(self) -> str: ...
    @property
    def heads(self) -> int: ...
    @property
    def near(self) -> int: ...
    @property
    def threats(self) -> Sequence[Threat]: ...
    @property
    def broken(self) -> Sequence[tuple[str, Judgement, Commit | None]]: ...


def text(found: Radar) -> str:
    """First what is broken already, then each pull request that would hurt, newest first."""
    pulls = dict.fromkeys(t.pull for t in sorted(found.threats, key=lambda t: -t.pull))
    rows = [
        f"{found.line} {found.source}: {found.heads:,} pull requests against {found.to} {found.commit[:10]}; "
        f"{found.near:,} change these files, {len(pulls):,} would hurt"
    ]
    for patch, judgement, commit in found.broken:
        since = f"already broken since {commit.shown}" if commit else "never held on this branch"
        rows.append(f"  {patch.removesuffix('.patch')}: {cell(judgement)}\n      {since}")
    for number in pulls:
        hurt = [t for t in found.threats if t.pull == number]
        first = hurt[0]
        notes = f" (landed as {first.landed.shown})" if first.landed else ""
        notes += " (no longer merges by itself; judged as it stands)" if first.conflicts else ""
        rows.append(f"  #{number} {first.title or first.head[:10]}{notes}")
        for threat in hurt:
            rows.append(
                f"      {threat.patch.removesuffix('.patch')}: {cell(threat.before)} -> {cell(threat.after)}"
                + (f"\n          {threat.after.path}: {threat.after.reason}" if threat.after.reason else "")
            )
    return "\n".join(rows)

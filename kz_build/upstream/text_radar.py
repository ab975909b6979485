"""What is coming for a stack, as lines for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kz_build.git.object_types import Commit
from kz_build.patch.text import cell, explanation, wrap
from kz_build.patch.verdict import Judgement
from kz_build.upstream.text_history import commit


class Threat(Protocol):
    """A pull request that hurts a patch."""

    @property
    def pull(self) -> int: ...
    @property
    def title(self) -> str: ...
    @property
    def head(self) -> str: ...
    @property
    def base(self) -> str: ...
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


class Broken(Protocol):
    """A patch that upstream has broken already."""

    @property
    def patch(self) -> str: ...
    @property
    def now(self) -> Judgement: ...
    @property
    def since(self) -> Commit | None: ...


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
    def date(self) -> str: ...
    @property
    def heads(self) -> int: ...
    @property
    def near(self) -> int: ...
    @property
    def threats(self) -> Sequence[Threat]: ...
    @property
    def broken(self) -> Sequence[Broken]: ...


def text(found: Radar) -> str:
    """First what is broken already, then each pull request that would hurt, newest first."""
    pulls = _by_pull(found)
    rows = [
        f"{found.line} {found.source}: pull requests merged into {found.to} {found.commit[:10]} {found.date}",
        f"  looked at: {found.heads:,}, on files of the stack: {found.near:,}, would hurt: {len(pulls):,}",
    ]
    for one in found.broken:
        rows += wrap(f"{one.patch.removesuffix('.patch')}: {cell(one.now)}", "  ")
        said = f"already broken since {one.since.shown}" if one.since else f"never held on {found.to}"
        rows += wrap(said, " " * 6)
    for number, hurt in pulls.items():
        rows += wrap(f"#{number} {hurt[0].title}", "  ", " " * 4)
        if landed := hurt[0].landed:
            rows.append(f"      landed as {landed.id[:10]} {landed.date[:10]}")
        elif hurt[0].conflicts:
            rows.append("      no longer merges by itself; judged as it stands")
        for threat in hurt:
            name = threat.patch.removesuffix(".patch")
            rows += wrap(f"{name}: {cell(threat.before)} -> {cell(threat.after)}", " " * 6)
            rows += [row for said in explanation(threat.after) for row in wrap(said, " " * 10)]
    return "\n".join(rows)


def plain(found: Radar) -> dict[str, object]:
    """The same for programs, one entry a pull request."""
    facts = ("line", "source", "to", "commit", "date", "heads", "near")
    return {
        **{name: getattr(found, name) for name in facts},
        "broken": [
            {"patch": b.patch, "now": b.now, "since": commit(b.since) if b.since else None} for b in found.broken
        ],
        "pulls": [
            {
                **{name: getattr(hurt[0], name) for name in ("pull", "title", "head", "base", "conflicts")},
                "landed": commit(hurt[0].landed) if hurt[0].landed else None,
                "patches": [{"patch": t.patch, "before": t.before, "after": t.after} for t in hurt],
            }
            for hurt in _by_pull(found).values()
        ],
    }


def _by_pull(found: Radar) -> dict[int, list[Threat]]:
    pulls: dict[int, list[Threat]] = {}
    for threat in sorted(found.threats, key=lambda t: -t.pull):
        pulls.setdefault(threat.pull, []).append(threat)
    return pulls

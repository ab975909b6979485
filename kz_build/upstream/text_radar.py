"""The threats to a stack, as lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kz_build.core.escape import wrap
from kz_build.patch.text import cell, explanation

if TYPE_CHECKING:
    from kz_build.upstream.radar import Radar, Threat


def text(radar: Radar) -> str:
    """Show what is broken already, then each pull request that would break a patch, newest first."""
    pulls = _by_pull(radar)
    rows = [
        f"{radar.line} {radar.source}: pull requests merged into {radar.to} {radar.commit[:10]} {radar.date}",
        f"  looked at: {radar.heads:,}, on files of the stack: {radar.near:,}, would break it: {len(pulls):,}",
    ]
    for one in radar.broken:
        rows += wrap(f"{one.patch.removesuffix('.patch')}: {cell(one.now)}", "  ")
        line = f"already broken since {one.since.shown}" if one.since else f"never held on {radar.to}"
        rows += wrap(line, " " * 6)
    for number, threats in pulls.items():
        rows += wrap(f"#{number} {threats[0].title}", "  ", " " * 4)
        if landed := threats[0].landed:
            rows.append(f"      landed as {landed.id[:10]} {landed.date[:10]}")
        elif threats[0].conflicts:
            rows.append("      no longer merges without conflict; judged as it is")
        for threat in threats:
            name = threat.patch.removesuffix(".patch")
            rows += wrap(f"{name}: {cell(threat.before)} -> {cell(threat.after)}", " " * 6)
            rows += [row for line in explanation(threat.after) for row in wrap(line, " " * 10)]
    for refused in radar.refused:
        rows += wrap(f"#{refused.pull} is not judged: {refused.problem}", "  ", " " * 4)
    return "\n".join(rows)


def plain(radar: Radar) -> dict[str, object]:
    """Return the same for programs, one entry per pull request."""
    facts = ("line", "source", "to", "commit", "date", "heads", "near")
    return {
        **{name: getattr(radar, name) for name in facts},
        "broken": radar.broken,
        "refused": radar.refused,
        "pulls": [
            {
                **{
                    name: getattr(threats[0], name) for name in ("pull", "title", "head", "base", "conflicts", "landed")
                },
                "patches": [{"patch": t.patch, "before": t.before, "after": t.after} for t in threats],
            }
            for threats in _by_pull(radar).values()
        ],
    }


def _by_pull(radar: Radar) -> dict[int, list[Threat]]:
    pulls: dict[int, list[Threat]] = {}
    for threat in sorted(radar.threats, key=lambda t: -t.pull):
        pulls.setdefault(threat.pull, []).append(threat)
    return pulls

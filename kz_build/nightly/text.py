"""What the nightly run writes: the text of issues, pull requests and commits, and of a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kz_build.core.escape import code, code_block, one_line
from kz_build.report import text_diff
from kz_build.upstream.text_health import reasons
from kz_build.upstream.text_history import text as history_text

if TYPE_CHECKING:
    from kz_build.nightly.issue import Trouble
    from kz_build.nightly.move import Moved
    from kz_build.nightly.nightly import LineNight, Nightly, StackNight
    from kz_build.report.diff import Change
    from kz_build.stack.patch_history import PatchHistory
    from kz_build.stack.session import Dropped
    from kz_build.stack.stack_history import StackHistory

_LONGEST_TITLE = 200
_LONGEST_HUNK = 6_000
"""Characters; GitHub takes 65,536 in all."""


def issue_title(history: StackHistory) -> str:
    return one_line(f"{history.line}: patches of {history.source} break on {history.to}")[:_LONGEST_TITLE]


def issue(trouble: Trouble, changes: Sequence[Change]) -> str:
    """Return the text of an issue: a table of what changed, then for each broken patch the commit, its hunk, and what to do."""
    history = trouble.history
    rows = [
        f"{code(history.line)} ({code(history.source)} {code(_short(history.pin))}) against {code(history.to)} {code(history.commit[:10])}:",
        "",
        *text_diff.rows(changes),
    ]
    for one in history.patches:
        if not one.now.holds:
            rows += ["", *_broken(history, one, trouble.hunks.get(one.patch, ""))]
            rows += _candidates(trouble, one.patch)
    if trouble.broken:
        rows += ["", "Next:", "", *code_block(trouble.command, "sh")]
    return "\n".join(rows)


def _broken(history: StackHistory, one: PatchHistory, hunk: str) -> list[str]:
    rows = [f"**{code(one.patch.removesuffix('.patch'))}**", "", *(f"- {reason}" for reason in reasons(history, one))]
    if hunk:
        rows += ["", *code_block(hunk[:_LONGEST_HUNK], "diff")]
    return rows


def _candidates(trouble: Trouble, patch: str) -> list[str]:
    """List the candidates for a patch, if it is the one that stops, each with its diff against upstream's files."""
    suggestion = trouble.suggestion
    if not suggestion or suggestion.stopped.patch.name != patch or not suggestion.shown:
        return []
    rows = [] if suggestion.offers else ["", "kz is not sure; one of these may be right."]
    for number, offer in enumerate(suggestion.shown, 1):
        one = offer.candidate
        rows += [
            "",
            f"Candidate {number}, confidence {one.confidence:.2f}, by {code(one.rule)}: {code(one.reason)}",
            "",
        ]
        rows += code_block(offer.diff[:_LONGEST_HUNK], "diff")
    return [*rows, "", f"{code('kz rebase --take N')} continues with one of them."]


def pull_title(line: str, moves: Sequence[Moved]) -> str:
    """Return the title of a line's pull request, which is also the first line of its commit."""
    steps = ", ".join(f"{one.written.source} {_short(one.was)} -> {_short(one.written.version)}" for one in moves)
    return one_line(f"{line}: {steps}")[:_LONGEST_TITLE]


def _short(version: str) -> str:
    return version[:10] if len(version) == 40 else version


def pull_body(line: str, moves: Sequence[Moved], stuck: Sequence[Trouble]) -> str:
    """Return the text of a line's pull request: what moved, git's range-diff of each stack, and candidates for what did not move."""
    rows = [
        "Every patch applies there, and every check of the stacks holds. The other pins of the line stay as they are, and only a build shows whether it compiles."
    ]
    for one in moves:
        written = one.written
        rows += [
            "",
            f"{code(written.source)} {code(_short(one.was))} → {code(written.version)}, tree {code(written.tree)}",
            "",
        ]
        rows += [f"- {code(note)}" for note in written.notes]
        rows += [f"- {code(_dropped(dropped))}" for dropped in written.dropped]
        rows += ["", *code_block(written.range_diff or "(no patch is left)", "")]
    for trouble in stuck:
        history = trouble.history
        rows += [
            "",
            f"{code(history.source)} stays at {code(_short(history.pin))}, because of patches on {code(history.to)}:",
        ]
        for patch in trouble.broken:
            rows += ["", f"- {code(patch.removesuffix('.patch'))}", *_candidates(trouble, patch)]
    rows += ["", "Next:", "", *code_block(f"kz verify --line {line}\nkz build --line {line}", "sh")]
    return "\n".join(rows)


def _dropped(one: Dropped) -> str:
    since = f", since {one.title}" if one.title else ""
    return f"{one.patch.removesuffix('.patch')}: dropped, upstream has it at {', '.join(one.there)}{since}"


def commit_message(line: str, moves: Sequence[Moved], trailer: str) -> str:
    """Return the message of a line's commit."""
    notes = [note for one in moves for note in (*one.written.notes, *map(_dropped, one.written.dropped))]
    paragraphs = (pull_title(line, moves), "\n".join(one_line(note) for note in notes), trailer)
    return "\n\n".join(filter(None, paragraphs)) + "\n"


def summary(night: Nightly) -> str:
    """Return the job's summary: the pull requests, and the table of all stacks; '' if there is neither."""
    pulls = [f"- pull request {code(_pull(line))}" for line in night.lines if line.pull]
    changes = [change for line in night.lines for stack in line.stacks for change in stack.changes]
    rows = [*pulls, "", *text_diff.rows(changes)]
    return "\n".join(["### The stacks on upstream's newest versions", "", *rows, ""]) if pulls or changes else ""


def terminal(night: Nightly) -> str:
    """Show each stack, and what was done about it; in a dry run what would be pushed and said."""
    return "\n".join(row for line in night.lines for row in _line(line))


def _line(line: LineNight) -> list[str]:
    rows = [row for stack in line.stacks for row in _stack(stack)]
    if line.pull:
        rows.append(f"pull request: {_pull(line)}")
    rows += [f"  {row}".rstrip() for row in (*line.body.splitlines(), *line.diff.splitlines())]
    return rows


def _pull(line: LineNight) -> str:
    if line.pull is None:
        return ""
    done = " ".join(filter(None, (line.pull.did, line.pull.url)))
    return f"{line.title}: {done}" + (f" ({line.pull.why})" if line.pull.why else "")


def _stack(stack: StackNight) -> list[str]:
    if stack.history is None:
        moved = f"moves by itself to {_short(stack.to)}" if stack.to else "nothing newer"
        return [f"{stack.line} {stack.source} {_short(stack.pin)}: {moved}"]
    rows = [history_text(stack.history, {})]
    if stack.issue:
        rows.append(" ".join(filter(None, ("issue:", stack.issue.did, stack.issue.url))))
    return [*rows, *(f"  {row}".rstrip() for row in stack.text.splitlines())]

"""A stack on its way to another base: what is left to pick, and where it stopped. Stored as one JSON file."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from kz_build.core.errors import ConfigError
from kz_build.core.rules import bad_id, bad_version
from kz_build.pins.pins import NAME


class Dropped(NamedTuple):
    """A patch that was left out because upstream has it: in which lines, `path:first-last`, and since which commit.

    `commit` is the id and `title` the displayed form; '' if not known.
    """

    patch: str
    there: tuple[str, ...]
    commit: str = ""
    title: str = ""


class Answer(NamedTuple):
    """A stop that its user answered: the commit that stopped, its subject, the worktree's commit before it, and how many notes and
    dropped patches there were."""

    commit: str
    subject: str
    before: str
    notes: int
    dropped: int


@dataclass(frozen=True)
class Session:
    """What `rebase`, `edit`, `import-pr` and `upstream` remember between two commands.

    `into` is the line to write at the end and `version` its pin; `base` the commit below its stack. `stack_tip` is the
    stack at the start, by the `digest` of its files. `old_base` and `old_tip` are the ends of the commits to pick,
    `todo` those left; `picking` is the one in the worktree, `stopped` its subject, `before` the worktree's commit before it, `merged` what git's
    three-way merge committed there, `shown` the candidates that kz listed for it, as commits; `stop` says why it stopped, in lines, the last of them what
    to do.
    `tip` is the last commit made. `keep` are the commits to apply even if upstream has their change. `patch` is the one that
    `upstream` prepares. A candidate is taken unasked from a confidence of `take_above` on, unless that is 0. `notes` say what happened on the way, `dropped` which patches upstream has, `answers` which stops are behind it.
    `ended` is '' while it is open, else `written` or `aborted`.
    """

    verb: str
    line: str
    source: str
    into: str
    version: str
    base: str
    old_base: str
    old_tip: str
    stack_tip: str
    digest: str
    tip: str
    todo: tuple[str, ...] = ()
    picking: str = ""
    stopped: str = ""
    before: str = ""
    merged: str = ""
    shown: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    patch: str = ""
    notes: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    take_above: float = 0
    dropped: tuple[Dropped, ...] = ()
    answers: tuple[Answer, ...] = ()
    ended: str = ""

    def answered(self, tip: str, *notes: str) -> Session:
        """Return the session with the patch in the worktree done, `tip` being the last commit now; `undo` comes back to it."""
        answers = self.answers
        if self.picking != self.tip:  # else the whole stack was in the worktree, for its checks
            answers = (
                *answers,
                Answer(self.picking, self.stopped, self.before, len(self.notes), len(self.dropped)),
            )
        return replace(self, tip=tip, picking="", before="", notes=(*self.notes, *notes), answers=answers)

    def text(self) -> bytes:
        """Encode as the content of its file."""
        return json.dumps(asdict(self), indent=1).encode() + b"\n"


def parse_session(data: bytes, name: str) -> Session:
    """Read what `text` wrote, from the file `name`. Raises ConfigError for anything else."""
    try:
        fields: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in json.loads(data).items()
        }
        rows = fields.pop("dropped", ())
        dropped = tuple(Dropped(patch, tuple(there), *rest) for patch, there, *rest in rows)
        answers = tuple(Answer(*row) for row in fields.pop("answers", ()))
        session = Session(**fields, dropped=dropped, answers=answers)
        wrong = _wrong(session)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        wrong = str(error)
    if wrong:
        raise ConfigError(f"{name} was not written by kz: {wrong}", hint="remove its folder, and start again")
    return session


def _wrong(session: Session) -> str:
    """Return what is wrong with a session, '' for nothing: what it names goes to git, and into pins and lock."""
    for name in ("line", "source", "into"):
        if not re.fullmatch(NAME, getattr(session, name)):
            return f"`{name}` is not a name"
    for name in ("base", "old_base", "old_tip", "stack_tip", "tip"):
        if wrong := bad_id(getattr(session, name)):
            return f"`{name}` {wrong}"
    for commit in (*session.todo, *session.keep, *session.shown, session.picking, session.before, session.merged):
        if commit and (wrong := bad_id(commit)):
            return f"a commit {wrong}"
    if not all(isinstance(row, str) for row in session.stop):
        return "`stop` is no text"
    for answer in session.answers:
        if wrong := bad_id(answer.commit) or bad_id(answer.before):
            return f"an answer {wrong}"
        if not isinstance(answer.subject, str) or not all(isinstance(n, int) for n in answer[3:]):
            return "an answer is no answer"
    if not isinstance(session.take_above, int | float) or not 0 <= session.take_above <= 1:
        return "`take_above` is no share"
    if session.verb == "rebase" and (wrong := bad_version(session.version)):
        return f"`version` {wrong}"
    return ""

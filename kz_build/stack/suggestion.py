"""What to make of a patch that stopped a rebase: candidates that passed the same gate as anybody's answer."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kz_build.core import plain_json
from kz_build.core.errors import ConfigError, ConflictError
from kz_build.core.escape import one_line
from kz_build.core.rules import unsafe_path
from kz_build.git import fast_import, format_patch
from kz_build.git import log as history
from kz_build.git.object_types import FILE, FOLDER, LINK, Blob
from kz_build.patch.intent_checks import evaluate
from kz_build.patch.mail import parse_patch
from kz_build.patch.trailers import with_trailers
from kz_build.resolve.candidate import SHOWN, Candidate, likely, made_candidates
from kz_build.stack.other_lines import OtherPatch, candidates_of, other_patches
from kz_build.stack.verdict_cache import files_at, read_blobs

if TYPE_CHECKING:
    from kz_build.git.object_types import Commit
    from kz_build.patch.change import Patch
    from kz_build.patch.intent_checks import IntentCheck
    from kz_build.pins.project import Project
    from kz_build.stack.pinned import PinnedStack
    from kz_build.stack.session import Session

ANSWER_BYTES = 64 << 20
MOST_FILES = 40
"""How many of upstream's other files are searched for code that it moved."""
MOST_COMMITS = 40
"""How many of upstream's commits are searched for those that are in a patch's way."""
MOST_NAMED = 3
_MARKER = re.compile(rb"^(?:<{7}|>{7}|\|{7})(?: |\r?$)", re.MULTILINE)

Blobs = Mapping[str, Blob]


@dataclass(frozen=True)
class Stopped:
    """A patch that does not apply: the commit `picking` of the old stack, to be put on `tip`, a commit of the stack on `onto`.

    `base` and `theirs` are its files before and after it, `ours` those of `tip`, with upstream's other files that may have the
    code by now. `others` are the patches of its name on other lines.
    """

    pinned: PinnedStack
    patch: Patch
    picking: str
    tip: str
    onto: str
    base: Blobs
    ours: Blobs
    theirs: Blobs
    checks: tuple[IntentCheck, ...]
    others: tuple[OtherPatch, ...] = ()

    @property
    def own_checks(self) -> tuple[IntentCheck, ...]:
        """The checks of this patch, of those of the stack."""
        return tuple(check for check in self.checks if check.slug == self.patch.slug)


@dataclass(frozen=True)
class Offer:
    """A candidate that passed the gate. `diff` is what it changes in upstream's files, `from_patched` how its files differ from
    those that the patch left on the version it was made for."""

    candidate: Candidate
    commit: str
    diff: str
    from_patched: str

    def plain(self) -> dict[str, object]:
        """Return it as JSON, with the contents of files as `encoded` writes them."""
        files = self.candidate.files
        return {
            "rule": self.candidate.rule,
            "confidence": round(self.candidate.confidence, 3),
            "reason": self.candidate.reason,
            "files": {path: None if data is None else encoded(data) for path, data in files.items()},
            "diff": self.diff,
            "from_patched": self.from_patched,
        }


@dataclass(frozen=True)
class Suggestion:
    """The offers for a stopped patch, the best first, with what another tool needs to make one of its own.

    Where the first is not likely right there are no `offers`, and `possible` has what a person may still choose from.
    """

    stopped: Stopped
    offers: tuple[Offer, ...] = ()
    possible: tuple[Offer, ...] = ()

    @property
    def shown(self) -> tuple[Offer, ...]:
        """What a person sees, likely or possible; `kz rebase --take` counts these from 1."""
        return self.offers or self.possible

    def plain(self) -> dict[str, object]:
        """Return it as JSON, with the contents of files as `encoded` writes them."""
        stopped = self.stopped
        sides = {"base": stopped.base, "ours": stopped.ours, "theirs": stopped.theirs}
        return {
            "patch": stopped.patch.name,
            "message": stopped.patch.message,
            **{side: {path: encoded(blob.data) for path, blob in files.items()} for side, files in sides.items()},
            "candidates": [offer.plain() for offer in self.offers],
            "possible": [offer.plain() for offer in self.possible],
            "commits": [commit.shown for commit in upstream_commits(stopped)],
            "checks": [{"file": c.file, "kind": c.kind, "where": c.where} for c in stopped.own_checks],
        }


def stopped_patch(
    project: Project, pinned: PinnedStack, picking: str, tip: str, session: Session, checks: tuple[IntentCheck, ...]
) -> Stopped:
    """Read the three sides of a patch that stopped; `checks` are those of its stack."""
    slug, mail = format_patch.format_mails(pinned.repository, f"{picking}^", picking)[0]
    patch = next((p for p in pinned.stack.patches if p.slug == slug), None) or parse_patch(f"{slug}.patch", mail)
    others = other_patches(project, session, patch.slug)
    paths = patch.reads
    ours = files_at(pinned, tip, paths)
    moved = _moved_to(pinned, session.old_base, session.base, paths, {path for path in paths if path not in ours})
    return Stopped(
        pinned,
        patch,
        picking,
        tip,
        session.base,
        files_at(pinned, f"{picking}^", paths),
        {**files_at(pinned, tip, {*moved, *(path for other in others for path in other.patch.reads)}), **ours},
        files_at(pinned, picking, paths),
        checks,
        others,
    )


def upstream_commits(stopped: Stopped) -> tuple[Commit, ...]:
    """Return upstream's commits on the patch's files since the version it was made for."""
    repository, pinned = stopped.pinned.repository, stopped.pinned
    parted = history.merge_base(repository, pinned.base, stopped.onto)
    return history.log(repository, parted, stopped.onto, stopped.patch.reads) if parted else ()


def _moved_to(pinned: PinnedStack, old_base: str, base: str, paths: Iterable[str], gone: Iterable[str]) -> list[str]:
    """Return files of upstream that may have by now what was in the patch's files: new names, and what changed with them."""
    repository = pinned.repository
    parted = history.merge_base(repository, old_base, base)
    if not parted:
        return []
    files = [move[1] for path in gone if (move := history.renamed(repository, parted, base, path)) and move[1]]
    suffixes = {Path(path).suffix for path in paths}
    changes = [
        (path, before)
        for commit in reversed(history.log(repository, parted, base, paths, whole=True))
        for path, _, before, after in commit.changes
        if after.strip("0") and Path(path).suffix in suffixes
    ]
    # Code moves to new files more often than to those that there were.
    files += [path for path, before in changes if not before.strip("0")]
    files += [path for path, _ in changes]
    return [path for path in dict.fromkeys(files) if path not in set(paths)][:MOST_FILES]


def suggestion(stopped: Stopped) -> Suggestion:
    """Return up to three candidates that pass the gate, each as a commit: offers if the first is likely right, else possible ones."""
    sides = ({path: blob.data for path, blob in side.items()} for side in (stopped.base, stopped.ours, stopped.theirs))
    known = candidates_of(stopped.others, stopped.ours.get)
    own = (one.candidate for one in made_candidates(*sides))
    every = [*known, *(one for one in own if all(one.files != other.files for other in known))]
    passed = [one for one in every if not refusals(stopped, one.files)][:SHOWN]
    commits = upstream_commits(stopped) if passed else ()
    offers = tuple(_offer(stopped, _with_commits(stopped, one, commits)) for one in passed)
    return Suggestion(stopped, offers) if likely(passed) else Suggestion(stopped, possible=offers)


def _with_commits(stopped: Stopped, candidate: Candidate, commits: Sequence[Commit]) -> Candidate:
    """Add to the reason the newest commits of upstream that wrote, or removed, the lines that are in the way."""
    ids = {
        oid for commit in commits[-MOST_COMMITS:] for _, _, *both in commit.changes for oid in both if oid.strip("0")
    }
    with stopped.pinned.repository.objects() as objects:
        blobs = read_blobs(stopped.pinned.repository, objects, ids) if candidate.rewrites else {}
    guilty = []
    for rewrite in candidate.rewrites[:MOST_NAMED]:
        lines = b"".join(rewrite.now or rewrite.was)
        for commit in reversed(commits[-MOST_COMMITS:]):
            sides = ([blobs.get(oid, b"").count(lines) for oid in both] for _, _, *both in commit.changes)
            if any(before != after for before, after in sides):
                guilty.append(commit.shown)
                break
    since = f"; upstream did that in {', '.join(dict.fromkeys(guilty))}" if guilty else ""
    return replace(candidate, reason=candidate.reason + since)


def _offer(stopped: Stopped, candidate: Candidate) -> Offer:
    commit = write(stopped, candidate.files)
    paths = [f":(literal){path}" for path in sorted({*candidate.files, *stopped.patch.reads})]

    def diff(before: str) -> str:
        words = ("--no-color", "--no-ext-diff", "--no-renames", "--end-of-options")
        return stopped.pinned.repository.git("diff", *words, before, commit, "--", *paths).decode("utf-8", "replace")

    return Offer(candidate, commit, diff(stopped.tip), diff(stopped.picking))


def refusals(stopped: Stopped, files: Mapping[str, bytes | None]) -> list[str]:
    """Return why a result must not be taken, in sentences; none if it may.

    It changes something, and only files of the patch or those it moved to; replaces no folder, and makes no symbolic link but
    the patch's own; has no conflict markers that upstream has not; and the patch's own checks of checks.yaml hold on it.
    """
    known = {*stopped.patch.reads, *stopped.ours, *(path for other in stopped.others for path in other.patch.reads)}
    problems = [
        f"{one_line(path)} is no file of the patch, nor one that its code moved to"
        for path in files
        if path not in known
    ]
    changed = {p: d for p, d in files.items() if d != (stopped.ours[p].data if p in stopped.ours else None)}
    if not changed:
        problems.append("it changes nothing")
    for path, data in changed.items():
        there, after = stopped.ours.get(path), stopped.theirs.get(path)
        if any(blob and blob.mode == FOLDER for blob in (there, after)):
            problems.append(f"{path} is a folder")
        if any(blob and blob.mode == LINK and (there or data != blob.data) for blob in (there, after)):
            problems.append(f"{path} is a symbolic link")
        if data and len(_MARKER.findall(data)) > len(_MARKER.findall(there.data if there else b"")):
            problems.append(f"{path} has conflict markers")
    result = {**{path: blob.data for path, blob in stopped.ours.items()}, **files}
    for check in stopped.own_checks:
        if check.file in known and (problem := evaluate(check, result.get(check.file))):
            problems.append(f"{check.kind} ({check.where}): {problem}")
    return problems


def _modes(stopped: Stopped) -> dict[str, Blob | None]:
    """Return upstream's files whose mode the patch changes, with that mode: a result has contents alone."""
    return {
        path: Blob(after.mode, there.data)
        for path, after in stopped.theirs.items()
        if (base := stopped.base.get(path)) and (there := stopped.ours.get(path))
        if there.mode == base.mode != after.mode and LINK not in (base.mode, after.mode)
    }


def write(stopped: Stopped, files: Mapping[str, bytes | None], trailers: Mapping[str, str] | None = None) -> str:
    """Write a result as a commit with the patch's author, date and message, and these trailers; return its id."""
    patch, blobs = stopped.patch, _modes(stopped)
    for path, data in files.items():
        like = blobs.get(path) or stopped.ours.get(path) or stopped.theirs.get(path)
        blobs[path] = None if data is None else Blob(like.mode if like else FILE, data)
    message = with_trailers(patch.message, dict(trailers)) if trailers else patch.message
    commit = (f"{patch.author} {patch.date}", message, blobs)
    stream = fast_import.commits_stream(stopped.tip, [commit], "refs/kz/candidate")
    return stopped.pinned.repository.fast_import(stream).decode().split()[-1]


def answer(path: Path) -> dict[str, bytes | None]:
    """Read another tool's answer: JSON with `files`, path -> content as `encoded` writes it, or null for a file that goes.

    Raises ConfigError for anything else.
    """
    try:
        rows = plain_json.read(path, ANSWER_BYTES)["files"]
        files = {name: None if content is None else decoded(content) for name, content in rows.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(
            f"{path} is not an answer: {error}",
            hint='it is JSON: {"files": {"PATH": "its whole content"}}, as in kz rebase --suggest --json',
        ) from None
    if wrong := next((f"{name}: {why}" for name in files if (why := unsafe_path(name))), ""):
        raise ConfigError(f"{path} names a file that no patch may change: {wrong}")
    return files


def encoded(data: bytes) -> str | dict[str, str]:
    """Return a file's content as JSON: its text if it is UTF-8, else `{"base64": …}`."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def decoded(content: str | dict[str, str]) -> bytes:
    """Return what `encoded` wrote. Raises ValueError or TypeError for anything else."""
    try:
        return content.encode() if isinstance(content, str) else base64.b64decode(content["base64"], validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def require_taken(stopped: Stopped, files: Mapping[str, bytes | None], name: str, hint: str) -> None:
    """Raise ConflictError with all reasons why a result must not be taken."""
    if problems := refusals(stopped, files):
        raise ConflictError(
            "\n".join([f"{name} cannot be taken:", *(f"  {problem}" for problem in problems)]),
            hint=hint,
        )

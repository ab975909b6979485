"""Objects of a repository, read through one running `git cat-file --batch`."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kz_build.core.errors import CommandError, KzError, LockError
from kz_build.core.process import Process, TimeoutExpired
from kz_build.git.object_types import FOLDER, object_id

_DAMAGE = re.compile(r"corrupt|inflate|hash mismatch|garbage at end")
"""Git's words for an object that is there but damaged."""
_COMMITTED = re.compile(rb"(?m)^committer .*> (\d{1,11}) ")
"""The seconds of a commit's date; git reads one that has none as of 1970."""
SILENT_SECONDS = 600.0
"""A git that has not answered a request for so long hangs."""
_ENDING_SECONDS = 1.0
"""How long a git may take to end once it has closed its pipes."""
GitObject = tuple[str, str, bytes]
"""(id, type, content) of an object."""


class ObjectsMissing(KzError):
    """Objects that a read needs are not in the partial clone yet; the caller fetches them and reads again."""

    exit_code = 6
    name = "missing"


class Objects:
    """Requests to a running `cat-file --batch`. Pipes never fill up: no more is requested ahead than any pipe holds."""

    AHEAD = 64

    def __init__(self, start: Callable[[], Process], path: Path) -> None:
        self.start, self.path = start, path
        self.process = start()
        self.requests, self.silent = 0, False
        self.waiting: int | None = None
        """The number of the request that git has not answered yet."""

    def stop(self) -> None:
        """End a git that does not answer."""
        self.silent = True
        self.process.kill()

    def get(self, name: str) -> GitObject | None:
        """Return (id, type, content) of an object by any name git knows; None if there is none."""
        return next(self.get_many([name]))

    def get_many(self, names: Sequence[str]) -> Iterator[GitObject | None]:
        """Do `get` for each name in turn; git looks for the next ones while these are used. Read it to its end."""
        for start in range(0, len(names), self.AHEAD):
            part = names[start : start + self.AHEAD]
            self._ask(part)
            for name in part:
                yield self._answer(name)

    def _ask(self, names: Sequence[str]) -> None:
        assert self.process.stdin
        try:
            self.process.stdin.write(b"".join(os.fsencode(name) + b"\n" for name in names))
            self.process.stdin.flush()
        except BrokenPipeError:
            with contextlib.suppress(TimeoutExpired):
                self.process.wait(_ENDING_SECONDS)
            ended = self.process.returncode is not None
            self.process.kill()  # it reads no more, so it may wait for ever; what it said can still be read
            raise self._gone(names[0], by_itself=ended) from None

    def _answer(self, name: str) -> GitObject | None:
        header, data = self._read()
        if not header:
            raise self._gone(name)
        if header[-1] in (b"missing", b"ambiguous"):
            return None
        oid, kind = header[0].decode(), header[1].decode()
        if object_id(kind, data, sha256=len(oid) == 64) != oid:  # git itself only compares when it writes, or in fsck
            raise self._damaged(name, f"{kind} {oid} has other content")
        return oid, kind, data

    def _read(self) -> tuple[list[bytes], bytes]:
        """Return the words of git's next answer, none if git ended before its end, and the content that follows them."""
        assert self.process.stdout
        self.requests += 1
        self.waiting = self.requests
        header, data = self.process.stdout.readline().split(), b""
        if header and header[-1] not in (b"missing", b"ambiguous"):
            size = int(header[2])
            data = self.process.stdout.read(size + 1)  # a newline ends it
            header, data = header if len(data) > size else [], data[:size]
        self.waiting = None
        return header, data

    def content(self, blob: str) -> bytes:
        """Return a blob's bytes, or the paths below a tree joined by NUL. Raises ObjectsMissing."""
        item = self.get(blob)
        if item is None:
            raise ObjectsMissing(f"the blob {blob} is not in the partial clone")
        return item[2] if item[1] == "blob" else b"\0".join(self._below(item[2]))

    def _below(self, tree: bytes) -> Iterator[bytes]:
        while tree:
            head, rest = tree.split(b"\0", 1)
            mode, name = head.split(b" ", 1)
            item = self.get(rest[:20].hex()) if mode == FOLDER.encode() else None
            yield from (name + b"/" + path for path in self._below(item[2])) if item else (name,)
            tree = rest[20:]

    def commit(self, name: str) -> tuple[str, str] | None:
        """Do `commits` for one name."""
        return self.commits([name])[0]

    def commits(self, names: Sequence[str]) -> list[tuple[str, str] | None]:
        """Return (id, committer's date as YYYY-MM-DD) for tags, branches or ids; None for an unknown name."""
        commits: dict[str, tuple[str, str]] = {}
        for form in ("refs/tags/{}", "refs/heads/{}", "{}"):
            left = [name for name in names if name not in commits and "\n" not in name]
            for name, item in zip(left, self.get_many([form.format(n) + "^{commit}" for n in left]), strict=True):
                if item:
                    stamp = _COMMITTED.search(item[2])
                    commits[name] = item[0], time.strftime("%Y-%m-%d", time.gmtime(int(stamp[1]) if stamp else 0))
        return [commits.get(name) for name in names]

    def _gone(self, name: str, *, by_itself: bool = True) -> KzError:
        """Return why git ended, and start the next one. `by_itself` is false if this process killed it."""
        assert self.process.stderr
        problem = self.process.stderr.read().decode("utf-8", "replace").strip()
        with contextlib.suppress(TimeoutExpired):
            self.process.wait(_ENDING_SECONDS)
        code = self.process.returncode or 0
        # Git exits at an object that a partial clone lacks; the next request is another one.
        self.process = self.start()
        if self.silent:
            self.silent = False
            return CommandError(
                f"`git cat-file` in {self.path} said nothing for {SILENT_SECONDS:g} s, and was ended",
                hint="does its disk answer? see dmesg, then run the command again",
            )
        if _DAMAGE.search(problem):
            return self._damaged(name, problem)
        # By SIGPIPE git ends itself, where it lacks an object and may not fetch it.
        if by_itself and code < 0 and code != -signal.SIGPIPE:
            return CommandError(f"`git cat-file` in {self.path} was killed by signal {-code}", code=code)
        return ObjectsMissing(f"git could not read {name}: {problem}")

    def _damaged(self, name: str, problem: str) -> LockError:
        return LockError(
            f"{self.path.parent.name}/{self.path.name} was changed or damaged: git could not read {name}\n{problem}",
            hint=f"nothing of it was used. If it is kz's own, remove it and kz fetches it again: rm -rf {self.path}",
        )

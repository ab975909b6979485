"""Git plumbing on the store's bare repositories. Reading never dials out; what is missing is asked for in one go."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kz_build.adapters.environment import networked, plain
from kz_build.adapters.files import disk_errors, remove, write_atomic
from kz_build.adapters.process import Output, Process, checked, conversation, followed, required, run
from kz_build.model.errors import CommandError, KzError, LockError
from kz_build.model.exclude import excluded
from kz_build.model.objects import FOLDER

if TYPE_CHECKING:
    from kz_build.model.events import Watch


class ObjectsMissing(KzError):
    """Objects that a read needs are not in the partial clone yet; the caller fetches them and reads again."""

    exit_code = 6
    name = "missing"


class Entry(NamedTuple):
    """One file or submodule of a tree."""

    mode: str
    id: str
    path: str

    @property
    def submodule(self) -> bool:
        """Whether this is a gitlink."""
        return self.mode == "160000"


def local_environment() -> dict[str, str]:
    """Environment in which git reads and writes objects alone: no user configuration, no lazy fetch."""
    return {
        **plain(),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
    }


def repository_path(store: Path, name: str, url: str) -> Path:
    """Where the partial clone of an address lies in the store; it may not be made yet."""
    return (
        store / "git" / f"{re.sub(r'[^A-Za-z0-9._-]', '-', name)}-{hashlib.sha256(url.encode()).hexdigest()[:12]}.git"
    )


def contents_path(store: Path) -> Path:
    """The repository that holds wheels and folders as commits."""
    return store / "git" / "contents.git"


class Repository(NamedTuple):
    """A bare repository in the store, and who watches what is fetched into it."""

    path: Path
    watch: Watch | None = None

    def argv(self, *words: str) -> list[str]:
        """A git command line on this repository."""
        return ["git", f"--git-dir={self.path}", *words]

    def git(self, *words: str, stdin: bytes = b"") -> bytes:
        """Run local plumbing; gives its output. Raises CommandError."""
        return checked(self.argv(*words), env=local_environment(), stdin=stdin)

    def exists(self) -> bool:
        """Whether it was made."""
        return (self.path / "HEAD").is_file()

    def create(self, url: str = "") -> None:
        """Make it if it is not there: a promisor clone of `url`, so that blobs may be absent."""
        if self.exists():
            return
        with disk_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            checked(["git", "init", "--quiet", "--bare", str(self.path)], env=local_environment())
        if url:
            lines = [
                "[core]",
                "\trepositoryformatversion = 1",
                "\tbare = true",
                "[extensions]",
                "\tpartialClone = origin",
                '[remote "origin"]',
                f"\turl = {_quoted(url)}",
                "\tpromisor = true",
                "\tpartialclonefilter = blob:none",
                "[gc]",
                "\tauto = 0",
                "",
            ]
            write_atomic(self.path / "config", "\n".join(lines).encode())

    def has(self, commit: str) -> bool:
        """Whether a commit is here, with its trees."""
        return (
            self.exists() and run(self.argv("cat-file", "-e", f"{commit}^{{tree}}"), env=local_environment()).code == 0
        )

    def tree_id(self, revision: str) -> str:
        """Tree id of a commit."""
        return self.git("rev-parse", "--verify", f"{revision}^{{tree}}").decode().strip()

    def entries(self, revision: str, exclude: Sequence[str] = (), only: Sequence[str] = ()) -> tuple[Entry, ...]:
        """Files and submodules of a tree, or those among `only`, without the excluded ones, in git's order."""
        found = []
        for row in self.git("ls-tree", "-r", "-z", "--full-tree", revision, "--", *only).split(b"\0"):
            if row:
                facts, path = row.split(b"\t", 1)
                mode, _, oid = facts.decode().split(" ")
                name = os.fsdecode(path)
                if not excluded(name, exclude):
                    found.append(Entry(mode, oid, name))
        return tuple(found)

    def absent(self, revision: str) -> set[str]:
        """Ids of the objects of a tree that the partial clone does not hold."""
        said = self.git("rev-list", "--objects", "--no-object-names", "--missing=print", f"{revision}^{{tree}}")
        return {line[1:].decode() for line in said.splitlines() if line.startswith(b"?")}

    def fetch_blobs(self, ids: Iterable[str]) -> None:
        """Ask upstream once for all these blobs."""
        wanted = "".join(f"{oid}\n" for oid in sorted(ids)).encode()
        if wanted:
            required(*self.fetch(["--stdin", "origin"], stdin=wanted, config=["-c", "fetch.negotiationAlgorithm=noop"]))
            self.index_packs()

    def fetch(
        self, words: Sequence[str], *, stdin: bytes = b"", config: Sequence[str] = ()
    ) -> tuple[list[str], Output]:
        """Bring commits and trees from upstream, and only those blobs that are asked for; gives the command and its end."""
        argv = self.argv(*config, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--filter=blob:none")
        if self.watch is None:
            argv += words
            return argv, run(argv, env=networked(), stdin=stdin)
        from kz_build.adapters.progress import Told

        argv += ["--progress", *words]
        told = Told(self.path.stem.rpartition("-")[0], self.watch)
        code = followed(argv, told.line, env=networked(), stdin=stdin)
        return argv, Output(code, b"", told.said.encode())

    def index_packs(self) -> None:
        """One index over all packs: every fetch leaves one more, and git opens them all for any read.

        It only makes reading faster, so that where it cannot be written (a killed git's lock, say) nothing is said.
        """
        run(self.argv("multi-pack-index", "write", "--no-progress"), env=local_environment())

    def packs(self) -> int:
        """How many packs it has: every fetch leaves one."""
        return sum(1 for _ in self.path.glob("objects/pack/*.pack"))

    def repack(self) -> None:
        """All objects in one pack, and one of those that upstream promises; none goes."""
        with disk_errors(self.path):
            self.git("-c", "repack.writeBitmaps=false", "repack", "-a", "-d", "--keep-unreachable", "--quiet")
        self.index_packs()

    def fetch_commit(self, commit: str, version: str, *, history: bool) -> None:
        """Bring a commit with its trees and no blobs: by its own id, and through its tag where the server wants a name."""
        depth = [] if history else ["--depth=1"]
        _, first = self.fetch([*depth, "origin", commit])
        if first.code == 0 and self.has(commit):
            return
        said = first.stderr.decode("utf-8", "replace").strip()
        if version != commit:
            _, named = self.fetch([*depth, "origin", f"+refs/tags/{version}:refs/tags/{version}"])
            said = named.stderr.decode("utf-8", "replace").strip() or said
        if not self.has(commit):
            raise CommandError(
                f"cannot fetch {commit} ({version})\n{said}",
                hint="does upstream still have this commit? did the tag move?",
            )

    @contextlib.contextmanager
    def objects(self) -> Iterator[Objects]:
        """One `cat-file --batch` to read many objects."""
        with contextlib.ExitStack() as stack:
            argv = self.argv("cat-file", "--batch")
            yield Objects(lambda: stack.enter_context(conversation(argv, local_environment())), self.path)

    def fast_import(self, stream: bytes) -> bytes:
        """Feed `git fast-import`; gives what it prints."""
        with disk_errors(self.path):
            return self.git("fast-import", "--quiet", "--date-format=rfc2822", "--force", stdin=stream)

    def checkout(self, entries: Sequence[Entry], folder: Path) -> None:
        """Lay files into a new folder. Uses an index of its own; workers of git's parallel checkout where there are cores."""
        folder.mkdir(parents=True, exist_ok=True)
        files = [e for e in entries if not e.submodule]
        index = folder / ".kz-index"
        env = {**local_environment(), "GIT_INDEX_FILE": str(index), "GIT_WORK_TREE": str(folder)}
        listing = b"".join(f"{e.mode} {e.id}\t".encode() + os.fsencode(e.path) + b"\0" for e in files)
        try:
            with disk_errors(folder):
                checked(self.argv("update-index", "-z", "--index-info"), env=env, stdin=listing, cwd=folder)
                checked(
                    self.argv(
                        "-c",
                        f"checkout.workers={os.cpu_count() or 1}",
                        "-c",
                        "checkout.thresholdForParallelism=100",
                        "checkout-index",
                        "--all",
                        "--force",
                        "--quiet",
                    ),
                    env=env,
                    cwd=folder,
                )
        except CommandError as error:
            if "No space left" in str(error):
                remove(folder)
                raise CommandError(
                    f"the disk of {folder} is full", hint="free space there and run the command again"
                ) from error
            raise
        finally:
            index.unlink(missing_ok=True)


class Objects:
    """Requests to a running `cat-file --batch`. Pipes never fill up: no more is asked ahead than any pipe holds."""

    AHEAD = 64

    def __init__(self, start: Callable[[], Process], path: Path) -> None:
        self.start, self.path = start, path
        self.process = start()

    def get(self, name: str) -> Found | None:
        """(id, type, content) of an object by any name git knows; None where there is none."""
        return next(self.get_many([name]))

    def get_many(self, names: Sequence[str]) -> Iterator[Found | None]:
        """As `get`, for each name in turn: git looks for the next ones while these are used. Read it to its end."""
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
            raise self._gone(names[0]) from None

    def _answer(self, name: str) -> Found | None:
        assert self.process.stdout
        header = self.process.stdout.readline().split()
        if not header:
            raise self._gone(name)
        if header[-1] in (b"missing", b"ambiguous"):
            return None
        size = int(header[2])
        data = self.process.stdout.read(size)
        self.process.stdout.read(1)
        return header[0].decode(), header[1].decode(), data

    def content(self, blob: str) -> bytes:
        """A blob's bytes, or the paths below a tree joined by NUL. Raises ObjectsMissing."""
        got = self.get(blob)
        if got is None:
            raise ObjectsMissing(f"the blob {blob} is not in the partial clone")
        return got[2] if got[1] == "blob" else b"\0".join(self._below(got[2]))

    def _below(self, tree: bytes) -> Iterator[bytes]:
        while tree:
            head, rest = tree.split(b"\0", 1)
            mode, name = head.split(b" ", 1)
            got = self.get(rest[:20].hex()) if mode == FOLDER.encode() else None
            yield from (name + b"/" + path for path in self._below(got[2])) if got else (name,)
            tree = rest[20:]

    def commit(self, name: str) -> tuple[str, str] | None:
        """As `commits`, for one."""
        return self.commits([name])[0]

    def commits(self, names: Sequence[str]) -> list[tuple[str, str] | None]:
        """(id, committer's date as YYYY-MM-DD) of what tags, branches or ids name here; None where one names nothing."""
        found: dict[str, tuple[str, str]] = {}
        for form in ("refs/tags/{}", "refs/heads/{}", "{}"):
            left = [name for name in names if name not in found and "\n" not in name]
            for name, got in zip(left, self.get_many([form.format(n) + "^{commit}" for n in left]), strict=True):
                if got:
                    stamp = next(line for line in got[2].split(b"\n") if line.startswith(b"committer "))
                    found[name] = got[0], time.strftime("%Y-%m-%d", time.gmtime(int(stamp.split()[-2])))
        return [found.get(name) for name in names]

    def _gone(self, name: str) -> KzError:
        assert self.process.stderr
        said = self.process.stderr.read().decode("utf-8", "replace").strip()
        # Git ends at an object that a partial clone lacks; the next question is another one.
        self.process = self.start()
        if _DAMAGE.search(said):
            where = f"{self.path.parent.name}/{self.path.name}"
            return LockError(
                f"{where} was changed or damaged: git could not read {name}\n{said}",
                hint=f"nothing of it was used. If it is kz's own, remove it and kz fetches it again: rm -rf {self.path}",
            )
        return ObjectsMissing(f"git could not read {name}: {said}")


_DAMAGE = re.compile(r"corrupt|inflate|hash mismatch|garbage at end")
"""What git says of an object that is there and is not what it was."""
Found = tuple[str, str, bytes]
"""(id, type, content) of an object."""


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

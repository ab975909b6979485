"""Git plumbing on the store's bare repositories. Reading never dials out; what is missing is asked for in one go."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kz_build.adapters.environment import networked, plain
from kz_build.adapters.files import disk_errors, remove, write_atomic
from kz_build.adapters.objects import Objects
from kz_build.adapters.process import Output, checked, conversation, followed, required, run
from kz_build.model.errors import CommandError
from kz_build.model.exclude import excluded
from kz_build.model.rules import bad_id

if TYPE_CHECKING:
    from kz_build.model.events import Watch


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


def commit_id(text: str) -> str:
    """Return a commit id as it is, or raise CommandError where it is none.

    For checkout, cherry-pick and range-diff: git before 2.44 does not take `--end-of-options` there.
    """
    if wrong := bad_id(text):
        raise CommandError(f"git was not started: a commit id {wrong}, and this is {text!r}")
    return text


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
            checked(["git", "init", "--quiet", "--bare", "--end-of-options", str(self.path)], env=local_environment())
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
        argv = self.argv("cat-file", "-e", "--end-of-options", f"{commit}^{{tree}}")
        return self.exists() and run(argv, env=local_environment()).code == 0

    def tree_id(self, revision: str) -> str:
        """Tree id of a commit."""
        return self.git("rev-parse", "--verify", "--end-of-options", f"{revision}^{{tree}}").decode().strip()

    def entries(self, revision: str, exclude: Sequence[str] = (), only: Sequence[str] = ()) -> tuple[Entry, ...]:
        """Files and submodules of a tree, or those among `only`, without the excluded ones, in git's order."""
        found = []
        for row in self.git("ls-tree", "-r", "-z", "--full-tree", "--end-of-options", revision, *only).split(b"\0"):
            if row:
                facts, path = row.split(b"\t", 1)
                mode, _, oid = facts.decode().split(" ")
                name = os.fsdecode(path)
                if not excluded(name, exclude):
                    found.append(Entry(mode, oid, name))
        return tuple(found)

    def fetch_blobs(self, ids: Iterable[str]) -> None:
        """Ask upstream once for those of these blobs that the clone lacks: it refuses a whole request for one that only we have."""
        wanted = set(ids)
        listing = "".join(f"{oid}\n" for oid in sorted(wanted - self._present(wanted))).encode()
        if listing:
            required(*self.fetch(["--stdin"], stdin=listing, config=["-c", "fetch.negotiationAlgorithm=noop"]))
            self.index_packs()

    def _present(self, blobs: Collection[str]) -> set[str]:
        """Those of these blobs that the clone has."""
        words = ("--objects", "--no-object-names", "--no-walk", "--ignore-missing", "--missing=allow-any", "--stdin")
        said = self.git("rev-list", *words, stdin="".join(f"{oid}\n" for oid in blobs).encode()) if blobs else b""
        return set(said.decode().split())

    def fetch(
        self, options: Sequence[str], *refspecs: str, stdin: bytes = b"", config: Sequence[str] = ()
    ) -> tuple[list[str], Output]:
        """Fetch commits and trees from upstream, and only those blobs that are asked for; return the command and its end."""
        argv = self.argv(*config, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--filter=blob:none")
        argv += [*options, *(() if self.watch is None else ("--progress",)), "--end-of-options", "origin", *refspecs]
        if self.watch is None:
            return argv, run(argv, env=networked(), stdin=stdin)
        from kz_build.adapters.progress import Told

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
        _, first = self.fetch(depth, commit)
        if first.code == 0 and self.has(commit):
            return
        said = first.stderr.decode("utf-8", "replace").strip()
        if version != commit:
            _, named = self.fetch(depth, f"+refs/tags/{version}:refs/tags/{version}")
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


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'

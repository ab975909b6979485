"""Git plumbing on the store's bare repositories. Reading never uses the network; what is missing is fetched in one request."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from kz_build.core.errors import CommandError, ConfigError, StorageError, UnreachableError
from kz_build.core.files import OWN, new_folder, remove, write_atomic
from kz_build.core.paths import excluded
from kz_build.core.process import (
    Output,
    answered,
    checked,
    conversation,
    require_success,
    run,
    run_following_errors,
    watched,
)
from kz_build.core.rules import bad_id
from kz_build.git import cat_file
from kz_build.git.cat_file import Objects
from kz_build.git.damage import damage_told, damaged_parts
from kz_build.git.environment import local_environment, upstream_environment
from kz_build.git.machine_errors import git_disk_errors, require_answer
from kz_build.git.stale_locks import retry_past_stale_locks

if TYPE_CHECKING:
    from threading import Event

    from kz_build.core.progress import Watch


BORROWERS = "kz-borrowers"
"""Folder of a clone with a file for each worktree that borrows its objects: the worktree's path."""

_CLONE = """[core]
\trepositoryformatversion = 1
\tbare = true
[extensions]
\tpartialClone = origin
[remote "origin"]
\turl = {url}
\tpromisor = true
\tpartialclonefilter = blob:none
[gc]
\tauto = 0
"""
"""Configuration of a partial clone."""

_REFUSED = re.compile(r"(^|/)(\.{0,2}|\.git)(/|$)", re.IGNORECASE)
"""A component of a path that git refuses."""


class TreeEntry(NamedTuple):
    """One file or submodule of a tree."""

    mode: str
    id: str
    path: str

    @property
    def submodule(self) -> bool:
        """Whether this is a gitlink."""
        return self.mode == "160000"


def commit_id(text: str) -> str:
    """Return a commit id as it is, or raise CommandError: git before 2.44 has no `--end-of-options` in checkout and the like."""
    if wrong := bad_id(text):
        raise CommandError(f"git was not started: a commit id {wrong}, and this is {text!r}")
    return text


def repository_path(store: Path, name: str, url: str) -> Path:
    """Return where the partial clone of an address is in the store; it may not exist yet."""
    return (
        store / "git" / f"{re.sub(r'[^A-Za-z0-9._-]', '-', name)}-{hashlib.sha256(url.encode()).hexdigest()[:12]}.git"
    )


def contents_path(store: Path) -> Path:
    """Return the repository that stores wheels and folders as commits."""
    return store / "git" / "contents.git"


class Repository(NamedTuple):
    """A repository, the watcher of its fetches, and the address that it is a partial clone of. It is one of the store, or
    that of a worktree: `lender` is then the clone whose objects it borrows."""

    path: Path
    watch: Watch | None = None
    url: str = ""
    lender: Path | None = None

    def argv(self, *words: str) -> list[str]:
        """Return a git command line on this repository."""
        return ["git", f"--git-dir={self.path}", *words]

    def git(self, *words: str, stdin: bytes | IO[bytes] = b"") -> bytes:
        """Run local plumbing; return its output. Raises CommandError."""
        argv = self.argv(*words)
        done = retry_past_stale_locks(self.path, lambda: run(argv, env=local_environment(), stdin=stdin))
        try:
            require_success(argv, done)
        except CommandError as error:
            if not self.lender and damage_told(str(error)):
                error.hint = "kz store verify tells whether the store is damaged, and what to remove"
            raise
        return done.stdout

    def exists(self) -> bool:
        """Return whether git can work in it."""
        return not damaged_parts(self.path, self.configuration())

    def configuration(self) -> str:
        """Return the text of a new one's file `config`."""
        return _CLONE.format(url=quoted(self.url)) if self.url else "[core]\n"

    def create(self) -> None:
        """Create it if it is not there; with an address as a promisor clone, so that blobs may be absent.

        A kill leaves nothing or the whole. A damaged one gets back what it lacks: its objects need not be fetched again.
        Only without `objects` it is created again. The caller holds its lock.
        """
        damaged = damaged_parts(self.path, self.configuration())
        if not damaged:
            return
        existed = self.path.exists()
        with git_disk_errors(self.path):
            if "objects" in damaged:
                with new_folder(self.path) as folder:
                    self._init(folder)
            else:
                for name in damaged:
                    remove(self.path / name)
                self._init(self.path)
        if existed and self.watch:
            from kz_build.core.progress import Event

            name, how = (
                f"{self.path.parent.name}/{self.path.name}",
                "made again" if "objects" in damaged else "repaired",
            )
            self.watch(Event("", text=f"{name} in the store was damaged ({', '.join(damaged)}) and has been {how}"))

    def _init(self, folder: Path) -> None:
        checked(["git", "init", "--quiet", "--bare", "--end-of-options", str(folder)], env=local_environment())
        if self.url:
            write_atomic(folder / "config", self.configuration().encode(), OWN)

    def has(self, commit: str) -> bool:
        """Return whether a commit is here, with its trees."""
        argv = self.argv("cat-file", "-e", "--end-of-options", f"{commit}^{{commit}}^{{tree}}")
        return self.exists() and answered(argv, run(argv, env=local_environment())).code == 0

    def tree_id(self, revision: str) -> str:
        """Return the tree id of a commit."""
        return self.git("rev-parse", "--verify", "--end-of-options", f"{revision}^{{tree}}").decode().strip()

    def entries(self, revision: str, exclude: Sequence[str] = (), only: Sequence[str] = ()) -> tuple[TreeEntry, ...]:
        """Return the files and submodules of a tree, or those among `only`, without the excluded ones, in git's order.

        Raises ConfigError for names that git reads but would leave out of a checkout in silence.
        """
        names, entries = set(), []
        words = ("ls-tree", "-r", "-t", "-z", "--full-tree", "--end-of-options", revision, *only)
        for row in self.git(*words).split(b"\0")[:-1]:
            facts, path = row.split(b"\t", 1)
            mode, kind, oid = facts.decode().split(" ")
            name = os.fsdecode(path)
            if name in names or _REFUSED.search(name):
                what = f"two files named {name!r}" if name in names else f"a file {name!r}, which git refuses"
                raise ConfigError(f"{self.path.name} has {what}", hint="pin another version of this source")
            names.add(name)
            if kind != "tree" and not excluded(name, exclude):
                entries.append(TreeEntry(mode, oid, name))
        return tuple(entries)

    def fetch_blobs(self, ids: Iterable[str]) -> None:
        """Fetch at once those of these blobs that it lacks: upstream refuses a whole request for one that only we have."""
        wanted = set(ids)
        listing = "".join(f"{oid}\n" for oid in sorted(wanted - self._present(wanted))).encode()
        if listing:
            clone = self._replace(path=self.lender, lender=None) if self.lender else self
            argv, done = clone.fetch(["--stdin"], stdin=listing, config=["-c", "fetch.negotiationAlgorithm=noop"])
            require_answer(argv, done)
            clone.index_packs()

    def _present(self, blobs: Collection[str]) -> set[str]:
        """Return those of these blobs that the clone has."""
        words = ("--objects", "--no-object-names", "--no-walk", "--ignore-missing", "--missing=allow-any", "--stdin")
        output = self.git("rev-list", *words, stdin="".join(f"{oid}\n" for oid in blobs).encode()) if blobs else b""
        return set(output.decode().split())

    def fetch(
        self, options: Sequence[str], *refspecs: str, stdin: bytes = b"", config: Sequence[str] = ()
    ) -> tuple[list[str], Output]:
        """Fetch commits and trees from upstream, and only the blobs that are named; return the command and its output."""
        argv = self.argv(*config, "fetch", "--quiet", "--no-auto-maintenance")
        argv += ["--no-tags", "--no-prune", "--no-write-fetch-head", "--update-shallow", "--filter=blob:none"]
        argv += [*options, *(() if self.watch is None else ("--progress",)), "--end-of-options", "origin", *refspecs]
        # From a shallow clone that serves no filters, git 2.39 starts one more fetch for commits that the clone lacks, and
        # that another, without end.
        env = {**upstream_environment(), "GIT_NO_LAZY_FETCH": "1"}

        def once() -> Output:
            if self.watch is None:
                return run(argv, env=env, stdin=stdin, timeout=None)
            from kz_build.git.fetch_progress import FetchProgress

            progress = FetchProgress(self.path.stem.rpartition("-")[0], self.watch)
            code = run_following_errors(argv, progress.line, env=env, stdin=stdin)
            return Output(code, b"", "\n".join(progress.messages).encode())

        with git_disk_errors(self.path):
            done = retry_past_stale_locks(self.path, once)
            with contextlib.suppress(UnreachableError):  # the caller may have another question
                require_answer(argv, done)
        return argv, done

    def index_packs(self) -> None:
        """Write one index over all packs: every fetch adds a pack, and git opens them all for any read.

        It only makes reading faster, so a failure (a killed git's lock, say) is not reported.
        """
        run(self.argv("multi-pack-index", "write", "--no-progress"), env=local_environment())

    def packs(self) -> int:
        """Return the number of packs: every fetch adds one."""
        return sum(1 for _ in self.path.glob("objects/pack/*.pack"))

    def repack(self) -> None:
        """Put all objects into one pack, and one for those that upstream promises; none is lost."""
        with git_disk_errors(self.path):
            self.git("-c", "repack.writeBitmaps=false", "repack", "-a", "-d", "--keep-unreachable", "--quiet")
        self.index_packs()

    def fetch_commit(self, commit: str, version: str, *, history: bool) -> None:
        """Fetch a commit with its trees and no blobs: by its own id, or through its tag if the server wants a name."""
        depth = [] if history else ["--depth=1"]
        _, first = self.fetch(depth, commit)
        if first.code == 0 and self.has(commit):
            return
        problem = first.stderr.decode("utf-8", "replace").strip()
        if version != commit:
            # Kept under no name: one tag would pass for all there are.
            _, named = self.fetch(depth, f"refs/tags/{version}")
            problem = named.stderr.decode("utf-8", "replace").strip() or problem
        if not self.has(commit):
            kind = run(self.argv("cat-file", "-t", "--end-of-options", commit), env=local_environment()).stdout.decode()
            if kind.strip() in ("tree", "blob"):
                raise ConfigError(f"{commit} is the id of a {kind.strip()}, not of a commit")
            reached = "Could not read from remote repository" not in problem
            gone = "does upstream still have this commit? did the tag move?"
            if owned := re.search(r"detected dubious ownership in repository at '(.+)'", problem):
                hint = f"another user owns it; if you trust them: git config --global --add safe.directory {shlex.quote(owned[1])}"
            else:
                hint = gone if reached else f"is {self.url} still its address, and may you read it?"
            raise UnreachableError(f"cannot fetch {commit} ({version})\n{problem}", hint=hint)

    @contextlib.contextmanager
    def objects(self) -> Iterator[Objects]:
        """Start one `cat-file --batch` to read many objects."""
        with contextlib.ExitStack() as stack:
            argv = self.argv("cat-file", "--batch")
            objects = Objects(lambda: stack.enter_context(conversation(argv, local_environment())), self.path)
            stack.enter_context(watched(lambda: objects.waiting, cat_file.SILENT_SECONDS, objects.stop))
            yield objects

    def fast_import(self, stream: bytes | IO[bytes]) -> bytes:
        """Run `git fast-import` on a stream; return its output. In the store one process at a time does so."""
        from kz_build.core import locks  # file locks are needed only where something is written

        alone = (
            contextlib.nullcontext() if self.lender else locks.lock(self.path.parent.parent, self.path.name, self.watch)
        )
        with alone, git_disk_errors(self.path):
            try:
                return self.git("fast-import", "--quiet", "--date-format=rfc2822", "--force", stdin=stream)
            except CommandError:
                for report in self.path.glob("fast_import_crash_*"):  # of what the error says already
                    report.unlink(missing_ok=True)
                raise

    def checkout(self, entries: Sequence[TreeEntry], folder: Path, stop: Event | None = None) -> None:
        """Check files out into a new folder, with an index of its own and git's parallel checkout where there are cores.

        Raises StoppedError once another thread sets `stop`.
        """
        folder.mkdir(parents=True, exist_ok=True)
        files = [e for e in entries if not e.submodule]
        index = folder / ".kz-index"
        env = {**local_environment(), "GIT_INDEX_FILE": str(index), "GIT_WORK_TREE": str(folder)}
        listing = b"".join(f"{e.mode} {e.id}\t".encode() + os.fsencode(e.path) + b"\0" for e in files)
        try:
            with git_disk_errors(folder):
                add = self.argv("update-index", "-z", "--index-info")
                checked(add, env=env, stdin=listing, cwd=folder, stop=stop)
                parallel = f"checkout.workers={os.cpu_count() or 1}", "-c", "checkout.thresholdForParallelism=100"
                write = self.argv("-c", *parallel, "checkout-index", "--all", "--force", "--quiet")
                checked(write, env=env, cwd=folder, stop=stop)
        except StorageError:
            with contextlib.suppress(OSError):
                remove(folder)
            raise
        finally:
            index.unlink(missing_ok=True)


def quoted(text: str) -> str:
    """Return text in quotes as git's files have it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'

"""Text from a file or from upstream never becomes an option of git, nor a program for it to run."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

import kz_build
from kz_build.core.errors import CommandError, ConfigError, KzError
from kz_build.git import blobs, format_patch, refs, remote, worktree
from kz_build.git import log as history
from kz_build.git.repository import Repository, commit_id
from kz_build.sources import clones
from kz_build.stack.session import Session, parse_session
from tests.stack.upstreams import Upstream, started

HOSTILE = ("--output=pwned", "--upload-pack=touch pwned;x", "--exec=touch pwned", "--output-directory=pwned")
Call = Callable[[Repository, str, str], object]
"""What is called with a repository, a good commit and a hostile revision."""


def tree(repository: Repository) -> worktree.Worktree:
    """A worktree, without a checkout at first."""
    made = worktree.worktree_at(Path("tree").absolute(), repository)
    if not made.path.exists():
        made.create(Path("resolutions").absolute())
        made.borrow()
    return made


def moved(made: worktree.Worktree, good: str, bad: str) -> None:
    if not made.exists():
        made.add(good, ["a.txt"], ())
    made.reset_to(bad)


CALLS: dict[str, Call] = {
    "has": lambda repo, good, bad: repo.has(bad),
    "tree_id": lambda repo, good, bad: repo.tree_id(bad),
    "entries": lambda repo, good, bad: repo.entries(bad),
    "entries of a path": lambda repo, good, bad: repo.entries(good, only=[bad]),
    "fetch_blobs": lambda repo, good, bad: repo.fetch_blobs([bad]),
    "fetch_commit": lambda repo, good, bad: repo.fetch_commit(bad, "v1", history=True),
    "fetch_commit of a version": lambda repo, good, bad: repo.fetch_commit("0" * 40, bad, history=True),
    "clone": lambda repo, good, bad: clones.fetch_commit(Path("store").absolute(), "x", bad, good, "v1", history=True),
    "diff_blobs": lambda repo, good, bad: blobs.diff_blobs(repo, bad, f"{good}:a.txt"),
    "changed_blobs": lambda repo, good, bad: blobs.changed_blobs(repo, bad, good, ()),
    "changed_blobs to": lambda repo, good, bad: blobs.changed_blobs(repo, good, bad, ()),
    "merge_bases": lambda repo, good, bad: history.merge_bases(repo, bad, [good]),
    "merge_base": lambda repo, good, bad: history.merge_base(repo, bad, good),
    "forked": lambda repo, good, bad: history.fork_point(repo, bad, good),
    "landed": lambda repo, good, bad: history.landed(repo, bad, [1]),
    "log": lambda repo, good, bad: history.log(repo, "", bad, ["a.txt"]),
    "log from": lambda repo, good, bad: history.log(repo, bad, good, ["a.txt"]),
    "walk": lambda repo, good, bad: history.walk(repo, bad, good, ["a.txt"]),
    "first_tags": lambda repo, good, bad: history.first_tags(repo, [good], bad),
    "renamed": lambda repo, good, bad: history.renamed(repo, good, bad, "a.txt"),
    "format_mails": lambda repo, good, bad: format_patch.format_mails(repo, bad, good),
    "one_mail": lambda repo, good, bad: format_patch.one_mail(repo, good, bad, good),
    "one_mail of": lambda repo, good, bad: format_patch.one_mail(repo, good, good, bad),
    "one_mail from": lambda repo, good, bad: format_patch.one_mail(repo, bad, good, good),
    "resolve": lambda repo, good, bad: remote.resolve(bad, "v1"),
    "reachable": lambda repo, good, bad: remote.reachable(bad, 5),
    "commit_of": lambda repo, good, bad: refs.commit_of(repo, bad),
    "known_or_fetched": lambda repo, good, bad: refs.resolve_revision(repo, bad),
    "refs": lambda repo, good, bad: refs.refs(repo, bad),
    "is_tag": lambda repo, good, bad: refs.is_tag(repo, bad),
    "subjects": lambda repo, good, bad: refs.subjects(repo, [bad]),
    "range_diff": lambda repo, good, bad: worktree.range_diff(repo, (bad, good), (good, good)),
    "worktree": lambda repo, good, bad: tree(repo).add(bad, ["a.txt"], ()),
    "worktree keeps": lambda repo, good, bad: tree(repo).keep([bad], [good]),
    "worktree keeps what is beyond": lambda repo, good, bad: tree(repo).keep([good], [bad]),
    "worktree at": lambda repo, good, bad: moved(tree(repo), good, bad),
}


@pytest.fixture(scope="module")
def first_clone(tmp_path_factory: pytest.TempPathFactory) -> tuple[Repository, str]:
    """A partial clone of an upstream, and its only commit."""
    folder = tmp_path_factory.mktemp("cloned")
    upstream = started(folder)
    repository = clones.fetch_commit(
        folder / "store", "up", f"file://{upstream.folder}", upstream.commits[0], "v1", history=True
    )
    return repository, upstream.commits[0]


@pytest.fixture
def cloned(first_clone: tuple[Repository, str], tmp_path: Path) -> tuple[Repository, str]:
    """A copy of the clone, which a test may change."""
    repository, commit = first_clone
    store = repository.path.parent.parent
    shutil.copytree(store, tmp_path / "store")
    return repository._replace(path=tmp_path / "store" / repository.path.relative_to(store)), commit


@pytest.mark.parametrize("call", CALLS)
def test_a_revision_that_looks_like_an_option_is_none(
    cloned: tuple[Repository, str],
    first_clone: tuple[Repository, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("KZ_CACHE", str(tmp_path / "store"))
    repository, commit = cloned
    for hostile in HOSTILE:
        with contextlib.suppress(KzError):
            CALLS[call](repository, commit, hostile)
        places = (tmp_path, first_clone[0].path.parents[2])
        assert not [path for place in places for path in place.rglob("*") if "pwned" in path.name], hostile


def test_commands_that_know_no_end_of_options_take_ids_alone() -> None:
    assert commit_id("a" * 40) == "a" * 40
    for text in ("HEAD", "-", "--output=x", "a" * 41, "a" * 40 + "\n", ""):
        with pytest.raises(CommandError, match="git was not started"):
            commit_id(text)


# ---- what upstream and a pull request say ----


MODULES = {
    "a command": ('[submodule "x"]\n\tpath = libs/x\n\turl = ext::sh -c touch% pwned\n', "names a program for git to run"),
    "an option": ('[submodule "x"]\n\tpath = libs/x\n\turl = --upload-pack=touch pwned\n', "must not begin with `-`"),
    "an odd file": ("[submodule\n\tpath\n", "cannot read .gitmodules: fatal: bad config line 1"),
    "no address": ('[submodule "x"]\n\tpath = libs/x\n', "is not in .gitmodules"),
    "not text": ("\x00[submodule", "cannot read .gitmodules: fatal: bad config line 1"),
}  # fmt: skip


@pytest.mark.parametrize("case", MODULES)
def test_a_submodule_that_no_git_would_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    text, wrong = MODULES[case]
    upstream = started(tmp_path)
    (upstream.folder / ".gitmodules").write_text(text)
    upstream.git("update-index", "--add", "--cacheinfo", f"160000,{upstream.commits[0]},libs/x")
    upstream.git("add", ".gitmodules")
    upstream.git("commit", "-q", "-m", "evil")
    commit = upstream.git("rev-parse", "HEAD")
    config = tmp_path / "gitconfig"
    config.write_text('[protocol "ext"]\n\tallow = always\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.chdir(tmp_path)
    store = tmp_path / "store"
    repository = clones.fetch_commit(store, "up", f"file://{upstream.folder}", commit, "v1", history=True)
    with pytest.raises(ConfigError, match=wrong):
        clones.links(store, repository, commit)
    assert not list(tmp_path.rglob("pwned"))


def test_a_submodule_with_an_odd_name_and_a_quoted_address_is_read_as_git_reads_it(tmp_path: Path) -> None:
    upstream = started(tmp_path)
    deep = Upstream(tmp_path / "d ee;p")
    deep.commit("one", {"x": "x\n"})
    (upstream.folder / ".gitmodules").write_text('[submodule "a.b c"]\n\turl = "../d ee;p" # beside\n\tpath = libs/x\n')
    upstream.git("update-index", "--add", "--cacheinfo", f"160000,{deep.commits[0]},libs/x")
    upstream.git("add", ".gitmodules")
    upstream.git("commit", "-q", "-m", "modules")
    commit = upstream.git("rev-parse", "HEAD")
    store = tmp_path / "store"
    repository = clones.fetch_commit(store, "up", f"file://{upstream.folder}", commit, "v1", history=True)
    found = clones.links(store, repository, commit)
    assert found == [("libs/x", f"file://{tmp_path}/d ee;p", deep.commits[0])]


def test_git_runs_no_other_program_for_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper = tmp_path / "bin/git-remote-evil"
    helper.parent.mkdir()
    helper.write_text(f"#!/bin/sh\ntouch '{tmp_path}/pwned'\n")
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{helper.parent}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    assert "'evil' not allowed" in remote.reachable("evil://x", 5)
    assert remote.reachable("./none", 5) == "'./none' does not appear to be a git repository", "not git's last line"
    assert not list(tmp_path.rglob("pwned"))
    monkeypatch.setenv("GIT_ALLOW_PROTOCOL", "evil")  # its user says so
    remote.reachable("evil://x", 5)
    assert list(tmp_path.rglob("pwned"))


ID = "a" * 40
SESSION = Session("rebase", "l", "up", "l", "v1", ID, ID, ID, ID, "d", ID)


@pytest.mark.parametrize(
    "change",
    [{"todo": ["--gpg-sign=x"]}, {"picking": "--output=pwned"}, {"tip": "HEAD"}, {"base": 5}, {"into": "../../x"},
     {"version": "-x"}, {"more": 1}, {"todo": "--x"}],
    ids=str,
)  # fmt: skip
def test_a_session_that_kz_did_not_write(change: dict[str, Any]) -> None:
    name = "out/rebase/l/up/session.json"
    assert parse_session(SESSION.text(), name) == SESSION
    plain = {**json.loads(SESSION.text()), **change}
    with pytest.raises(ConfigError, match=f"{name} was not written by kz"):
        parse_session(json.dumps(plain).encode(), name)


def test_what_is_no_session_at_all() -> None:
    for data in (b"", b"[]", b"3", b"{}", b"\xff"):
        with pytest.raises(ConfigError, match="was not written by kz"):
            parse_session(data, "session.json")


# ---- each call of git in the package ----

Names = dict[str, ast.expr]
PASSING = {("git/repository.py", "argv"), ("git/repository.py", "git"), ("git/repository.py", "fetch"), ("git/worktree.py", "git"), ("git/worktree.py", "output"),
           ("git/refs.py", "_ls_remote"), ("sources/integrity.py", "_prove_git"), ("nightly/push.py", "git")}  # fmt: skip
"""Functions that pass on what they are called with: their callers are looked at."""


def words(node: ast.expr, names: Names) -> Iterator[str]:
    """The words of git that an expression is; '?' for one that only a run tells, which could be an option."""
    called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    if isinstance(node, ast.Constant):
        yield str(node.value)
    elif isinstance(node, ast.Starred):
        yield from words(node.value, names)
    elif isinstance(node, ast.List | ast.Tuple):
        for element in node.elts:
            yield from words(element, names)
    elif isinstance(node, ast.Name) and node.id in names:
        yield from words(names[node.id], names)
    elif isinstance(node, ast.IfExp):
        yield from (*words(node.body, names), *words(node.orelse, names))
    elif isinstance(node, ast.JoinedStr):  # its beginning tells
        yield from words(node.values[0], names)
    elif isinstance(node, ast.FormattedValue):
        yield from words(node.value, {})
    else:
        yield "0" * 40 if called == "commit_id" else "?"


def assigned(nodes: Iterable[ast.AST]) -> Names:
    """What names stand for."""
    found = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node.value
    return found


def argv_of(call: ast.Call, *, plumbing: bool) -> list[ast.expr]:
    """What a call says to git, [] where it is no call of git."""
    first = call.args[0] if call.args else None
    if (
        isinstance(first, ast.List | ast.Tuple)
        and first.elts
        and isinstance(first.elts[0], ast.Constant)
        and first.elts[0].value == "git"
    ):
        return first.elts
    own = [keyword.value for keyword in call.keywords if keyword.arg in ("config", "options")]
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    if name == "_prove_git":
        return call.args[2:]
    if name == "_ls_remote" and plumbing:
        return own
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if method == "fetch" and plumbing:
        return [*own, *call.args[:1]]
    return call.args if method in ("git", "argv", "output") and isinstance(first, ast.Constant | ast.Starred) else []


def test_each_call_of_git_ends_its_options_before_what_only_a_run_tells() -> None:
    files = {path: ast.parse(path.read_text()) for path in sorted(Path(kz_build.__file__).parent.rglob("*.py"))}
    constants = {name: node for tree in files.values() for name, node in assigned(tree.body).items() if name.isupper()}
    seen, wrong = 0, []
    for path, whole in files.items():
        for function in (node for node in ast.walk(whole) if isinstance(node, ast.FunctionDef)):
            room, inside = path.parent.name, list(ast.walk(function))
            plumbing = room == "git" or (room == "sources" and path.name != "fetch.py")
            calls = [(node, argv_of(node, plumbing=plumbing)) for node in inside if isinstance(node, ast.Call)]
            names = constants | assigned(inside) if any(said for _, said in calls) else {}
            for call, said in calls:
                before = list(
                    takewhile(lambda word: word not in ("--end-of-options", "--"), words(ast.Tuple(said), names))
                )
                seen += bool(said)
                if "?" in before and (f"{room}/{path.name}", function.name) not in PASSING:
                    wrong.append(f"{path.name}:{call.lineno}: {ast.unparse(call)}")
    assert seen > 60 and not wrong, "\n".join(wrong)

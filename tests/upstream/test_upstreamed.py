"""What upstream has already, and what only looks so: kz verify, history, status, health and rebase say where, and drop no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Kz
from tests.stack.test_git_tools import sh
from tests.stack.test_rebase import kept, worktree
from tests.stack.upstreams import Project, Upstream, copied, project, put, started, text
from tests.upstream.test_verify import OURS, judged

BODY = ["  int r = 0;", "  open(a);", "  work(a);", "  shut(a);", "  close(a);", "  return r;"]
GUARD = "  if (a < 0) return -1;"


def function(name: str, *extra: str, at: int = 3) -> str:
    return "\n".join([f"int {name}(int a)", "{", *BODY[:at], *extra, *BODY[at:], "}", "", ""])


PLAIN = function("f") + function("g")
F_GUARDED = function("f", GUARD) + function("g")
G_GUARDED = function("f") + function("g", GUARD)
BOTH = function("f", GUARD) + function("g", GUARD)


@copied
def guard(tmp_path: Path, kz: Kz) -> Project:
    """A patch that guards f. At v2 upstream guards g, whose body is the same; at v3 f too, and two lines stand above."""
    upstream = Upstream(tmp_path / "up")
    upstream.commit("Start", {"a.c": PLAIN, "other.txt": "other\n"}, tag="v1")
    made = project(tmp_path, kz, upstream, [("guard f", {"a.c": F_GUARDED})])
    upstream.commit("Guard g (#2)", {"a.c": G_GUARDED}, tag="v2")
    upstream.commit("Guard f (#3)", {"a.c": "// new\n\n" + BOTH}, tag="v3")
    return made


def result(ours: Project, file: str) -> str:
    """A file of the patched tree."""
    tree = ours.json("apply")["l"][0]
    return sh("git", f"--git-dir={tree['repository']}", "show", f"{tree['commit']}:{file}", cwd=ours.root)


def test_a_patch_is_carried_although_upstream_made_the_same_change_in_another_function(guard: Project) -> None:
    found = judged(guard.json("verify", "--onto", "v2"), "v2")
    assert (found["verdict"], found["there"]) == ("clean", [])
    done = guard.kz("rebase", "--onto", "v2")
    assert done.returncode == 0 and "dropped" not in done.stdout, done.stderr
    assert result(guard, "a.c") == BOTH.strip()


def test_one_whose_own_function_changed_as_well_needs_a_person(guard: Project) -> None:
    changed = function("f").replace("open(a)", "open(a, 1)") + function("g", GUARD)
    guard.upstream.commit("Change f (#4)", {"a.c": changed}, tag="v4")
    found = judged(guard.json("verify", "--onto", "v4", code=4), "v4")
    assert (found["verdict"], found["there"]) == ("merged", ["a.c:13-19"])
    assert "the lines it leaves are found elsewhere; only a three-way merge finds a result" in found["reason"]
    assert "      its lines are at a.c:13-19\n" in guard.kz("verify", "--onto", "v4").stdout
    was = kept(guard)
    done = guard.kz("rebase", "--onto", "v4")
    assert done.returncode == 4 and kept(guard) == was
    assert "a.c: only the lines around it changed; the lines it leaves are found elsewhere, at a.c:13-19" in done.stderr
    assert guard.kz("rebase", "continue").returncode == 0
    assert result(guard, "a.c").count(GUARD) == 2


def test_each_verb_says_which_lines_have_it_and_since_which_commit(guard: Project) -> None:
    found = judged(guard.json("verify", "--onto", "v3"), "v3")
    assert (found["verdict"], found["there"]) == ("upstreamed", ["a.c:5-11"])
    said = "what it changes is there already, at a.c:5-11"
    shown = guard.kz("verify", "--onto", "v3").stdout
    assert f"\n  0001-guard-f: upstreamed at v3\n      {said}; drop the patch there\n" in shown, shown
    history = guard.kz("history").stdout
    assert f"  0001-guard-f: upstreamed\n      {said}\n" in history and "upstreamed Guard f (#3)" in history
    story = guard.json("history")[0]["patches"][0]
    assert story["now"]["there"] == story["steps"][-1]["judgement"]["there"] == ["a.c:5-11"]
    assert "main has what it changes, at a.c:5-11: the next rebase drops it" in " ".join(
        guard.kz("status").stdout.split()
    ).replace("! ", "")
    assert guard.kz("health").returncode == 0
    page = (guard.root / "patches/HEALTH.md").read_text()
    assert f"Upstreamed:\n\n- `0001-guard-f` at `v3`, `main`\n  - `{said}; drop the patch there`\n" in page, page
    taken = guard.upstream.git("rev-parse", "v3")
    done = guard.json("rebase", "--onto", "v3")
    title = f"{taken[:10]} 2026-01-03 Guard f (#3)"
    assert done["dropped"] == [{"patch": "0001-guard-f.patch", "there": ["a.c:5-11"], "commit": taken, "title": title}]


def test_kz_apply_says_which_lines_have_it(guard: Project) -> None:
    pins = guard.root / "pins.yaml"
    pins.write_text(pins.read_text().replace("up: v1", "up: v3"))
    done = guard.kz("lock", "--write")
    at = guard.upstream.git("rev-parse", "v3")[:12]
    assert done.returncode == 4
    assert f"a.c: what it changes is there already, at a.c:5-11 of {at}: drop the patch" in done.stderr


CHECKS = "ours:\n  - absent: {file: other.txt, text: bad}\n"


@copied
def checked(tmp_path: Path, kz: Kz) -> Project:
    """A patch that upstream has at v2, where its check fails without it."""
    upstream = started(tmp_path)
    made = project(tmp_path, kz, upstream, [("ours", {"a.txt": OURS})], CHECKS)
    upstream.commit("Take it (#2)", {"a.txt": OURS, "other.txt": "bad\n"}, tag="v2")
    return made


def test_a_patch_whose_check_fails_without_it_is_not_dropped(checked: Project) -> None:
    assert judged(checked.json("verify", "--onto", "v2", code=4), "v2")["intents"]
    was = kept(checked)
    done = checked.kz("rebase", "--onto", "v2")
    assert done.returncode == 4 and kept(checked) == was
    assert "kz: ours: a.txt: what it changes is there already, at a.txt:7-13\n" in done.stderr
    check = "absent (patches/l/up/checks.yaml:2): other.txt contains 'bad'"
    assert f"  it is not dropped, because without it a check fails: {check}\n" in done.stderr
    assert "  git's three-way merge finds nothing left to change\n" in done.stderr
    # What is missing becomes the patch.
    tree = worktree(checked)
    (tree / "other.txt").write_text("good\n")
    sh("git", "add", "other.txt", cwd=tree)
    done = checked.kz("rebase", "continue")
    assert done.returncode == 0, done.stderr
    assert result(checked, "other.txt") == "good" and stack(checked) == ["0001-ours.patch"]


def test_a_person_may_drop_it_all_the_same(checked: Project) -> None:
    assert checked.kz("rebase", "--onto", "v2").returncode == 4
    done = checked.kz("rebase", "skip")
    assert done.returncode == 0 and "ours: skipped" in done.stdout and stack(checked) == [], done.stderr


def stack(ours: Project) -> list[str]:
    """The patch files of the line."""
    return sorted(p.name for p in (ours.root / "patches/l/up").glob("*.patch"))


E, F, G = (f"int {name}(int a)\n{{\n  start(a);\n  return 0;\n}}\n\n" for name in "efg")


@copied
def twice(tmp_path: Path, kz: Kz) -> Project:
    """A patch on b.txt that conflicts at v2, and one that adds a function that v2 has: it would apply a second time."""
    upstream = started(tmp_path)
    upstream.commit("Functions", {"a.c": E + G, "run.sh": "true\n"}, tag="v1.1")
    made = project(tmp_path, kz, upstream, [("first", {"b.txt": OURS}), ("add f", {"a.c": E + F + G})], pin="v1.1")
    upstream.commit("Theirs (#2)", {"b.txt": put(text(), 10, "theirs"), "a.c": E + F + G}, tag="v2")
    return made


def resolve(ours: Project) -> None:
    tree = worktree(ours)
    (tree / "b.txt").write_text(put(text(), 10, "theirs", "ours"))
    sh("git", "add", "b.txt", cwd=tree)


@pytest.mark.parametrize("name", ["2", "0002", "0002-add-f.patch", "add f"])
def test_a_patch_that_is_to_be_kept_is_applied_also_after_continue(twice: Project, name: str) -> None:
    done = twice.kz("rebase", "--onto", "v2", "--keep", name)
    assert done.returncode == 4 and "conflict in b.txt" in done.stderr
    resolve(twice)
    done = twice.kz("rebase", "continue")
    assert done.returncode == 0 and "  add f: kept" in done.stdout and "dropped" not in done.stdout, done.stderr
    assert stack(twice) == ["0001-first.patch", "0002-add-f.patch"]
    assert result(twice, "a.c").count("int f(int a)") == 2
    assert {j["verdict"] for j in twice.json("verify")[0]["rows"][0]} == {"clean"}


def test_without_it_the_patch_is_dropped(twice: Project) -> None:
    assert twice.kz("rebase", "--onto", "v2").returncode == 4
    resolve(twice)
    done = twice.json("rebase", "continue")
    assert [one["patch"] for one in done["dropped"]] == ["0002-add-f.patch"] and stack(twice) == ["0001-first.patch"]
    assert done["dropped"][0]["there"] == ["a.c:4-15"]


def test_a_patch_that_is_to_be_kept_and_does_not_apply_is_a_conflict(guard: Project) -> None:
    was = kept(guard)
    done = guard.kz("rebase", "--onto", "v3", "--keep", "1")
    assert done.returncode == 4 and kept(guard) == was
    assert "kz: guard f: a.c: what it changes is there already, at a.c:5-11\n" in done.stderr
    assert "  --keep names it, but it does not apply, or would change nothing\n" in done.stderr
    assert guard.kz("rebase", "skip").returncode == 0


def test_one_that_would_change_nothing_is_a_conflict_as_well(twice: Project) -> None:
    up = twice.upstream
    up.git("checkout", "-q", "v1.1")
    up.git("update-index", "--chmod=+x", "run.sh")
    up.git("commit", "-q", "-m", "Make it run")
    folder = twice.root / "patches/l/up"
    up.git("format-patch", "-q", "--zero-commit", "--full-index", "-1", "--start-number=3", "-o", str(folder))
    (folder / "series").write_text("".join(f"{name}\n" for name in stack(twice)))
    assert twice.kz("lock", "--write").returncode == 0
    up.git("tag", "v3", "HEAD")
    done = twice.kz("rebase", "--onto", "v3", "--keep", "3")
    assert done.returncode == 4 and "Make it run: run.sh: what it changes is there already" in done.stderr
    done = twice.kz("rebase", "skip")
    assert done.returncode == 0 and stack(twice) == ["0001-first.patch", "0002-add-f.patch"], done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--onto", "v2", "--keep", "nosuch"), "patches/l/up has no patch 'nosuch'"),
        (("continue", "--keep", "1"), "--onto, --as, --keep and --take-above begin a rebase: not with continue"),
        (("continue", "--as", "m"), "--onto, --as, --keep and --take-above begin a rebase: not with continue"),
    ],
)
def test_bad_words_for_keep(twice: Project, words: tuple[str, ...], said: str) -> None:
    was = kept(twice)
    done = twice.kz("rebase", *words)
    assert done.returncode == 2 and said in done.stderr and kept(twice) == was

"""kz rebase: over real conflicts, to new lines, and through every interruption."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Kz, snapshot
from tests.stack.test_git_tools import sh
from tests.stack.upstreams import Project, before, copied, project, put, started, text

OURS = put(text(), 10, "ours")
CHECKS = """\
# what the first is for
first:
  - contains: {file: a.txt, text: ours}

# and the second
second:
  - contains: {file: b.txt, text: ours}
"""


@copied
def ours(tmp_path: Path, kz: Kz) -> Project:
    """Patches on a.txt and b.txt on v1. At v2 a.txt moved by two lines; at v3 upstream rewrote b's line, at v4 it has our a."""
    upstream = started(tmp_path)
    made = project(tmp_path, kz, upstream, [("first", {"a.txt": OURS}), ("second", {"b.txt": OURS})], checks=CHECKS)
    moved = before(text(), 1, "new", "lines")
    upstream.commit("Grow a (#2)", {"a.txt": moved}, tag="v2")
    upstream.commit("Rewrite b (#3)", {"b.txt": put(text(), 10, "theirs")}, tag="v3")
    upstream.commit("Take ours (#4)", {"a.txt": put(moved, 12, "ours")}, tag="v4")
    return made


def kept(ours: Project) -> dict[str, bytes | str]:
    """All of the project but `out`."""
    return {name: data for name, data in snapshot(ours.root).items() if not name.startswith("out/")}


def worktree(ours: Project, verb: str = "rebase") -> Path:
    """Where the person works."""
    return ours.root / "out" / verb / "l" / "up" / "tree"


def lock(ours: Project) -> dict[str, dict[str, dict[str, object]]]:
    """The lock's lines."""
    found: dict[str, dict[str, dict[str, object]]] = json.loads((ours.root / "pins.lock").read_text())["lines"]
    return found


def test_a_stack_that_still_holds_goes_through_and_keeps_its_bytes_where_nothing_moved(ours: Project) -> None:
    was = kept(ours)
    done = ours.kz("rebase", "--onto", "v2")
    assert done.returncode == 0, done.stderr
    now = kept(ours)
    stack = "patches/l/up"
    assert now[f"{stack}/0002-second.patch"] == was[f"{stack}/0002-second.patch"]
    assert now[f"{stack}/checks.yaml"] == was[f"{stack}/checks.yaml"]
    moved = now[f"{stack}/0001-first.patch"]
    assert isinstance(moved, bytes) and b"@@ -9,7 +9,7 @@" in moved
    assert now["pins.yaml"] == str(was["pins.yaml"], "utf-8").replace("up: v1", "up: v2").encode()  # type: ignore[arg-type]
    assert "first: moved by +2 lines" in done.stdout and "1:  " in done.stdout
    assert ours.kz("apply").returncode == 0, "the lock follows"
    assert {j["verdict"] for j in ours.json("verify")[0]["rows"][0]} == {"clean"}
    assert ours.kz("lock").stdout.startswith("0 changes"), "kz lock would have written the same"


def test_a_comment_in_the_pins_stays_where_it_is(ours: Project) -> None:
    pins = ours.root / "pins.yaml"
    pins.write_text(pins.read_text().replace("l: {up: v1}", "# the line\n  l:\n    up: v1   # why v1\n    # below"))
    done = ours.kz("rebase", "--onto", "v2")
    assert done.returncode == 0, done.stderr
    assert "# the line\n  l:\n    up: v2   # why v1\n    # below\n" in pins.read_text()


def test_a_locale_with_another_character_set_gives_the_same_files(tmp_path: Path, kz: Kz) -> None:
    upstream = started(tmp_path)
    upstream.commit("Größe", {"größe.txt": text()}, tag="v1.1")
    made = project(tmp_path, kz, upstream, [("Größe ändern", {"größe.txt": OURS})], pin="v1.1")
    upstream.commit("Grow", {"größe.txt": before(text(), 1, "new")}, tag="v2")
    pins = made.root / "pins.yaml"
    pins.write_text(f"# Größe\n{pins.read_text('utf-8')}", "utf-8")
    ascii_only = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = made.kz("rebase", "--onto", "v2", **ascii_only)
    assert done.returncode == 0 and "Gr\\xf6\\xdfe \\xe4ndern: moved by +1 lines" in done.stdout, (
        done.stdout + done.stderr
    )
    assert pins.read_text("utf-8").startswith("# Größe\n")
    assert made.kz("apply").returncode == 0, "the lock has the tree that another locale makes"


def test_a_persons_hooks_signatures_and_encodings_do_not_reach_the_stack(ours: Project, tmp_path: Path) -> None:
    hooks, config = tmp_path / "hooks", tmp_path / "gitconfig"
    hooks.mkdir()
    for name in ("reference-transaction", "prepare-commit-msg", "post-checkout"):
        (hooks / name).write_text("#!/bin/sh\nexit 1\n")
        (hooks / name).chmod(0o755)
    config.write_text(
        f"[core]\nhooksPath = {hooks}\n[commit]\ngpgSign = true\n[gpg]\nprogram = false\n"
        "[fetch]\nprune = true\n[i18n]\nlogOutputEncoding = UTF-16\n[diff]\nnoprefix = true\nexternal = false\n"
    )
    stopped = ours.kz("rebase", "--onto", "v3", GIT_CONFIG_GLOBAL=str(config))
    assert stopped.returncode == 4 and "conflict in b.txt" in stopped.stderr, stopped.stderr
    (worktree(ours) / "b.txt").write_text(put(text(), 10, "theirs and ours"))
    sh("git", "add", "b.txt", cwd=worktree(ours))
    done = ours.kz("rebase", "continue", GIT_CONFIG_GLOBAL=str(config))
    assert done.returncode == 0 and "= 1: " in done.stdout and "! 2: " in done.stdout, done.stderr + done.stdout


def test_a_branch_is_pinned_by_its_commit(ours: Project) -> None:
    ours.upstream.git("branch", "next", "v2")
    assert ours.kz("rebase", "--onto", "next").returncode == 0
    assert f"up: {ours.upstream.git('rev-parse', 'v2')}" in (ours.root / "pins.yaml").read_text()


def test_what_upstream_has_is_dropped_with_its_checks_and_said_so(ours: Project) -> None:
    ours.upstream.commit("Only a", {"b.txt": text()}, tag="v5")
    done = ours.kz("rebase", "--onto", "v5")
    assert done.returncode == 0, done.stderr
    taken = ours.upstream.git("rev-parse", "v4")[:10]
    said = f"  0001-first: dropped, upstream has it at a.txt:9-15\n      since {taken} 2026-01-04 Take ours (#4)\n"
    assert said in done.stdout, done.stdout
    assert "checks.yaml: the checks of first were removed with the patch" in done.stdout
    gone = "removed:\n  patches/l/up/0001-first.patch\n  patches/l/up/0002-second.patch\nwritten:\n  patches/l/up/0001-second.patch\n"
    assert gone in done.stdout
    stack = ours.root / "patches" / "l" / "up"
    assert sorted(p.name for p in stack.iterdir()) == ["0001-second.patch", "checks.yaml", "series"]
    assert (stack / "series").read_text() == "0001-second.patch\n"
    assert (
        (stack / "checks.yaml")
        .read_text()
        .endswith("# and the second\nsecond:\n  - contains: {file: b.txt, text: ours}\n")
    )
    assert ours.kz("apply").returncode == 0


def test_who_carries_what_upstream_made_and_changed_again_is_told_to_drop_it(ours: Project) -> None:
    moved = before(text(), 1, "new", "lines")
    ours.upstream.commit("Better (#5)", {"a.txt": put(moved, 12, "ours, better"), "b.txt": text()}, tag="v5")
    done = ours.kz("rebase", "--onto", "v5", "--take-above", "0.01")
    taken = ours.upstream.git("rev-parse", "v4")[:10]
    assert (
        done.returncode == 4
        and f"upstream made this change itself, by {taken} 2026-01-04 Take ours (#4)\n" in done.stderr
    )
    assert "-> kz rebase skip if upstream's is enough, or resolve it there" in done.stderr
    assert f"  {taken} 2026-01-04 Take ours (#4): the patch's own change\n  " in done.stderr, done.stderr
    assert "    +" not in done.stderr and "candidates" not in done.stderr
    assert ours.kz("rebase", "skip").returncode == 0 and ours.kz("verify").returncode == 0


@pytest.mark.parametrize(
    ("said", "length"),
    [
        ("(cherry picked from commit {})", 40),
        ("Upstream-Status: Backport [https://github.com/up/stream/commit/{}]", 40),
        ("Applied-Upstream: 3.8.0, commit:{}", 12),
        ("Origin: backport, https://git.example.org/cgit/up/commit/?id={}", 40),
        ("Upstream-PR: https://github.com/up/stream/pull/5", 0),
    ],
)
def test_a_backport_names_the_commit_that_it_was_made_from(ours: Project, said: str, length: int) -> None:
    """Upstream's commit and its backport differ, so nothing but the message says that they are one."""
    moved = before(text(), 1, "new", "lines")
    ours.upstream.commit("Better (#5)", {"a.txt": put(moved, 12, "ours, better")}, tag="v5")
    origin = ours.upstream.git("rev-parse", "v5")
    message_says(ours, said.format(origin[:length]))
    if length:
        wanted = "Backport\n    [http" if "Status" in said else f"made from upstream's {origin[:10]}\n"
        shown = ours.kz("status").stdout
        assert f"  0001-first: {wanted}" in shown and "!" not in shown and "0002-second: no Upstream-Status\n" in shown
    done = ours.kz("rebase", "--onto", "v5")
    assert f"upstream made this change itself, by {origin[:10]} 2026-01-05 Better (#5)\n" in done.stderr, done.stderr
    assert "candidates" not in done.stderr and "may be right" not in done.stderr


def message_says(ours: Project, line: str, subject: str = "first") -> None:
    patch = ours.root / "patches/l/up/0001-first.patch"
    mail = patch.read_text().replace("\ndiff ", f"\n{line}\n\ndiff ", 1).replace("] first\n", f"] {subject}\n", 1)
    patch.write_text(mail)
    assert line in mail and subject in mail and ours.kz("lock", "--write").returncode == 0


def test_a_commit_with_the_patchs_subject_is_named_and_candidates_are_not_taken_unasked(ours: Project) -> None:
    """A release branch squashes or picks what the patch was made from, so that no id is left."""
    ours.upstream.git("checkout", "-q", "-b", "release", "v2")
    body = "Merge pull request #5 from them\n\n* Grow the line [again] (#4)\n"
    ours.upstream.commit(body, {"a.txt": put(put(text(), 9, "nine"), 11, "eleven")}, tag="v5")
    merged = ours.upstream.git("rev-parse", "v5")[:10]
    message_says(ours, "(cherry picked from commit 0123456789012345678901234567890123456789)", "Grow the line [again]")
    done = ours.kz("rebase", "--onto", "v5", "--take-above", "0.01")
    named = (
        f"upstream has a commit with the subject of the patch: {merged} 2026-01-05 Merge pull request #5 from them\n"
    )
    assert done.returncode == 4 and named in done.stderr, done.stderr
    assert "kz rebase skip if upstream's is enough" in done.stderr and "confidence" in done.stderr


def test_a_new_line_stands_beside_the_old_one(ours: Project) -> None:
    was = kept(ours)
    done = ours.kz("rebase", "--onto", "v2", "--as", "m")
    assert done.returncode == 0, done.stderr
    now = kept(ours)
    assert {name: now[name] for name in was if name.startswith("patches/l/")} == {
        name: data for name, data in was.items() if name.startswith("patches/l/")
    }
    assert sorted(name for name in now if name.startswith("patches/m/")) == [
        f"patches/m/up/{name}" for name in ("0001-first.patch", "0002-second.patch", "checks.yaml", "series")
    ]
    assert set(lock(ours)) == {"l", "m"} and ours.kz("apply", "--all-lines").returncode == 0
    assert ours.kz("rebase", "--onto", "v2", "--as", "m").returncode == 2


def test_a_conflict_is_laid_out_named_and_changes_nothing(ours: Project) -> None:
    was = kept(ours)
    done = ours.kz("rebase", "--onto", "v3")
    assert done.returncode == 4 and kept(ours) == was
    assert "second: b.txt:" in done.stderr and "conflict in b.txt" in done.stderr
    assert "Rewrite b (#3)" in done.stderr and "    +theirs" in done.stderr and "Grow a" not in done.stderr
    tree = worktree(ours)
    content = (tree / "b.txt").read_text()
    assert "<<<<<<< " in content and "\nours\n" in content and "\ntheirs\n" in content
    status = ours.kz("rebase", "status")
    assert status.returncode == 0 and "stopped at: second; 0 left" in status.stdout and str(tree) in status.stdout
    for part in (
        "\n    b.txt: ",
        "conflict in b.txt",
        "Rewrite b (#3)",
        "    +theirs",
        "-> resolve it there, `git add`",
    ):
        assert part in status.stdout, "what the stop said is there the next day"
    assert ours.kz("rebase", "--onto", "v2").returncode == 2, "one at a time"
    for files, said in ((content, "not resolved yet"), (None, "not resolved yet")):
        if files is None:
            (tree / "b.txt").write_text("anything\n")
        again = ours.kz("rebase", "continue")
        assert again.returncode == 4 and said in again.stderr and kept(ours) == was
    (tree / "b.txt").write_text(content)
    sh("git", "add", "b.txt", cwd=tree)
    marked = ours.kz("rebase", "continue")
    assert marked.returncode == 4 and "conflict markers are left in:\n  b.txt" in marked.stderr and kept(ours) == was


def test_a_commit_that_rewrote_the_file_does_not_fill_the_screen(tmp_path: Path, kz: Kz) -> None:
    upstream = started(tmp_path)
    one = project(tmp_path, kz, upstream, [("first", {"b.txt": OURS})])
    upstream.commit("Rewrite it all", {"b.txt": "".join(f"new {n}\n" for n in range(300))}, tag="v9")
    done = one.kz("rebase", "--onto", "v9")
    assert done.returncode == 4 and "    +new 20\n" in done.stderr, done.stderr
    assert done.stderr.count("    +new ") < 50 and " more lines of its diff\n" in done.stderr, done.stderr


def resolve(ours: Project) -> None:
    tree = worktree(ours)
    (tree / "b.txt").write_text(put(text(), 10, "theirs", "ours"))
    sh("git", "add", "b.txt", cwd=tree)


def test_a_resolved_patch_keeps_each_line_of_its_message(tmp_path: Path, kz: Kz) -> None:
    """`git cherry-pick --continue` takes those out that begin with #."""
    upstream = started(tmp_path)
    subject = "second\n\n#1234 has the reason.\n\n\nTwo lines above."
    one = project(tmp_path, kz, upstream, [(subject, {"b.txt": OURS})])
    upstream.commit("Rewrite b", {"b.txt": put(text(), 10, "theirs")}, tag="v3")
    stack = one.root / "patches/l/up"
    was = next(stack.glob("*.patch")).read_text().partition("\ndiff --git")[0]
    assert "\n#1234 has the reason.\n" in was
    assert one.kz("rebase", "--onto", "v3").returncode == 4
    resolve(one)
    done = one.kz("rebase", "continue")
    assert done.returncode == 0, done.stderr
    now = next(stack.glob("*.patch")).read_text().partition("\ndiff --git")[0]
    assert now == was


def test_git_resolving_by_itself_does_not_hide_the_conflict(ours: Project, tmp_path: Path) -> None:
    """With the user's rerere.autoUpdate git adds a file that it resolved as the last time."""
    assert ours.kz("rebase", "--onto", "v3", "--as", "m").returncode == 4
    resolve(ours)
    assert ours.kz("rebase", "continue").returncode == 0
    settings = tmp_path / "settings"
    settings.write_text("[rerere]\n\tautoUpdate = true\n")
    again = ours.kz("rebase", "--onto", "v3", "--as", "n", GIT_CONFIG_GLOBAL=str(settings))
    assert again.returncode == 4 and "conflict in b.txt" in again.stderr, again.stderr
    assert "Resolved 'b.txt' using previous resolution" in again.stderr


def test_continue_takes_what_was_resolved_and_rerere_knows_it_the_next_time(ours: Project) -> None:
    assert ours.kz("rebase", "--onto", "v3", "--as", "m").returncode == 4
    resolve(ours)
    done = ours.kz("rebase", "continue")
    assert done.returncode == 0, done.stderr
    assert not worktree(ours).exists() and "nothing is in progress" in ours.kz("rebase", "status").stdout
    assert b"+ours" in (ours.root / "patches/m/up/0002-second.patch").read_bytes()
    assert ours.kz("apply", "--line", "m").returncode == 0
    again = ours.kz("rebase", "--onto", "v3", "--as", "n")
    assert again.returncode == 4 and "Resolved 'b.txt' using previous resolution." in again.stderr
    assert (worktree(ours) / "b.txt").read_text() == put(text(), 10, "theirs", "ours")


def test_skip_drops_the_patch(ours: Project) -> None:
    assert ours.kz("rebase", "--onto", "v3").returncode == 4
    done = ours.kz("rebase", "skip")
    assert done.returncode == 0 and "second: skipped" in done.stdout, done.stderr
    assert (ours.root / "patches/l/up/series").read_text() == "0001-first.patch\n"
    assert ours.kz("apply").returncode == 0


def test_undo_takes_back_one_answer_after_another(ours: Project) -> None:
    ours.upstream.commit("Rewrite a too (#5)", {"a.txt": put(text(), 10, "theirs")}, tag="v5")
    first = ours.kz("rebase", "--onto", "v5")
    assert first.returncode == 4 and "first: a.txt" in first.stderr and "rebase undo" not in first.stderr
    early = ours.kz("rebase", "undo")
    assert early.returncode == 2 and "nothing was answered yet" in early.stderr
    assert ours.kz("rebase", "status").stdout.count("stopped at: first; 1 left") == 1
    skipped = ours.kz("rebase", "skip")
    file = ours.root / "out/rebase/l/up/session.json"
    session = json.loads(file.read_text())
    ((commit, *rest),) = session["answers"]
    file.write_text(json.dumps({**session, "answers": [["0" * 40, *rest]]}))
    foreign = ours.kz("rebase", "undo")
    assert foreign.returncode == 2 and "that the stack does not have: 0000" in foreign.stderr
    file.write_text(json.dumps({**session, "answers": [[commit, *rest]]}))
    assert (
        "second: b.txt" in skipped.stderr and "kz rebase undo takes back the last answer, to: first" in skipped.stderr
    )
    (worktree(ours) / "b.txt").write_text("half of a resolution")
    back = ours.kz("rebase", "undo")
    assert back.returncode == 4 and back.stderr == first.stderr.removeprefix("  up 1/9\n")
    (worktree(ours) / "a.txt").write_text(put(text(), 10, "theirs", "ours"))
    sh("git", "add", "a.txt", cwd=worktree(ours))
    assert ours.kz("rebase", "continue").returncode == 4
    (worktree(ours) / "b.txt").write_text(put(text(), 10, "wrong"))
    sh("git", "add", "b.txt", cwd=worktree(ours))
    done = ours.kz("rebase", "continue")
    assert "their checks fail" in done.stderr and "undo takes back the last answer, to: second" in done.stderr
    back = ours.kz("rebase", "undo")
    assert "second: b.txt" in back.stderr and "previous resolution" not in back.stderr
    assert "<<<<<<<" in (worktree(ours) / "b.txt").read_text()
    resolve(ours)
    done = ours.kz("rebase", "continue")
    assert done.returncode == 0 and "skipped" not in done.stdout, done.stderr
    assert (ours.root / "patches/l/up/series").read_text() == "0001-first.patch\n0002-second.patch\n"
    assert ours.kz("apply").returncode == 0


def test_abort_leaves_nothing(ours: Project) -> None:
    was = kept(ours)
    assert ours.kz("rebase", "--onto", "v3").returncode == 4
    assert ours.kz("rebase", "abort").returncode == 0
    assert kept(ours) == was and not worktree(ours).exists()
    assert ours.kz("rebase", "abort").returncode == 2
    assert ours.kz("rebase", "--onto", "v2").returncode == 0


def test_a_result_that_only_merges_is_shown_and_not_trusted(ours: Project) -> None:
    was = kept(ours)
    ours.upstream.git("checkout", "-q", "v1")
    ours.upstream.commit("Next to it", {"b.txt": put(text(), 8, "near")}, tag="w")
    done = ours.kz("rebase", "--onto", "w")
    assert done.returncode == 4 and "git's three-way merge finds a result" in done.stderr and kept(ours) == was
    assert "ours" in (worktree(ours) / "b.txt").read_text()
    assert ours.kz("rebase", "continue").returncode == 0
    assert ours.kz("apply").returncode == 0


def test_a_merge_driver_of_the_user_resolves_as_git_has_it_do(ours: Project, tmp_path: Path) -> None:
    attributes, config = tmp_path / "attributes", tmp_path / "gitconfig"
    attributes.write_text("*.txt merge=both\n")
    config.write_text(
        f'[core]\n\tattributesFile = {attributes}\n[merge "both"]\n\tdriver = git merge-file --union %A %O %B\n'
    )
    done = ours.kz("rebase", "--onto", "v3", GIT_CONFIG_GLOBAL=str(config))
    assert done.returncode == 4 and "git's three-way merge finds a result" in done.stderr, done.stderr
    assert "theirs\nours\n" in (worktree(ours) / "b.txt").read_text()
    assert ours.kz("rebase", "continue").returncode == 0


def test_a_broken_intent_stops_at_the_end_and_can_be_mended(ours: Project) -> None:
    was = kept(ours)
    assert ours.kz("rebase", "--onto", "v3").returncode == 4
    tree = worktree(ours)
    (tree / "b.txt").write_text(put(text(), 10, "theirs", "mine"))
    sh("git", "add", "b.txt", cwd=tree)
    done = ours.kz("rebase", "continue")
    assert done.returncode == 4 and "second: contains" in done.stderr and kept(ours) == was
    status = ours.kz("rebase", "status").stdout
    assert "stopped at: the checks of the result" in status and "second: contains" in status and "Rewrite" not in status
    assert ours.kz("rebase", "skip").returncode == 2, "there is no patch to skip"
    (tree / "b.txt").write_text(put(text(), 10, "theirs", "ours"))
    dirty = ours.kz("rebase", "continue")
    assert dirty.returncode == 4 and kept(ours) == was, "not committed yet"
    sh("git", "commit", "-q", "--amend", "-a", "--no-edit", cwd=tree)
    done = ours.kz("rebase", "continue")
    assert done.returncode == 0, done.stderr
    assert ours.kz("apply").returncode == 0


def test_a_finish_that_was_killed_is_rolled_forward_by_the_next_command(ours: Project, tmp_path: Path) -> None:
    was = kept(ours)
    whole = tmp_path / "whole"
    subprocess.run(["cp", "-r", ours.root, whole], check=True)
    assert ours.kz("rebase", "--onto", "v2").returncode == 0
    now = kept(ours)
    # Killed as late as can be: the record is written and one of the files is.
    killer = tmp_path / "at_start.py"
    killer.write_text(
        "import os, pathlib\n"
        "real = os.replace\n"
        "def replace(src, dst, **k):\n"
        "    real(src, dst, **k)\n"
        "    if str(dst).endswith('0001-first.patch'):\n"
        "        os._exit(137)\n"
        "os.replace = replace\n"
        "pathlib.Path.replace = lambda self, to: replace(self, to) or pathlib.Path(to)\n"
    )
    second = Project(whole, ours.upstream, ours.run)
    path = str(tmp_path / "at_start.py")
    killed = second.kz("rebase", "--onto", "v2", PYTHONSTARTUP=path, KZ_CACHE=str(tmp_path / "store"))
    assert killed.returncode == 137
    half = kept(second)
    assert half != was and half != now and ".kz-commit" in half
    assert second.kz("verify", KZ_CACHE=str(tmp_path / "store")).returncode == 0
    assert kept(second) == now


def test_a_file_changed_since_a_killed_finish_is_not_overwritten(ours: Project) -> None:
    record = {"pins.yaml": [None, "bmV3"]}
    (ours.root / ".kz-commit").write_text(json.dumps(record))
    done = ours.kz("verify")
    assert done.returncode == 2 and "pins.yaml" in done.stderr and ".kz-commit" in done.stderr
    assert (ours.root / ".kz-commit").exists()


def test_a_session_that_leads_to_a_device_is_not_read(ours: Project) -> None:
    """As a branch of somebody's may have it, where it has a folder out."""
    file = ours.root / "out/rebase/l/up/session.json"
    file.parent.mkdir(parents=True)
    file.symlink_to("/dev/zero")
    done = ours.kz("rebase", "status")
    assert done.returncode == 2 and "session.json was not written by kz" in done.stderr, done.stderr


def test_a_stack_that_changed_meanwhile_is_not_written_over(ours: Project) -> None:
    assert ours.kz("rebase", "--onto", "v3").returncode == 4
    resolve(ours)
    patch = ours.root / "patches/l/up/0001-first.patch"
    patch.write_text(patch.read_text().replace("Subject: [PATCH] first", "Subject: [PATCH] other"))
    was = kept(ours)
    done = ours.kz("rebase", "continue")
    assert done.returncode == 3 and kept(ours) == was and "kz rebase abort" in done.stderr


def test_one_that_was_killed_before_it_stopped_anywhere_is_begun_anew(ours: Project, tmp_path: Path) -> None:
    (tmp_path / "at_start.py").write_text(
        "import os, subprocess\n"
        "class Popen(subprocess.Popen):\n"
        "    def __init__(self, argv, *rest, **more):\n"
        "        if 'fast-import' in argv and os.environ.get('KILL'):\n"
        "            os._exit(137)\n"
        "        super().__init__(argv, *rest, **more)\n"
        "subprocess.Popen = Popen\n"
    )
    assert ours.kz("apply").returncode == 0
    path = str(tmp_path / "at_start.py")
    assert ours.kz("rebase", "--onto", "v2", PYTHONSTARTUP=path, KILL="1").returncode == 137
    assert "nothing is in progress" in ours.kz("rebase", "status").stdout
    assert ours.kz("rebase", "--onto", "v2").returncode == 0
    assert ours.kz("apply").returncode == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "--onto REV is needed"),
        (("--onto", "v9"), 2, "no tag, branch or commit 'v9'"),
        (("--onto", "v2", "--line", "x"), 2, "no line named 'x'"),
        (("--onto", "v2", "--source", "x"), 2, "'x'"),
        (("continue",), 2, "no rebase is in progress"),
        (("skip",), 2, "no rebase is in progress"),
        (("--onto", "v2", "--as", "a b/c"), 2, "a b/c"),
        (("--onto", "v2", "--as", "l"), 2, "line l"),
    ],
)
def test_bad_words_say_so(ours: Project, words: tuple[str, ...], code: int, said: str) -> None:
    was = kept(ours)
    done = ours.kz("rebase", *words)
    assert done.returncode == code and said in done.stderr, done.stderr
    assert kept(ours) == was and "Traceback" not in done.stderr

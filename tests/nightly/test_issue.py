"""kz nightly: what needs a person is one issue for each stack, which is its own memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Kz, snapshot
from tests.nightly.github_server import GitHub, commit, make_github
from tests.nightly.test_pull_request import Night
from tests.stack.test_git_tools import sh
from tests.stack.test_rebase import OURS
from tests.stack.upstreams import Project, before, copied, project, put, started, text
from tests.upstream.test_health import MARKUP, marked_up, marked_up_project

__all__ = ["make_github"]


@copied
def ours(tmp_path: Path, kz: Kz) -> Project:
    """Two patches that hold on main."""
    return project(tmp_path, kz, started(tmp_path), [("first", {"a.txt": OURS}), ("second", {"b.txt": OURS})])


@pytest.fixture
def night(ours: Project, make_github: Callable[[Path], GitHub]) -> Night:
    return Night(ours, make_github(ours.root))


def test_one_issue_that_is_its_own_memory(night: Night, tmp_path: Path) -> None:
    up, github = night.project.upstream, night.github
    assert night.run().stdout.endswith("issue: nothing\n") and not github.wrote

    taken = up.commit("Take the line (#3)", {"a.txt": put(text(), 10, "theirs")})
    summary = tmp_path / "summary.md"
    said = night.run(GITHUB_STEP_SUMMARY=str(summary)).stdout
    body = github.issue.body
    assert github.wrote == ["POST issues"] and "issue: opened https://github.com/us/ours/issues/1" in said
    row = "| newly failing | `patches l up 0001-first` | `clean` | ``content: "
    assert row in body and row in summary.read_text() and "0002-second" not in body
    assert f"{taken[:10]} " in body and "Take the line (#3)" in body and "\n-line 10\n+theirs\n" in body
    assert "\nkz rebase --line l --source up --onto main --as NEW-LINE\n" in body

    said = night.run().stdout
    assert not github.wrote and "issue: nothing https" in said, "known: nobody is told twice"

    up.commit("And b (#4)", {"b.txt": put(text(), 10, "theirs")})
    said = night.run().stdout
    assert github.wrote == ["POST issues/1/comments", "PATCH issues/1"] and "issue: updated" in said
    (news,) = github.issue.comments
    assert "| newly failing | `patches l up 0002-second` |" in news
    assert "| still failing | `patches l up 0001-first` |" in news and "Take the line (#3)" in github.issue.body

    up.commit("Back (#6)", {"a.txt": text(), "b.txt": before(text(), 1, "grown")})
    night.run()
    healed = github.issue.body
    assert "| newly passing | `patches l up 0001-first` | `broken` | `clean` |" in healed
    assert "newly failing" not in healed and "Next:" not in healed
    night.run()
    assert not github.wrote


def test_the_issue_has_candidates_for_the_first_patch_that_conflicts(night: Night) -> None:
    """Git merges a change two lines away; a patch does not apply there."""
    before_it = snapshot(night.project.root / "patches")
    night.project.upstream.commit("Near it (#3)", {"a.txt": put(text(), 8, "theirs")})
    night.run()
    body = night.github.issue.body
    assert "\nCandidate 1, confidence 0." in body and "\n theirs\n line 9\n-line 10\n+ours\n" in body
    assert "`kz rebase --take N` continues with one of them." in body
    assert snapshot(night.project.root / "patches") == before_it and not (night.project.root / "out/nightly").exists()


def test_a_line_that_is_stuck_says_which_commit_and_what_to_type(
    ours: Project, make_github: Callable[[Path], GitHub]
) -> None:
    up = ours.upstream
    up.git("tag", "v1.0.0", "v1")
    pins = ours.root / "pins.yaml"
    pins.write_text(pins.read_text().replace("l: {up: v1}", "old: {up: v1.0.0}\n  l: {up: v1.0.0}"))
    (ours.root / "patches/old").symlink_to("l")
    assert ours.kz("lock", "--write").returncode == 0
    night = Night(ours, make_github(ours.root))
    up.commit("Grow (#2)", {"a.txt": before(text(), 1, "grown"), "b.txt": put(text(), 10, "theirs")}, tag="v1.0.1")
    said = night.run().stdout
    assert "pull request" not in said and len(night.github.listed(pulls=False)) == 2
    old, new = night.github.things
    for issue, line in ((old, "old"), (new, "l")):
        assert issue.title == f"{line}: patches of up break on v1.0.1" and "first in `v1.0.1`" in issue.body
        assert f"\nkz rebase --line {line} --source up --onto v1.0.1\n" in issue.body
    night.run()
    assert not night.github.wrote

    up.commit("Back (#3)", {"a.txt": text(), "b.txt": text()}, tag="v1.0.2")
    night.run()
    assert "newly passing" in old.body and len(night.github.listed(pulls=True)) == 2, (
        "each moves, and its issue says so"
    )
    night.run()
    assert not night.github.wrote


def test_a_stack_whose_check_fails_on_the_result_needs_a_person(
    tmp_path: Path, kz: Kz, make_github: Callable[[Path], GitHub]
) -> None:
    upstream = started(tmp_path)
    upstream.git("tag", "v1.0.0")
    checks = "first:\n  - absent: {file: b.txt, text: grown}\n"
    ours = project(tmp_path, kz, upstream, [("first", {"a.txt": OURS})], checks, pin="v1.0.0")
    night = Night(ours, make_github(ours.root))
    upstream.commit("Grow (#2)", {"b.txt": before(text(), 1, "grown")}, tag="v1.0.1")
    night.run()
    assert night.github.wrote == ["POST issues"] and "intent" in night.github.issue.body
    assert "kz rebase --line l --source up --onto v1.0.1" in night.github.issue.body


def test_elsewhere_it_says_what_it_needs(night: Night) -> None:
    assert "GITHUB_REPOSITORY" in night.run(GITHUB_REPOSITORY="", code=6).stderr
    assert "not OWNER/NAME" in night.run(GITHUB_REPOSITORY="us/ours/../x", code=2).stderr
    night.project.upstream.commit("Take the line (#3)", {"a.txt": put(text(), 10, "theirs")})
    assert "GITHUB_TOKEN" in night.run(GITHUB_TOKEN="", code=6).stderr
    assert not night.github.wrote


def test_what_upstream_wrote_is_no_markup_and_no_memory(night: Night) -> None:
    marked_up_project(night.project)
    commit(night.project.root, "Markup")
    night.run()
    issue = night.github.issue
    assert "<img src=evil>" in issue.body and "evil" not in marked_up(issue.body.split("-->\n", 2)[2])
    night.run()
    assert not night.github.wrote, "its memory is kz's own"
    issue.body = f"{MARKUP}\n{issue.body}"
    night.run()
    assert night.github.wrote == ["POST issues"], "an issue that only quotes kz's marker is not its own"


def test_a_pull_request_has_no_markup_of_upstream(night: Night) -> None:
    up = night.project.upstream
    base = up.git("rev-parse", "main")
    pins = night.project.root / "pins.yaml"
    pins.write_text(pins.read_text().replace("up: v1}", f"up: {base}}}"))
    assert night.project.kz("lock", "--write").returncode == 0
    commit(night.project.root, "Follow main")
    sh("git", "push", "-q", str(night.github.bare), "main", cwd=night.project.root)
    up.commit(f"Take {MARKUP}", {"b.txt": OURS})
    night.run()
    pull = night.github.pull
    assert "<img src=evil>" in pull.body and "evil" not in marked_up(pull.body.split("-->\n", 1)[1])
    night.run()
    assert not night.github.wrote

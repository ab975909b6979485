"""kz nightly: what moves by itself is one pull request for each line, pushed by git to a GitHub on loopback."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.conftest import Kz, snapshot
from tests.nightly.github_server import BASIC, SLUG, TOKEN, GitHub, commit, make_github, serving
from tests.stack.test_git_tools import sh
from tests.stack.test_rebase import OURS
from tests.stack.upstreams import URL, Project, before, copied, project, put, started, text

__all__ = ["make_github"]
BRANCH = "kz/nightly-l"
GROWN = {"a.txt": before(text(), 1, "grown")}
PULLS = f"/repos/{SLUG}/pulls"


@copied
def ours(tmp_path: Path, kz: Kz) -> Project:
    """Two patches on v1.0.0."""
    upstream = started(tmp_path)
    upstream.git("tag", "v1.0.0")
    return project(tmp_path, kz, upstream, [("first", {"a.txt": OURS}), ("second", {"b.txt": OURS})], pin="v1.0.0")


@dataclass
class Night:
    """A project, and the GitHub that it is on."""

    project: Project
    github: GitHub

    def run(self, *options: str, code: int = 0, **env: str) -> CompletedProcess[str]:
        """Run one night, in which the token reaches no output; it must end with this code."""
        own = {"GITHUB_API_URL": self.github.url, "GITHUB_SERVER_URL": self.github.url, "NO_PROXY": "*"}
        own |= {"GITHUB_REPOSITORY": SLUG, "GITHUB_TOKEN": TOKEN}
        self.github.wrote.clear()
        done = self.project.kz("nightly", *options, **{**own, **env})
        assert done.returncode == code, done.stdout + done.stderr
        assert TOKEN not in done.stdout + done.stderr and BASIC not in done.stdout + done.stderr
        return done

    def changed(self) -> list[str]:
        """The files that the branch changes, one commit above main."""
        words = ("diff", "--name-only", f"{BRANCH}^", BRANCH)
        assert sh("git", "rev-parse", f"{BRANCH}^", cwd=self.github.bare) == self.github.tip("main")
        return sh("git", *words, cwd=self.github.bare).split("\n")

    def shown(self, path: str) -> str:
        """A file as the branch has it."""
        return sh("git", "show", f"{BRANCH}:{path}", cwd=self.github.bare)


@pytest.fixture
def night(ours: Project, make_github: Callable[[Path], GitHub]) -> Night:
    return Night(ours, make_github(ours.root))


def test_a_new_release_of_the_series_is_one_pull_request(night: Night) -> None:
    said = night.run().stdout
    assert not night.github.wrote and not night.github.things and "v1.0.0 to main" in said

    night.project.upstream.commit("Grow (#2)", GROWN, tag="v1.0.1")
    night.project.upstream.git("tag", "v2.0.0")
    night.project.upstream.git("tag", "v1.0.2-rc1")
    was = snapshot(night.project.root)
    summary = night.project.root.parent / "summary.md"
    said = night.run(GITHUB_STEP_SUMMARY=str(summary)).stdout
    pull = night.github.pull
    assert f"- pull request `l: up v1.0.0 -> v1.0.1: opened https://github.com/{SLUG}/pull/1`" in summary.read_text()
    assert night.github.wrote == ["push", "POST pulls"] and (pull.head, pull.base) == (BRANCH, "main")
    assert f"pull request: l: up v1.0.0 -> v1.0.1: opened https://github.com/{SLUG}/pull/1" in said
    assert pull.title == "l: up v1.0.0 -> v1.0.1" and "moved by +1 lines" in pull.body
    assert night.changed() == ["patches/l/up/0001-first.patch", "pins.lock", "pins.yaml"]
    assert "l: {up: v1.0.1}" in night.shown("pins.yaml")
    changed = {name for name, data in snapshot(night.project.root).items() if was.get(name) != data}
    assert not {name for name in changed if not name.startswith(("out/", ".git/objects/"))}, (
        "no file or ref of ours moves"
    )

    assert "nothing https" in night.run().stdout and not night.github.wrote, "it is told once"

    sh("git", "pull", "-q", str(night.github.bare), BRANCH, cwd=night.project.root)
    done = night.project.kz("verify", "--json")
    assert done.returncode == 0, done.stderr
    assert night.project.kz("lock").stdout == "0 changes in pins.lock\n"


def test_the_same_content_is_not_pushed_again_and_more_of_it_updates_the_pull_request(night: Night) -> None:
    night.project.upstream.commit("Grow (#2)", GROWN, tag="v1.0.1")
    night.run()
    (night.project.root / "README").write_text("ours\n")
    commit(night.project.root, "Something else")
    sh("git", "push", "-q", str(night.github.bare), "main", cwd=night.project.root)
    tip = night.github.tip(BRANCH)
    night.run()
    assert not night.github.wrote and night.github.tip(BRANCH) == tip

    night.project.upstream.commit("Grow b (#3)", {"b.txt": before(text(), 1, "grown")}, tag="v1.0.2")
    said = night.run().stdout
    assert night.github.wrote == ["push", "PATCH pulls/1"] and "v1.0.0 -> v1.0.2: updated" in said
    assert night.github.pull.title.endswith("v1.0.2") and "patches/l/up/0002-second.patch" in night.changed()
    night.run()
    assert not night.github.wrote


def with_second(ours: Project, url: str) -> None:
    """Give the line a further source, with the second patch alone."""
    pins, stack = ours.root / "pins.yaml", ours.root / "patches/l/two"
    pins.write_text(pins.read_text().replace("lines:\n  l: {", f"  two: {{git: {url}}}\nlines:\n  l: {{two: v1.0.0, "))
    stack.mkdir()
    (second,) = (ours.root / "patches/l/up").glob("*second*")
    (stack / second.name).write_bytes(second.read_bytes())
    (stack / "series").write_text(f"{second.name}\n")
    assert ours.kz("lock", "--write").returncode == 0


def test_an_upstream_that_is_gone_keeps_no_other_stack_of_its_line(
    ours: Project, make_github: Callable[[Path], GitHub]
) -> None:
    other = ours.upstream.folder.with_name("up2")
    other.symlink_to(ours.upstream.folder)
    with_second(ours, f"{URL}2")
    night = Night(ours, make_github(ours.root))
    ours.upstream.commit("Grow (#2)", GROWN, tag="v1.0.1")
    other.unlink()
    done = night.run(code=6)
    assert "up2" in done.stderr and night.github.pull.title == "l: up v1.0.0 -> v1.0.1"


def test_the_pull_request_has_candidates_for_a_stack_that_stays(
    ours: Project, make_github: Callable[[Path], GitHub]
) -> None:
    with_second(ours, URL)
    night = Night(ours, make_github(ours.root))
    ours.upstream.commit("Near it (#2)", {"a.txt": put(text(), 8, "theirs")}, tag="v1.0.1")
    said = night.run("--dry-run").stdout
    assert "l: two v1.0.0 -> v1.0.1" in said and "`up` stays at `v1.0.0`, because of patches on `v1.0.1`:" in said
    body = said.partition("`up` stays")[2]
    assert "- `0001-first`" in body and "Candidate 1, confidence 0." in body and "-line 10\n  +ours\n" in body


def test_a_stack_that_two_lines_share_by_a_link_is_not_torn(
    ours: Project, make_github: Callable[[Path], GitHub]
) -> None:
    """The branch would have a folder in the link's place, with nothing but the patch that changed."""
    pins = ours.root / "pins.yaml"
    pins.write_text(pins.read_text().replace("l: {up: v1.0.0}", "old: {up: v1.0.0}\n  l: {up: v1.0.0}"))
    (ours.root / "patches/old").symlink_to("l")
    assert ours.kz("lock", "--write").returncode == 0
    night = Night(ours, make_github(ours.root))
    ours.upstream.commit("Grow (#2)", GROWN, tag="v1.0.1")
    done = night.run(code=2)
    assert "patches/old/up/0001-first.patch lies behind a symbolic link" in done.stderr
    assert [pull.title for pull in night.github.listed(pulls=True)] == ["l: up v1.0.0 -> v1.0.1"]


def test_what_a_person_closed_stays_closed_until_it_is_something_else(night: Night) -> None:
    night.project.upstream.commit("Grow (#2)", GROWN, tag="v1.0.1")
    night.run()
    night.github.pull.state = "closed"
    sh("git", "update-ref", "-d", f"refs/heads/{BRANCH}", cwd=night.github.bare)
    said = night.run().stdout
    assert not night.github.wrote and "nothing https" in said and "closed with the same content" in said
    night.project.upstream.commit("Grow b (#3)", {"b.txt": before(text(), 1, "grown")}, tag="v1.0.2")
    assert "opened https" in night.run().stdout and len(night.github.things) == 2


def test_commits_of_a_person_on_the_branch_are_left_alone(night: Night, tmp_path: Path) -> None:
    night.project.upstream.commit("Grow (#2)", GROWN, tag="v1.0.1")
    night.run()
    sh("git", "clone", "-q", "-b", BRANCH, str(night.github.bare), "clone", cwd=tmp_path)
    (tmp_path / "clone/fix").write_text("ours\n")
    sh("git", "add", "fix", cwd=tmp_path / "clone")
    sh(
        "git",
        "-c",
        "user.name=Us",
        "-c",
        "user.email=us@x",
        "commit",
        "-q",
        "--amend",
        "--no-edit",
        cwd=tmp_path / "clone",
    )
    sh("git", "push", "-q", "--force", "origin", BRANCH, cwd=tmp_path / "clone")
    tip = night.github.tip(BRANCH)
    night.project.upstream.commit("Grow b (#3)", {"b.txt": before(text(), 1, "grown")}, tag="v1.0.2")
    said = night.run().stdout
    assert not night.github.wrote and night.github.tip(BRANCH) == tip and f"{BRANCH} has commits of others" in said


def test_a_run_that_was_killed_after_its_push_is_finished_by_the_next(night: Night) -> None:
    night.project.upstream.commit("Grow (#2)", GROWN, tag="v1.0.1")
    night.github.refusals["POST", PULLS] = 500, "Server Error", {}
    assert "HTTP 500" in night.run(code=5).stderr
    tip = night.github.tip(BRANCH)
    night.github.refusals.clear()
    night.run()
    assert night.github.wrote == ["POST pulls"] and night.github.tip(BRANCH) == tip

    night.github.things.clear()
    (night.project.root / "README").write_text("ours\n")
    commit(night.project.root, "Something else")
    sh("git", "push", "-q", str(night.github.bare), "main", cwd=night.project.root)
    night.run()
    assert night.github.wrote == ["push", "POST pulls"] and night.changed(), "its own commit is replaced"


def test_what_nobody_has_pushed_yet_is_not_pushed(night: Night) -> None:
    night.project.upstream.commit("Grow (#2)", GROWN, tag="v1.0.1")
    (night.project.root / "secret").write_text("not yet\n")
    commit(night.project.root, "Not yet")
    said = night.run().stdout
    assert not night.github.wrote and "main there is not at " in said and not night.github.tip(BRANCH)


def test_a_shallow_clone_as_ci_has_it_is_enough(night: Night, tmp_path: Path) -> None:
    night.project.upstream.commit("Grow (#2)", GROWN, tag="v1.0.1")
    (night.project.root / "README").write_text("ours\n")
    commit(night.project.root, "Second")
    sh("git", "push", "-q", str(night.github.bare), "main", cwd=night.project.root)
    sh("git", "clone", "-q", "--depth=1", f"file://{night.github.bare}", "shallow", cwd=tmp_path)
    night.project.root = tmp_path / "shallow"
    night.run()
    assert night.github.wrote == ["push", "POST pulls"] and "patches/l/up/0001-first.patch" in night.changed()


def on_commit(ours: Project, revision: str) -> str:
    """Pin the project to a commit; gives it."""
    commit = ours.upstream.git("rev-parse", revision)
    pins = ours.root / "pins.yaml"
    pins.write_text(pins.read_text().replace("up: v1.0.0", f"up: {commit}"))
    assert ours.kz("lock", "--write").returncode == 0
    return commit


def test_a_line_on_a_commit_follows_upstreams_branch(ours: Project, make_github: Callable[[Path], GitHub]) -> None:
    base = on_commit(ours, "main")
    night = Night(ours, make_github(ours.root))
    assert "pull request" not in night.run().stdout
    grown = ours.upstream.commit("Grow (#2)", GROWN)
    night.run()
    assert night.github.pull.title == f"l: up {base[:10]} -> {grown[:10]}" and grown in night.shown("pins.yaml")


def test_a_line_on_a_commit_of_another_branch_stays(ours: Project, make_github: Callable[[Path], GitHub]) -> None:
    ours.upstream.git("checkout", "-q", "-b", "release")
    ours.upstream.commit("Fix (#2)", {"other.txt": "fixed\n"})
    ours.upstream.git("checkout", "-q", "main")
    on_commit(ours, "release")
    night = Night(ours, make_github(ours.root))
    ours.upstream.commit("Grow (#3)", GROWN)
    assert "pull request" not in night.run().stdout and not night.github.wrote


REFUSED = {
    "GitHub Actions is not permitted to create or approve pull requests.": (403, {}, "Allow GitHub Actions to create"),
    "API rate limit exceeded": (
        403,
        {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "4102444800"},
        "rate limit is used up",
    ),
    "Bad credentials": (401, {}, "GITHUB_TOKEN or GH_TOKEN is wrong"),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_github_refuses_is_one_sentence(night: Night, message: str) -> None:
    status, headers, sentence = REFUSED[message]
    night.project.upstream.commit("Grow (#2)", GROWN, tag="v1.0.1")
    night.github.refusals["POST", PULLS] = status, message, headers
    done = night.run(code=5)
    assert sentence in done.stderr and "kz: exit 5 (command)" in done.stderr and "Traceback" not in done.stderr


def test_a_push_that_is_refused_is_one_sentence_and_issues_are_written(night: Night) -> None:
    up = night.project.upstream
    up.commit("Grow (#2)", GROWN, tag="v1.0.1")
    up.commit("Take the line (#3)", {"b.txt": put(text(), 10, "theirs")})
    night.github.push_status = 403
    done = night.run(code=5)
    assert f"{night.github.url}/{SLUG}.git refused {BRANCH}: " in done.stderr and "contents: write" in done.stderr
    assert night.github.wrote == ["POST issues"] and "Take the line" in night.github.issue.body

    night.run(code=5)
    assert night.github.wrote == [], "the issue is told once"

    night.github.push_status = 200
    hook = night.github.bare / "hooks/pre-receive"
    hook.write_text("#!/bin/sh\necho no releases on Sundays >&2\nexit 1\n")
    hook.chmod(0o755)
    done = night.run(code=5)
    assert f"refused {BRANCH}: [remote rejected] (pre-receive hook declined)" in done.stderr
    assert not night.github.listed(pulls=True)


def test_a_wrong_token_is_one_sentence_and_no_other_server_gets_the_right_one(night: Night) -> None:
    night.project.upstream.commit("Grow (#2)", GROWN, tag="v1.0.1")
    done = night.run(code=5, GITHUB_TOKEN="wrong", GIT_ASKPASS="/bin/false")
    assert f".git refused {BRANCH}: could not read Username" in done.stderr and "contents: write" in done.stderr
    with serving(GitHub(night.github.bare)) as other:
        night.github.redirect = other.url
        assert f".git refused {BRANCH}: " in night.run(code=5).stderr
        assert night.github.authorizations[-1] == f"Basic {BASIC}" and not other.authorizations


def test_no_hook_of_the_checkout_runs_and_no_argument_has_the_token(night: Night, tmp_path: Path) -> None:
    hooks = night.project.root / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("pre-push", "post-commit", "reference-transaction", "post-index-change"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/hook-{name}\n")
        (hooks / name).chmod(0o755)
    real, log = sh("which", "git", cwd=tmp_path), tmp_path / "argv"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/git").write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> {log}\nexec {real} "$@"\n')
    (tmp_path / "bin/git").chmod(0o755)
    night.project.upstream.commit("Grow (#2)", GROWN, tag="v1.0.1")
    night.run(PATH=f"{tmp_path / 'bin'}:/usr/bin:/bin")
    argv = log.read_text()
    assert " push --porcelain" in argv and TOKEN not in argv and BASIC not in argv
    assert not list(tmp_path.glob("hook-*")) and night.github.pull


def test_a_token_that_the_checkout_left_is_not_sent_twice(night: Night) -> None:
    key = f"http.{night.github.url}/.extraheader"
    sh("git", "config", key, "AUTHORIZATION: basic b3RoZXI=", cwd=night.project.root)
    night.project.upstream.commit("Grow (#2)", GROWN, tag="v1.0.1")
    night.run()
    assert night.github.wrote == ["push", "POST pulls"]


def test_a_dry_run_shows_it_all_and_writes_nothing(night: Night) -> None:
    up = night.project.upstream
    up.commit("Grow (#2)", GROWN, tag="v1.0.1")
    up.commit("Take the line (#3)", {"b.txt": put(text(), 10, "theirs")})
    for env in ({}, {"GITHUB_REPOSITORY": "", "GITHUB_TOKEN": ""}):
        said = night.run("--dry-run", code=0, **env).stdout
        assert not night.github.wrote and not night.github.tip(BRANCH)
        assert "would be opened" in said and "-  l: {up: v1.0.0}\n  +  l: {up: v1.0.1}" in said
        assert "kz rebase --line l --source up --onto main --as NEW-LINE" in said
    plain = json.loads(night.run("--dry-run", "--json").stdout)["lines"][0]
    assert plain["pull"]["did"] == "would be opened" and "pins.lock" in plain["diff"]


def test_what_is_not_committed_is_not_moved(night: Night) -> None:
    night.project.upstream.commit("Grow (#2)", GROWN, tag="v1.0.1")
    (night.project.root / "patches/l/up/series").write_text("0001-first.patch\n")
    night.run()
    assert "0002-second.patch" in night.shown("patches/l/up/series")


def test_it_needs_a_branch(night: Night) -> None:
    sh("git", "checkout", "-q", "--detach", cwd=night.project.root)
    assert "HEAD is on a branch" in night.run(code=2).stderr


def test_a_project_in_a_folder_of_its_repository(
    ours: Project, make_github: Callable[[Path], GitHub], tmp_path: Path
) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    ours.root.rename(whole / "a project")
    ours.root = whole / "a project"
    (whole / "other").write_text("other\n")
    night = Night(ours, make_github(whole))
    ours.upstream.commit("Grow (#2)", GROWN, tag="v1.0.1")
    night.run()
    assert "a project/pins.yaml" in night.changed() and not list(whole.glob("a project/out/nightly/l/other"))

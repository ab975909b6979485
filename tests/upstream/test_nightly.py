"""kz nightly with a GitHub on loopback, and kz health."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from tests.conftest import Kz, snapshot
from tests.core.test_github import Answer, Api, make_api
from tests.stack.test_rebase import OURS
from tests.stack.upstreams import Project, before, copied, project, put, started, text

__all__ = ["make_api"]
ISSUES = "/repos/us/ours/issues"
LIST = f"{ISSUES}?state=open&labels=kz-patch-health&sort=created&direction=desc&per_page=100"


@copied
def ours(tmp_path: Path, kz: Kz) -> Project:
    """Two patches that hold on main."""
    return project(tmp_path, kz, started(tmp_path), [("first", {"a.txt": OURS}), ("second", {"b.txt": OURS})])


@pytest.fixture
def api(make_api: Callable[[], Api]) -> Api:
    return make_api()


def issue(body: str) -> dict[str, object]:
    """An issue as GitHub tells it."""
    return {
        "number": 5,
        "title": "t",
        "html_url": "https://github.com/us/ours/issues/5",
        "body": body,
        "labels": [{"name": "kz-patch-health"}],
    }


def night(ours: Project, api: Api, body: str | None = None) -> tuple[str, dict[str, str]]:
    """One night while the issue has this body (None: there is no issue); gives what was printed, and what was written by method and path."""
    api.answers.clear()
    api.asked.clear()
    api.tell(LIST, Answer(200, [] if body is None else [issue(body)]))
    api.tell(ISSUES, Answer(201, issue("new")), method="POST")
    api.tell(f"{ISSUES}/5", Answer(200, issue("changed")), method="PATCH")
    api.tell(f"{ISSUES}/5/comments", Answer(201, {"html_url": "https://x"}), method="POST")
    done = ours.kz("nightly", GITHUB_API_URL=api.url, GITHUB_REPOSITORY="us/ours", GITHUB_TOKEN="t", NO_PROXY="*")
    assert done.returncode == 0, done.stderr
    return done.stdout, {f"{a.method} {a.path}": a.content["body"] for a in api.asked if a.method != "GET"}


def test_one_issue_that_is_its_own_memory(ours: Project, api: Api) -> None:
    said, wrote = night(ours, api)
    assert not wrote and said.endswith("issue: nothing\n")

    taken = ours.upstream.commit("Take the line (#3)", {"a.txt": put(text(), 10, "theirs")})
    said, wrote = night(ours, api)
    (body,) = wrote.values()
    assert set(wrote) == {f"POST {ISSUES}"} and "issue: opened https://github.com/us/ours/issues/5" in said
    assert (
        "Newly broken" in body
        and f"{taken[:10]} " in body
        and "Take the line (#3)" in body
        and "0002-second" not in body
    )

    said, wrote = night(ours, api, body)
    assert not wrote and "issue: nothing https://github.com/us/ours/issues/5" in said, "known: nobody is told twice"

    ours.upstream.commit("And b (#4)", {"b.txt": put(text(), 10, "theirs")})
    said, wrote = night(ours, api, body)
    assert set(wrote) == {f"POST {ISSUES}/5/comments", f"PATCH {ISSUES}/5"} and "issue: updated" in said
    news = wrote[f"POST {ISSUES}/5/comments"]
    assert "And b (#4)" in news.split("Broken before")[0] and "Take the line (#3)" in news.split("Broken before")[1]
    body = wrote[f"PATCH {ISSUES}/5"]

    ours.upstream.commit("Back (#6)", {"a.txt": text(), "b.txt": before(text(), 1, "grown")})
    said, wrote = night(ours, api, body)
    healed = wrote[f"PATCH {ISSUES}/5"]
    assert "Holds again" in healed and "0001-first" in healed and "Newly broken" not in healed
    said, wrote = night(ours, api, healed)
    assert not wrote


def test_elsewhere_it_says_what_it_needs(ours: Project, api: Api) -> None:
    done = ours.kz("nightly", GITHUB_REPOSITORY="")
    assert done.returncode == 6 and "GITHUB_REPOSITORY" in done.stderr
    ours.upstream.commit("Take the line (#3)", {"a.txt": put(text(), 10, "theirs")})
    api.tell(LIST, Answer(200, []))
    done = ours.kz("nightly", GITHUB_API_URL=api.url, GITHUB_REPOSITORY="us/ours", GITHUB_TOKEN="", NO_PROXY="*")
    assert done.returncode == 6 and "GITHUB_TOKEN" in done.stderr


def test_health_is_one_page_of_every_patch_on_every_release_and_main(ours: Project) -> None:
    up = ours.upstream
    up.commit("Grow (#2)", {"a.txt": before(text(), 1, "grown")}, tag="v2")
    up.commit("Not a release", {"other.txt": "x\n"}, tag="v3-rc1")
    taken = up.commit("Take the line (#3)", {"b.txt": put(text(), 10, "theirs")})
    up.git("tag", "ci/7")
    was = snapshot(ours.root)
    done = ours.kz("health", "--fetch")
    assert done.returncode == 0, done.stderr
    assert {n for n, data in snapshot(ours.root).items() if was.get(n) != data} == {"patches/HEALTH.md"}
    page = (ours.root / "patches/HEALTH.md").read_text()
    rows = [row.split(" | ") for row in page.splitlines() if row.startswith(("| `v", "| `main"))]
    assert [(row[0].strip("|` "), row[2], row[3].strip("| ")) for row in rows] == [
        ("v1", "clean", "clean"),
        ("v2", "+1", "clean"),
        ("main", "+1", "**content**"),
    ]
    assert f"since `{taken[:10]} " in page and "Take the line (#3)`, in no tag yet" in page.replace(
        "first in v3-rc1", ""
    )
    assert ours.kz("verify").returncode == 0, "the page is in nobody's way"


WORD = "v2|`@evil`<b>http%evil"
"""Markup in what git allows in the name of a tag, and a disk in that of a file."""
MARKUP = f'{WORD} #66 [evil](http://evil) <img src=evil> ``` | evil --> <!-- kz-nightly l up --> <!-- kz-broken: {{"evil": ""}} -->'


def marked_up(page: str) -> str:
    """What a page says beside its code spans and blocks, as HTML."""
    parser = MarkdownIt().enable("table")
    for kind in ("code_inline", "fence"):
        parser.add_render_rule(kind, lambda *_: "")
    return str(parser.render(page))


def test_what_upstream_wrote_is_no_markup_and_no_memory(ours: Project, api: Api, tmp_path: Path) -> None:
    stack, name = ours.root / "patches/l/up", f"0002-{WORD}.patch"
    (stack / "0002-second.patch").rename(stack / name)
    (stack / "series").write_text(f"0001-first.patch\n{name}\n")
    assert ours.kz("lock", "--write").returncode == 0
    ours.upstream.commit(f"Take {MARKUP}", {"a.txt": put(text(), 10, MARKUP), "b.txt": None}, tag=WORD)

    _, wrote = night(ours, api)
    (body,) = wrote.values()
    assert "<img src=evil>" in body and "evil" not in marked_up(body.split("-->\n", 2)[2])
    said, wrote = night(ours, api, body)
    assert not wrote and "issue: nothing https" in said, "its memory is kz's own"
    said, wrote = night(ours, api, f"{MARKUP}\n{body}")
    assert f"POST {ISSUES}" in wrote, "an issue that only quotes kz's marker is not its own"

    summary = tmp_path / "summary.md"
    env = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}
    ours.kz("verify", "--tags", "*", "--onto", "main", **env)
    ours.kz("health")
    for page in (summary, ours.root / "patches/HEALTH.md"):
        shown = marked_up(page.read_text())
        assert (
            "evil" in page.read_text() and "evil" not in shown and shown.count("<tr>") == 3 + (page is not summary)
        ), shown

"""kz health: every patch on every release and main, as a page."""

from __future__ import annotations

from pathlib import Path

from markdown_it import MarkdownIt

from tests.conftest import Kz, snapshot
from tests.stack.test_rebase import OURS
from tests.stack.upstreams import Project, before, copied, project, put, started, text


@copied
def ours(tmp_path: Path, kz: Kz) -> Project:
    """Two patches that hold on main."""
    return project(tmp_path, kz, started(tmp_path), [("first", {"a.txt": OURS}), ("second", {"b.txt": OURS})])


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


def marked_up_project(ours: Project) -> None:
    """Give the project a patch, and upstream a subject, a tag and lines, that are markup."""
    stack, name = ours.root / "patches/l/up", f"0002-{WORD}.patch"
    (stack / "0002-second.patch").rename(stack / name)
    (stack / "series").write_text(f"0001-first.patch\n{name}\n")
    assert ours.kz("lock", "--write").returncode == 0
    ours.upstream.commit(f"Take {MARKUP}", {"a.txt": put(text(), 10, MARKUP), "b.txt": None}, tag=WORD)


def test_what_upstream_wrote_is_no_markup(ours: Project, tmp_path: Path) -> None:
    marked_up_project(ours)
    summary = tmp_path / "summary.md"
    env = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}
    ours.kz("verify", "--tags", "*", "--onto", "main", "--fetch", **env)
    ours.kz("health")
    for page in (summary, ours.root / "patches/HEALTH.md"):
        shown = marked_up(page.read_text())
        assert (
            "evil" in page.read_text() and "evil" not in shown and shown.count("<tr>") == 3 + (page is not summary)
        ), shown

"""A line with stacks on two upstreams: one on its branch main, the other on trunk, with other tags."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kz_build.core.files import remove
from tests.conftest import Kz
from tests.core.test_github import PULLS, Answer, Api, make_api, raw_pull
from tests.stack.upstreams import Project, Upstream, before, project, put, started, text

__all__ = ["make_api"]
STACK = [("Ours", {"a.txt": put(text(), 10, "ours")})]


@pytest.fixture
def two(tmp_path: Path, kz: Kz) -> Project:
    """`up` has the tags v1 and v2; `other` has v1 and w2, which breaks its patch, and no main."""
    made = project(tmp_path, kz, started(tmp_path), STACK)
    made.upstream.commit("Grow (#2)", {"a.txt": before(text(), 1, "grown")}, tag="v2")
    other = Upstream(tmp_path / "other")
    other.commit("Start", {"a.txt": text()}, tag="v1")
    other.git("branch", "-m", "trunk")
    other.commit("Take (#7)", {"a.txt": put(text(), 10, "theirs")}, tag="w2")
    folder = made.root / "patches" / "l"
    (folder / "up").rename(folder / "other")
    (folder / "up").mkdir()
    for file in (folder / "other").iterdir():
        (folder / "up" / file.name).write_bytes(file.read_bytes())
    pins = (made.root / "pins.yaml").read_text()
    pins = pins.replace("lines:", f"  other: {{git: {other.folder}}}\nlines:").replace(
        "{up: v1}", "{up: v1, other: v1}"
    )
    (made.root / "pins.yaml").write_text(pins)
    assert made.kz("lock", "--write").returncode == 0
    return made


def test_sources_are_chosen(two: Project) -> None:
    assert [r["source"] for r in two.json("verify")] == ["other", "up"]
    assert [r["source"] for r in two.json("verify", "--source", "up")] == ["up"]
    assert [r["source"] for r in two.json("verify", "--source", "up", "--source", "other")] == ["other", "up"]
    assert [r["source"] for r in two.json("history", "--source", "other")] == ["other"]
    assert [r["source"] for r in two.json("radar", "--source", "up")] == ["up"]
    for verb in ("verify", "history", "radar"):
        wrong = two.kz(verb, "--source", "upp")
        assert (
            wrong.returncode == 2 and "kz: upp: no stack on line l\n  -> there are stacks on: other, up" in wrong.stderr
        )


def test_upstreams_own_branch_is_found_whatever_its_name(two: Project) -> None:
    assert [(h["source"], h["to"], h["holds"]) for h in holds(two.json("history"))] == [
        ("other", "trunk", False),
        ("up", "main", True),
    ]
    assert [(r["source"], r["to"]) for r in two.json("radar")] == [("other", "trunk"), ("up", "main")]
    assert "pull requests merged into trunk" in two.kz("radar", "--source", "other").stdout
    assert two.kz("verify", "--onto", "HEAD", "--source", "up").returncode == 0
    assert two.kz("verify", "--onto", "HEAD", "--source", "other").returncode == 4


def holds(histories: list[dict[str, object]]) -> list[dict[str, object]]:
    return [{**h, "holds": all(p["holds"] for p in h["patches"])} for h in histories]  # type: ignore[attr-defined]


def test_a_revision_that_one_upstream_lacks_is_judged_on_the_others(two: Project) -> None:
    other, up = two.json("verify", "--onto", "v1", "v2", code=0)
    assert [t["name"] for t in other["targets"]] == ["v1"] and other["absent"] == ["v2"]
    assert [t["name"] for t in up["targets"]] == ["v1", "v2"] and up["absent"] == []
    said = " ".join(two.kz("verify", "--onto", "v2").stdout.split())
    assert "upstream of other has no v2: only the other stacks were judged there" in said
    assert "0001-Ours" in said.split("l up")[1] and "0001-Ours" not in said.split("l up")[0]
    broken = two.json("verify", "--tags", "w*", code=4)
    assert [r["absent"] for r in broken] == [[], ["w*"]]
    nowhere = two.kz("verify", "--onto", "v1", "v9")
    assert nowhere.returncode == 2 and "upstream has no tag, branch or commit 'v9'" in nowhere.stderr
    assert "no tag of upstream matches 'x*'" in two.kz("verify", "--tags", "x*").stderr
    for verb in ("history", "radar"):
        first, second = two.json(verb, "--onto", "w2")
        assert first["source"] == "other" and first["to"] == "w2"
        assert second == {"line": "l", "source": "up", "absent": "upstream has no tag, branch or commit 'w2'"}
        said = two.kz(verb, "--onto", "w2").stdout
        assert "l up: upstream has no tag, branch or commit 'w2'; the other stacks were judged" in said
        assert two.kz(verb, "--onto", "v9").returncode == 2


def test_a_pull_request_that_one_upstream_lacks_is_judged_on_the_other(two: Project) -> None:
    two.upstream.pull(5, {"a.txt": put(text(), 10, "theirs")}, base="v1")
    other, up = two.json("radar", "--pr", "5")[::-1]
    assert other["source"] == "other" and other["absent"] == "upstream has no pull request #5"
    assert [pull["pull"] for pull in up["pulls"]] == [5]


def test_open_requests_are_judged_where_upstream_is_on_github(two: Project, make_api: Callable[[], Api]) -> None:
    api = make_api()
    two.upstream.pull(5, {"a.txt": put(text(), 10, "theirs")}, base="v1")
    env: dict[str, Any] = {"GITHUB_API_URL": api.url, "NO_PROXY": "*", "GITHUB_TOKEN": "", "GH_TOKEN": ""}
    head = two.upstream.git("rev-parse", "refs/pull/5/head").strip()
    answer = Answer(200, [raw_pull(5, head={"sha": head, "ref": "topic"})], {"ETag": '"1"'})
    api.tell(PULLS, answer, answer)
    other, up = two.json("radar", "--open", **env)[::-1]
    assert other["source"] == "other" and other["absent"].endswith("is not on GitHub: --open works only there")
    assert [pull["pull"] for pull in up["pulls"]] == [5]
    assert "--open works only there; the other stacks were judged" in two.kz("radar", "--open", **env).stdout
    assert two.kz("radar", "--open", "--source", "other", **env).returncode == 2


def test_a_stack_whose_upstream_is_out_of_reach_does_not_hide_the_others(two: Project, tmp_path: Path) -> None:
    remove(tmp_path / "store")
    (two.root / "pins.local.yaml").write_text("sources: {other: {git: 'http://127.0.0.1:1/other'}}\n")
    done = two.kz("verify")
    assert done.returncode == 6 and "http://127.0.0.1:1/ (Failed to connect" in done.stderr, done.stderr
    assert "l up\n" in done.stdout and "clean" in done.stdout and "l other: not judged" in done.stdout
    as_json = two.kz("verify", "--json")
    assert as_json.returncode == 6
    up, other = json.loads(as_json.stdout)
    assert (up["unjudged"], other["source"], other["rows"]) == ("", "other", []) and "127.0.0.1:1" in other["unjudged"]
    assert two.kz("verify", "--line", "l", "--source", "up").returncode == 0


def test_a_stack_that_is_gone_does_not_stop_the_others(two: Project) -> None:
    remove(two.root / "patches/l/up")
    assert two.kz("verify").returncode == 3
    done = two.kz("verify", "--source", "other")
    assert done.returncode == 0, done.stderr

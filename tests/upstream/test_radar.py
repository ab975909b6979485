"""kz radar: pull requests of a real upstream, and of GitHub's API on loopback."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Kz, snapshot
from tests.core.test_github import PULLS, Answer, Api, make_api, raw_pull
from tests.git.test_checkout import tree, within
from tests.stack.upstreams import Project, before, copied, project, put, started, text

__all__ = ["make_api"]
OURS = put(text(), 10, "ours")
THEIRS = put(text(), 10, "theirs")


@copied
def ours(tmp_path: Path, kz: Kz) -> Project:
    """A patch on a.txt and one on b.txt, whose lines upstream took by #4 after v1."""
    upstream = started(tmp_path)
    made = project(tmp_path, kz, upstream, [("ours", {"a.txt": OURS}), ("lost", {"b.txt": OURS})])
    upstream.commit("Take the lines of b (#4)", {"b.txt": THEIRS})
    return made


def seen(ours: Project, *argv: str, **env: Any) -> dict[int, Any]:
    """The pull requests that would hurt, by number."""
    return {p["pull"]: p for p in ours.json("radar", *argv, **env)[0]["pulls"]}


def test_only_a_pull_request_that_makes_it_worse_is_reported(ours: Project) -> None:
    up = ours.upstream
    up.pull(11, {"a.txt": put(text(), 10, "theirs")}, subject="Rework a")
    up.pull(12, {"a.txt": before(text(), 1, "only", "moves")})
    up.pull(13, {"other.txt": "elsewhere\n"})
    up.pull(14, {"a.txt": None})
    up.pull(15, {"a.txt": put(text(), 8, "context that git can merge")})
    up.pull(16, {"a.txt": OURS}, subject="Ours, upstream")
    found = ours.json("radar")[0]
    assert (found["heads"], found["near"]) == (6, 5)
    assert [p["pull"] for p in found["pulls"]] == [15, 14, 11]
    hurt = {p["pull"]: p for p in found["pulls"]}
    assert [(t["patch"], t["before"]["verdict"], t["after"]["verdict"]) for t in hurt[11]["patches"]] == [
        ("0001-ours.patch", "clean", "content")
    ]
    assert hurt[14]["patches"][0]["after"]["verdict"] == "missing"
    assert hurt[15]["patches"][0]["after"]["verdict"] == "merged"
    assert hurt[11]["title"] == "Rework a" and hurt[11]["landed"] is None and not hurt[11]["conflicts"]
    shown = ours.kz("radar")
    assert shown.returncode == 0 and max(map(len, shown.stdout.splitlines())) <= 80
    assert "  looked at: 6, on files of the stack: 5, would break it: 3\n" in shown.stdout
    assert "  #11 Rework a\n      0001-ours: clean -> content\n" in shown.stdout
    assert "#16" not in shown.stdout and "#12" not in shown.stdout


def test_a_pull_request_with_a_tree_that_kz_refuses_is_named_and_the_others_are_judged(ours: Project) -> None:
    up = ours.upstream
    up.pull(11, {"a.txt": put(text(), 10, "theirs")}, subject="Rework a")
    blob = up.git("rev-parse", "v1:a.txt").strip()
    odd = tree(up, within(up, "../x", blob), ("100644", "a.txt", blob), ("100644", "b.txt", blob))
    commit = up.git("commit-tree", odd, "-p", "v1", "-m", "odd").strip()
    for name in ("12", "²", "x", "9" * 200):
        up.git("update-ref", f"refs/pull/{name}/head", commit)
    for choice in ((), ("--pr", "11", "12")):
        found = ours.json("radar", *choice)[0]
        assert [p["pull"] for p in found["pulls"]] == [11] and found["heads"] == 2
        assert [(r["pull"], r["head"]) for r in found["refused"]] == [(12, commit)]
    shown = ours.kz("radar")
    assert shown.returncode == 0 and "  #12 is not judged: up" in shown.stdout, shown.stdout + shown.stderr
    assert "the name '..', which git refuses" in " ".join(shown.stdout.split())


def test_what_is_broken_already_says_so_and_is_nobody_elses_doing(ours: Project) -> None:
    old = put(text(), 10, "theirs too")
    ours.upstream.pull(11, {"b.txt": old}, base="v1", subject="Old, on b")
    ours.upstream.pull(12, {"b.txt": before(THEIRS, 1, "new")}, subject="New, on b")
    ours.upstream.pull(13, {"a.txt": put(text(), 10, "theirs")}, base="v1", subject="Old, on a")
    found = ours.json("radar")[0]
    # The old ones judged with what main has by now; #11 would take nothing that is not taken already.
    assert [p["pull"] for p in found["pulls"]] == [13]
    (broken,) = found["broken"]
    assert (broken["patch"], broken["since"]["pull"], broken["now"]["verdict"]) == ("0002-lost.patch", 4, "content")
    shown = ours.kz("radar").stdout
    assert "  0002-lost: content\n      already broken since " in shown and "Take the lines of b (#4)\n" in shown


def test_one_that_landed_says_by_which_commit(ours: Project) -> None:
    ours.upstream.pull(4, {"b.txt": THEIRS}, base="v1", subject="Draft")
    hurt = seen(ours, "--pr", "4")[4]
    assert (hurt["landed"]["id"], hurt["title"]) == (ours.upstream.git("rev-parse", "main"), "Take the lines of b (#4)")
    assert [t["patch"] for t in hurt["patches"]] == ["0002-lost.patch"]
    assert "      landed as " in ours.kz("radar", "--pr", "4").stdout


def test_a_pull_request_is_merged_into_main_as_it_is_now(ours: Project) -> None:
    """Two changes that merge by themselves are judged together; one that conflicts is judged as it stands."""
    up = ours.upstream
    up.pull(11, {"a.txt": put(text(), 3, "far")}, base="v1")
    up.pull(12, {"a.txt": put(text(), 9, "close")}, base="v1")
    up.commit("Change the line above (#5)", {"a.txt": put(text(), 8, "theirs")})
    up.commit("And back (#6)", {"a.txt": put(text(), 2, "theirs")})
    assert set(seen(ours)) == {12}
    up.commit("Change it otherwise (#7)", {"a.txt": put(put(text(), 2, "theirs"), 16, "main's")})
    up.pull(13, {"a.txt": put(put(text(), 16, "pull's"), 10, "pull's")}, base="v1")
    found = seen(ours, "--fetch")
    assert set(found) == {12, 13} and found[13]["conflicts"] and not found[12]["conflicts"]
    shown = ours.kz("radar").stdout
    assert "no longer merges without conflict; judged as it is" in shown
    # In a store that has nothing yet, contents come while they are asked for.
    fresh = ours.kz("radar", KZ_CACHE=str(ours.root.parent / "fresh"))
    assert (fresh.returncode, fresh.stdout) == (0, shown), fresh.stderr


def test_a_file_that_one_side_deletes_and_the_other_changes_conflicts(ours: Project) -> None:
    up = ours.upstream
    up.pull(11, {"a.txt": None}, base="v1")
    assert not seen(ours)[11]["conflicts"]
    up.commit("Change a line far away (#5)", {"a.txt": put(text(), 2, "main's")})
    assert subprocess.run(["git", "merge", "-q", "refs/pull/11/head"], cwd=up.folder, capture_output=True).returncode
    up.git("merge", "--abort")
    assert seen(ours, "--fetch")[11]["conflicts"]


def test_numbers_are_brought_when_they_are_asked_for(ours: Project) -> None:
    ours.upstream.pull(11, {"a.txt": THEIRS})
    assert set(seen(ours, "--pr", "11")) == {11}
    ours.upstream.pull(12, {"a.txt": THEIRS})
    assert set(seen(ours, "--pr", "12", "11")) == {11, 12}
    # A head that moved is known after --fetch.
    ours.upstream.pull(11, {"other.txt": "harmless now\n"})
    assert set(seen(ours, "--pr", "11")) == {11}
    assert seen(ours, "--pr", "11", "--fetch") == {}


def test_one_that_lands_again_what_was_taken_back_is_seen(ours: Project) -> None:
    up = ours.upstream
    up.commit("Take the lines of a (#7)", {"a.txt": THEIRS})
    up.commit("Back out (#8)", {"a.txt": text()})
    up.pull(11, {"a.txt": THEIRS}, subject="Land it again")
    assert set(seen(ours, "--since", "2026-01-01", "--fetch")) == set(seen(ours, "--pr", "11")) == {11}


def test_since_takes_the_heads_of_that_day_and_later(ours: Project) -> None:
    for number in (11, 12, 13):  # of 3, 4 and 5 January
        ours.upstream.pull(number, {"a.txt": put(THEIRS, 1, str(number))})
    assert set(seen(ours, "--since", "2026-01-04")) == {12, 13}
    if sys.version_info >= (3, 11):  # which reads more ways of writing a date
        assert set(seen(ours, "--since", "20260104")) == {12, 13}
    # No network is asked because there are none.
    ours.upstream.folder.rename(ours.root.parent / "gone")
    assert ours.json("radar", "--since", "2026-02-01")[0]["heads"] == 0


def test_open_ones_are_githubs_with_its_titles(ours: Project, make_api: Callable[[], Api]) -> None:
    api = make_api()
    env: dict[str, Any] = {"GITHUB_API_URL": api.url, "NO_PROXY": "*", "GITHUB_TOKEN": "", "GH_TOKEN": ""}
    up = ours.upstream
    heads = {n: up.pull(n, {"a.txt": put(THEIRS, 1, str(n))}) for n in (11, 12, 13)}
    assert set(seen(ours)) == {11, 12, 13}
    moved = up.pull(12, {"other.txt": "harmless now\n"})
    up.commit("Later (#9)", {"other.txt": "later\n"})
    second = f"{PULLS}&page=2"

    def listed(number: int, sha: str) -> dict[str, Any]:
        return raw_pull(number, title=f"Title {number}", head={"sha": sha, "ref": "topic"})

    # 14 is on GitHub's list, and was deleted before git was asked.
    for _ in range(2):
        page = [listed(14, "e" * 40), listed(12, moved)]
        api.tell(PULLS, Answer(200, page, {"ETag": '"1"', "Link": f'<{api.url}{second}>; rel="next"'}))
        api.tell(second, Answer(200, [listed(11, heads[11])], {"ETag": '"2"'}))
    found = ours.json("radar", "--open", **env)[0]
    assert [(p["pull"], p["title"], p["head"]) for p in found["pulls"]] == [(11, "Title 11", heads[11])]
    assert found["heads"] == 2 and found["commit"] == up.commits[-1]
    # Asked a second time, the list comes from the store.
    assert ours.json("radar", "--open", **env)[0] == found
    assert [a.headers.get("If-None-Match") for a in api.asked] == [None, None, '"1"', '"2"']
    api.tell(PULLS, Answer(200, []))
    assert ours.json("radar", "--open", **env)[0]["heads"] == 0


def test_open_ones_are_on_the_page_with_when_they_were_asked_for(ours: Project, make_api: Callable[[], Api]) -> None:
    api = make_api()
    env: dict[str, Any] = {"GITHUB_API_URL": api.url, "NO_PROXY": "*", "GITHUB_TOKEN": "", "GH_TOKEN": ""}
    head = ours.upstream.pull(11, {"a.txt": THEIRS})
    listed = raw_pull(11, title="<b>Rework</b> a", head={"sha": head, "ref": "topic"})
    page, record = ours.root / "page.html", ours.root / "out/radar/l/up/manifest.json"

    def shown() -> str:
        done = ours.kz("report", "--html", str(page))
        assert done.returncode == 0, done.stderr
        return page.read_text()

    assert set(seen(ours)) == {11} and not record.exists()
    assert "<code>kz radar --open</code>" in shown()
    api.tell(PULLS, Answer(200, [listed], {"ETag": '"1"'}))
    found = ours.json("radar", "--open", **env)[0]
    facts = json.loads(record.read_text())
    assert {name: facts[name] for name in found} == found and re.match(
        r"20\d\d-\d\d-\d\d \d\d:\d\d UTC$", facts["asked"]
    )
    text = shown()
    assert "#11 &lt;b&gt;Rework&lt;/b&gt; a</th><td>l 0001-ours</td>" in text and "✕ content</span>" in text
    assert f"1 of 1 open pull requests would break a patch, as GitHub had them on {facts['asked']}" in text
    assert f"merged into main <code>{ours.upstream.commits[-2][:10]}</code>" in text and "a.txt: " in text
    assert '>On its base</th><th scope="col">Once merged</th>' in text  # main may have what the base has not
    assert "<code>kz radar --open" not in text
    api.tell(PULLS, Answer(200, []))
    assert ours.json("radar", "--open", **env)[0]["heads"] == 0
    assert "0 of 0 open pull requests" in (text := shown()) and "Rework" not in text
    record.write_text(json.dumps({**facts, "pulls": [{"pull": 11}]}))
    done = ours.kz("report", "--html", str(page))
    assert done.returncode == 3 and "kz radar --open" in done.stderr and page.read_text() == text


def test_many_at_once_wait_for_each_other(ours: Project, kz_process: Kz) -> None:
    for number in range(11, 40):
        ours.upstream.pull(number, {"a.txt": put(THEIRS, 1, str(number))})
        ours.upstream.git("tag", f"v1.{number}", f"refs/pull/{number}/head")
    asked = [("radar", "--fetch"), ("verify", "--tags", "v1.*", "--fetch")] * 2
    ours.run = kz_process
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda argv: ours.kz(*argv), asked))
    assert [d.returncode for d in done] == [0, 4, 0, 4], [d.stderr for d in done]
    assert "2 patches do not hold on v1.11 … v1.39, 29 revisions" in done[1].stderr


def test_a_lock_that_a_killed_git_left_stops_nobody(ours: Project) -> None:
    (clone,) = (ours.root.parent / "store" / "git").glob("up-*.git")
    (clone / "objects/info").mkdir(exist_ok=True)
    (clone / "objects/info/commit-graph.lock").touch()
    (clone / "objects/pack/multi-pack-index.lock").touch()
    ours.upstream.pull(11, {"a.txt": THEIRS})
    assert set(seen(ours, "--fetch")) == {11}


def test_radar_writes_nothing_into_the_project_and_needs_no_network_twice(ours: Project, tmp_path: Path) -> None:
    ours.upstream.pull(11, {"a.txt": THEIRS})
    files = snapshot(ours.root)
    first = ours.kz("radar")
    assert first.returncode == 0 and snapshot(ours.root) == files
    ours.upstream.folder.rename(tmp_path / "gone")
    assert ours.kz("radar").stdout == first.stdout == ours.kz("radar", "--pr", "11").stdout
    for argv in (["--pr", "12"], ["--fetch"]):
        done = ours.kz("radar", *argv)
        assert done.returncode == 6 and "insteadOf" in done.stderr, done.stderr


def test_a_damaged_cache_is_made_again(ours: Project) -> None:
    ours.upstream.pull(11, {"a.txt": THEIRS})
    ours.upstream.commit("Elsewhere in a", {"a.txt": put(text(), 1, "moved")})
    first = ours.kz("radar", "--fetch").stdout
    store = ours.root.parent / "store"
    files = {
        file: file.read_bytes() for kind in ("radar", "verdicts", "validated") for file in store.glob(f"{kind}/*.json")
    }
    assert len(files) == 4 and "#11" in first
    for damaged in (b"", b"[]", b"3", b'{"rows": 3}', b"[" * 100_000, b"\xff", None):
        for file, data in files.items():
            number = data.rfind(b"1")  # of another row or line, as a bad disk writes it
            file.write_bytes(data[:number] + b"9" + data[number + 1 :] if damaged is None else damaged)
        done = ours.kz("radar")
        assert done.stdout == first, f"{damaged!r} {done.stderr}"
    assert all(file.read_bytes() == data for file, data in files.items()), "made again, and the same"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--pr", "11", "98", "99"], "upstream has no pull request #98, #99"),
        (["--pr", "eleven"], "invalid int value"),
        (["--since", "yesterday"], "'yesterday' is not a date"),
        (["--since", "2026-1-4"], "'2026-1-4' is not a date"),
        (["--since", ""], "'' is not a date"),
        (["--open", "--pr", "11"], "not allowed with"),
        (["--onto", "v22"], "upstream has no tag, branch or commit 'v22'"),
        (["--line", "m"], "'m'"),
    ],
)
def test_bad_input(ours: Project, argv: list[str], said: str) -> None:
    ours.upstream.pull(11, {"a.txt": THEIRS})
    done = ours.kz("radar", *argv)
    assert done.returncode == 2 and said in done.stderr and done.stdout == "", done.stderr
    assert done.stderr.endswith("kz: exit 2 (config)\n")


def test_open_needs_github(ours: Project) -> None:
    done = ours.kz("radar", "--open", GITHUB_API_URL="http://127.0.0.1:9", NO_PROXY="*")
    assert done.returncode == 6 and "http://127.0.0.1:9" in done.stderr
    pins = ours.root / "pins.yaml"
    for file in (pins, ours.root / "pins.lock"):
        file.write_text(file.read_text().replace("https://github.com/up/stream", f"file://{ours.upstream.folder}"))
    done = ours.kz("radar", "--open")
    assert done.returncode == 2 and "is not on GitHub: --open works only there" in done.stderr

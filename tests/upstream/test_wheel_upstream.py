"""A stack on a wheel, judged against the git history of the repository that the wheel was built from."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import http.server
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.conftest import Kz
from tests.network.archives import wheel
from tests.stack.test_git_tools import sh
from tests.stack.upstreams import URL, Project, before, project, put, started, text

GROWN, TAKEN = before(text(), 1, "grown"), put(text(), 10, "theirs")


@contextlib.contextmanager
def serving_wheels(folder: Path, contents: Mapping[str, str]) -> Iterator[str]:
    """A package index with a wheel for each version, with this a.txt."""
    page = folder / "www/simple/tool"
    page.mkdir(parents=True)
    rows = []
    for version, content in contents.items():
        data, name = (
            wheel("tool", version, {"a.txt": content, "b.txt": "generated\n"}),
            f"tool-{version}-py3-none-any.whl",
        )
        (page / name).write_bytes(data)
        rows.append(f'<a href="{name}#sha256={hashlib.sha256(data).hexdigest()}">{name}</a>')
    (page / "index.html").write_text("\n".join(rows))
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    handler = functools.partial(quiet, directory=str(folder / "www"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/simple"
        server.shutdown()


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    with serving_wheels(tmp_path, {"1": text(), "2": GROWN, "3": TAKEN}) as address:
        yield address


@pytest.fixture
def made(tmp_path: Path, kz: Kz, index: str) -> Project:
    """A line `l` with a stack on the wheel `up` alone; upstream's v2 breaks its patch, #7 broke it."""
    made = project(tmp_path, kz, started(tmp_path), [("Ours", {"a.txt": put(text(), 10, "ours")})])
    made.upstream.commit("Grow (#2)", {"a.txt": GROWN}, tag="v2")
    made.upstream.commit("Take (#7)", {"a.txt": TAKEN}, tag="v3")
    pin_wheel(made, f"  up: {{wheel: tool, index: '{index}', upstream: {{git: {URL}}}}}\n")
    done = made.kz("lock", "--write", "--trust", "up")
    assert done.returncode == 0, done.stderr
    return made


def pin_wheel(made: Project, source: str, version: str = "1") -> None:
    pins = made.root / "pins.yaml"
    text = pins.read_text().replace(f"lines:\n  l: {{up: v{version}}}", f"lines:\n  l: {{up: '{version}'}}")
    head, _, rest = text.partition("sources:\n")
    pins.write_text(f"{head}sources:\n{source}lines:\n{rest.partition('lines:')[2].lstrip()}")
    pins.write_text(pins.read_text().replace("lines:\nl:", "lines:\n  l:"))


def test_history_status_and_verify_work_for_a_wheels_stack(made: Project) -> None:
    (history,) = made.json("history", "--source", "up")
    (patch,) = history["patches"]
    assert (history["pin"], history["to"], patch["now"]["verdict"]) == ("v1", "main", "content")
    (status,) = made.json("status")["stacks"]
    assert (status["source"], status["trunk"], status["notes"]) == ("up", "main", [])
    (verified,) = made.json("verify", "--source", "up", "--tags", "v*", code=4)
    assert [target["name"] for target in verified["targets"]] == ["v1", "v2", "v3"]
    assert [row[0]["verdict"] for row in verified["rows"]] == ["clean", "offset", "content"]
    (own,) = made.json("verify")
    assert [target["name"] for target in own["targets"]] == ["1"]


def test_a_pull_request_that_threatens_a_wheels_stack_is_named(made: Project) -> None:
    made.upstream.git("reset", "-q", "--hard", "v2")
    made.upstream.pull(9, {"a.txt": put(before(text(), 1, "grown"), 11, "other")})
    (radar,) = made.json("radar", "--source", "up", "--pr", "9", "--fetch")
    assert [pull["pull"] for pull in radar["pulls"]] == [9]


def test_a_wheel_is_asked_about_revisions_only_where_it_is_named(made: Project) -> None:
    """`--onto v2` of another source must not ask a wheel's repository for that tag."""
    done = made.kz("verify", "--onto", "v2")
    assert done.returncode == 2 and "no stack on a git source" in done.stderr
    assert made.kz("verify", "--onto", "v2", "--source", "up").returncode == 0


def test_a_file_that_is_not_the_repositorys_is_refused(made: Project, index: str) -> None:
    pin_wheel(made, f"  up: {{wheel: tool, index: '{index}', upstream: {{git: {URL}, tag: v3}}}}\n")
    done = made.kz("history", "--source", "up")
    assert done.returncode == 2
    assert "up 1: a.txt of the wheel is not what v3 of its upstream has there" in done.stderr
    pin_wheel(made, f"  up: {{wheel: tool, index: '{index}', upstream: {{git: {URL}, tag: 'w{{version}}'}}}}\n")
    assert "w1" in made.kz("history", "--source", "up").stderr


def test_a_wheels_upstream_out_of_reach_is_a_note_of_the_status(made: Project, index: str) -> None:
    pin_wheel(made, f"  up: {{wheel: tool, index: '{index}', upstream: {{git: 'http://127.0.0.1:1/none'}}}}\n")
    (status,) = made.json("status")["stacks"]
    assert status["notes"][0].startswith("its upstream was not asked: ") and len(status["claims"]) == 1


def test_a_wheels_stack_moves_to_another_version_of_the_wheel(made: Project) -> None:
    moved = made.kz("rebase", "--source", "up", "--onto", "2", "--as", "m")
    assert moved.returncode == 0, moved.stderr
    assert "Ours: moved by +1 lines" in moved.stdout and "m: {up: '2'}" in (made.root / "pins.yaml").read_text()
    assert made.kz("apply", "--all-lines").returncode == 0
    assert made.kz("lock").stdout.startswith("0 changes"), "kz lock would have written the same"
    was = (made.root / "pins.lock").read_bytes()
    stopped = made.kz("rebase", "--source", "up", "--onto", "3")
    assert stopped.returncode == 4 and "it requires `line 10`, which is gone" in stopped.stderr, stopped.stderr
    assert (made.root / "pins.lock").read_bytes() == was
    (made.root / "out/rebase/l/up/tree/a.txt").write_text(put(text(), 10, "theirs", "ours"))
    sh("git", "add", "a.txt", cwd=made.root / "out/rebase/l/up/tree")
    done = made.kz("rebase", "continue")
    assert done.returncode == 0, done.stderr
    assert made.kz("verify", "--all-lines").returncode == 0 == made.kz("apply", "--all-lines").returncode
    assert made.kz("lock").stdout.startswith("0 changes")
    for wrong in ("2 ", "-2", "\x1b[2J"):  # an index finds the first; pins.yaml could not be read with it
        refused = made.kz("rebase", "--source", "up", f"--onto={wrong}", "--as", "n")
        assert refused.returncode == 2 and "is no version of up: it must not" in refused.stderr, refused.stderr
    absent = made.kz("rebase", "--source", "up", "--onto", "9")
    assert absent.returncode == 2 and "tool has no wheel of version 9" in absent.stderr, absent.stderr

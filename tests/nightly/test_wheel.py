"""kz nightly: the stack of a wheel follows the tags of its upstream, as far as the index has wheels of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.conftest import Kz
from tests.nightly.github_server import GitHub, make_github
from tests.nightly.test_pull_request import Night
from tests.stack.upstreams import URL, before, project, put, started, text
from tests.upstream.test_wheel_upstream import pin_wheel, serving_wheels

__all__ = ["make_github"]


def test_a_wheels_stack_moves_to_the_newest_wheel_and_is_named_where_it_cannot(
    tmp_path: Path, kz: Kz, make_github: Callable[[Path], GitHub]
) -> None:
    grown, taken = before(text(), 1, "grown"), put(text(), 10, "theirs")
    upstream = started(tmp_path)
    upstream.git("tag", "v1.0.0")
    made = project(tmp_path, kz, upstream, [("ours", {"a.txt": put(text(), 10, "ours")})], pin="v1.0.0")
    with serving_wheels(tmp_path, {"1.0.0": text(), "1.0.1": grown, "1.0.3": taken}) as index:
        pin_wheel(made, f"  up: {{wheel: tool, index: '{index}', upstream: {{git: {URL}}}}}\n", "1.0.0")
        assert made.kz("lock", "--write", "--trust", "up").returncode == 0
        night = Night(made, make_github(made.root))
        upstream.commit("Grow (#2)", {"a.txt": grown}, tag="v1.0.1")
        upstream.commit("No wheel (#3)", {"b.txt": "x\n"}, tag="v1.0.2")
        night.run()
        assert night.github.pull.title == "l: up 1.0.0 -> 1.0.1"
        assert "l: {up: 1.0.1}" in night.shown("pins.yaml") and '"1.0.1"' in night.shown("pins.lock")
        upstream.commit("Take (#4)", {"a.txt": taken}, tag="v1.0.3")
        shown = night.run("--dry-run").stdout
        assert (
            "kz rebase --line l --source up --onto 1.0.3" in shown and "it requires `line 10`, which is gone" in shown
        )

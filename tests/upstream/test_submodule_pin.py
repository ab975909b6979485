"""A source that takes a submodule's place, pinned to another commit than its parent's release links."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import Kz
from tests.stack.upstreams import Upstream, project, put, started, text


def test_status_says_which_commit_the_parent_links(tmp_path: Path, kz: Kz) -> None:
    made = project(tmp_path, kz, started(tmp_path), [("Ours", {"a.txt": put(text(), 10, "ours")})])
    sub = Upstream(tmp_path / "sub")
    linked = sub.commit("Start", {"a.txt": text()}, tag="v1")
    newer = sub.commit("Grow", {"b.txt": text()}, tag="v2")
    up = made.upstream
    up.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", f"file://{sub.folder}", "deps/sub")
    up.git("-C", "deps/sub", "checkout", "-q", "v1")
    up.git("add", "deps/sub")
    up.commit("With a submodule", {"c.txt": text()}, tag="v2")
    stack = made.root / "patches" / "l"
    (stack / "up").rename(stack / "sub")

    def pinned(version: str) -> list[str]:
        (made.root / "pins.yaml").write_text(
            "version: 1\ndefault: l\nsources:\n"
            f"  up: {{git: {up.folder}, submodules: [deps/sub]}}\n"
            f"  sub: {{git: {sub.folder}, submodule: up/deps/sub}}\n"
            f"lines:\n  l: {{up: v2, sub: {version}}}\n"
        )
        assert made.kz("lock", "--write").returncode == 0
        (one,) = made.json("status")["stacks"]
        return [str(note) for note in one["notes"]]

    assert pinned("v1") == []
    assert pinned("v2") == [f"up v2 links {linked[:10]} at deps/sub; the pin is {newer[:10]}"]

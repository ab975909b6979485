"""On overlayfs, as in a container: a folder of a lower layer cannot be moved (EXDEV), and is replaced and removed all the same."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.conftest import snapshot
from tests.kz import ROOT

PINS = "version: 1\ndefault: l\nsources: {}\nlines: {l: {}}\ntargets: {}\n"


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    """A folder with `lower` and `merged`, which an overlay in a mount namespace of its own joins with `upper`."""
    for name in ("lower", "upper", "work", "merged"):
        (tmp_path / name).mkdir()
    probe = on(tmp_path, "true")
    if probe.returncode:
        pytest.skip(f"no overlay can be mounted here: {probe.stderr.strip()}")
    return tmp_path


def on(overlay: Path, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command that sees the overlay at `merged`."""
    script = 'mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged && exec "$@"'
    argv = ["unshare", "-m", "sh", "-c", script, "sh", *command]
    return subprocess.run(
        argv, cwd=overlay, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT), **env}
    )


def python(overlay: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run Python code on the overlay."""
    return on(overlay, sys.executable, "-c", textwrap.dedent(code))


def test_a_folder_of_a_lower_layer_is_replaced(overlay: Path) -> None:
    old = overlay / "lower" / "dist" / "l" / "t" / "old"
    old.parent.mkdir(parents=True)
    old.write_text("old")
    done = python(
        overlay,
        """
        import os
        from pathlib import Path
        from kz_build.core.files import new_folder
        os.chdir("merged")
        for text in ("one", "two"):
            with new_folder(Path("dist/l/t").absolute(), Path("out").absolute()) as folder:
                (folder / "f").write_text(text)
            print(sorted(str(p) for p in Path(".").rglob("*") if p.is_file()), Path("dist/l/t/f").read_text())
        """,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['dist/l/t/f'] one\n['dist/l/t/f'] two\n"


def test_store_gc_removes_a_folder_of_a_lower_layer(overlay: Path) -> None:
    (overlay / "lower" / "pins.yaml").write_text(PINS)
    old = overlay / "lower" / "store" / "unpacked" / ("a" * 64) / "deep" / "file"
    old.parent.mkdir(parents=True)
    old.write_text("x")
    os.utime(old.parents[1], (0, 0))
    gc = [sys.executable, "-m", "kz_build", "-C", "merged", "store", "gc", "--delete"]
    done = on(overlay, *gc, KZ_CACHE=str(overlay / "merged" / "store"))
    assert done.returncode == 0 and "1 entries removed" in done.stdout, done.stdout + done.stderr
    left = python(overlay, "import os; print(os.listdir('merged/store'), os.listdir('merged/store/unpacked'))")
    assert left.stdout.endswith(" []\n") and ".gone" not in left.stdout


def test_what_a_killed_gc_left_there_is_removed_by_the_next(overlay: Path) -> None:
    """The entry is half deleted, and its own time is new."""
    (overlay / "lower" / "pins.yaml").write_text(PINS)
    entry = overlay / "lower" / "store" / "unpacked" / ("a" * 64)
    (entry / "deep").mkdir(parents=True)
    (overlay / "lower" / "store" / ".gone-unpacked-a").symlink_to(f"unpacked/{'a' * 64}")
    outside = overlay / "lower" / "mine"
    outside.mkdir()
    (overlay / "lower" / "store" / ".gone-unpacked-b").symlink_to("../mine")
    before = snapshot(outside)
    gc = [sys.executable, "-m", "kz_build", "-C", "lower", "store", "gc", "--delete"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "KZ_CACHE": str(overlay / "lower" / "store")}
    done = subprocess.run(gc, cwd=overlay, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    assert not entry.exists() and not list((overlay / "lower" / "store").glob(".gone*"))
    assert outside.is_dir() and snapshot(outside) == before, "a link in the store leads nowhere else"

"""A folder takes the place of another: who reads it, a kill, an error and other disks never leave the place empty."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kz_build.core import files
from tests.conftest import ROOT

READER = """
import os, sys
path, stop, looks, lost = *sys.argv[1:], 0, 0
print("looking", flush=True)
while not os.path.exists(stop):
    looks += 1
    try:
        os.listdir(path)
    except FileNotFoundError:
        lost += 1
print(looks, lost)
"""
KILLED = """
import os, signal, sys
from pathlib import Path
from kz_build.core import files
project, rename = Path(sys.argv[1]), os.rename

def killed(source, target):
    rename(source, target)
    os.kill(os.getpid(), signal.SIGKILL)

files._exchanged_atomically = lambda made, path: False  # as on a file system that cannot
os.rename = killed
with files.new_folder(project / "dist/l/t", project / "out/build/l/t") as made:
    (made / "file").write_text("new")
"""
FILL = """
import sys
from pathlib import Path
from kz_build.core import files
project = Path(sys.argv[1])
with files.new_folder(project / "dist/l/t", project / "out/build/l/t") as made:
    (made / "file").write_text("%s")
    (made / "link").symlink_to("file")
    (made / "more").write_bytes(bytes(60000))
"""


def fill(project: Path, text: str) -> Path:
    with files.new_folder(project / "dist/l/t", project / "out/build/l/t") as made:
        (made / "file").write_text(text)
    return project / "dist/l/t/file"


def hidden(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.name.startswith(".")]


def test_a_reader_finds_the_old_folder_or_the_new_one_at_any_time(tmp_path: Path) -> None:
    fill(tmp_path, "0")
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, tmp_path / "dist/l/t", tmp_path / "stop"], stdout=subprocess.PIPE, text=True
    )
    assert reader.stdout
    reader.stdout.readline()
    for number in range(200):
        assert fill(tmp_path, str(number)).read_text() == str(number)
    (tmp_path / "stop").touch()
    looks, lost = map(int, reader.communicate(timeout=60)[0].split())
    assert looks > 200 and lost == 0, f"not there {lost} times of {looks}"
    assert not hidden(tmp_path)


def test_a_kill_between_two_renames_is_undone_by_the_next_run(tmp_path: Path) -> None:
    path = fill(tmp_path, "old")
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path], cwd=ROOT)
    assert done.returncode == -signal.SIGKILL and not path.exists()
    assert not hidden(tmp_path / "dist")
    files.recover(path.parent, tmp_path / "out/build/l/t")
    assert path.read_text() == "old" and not hidden(tmp_path)
    subprocess.run([sys.executable, "-c", KILLED, tmp_path], cwd=ROOT)
    assert fill(tmp_path, "newest").read_text() == "newest" and not hidden(tmp_path)


@pytest.mark.parametrize("at_once", [True, False])
def test_a_rename_that_fails_leaves_the_old_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    path = fill(tmp_path, "old")
    if not at_once:
        monkeypatch.setattr(files, "_exchanged_atomically", lambda made, path: False)
    with pytest.raises(FileNotFoundError), files.new_folder(path.parent, tmp_path / "out/build/l/t") as made:
        made.rmdir()
    assert path.read_text() == "old" and not hidden(tmp_path)


def on_disks(project: Path, lay: str, *codes: str) -> tuple[str, list[str], str]:
    """Run pieces of Python where shell commands mount disks: what they say, staged folders that are left, dist's file."""
    for name in ("out", "dist"):
        (project / name).mkdir()
    run = "\n".join(f"'{sys.executable}' -c \"$CODE{i}\" . 2>&1" for i in range(len(codes)))
    script = f"cd '{project}'\n{lay.replace('; ', ' && ')} || exit 77\n{run}\necho --; find -L . -name '*.new'\necho --; cat dist/l/t/link"
    env = {**os.environ, **{f"CODE{i}": code for i, code in enumerate(codes)}, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], env=env, capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip(f"this kernel mounts no disks in a namespace: {done.stderr}")
    assert done.returncode == 0, done.stdout + done.stderr
    said, left, text = done.stdout.split("--\n")
    return said, left.splitlines(), text


OUT_ELSEWHERE = "mkdir disk; mount -t tmpfs t disk; rmdir out; ln -s disk out"
DIST_ELSEWHERE = "mkdir disk; mount -t tmpfs t disk; rmdir dist; mkdir disk/dist; ln -s disk/dist dist"
needs_unshare = pytest.mark.skipif(not shutil.which("unshare"), reason="needs unshare to mount disks")


@needs_unshare
@pytest.mark.parametrize("lay", [OUT_ELSEWHERE, DIST_ELSEWHERE, "mount -t tmpfs t dist", "mount --bind out out"])
def test_out_and_dist_may_lie_on_different_disks(tmp_path: Path, lay: str) -> None:
    assert on_disks(tmp_path, lay, FILL % "old", FILL % "new") == ("", [], "new")


@needs_unshare
@pytest.mark.parametrize("lay", [OUT_ELSEWHERE, DIST_ELSEWHERE])
def test_a_copy_that_is_killed_is_not_in_dist_and_goes_with_the_next_run(tmp_path: Path, lay: str) -> None:
    killed = "import os, shutil\nshutil.copy2 = lambda *_, **__: os.kill(os.getpid(), 9)\n" + FILL % "new"
    (tmp_path / "first").mkdir()
    _, left, text = on_disks(tmp_path / "first", lay, FILL % "old", killed)
    assert text == "old" and left and not [path for path in left if "/dist/" in path], left
    (tmp_path / "second").mkdir()
    _, left, text = on_disks(tmp_path / "second", lay, FILL % "old", killed, FILL % "newest")
    assert text == "newest" and not left


@needs_unshare
def test_a_copy_for_which_there_is_no_room_leaves_the_old_folder(tmp_path: Path) -> None:
    said, left, text = on_disks(tmp_path, "mount -t tmpfs -o size=96k t dist", FILL % "old", FILL % "new")
    assert "is full" in said and text == "old" and not left, said

"""The root directory that commands of a build see."""

from __future__ import annotations

from pathlib import Path

import pytest

from kz_build.build.engine import _why_unmapped, root_prefix
from kz_build.core.process import run


@pytest.mark.skipif(bool(_why_unmapped()), reason="needs a kernel that allows `unshare -rm`")
def test_a_folder_kz_of_this_machine_is_not_the_builds(tmp_path: Path) -> None:
    """The outer root plays a machine that has a /kz, whose link would lead the mount elsewhere."""
    own, tree, roots = tmp_path / "own", tmp_path / "tree", [tmp_path / "machine", tmp_path / "build"]
    for folder in (own, tree, *roots):
        folder.mkdir()
    (own / "executorch").symlink_to("/nowhere")
    (tree / "version.txt").touch()
    machine = root_prefix(roots[0], [(Path("/kz"), own)], Path("/"))
    build = root_prefix(roots[1], [(Path("/kz/executorch"), tree)], Path("/"))
    output = run([*machine, *build, "find", "/kz", "-mindepth", "1"])
    assert output.code == 0, output.stderr.decode()
    assert output.stdout.decode().split() == ["/kz/executorch", "/kz/executorch/version.txt"]

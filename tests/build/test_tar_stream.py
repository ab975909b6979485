"""What goes into a container: of an unpacked archive the same part that its pin names."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from kz_build.container.tar_stream import listing
from kz_build.core.paths import excluded

FILES = (
    "bin/tool",
    "bin/toolbox",
    "share/tool-4.1/Modules/a/b.cmake",
    "share/tool-4.1/Help/x.txt",
    "lib/x.txt",
    "top.gif",
    "lib/deep/y.gif",
)


@pytest.mark.parametrize(
    "only",
    [(), ("bin/",), ("bin/tool",), ("share/tool-*/Modules/*", "bin/tool"), ("lib/*.txt",), ("*.gif",), ("share/tool-4.[0-9]/Help/",)],
)  # fmt: skip
def test_the_same_files_are_sent_as_are_unpacked(tmp_path: Path, only: tuple[str, ...]) -> None:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    sent = {path for path, kind in listing(tmp_path, only) if kind == tarfile.REGTYPE}
    assert sent == {name for name in FILES if not only or excluded(name, only)}

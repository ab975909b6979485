"""What goes into a container: of an unpacked archive the same part that its pin names."""

from __future__ import annotations

import tarfile
from pathlib import Path, PurePosixPath

import pytest

from kz_build.container.tar_stream import archive, extract, listing
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


def test_a_part_of_an_archive_is_none(tmp_path: Path) -> None:
    """A daemon that breaks off between two files seemed to say that the others were removed."""
    (tmp_path / "from").mkdir()
    for name, size in (("a", 3), ("b", 512), ("c", 0)):
        (tmp_path / "from" / name).write_bytes(b"x" * size)
    data = b"".join(archive(tmp_path / "from", PurePosixPath("x")))
    to = tmp_path / "to"
    assert extract([data], to.joinpath) == extract([data[:100], data[100:]], to.joinpath) == {"x/a", "x/b", "x/c"}
    for end in range(0, len(data) - 1024, 256):
        with pytest.raises(tarfile.TarError):
            extract([data[:end]], to.joinpath)

"""Archives that are damaged or made to do harm: refused before anything is written, within bounds of memory."""

from __future__ import annotations

import gzip
import io
import lzma
import resource
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from kz_build.core.errors import LockError
from kz_build.core.progress import Event
from kz_build.sources import archive as reader
from kz_build.sources.archive import unpack, wheel_file, wheel_files
from tests.conftest import snapshot

Files = dict[str, bytes]


def zipped(files: Files, method: int = zipfile.ZIP_DEFLATED, link: str = "") -> bytes:
    """A zip; the file `link` is a symbolic link to its content."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in files.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = method
            info.external_attr = ((stat.S_IFLNK if name == link else stat.S_IFREG) | 0o755) << 16
            archive.writestr(info, data)
    return out.getvalue()


def tarred(files: Files, *headers: tuple[str, bytes], mode: Literal["w", "w:gz", "w:bz2", "w:xz"] = "w:gz") -> bytes:
    """A tar; `headers` are members of a type without content."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        for name, kind in headers:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "x"
            tar.addfile(info)
    return out.getvalue()


def flagged(data: bytes, bit: int) -> bytes:
    """A zip whose first member has a flag set, in the directory and in its own header."""
    changed = bytearray(data)
    for mark, offset in ((b"PK\1\2", 8), (b"PK\3\4", 6)):
        changed[changed.find(mark) + offset] |= bit
    return bytes(changed)


def large_header() -> bytes:
    """A tar that says its next name has a gigabyte."""
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 1 << 30
    return gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20))


def with_dictionary(size: int) -> bytes:
    """A tar in an xz whose dictionary has a size, which the reader must reserve."""
    whole = tarred({"a": b"x"}, mode="w")
    header = bytearray(b"\x02\0\x21\x01\0\0\0\0")  # a block of LZMA2
    bits = next(bits for bits in range(41) if (2 | bits & 1) << (bits // 2 + 11) >= size)
    header[4] = bits
    packed = lzma.compress(whole, filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 20}])
    header += struct.pack("<I", zlib.crc32(header))
    return packed[:12] + bytes(header) + packed[24:]


WHOLE = zipped({"d/a": b"text" * 100, "d/b": b""})
DAMAGE: dict[str, tuple[Callable[[], bytes], str]] = {
    "an error page": (lambda: b"<html>" * 100, "neither zip nor tar"),
    "nothing": (lambda: b"", "neither zip nor tar"),
    "a cut zip": (lambda: WHOLE[:-30], "is damaged"),
    "another checksum": (lambda: WHOLE.replace(WHOLE[14:18], b"abcd"), "Bad CRC-32"),
    "encrypted": (lambda: flagged(WHOLE, 1), "is encrypted"),
    "patched data": (lambda: flagged(WHOLE, 0x20), "is damaged"),
    "another method": (lambda: zipped({"a": b"x"}, zipfile.ZIP_BZIP2), "not packed by deflate"),
    "no name": (lambda: zipped({"": b"x"}), "leaves the folder"),
    "a name of 300 letters": (lambda: zipped({"n" * 300: b"x"}), "is longer than a disk allows"),
    "3,000 folders": (lambda: zipped({"d/" * 3000 + "x": b"x"}), "is longer than a disk allows"),
    "a file, then a folder": (lambda: zipped({"a": b"x", "a/b": b"y"}), "is below the file 'a'"),
    "a folder, then a file": (lambda: zipped({"a/b": b"y", "a": b"x"}), "is below the file 'a'"),
    "an empty folder, then a file": (lambda: zipped({"a/": b"", "a": b"x"}), "is a file and a folder"),
    "below a link": (lambda: zipped({"a/b": b"y", "a": b"d"}, link="a"), "goes through a link"),
    "a link of a megabyte": (lambda: zipped({"a": b"d" * (1 << 20)}, link="a"), "has a target of 1,048,576 bytes"),
    "a link with a NUL": (lambda: zipped({"a": b"d\0"}, link="a"), "leaves the folder"),
    "a bomb": (lambda: zipped({"a": bytes(2 << 20)}), "it would unpack to 2,097,152 bytes"),
    "many members": (lambda: tarred({}, *[(f"{n}", tarfile.DIRTYPE) for n in range(200)]), "it would unpack to 101 members"),
    "a cut tar": (lambda: tarred({"a": bytes(5000)}, mode="w")[:2000], "is damaged"),
    "a cut gzip": (lambda: tarred({"a": bytes(5000)})[:-20], "is damaged"),
    "a broken xz": (lambda: b"\xfd7zXZ\0" + bytes(100), "is damaged"),
    "an xz that takes 400 MB": (lambda: with_dictionary(400 << 20), "Memory usage limit exceeded"),
    "an xz whose second part takes 400 MB": (
        lambda: lzma.compress(tarred({"a": b"x"}, mode="w")[:512]) + with_dictionary(400 << 20),
        "Memory usage limit exceeded",
    ),
    "a cut xz": (lambda: tarred({"a": bytes(5000)}, mode="w:xz")[:100], "is cut off"),
    "a broken bz2": (lambda: b"BZh9" + bytes(100), "is damaged"),
    "a tar's file, then a folder": (lambda: tarred({"a": b"x", "a/b": b"y"}), "is below the file 'a'"),
    "a tar's name twice": (lambda: tarred({"a": b"x"}, ("a", tarfile.SYMTYPE)), "is in it twice"),
    "a tar's header of a gigabyte": (large_header, "a header of 1,073,741,824 bytes"),
    "a tar's bomb": (lambda: tarred({"a": bytes(2 << 20)}), "it would unpack to 2,097,152 bytes"),
    "a hard link to nothing": (lambda: tarred({}, ("a", tarfile.LNKTYPE)), "is damaged"),
    "a pipe": (lambda: tarred({}, ("a", tarfile.FIFOTYPE)), "is a device or pipe"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MOST_MEMBERS", 100)
    monkeypatch.setattr(reader, "SMALL", 1 << 20)


@pytest.mark.parametrize("name", DAMAGE)
def test_what_is_refused(tmp_path: Path, name: str) -> None:
    make, text = DAMAGE[name]
    archive = tmp_path / "a.zip"
    archive.write_bytes(make())
    (tmp_path / "to").mkdir()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(LockError, match=r"a\.zip") as error:
        unpack(archive, tmp_path / "to")
    assert text in str(error.value) and error.value.hint
    assert not (tmp_path / "outside").exists()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 << 10


def test_a_wheel_that_would_take_gigabytes(tmp_path: Path) -> None:
    wheel = tmp_path / "x.whl"
    wheel.write_bytes(zipped({"x/a": bytes(2 << 20)}))
    with pytest.raises(LockError, match="would unpack to 2,097,152 bytes"):
        wheel_files(wheel)
    wheel.write_bytes(zipped({"x/a": b"1", "x-1.dist-info/RECORD": b""})[:-10])
    with pytest.raises(LockError, match=r"x\.whl is damaged"):
        wheel_file(wheel, "x/a")


def test_an_xz_of_several_parts(tmp_path: Path) -> None:
    whole = tarred({"a": b"x" * 100_000, "b": b"y"}, mode="w")
    archive = tmp_path / "a.tar.xz"
    archive.write_bytes(lzma.compress(whole[:50_000]) + bytes(8) + lzma.compress(whole[50_000:]) + bytes(4))
    unpack(archive, tmp_path / "to")
    assert snapshot(tmp_path / "to") == {"a": b"x" * 100_000, "b": b"y"}


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_a_tar_whose_last_file_is_a_zip_is_a_tar(tmp_path: Path, mode: Literal["w", "w:gz", "w:bz2", "w:xz"]) -> None:
    archive = tmp_path / "a.tar"
    archive.write_bytes(tarred({"d/x": b"1", "d/inner.zip": WHOLE}, mode=mode))
    unpack(archive, tmp_path / "to", "d")
    assert snapshot(tmp_path / "to") == {"x": b"1", "inner.zip": WHOLE}


@pytest.mark.parametrize("name", ["a.zip", "a.tar"])
def test_what_takes_long_to_unpack_shows_how_far_it_is(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An NDK takes half a minute: a bar with an estimate, as of downloads and builds."""
    archive = tmp_path / name
    files = {f"f{number}": b"x" for number in range(3)}
    if name == "a.zip":
        with zipfile.ZipFile(archive, "w") as zipped:
            for member, data in files.items():
                zipped.writestr(member, data)
    else:
        archive.write_bytes(tarred(files, mode="w"))
    events: list[Event] = []
    unpack(archive, tmp_path / "soon", watch=events.append)
    assert events == []
    monkeypatch.setattr("kz_build.sources.archive.SILENT_SECONDS", -1)
    unpack(archive, tmp_path / "to", watch=events.append)
    assert [(e.phase, e.done, e.total) for e in events] == [("unpacking", number, 3) for number in range(3)]
    assert snapshot(tmp_path / "to") == files

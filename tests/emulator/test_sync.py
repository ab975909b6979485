"""Sync requests that no adb sends, and what one answer looks like on the wire."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from kz_build.emulator.root import DeviceRoot
from kz_build.emulator.sync import serve
from tests.emulator.client import answers

QUIT = b"QUIT" + bytes(4)
DONE = b"DONE" + bytes(4)


def asked(name: bytes, argument: bytes) -> bytes:
    return name + struct.pack("<I", len(argument)) + argument


def said(answer: bytes) -> bytes:
    """The text of a FAIL."""
    assert answer[:4] == b"FAIL" and len(answer) == 8 + struct.unpack("<I", answer[4:8])[0], answer
    return answer[8:]


@pytest.fixture
def root(tmp_path: Path) -> DeviceRoot:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"content")
    os.mkfifo(tmp_path / "pipe")
    return DeviceRoot(tmp_path)


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (b"WHAT" + bytes(4), b"unknown command b'WHAT'"),
        (b"\xff\x1b[m" + bytes(4), rb"unknown command b'\xff\x1b[m'"),
        (b"STAT" + b"\xff" * 4, b"path too long"),
        (asked(b"RECV", b"/a\0b"), b"a NUL in a path"),
        (asked(b"SEND", b"/file"), b"no mode behind the path"),
        (asked(b"SEND", b"/file,-5"), b"no mode behind the path"),
        (asked(b"SEND", b"/file," + b"9" * 30), b"no mode behind the path"),
        (asked(b"SEND", b"/x,33188") + b"DATA" + b"\xff" * 4, b"neither DONE nor DATA of at most 64 KiB"),
        (asked(b"SEND", b"/x,33188") + asked(b"STAT", b"/"), b"neither DONE nor DATA of at most 64 KiB"),
    ],
)
def test_a_request_that_breaks_the_protocol_is_answered_and_is_the_last(
    root: DeviceRoot, request_: bytes, text: bytes
) -> None:
    (answer,) = answers(serve, request_ + asked(b"STAT", b"/file"), root)
    assert said(answer) == text


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (asked(b"RECV", b"/nothing"), b"open failed: No such file or directory"),
        (asked(b"RECV", b"/folder"), b"open failed: not a regular file"),
        (asked(b"RECV", b"/pipe"), b"open failed: not a regular file"),
        (asked(b"RECV", b"/" + b"n" * 300), b"open failed: File name too long"),
        (asked(b"SEND", b"/folder,33188") + asked(b"DATA", b"x") + DONE, b"couldn't create file: Is a directory"),
        (asked(b"SEND", b"/..,33188") + DONE, b"couldn't create file: Is a directory"),
        (asked(b"SEND", b"/file/x,33188") + DONE, b"couldn't create file: Not a directory"),
        (asked(b"SEND", b"/link,41471") + DONE, b"write failed: No such file or directory"),
        (asked(b"SEND", b"/l,41471") + asked(b"DATA", b"t" * 9000) + DONE, b"write failed: File name too long"),
    ],
)
def test_a_request_that_cannot_be_done_is_answered_and_the_next_one_served(
    root: DeviceRoot, request_: bytes, text: bytes
) -> None:
    failure, fact = answers(serve, request_ + asked(b"STAT", b"/file") + QUIT, root)
    assert said(failure) == text
    assert fact[:4] == b"STAT" and struct.unpack("<I", fact[8:12]) == (7,)


def test_times_that_do_not_fit_are_cut(root: DeviceRoot) -> None:
    os.utime(root.folder / "file", (-5, -5))
    (fact,) = answers(serve, asked(b"STAT", b"/file"), root)
    assert struct.unpack("<I", fact[12:]) == (0xFFFFFFFB,)


def test_a_small_file_and_its_end_are_one_message(root: DeviceRoot) -> None:
    """Two cost 40 ms each time: adb waits until the first was acknowledged."""
    assert answers(serve, asked(b"RECV", b"/file"), root) == [asked(b"DATA", b"content") + DONE]
    (root.folder / "file").write_bytes(bytes(2_000_000))
    assert [len(one) for one in answers(serve, asked(b"RECV", b"/file"), root)] == [983_160, 983_160, 33_936]


def test_links_that_a_program_left_lead_nowhere_out_of_the_root(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    (outside / "file").write_text("mine")
    (folder / "system/emulated").mkdir(parents=True)
    (folder / "system/emulated/props").symlink_to(outside / "file")
    (folder / "system/bin").symlink_to(outside)
    DeviceRoot(folder, read_only=("/vend\udcff",)).furnish({"a": "b"})
    assert os.listdir(os.fsencode(folder)).count(b"vend\xff") == 1
    assert (outside / "file").read_text() == "mine" and [p.name for p in outside.iterdir()] == ["file"]
    assert (folder / "system/emulated/props").read_text() == "a=b\n"

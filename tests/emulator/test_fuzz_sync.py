"""Hostile sync requests: each is served, or answered with FAIL, or ends the stream; within 5 s and 500 MB, and nothing is left open."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kz_build.emulator.adbd import AUTH, CLSE, CNXN, OKAY, OPEN, SIGNATURE, VERSION, WRTE, Link, Listener
from kz_build.emulator.root import DeviceRoot
from kz_build.emulator.sync import serve
from tests.deadline import until
from tests.emulator.client import answers

SECONDS, MEGABYTES = 5, 500
NAMES = (
    b"STAT",
    b"STA2",
    b"LST2",
    b"LIST",
    b"LIS2",
    b"SEND",
    b"RECV",
    b"DATA",
    b"DONE",
    b"QUIT",
    b"OKAY",
    b"FAIL",
    b"\0" * 4,
)
PARTS = (
    *(
        b"/",
        b"//",
        b".",
        b"..",
        b"folder",
        b"file",
        b"pipe",
        b"loop",
        b"out",
        b"self",
        b"absolute",
        b"new",
        b"n" * 255,
        b"n" * 256,
    ),
    *(b"\xff\xfe", b"\0", b"\n", b"%s", b",", b",33188", b"shut", b"big", b" ", b"-rf", "\u202e".encode(), b"\x1b[2J"),
)
SIZES = (0, 1, 7, 8, 1023, 1024, 1025, 65535, 65536, 65537, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
MODES = (
    b"33188",
    b"33261",
    b"41471",
    b"16877",
    b"0",
    b"",
    b"-1",
    b"99999999",
    b"999999999",
    b"0x81a4",
    b"\xd9\xa3",
    b"4294967295",
)


def furnish(folder: Path) -> DeviceRoot:
    """A root with everything that a path can lead to, and what must stay as it is beside it."""
    shutil.rmtree(folder, ignore_errors=True)
    root = folder / "root"
    (root / "folder" / "inner").mkdir(parents=True)
    (root / "file").write_bytes(b"content")
    (root / "big").write_bytes(bytes(2_500_000))
    os.mkfifo(root / "pipe")
    (root / "shut").mkdir()
    (folder / "secret").write_text("of the host")
    for name, target in (("loop", "loop"), ("out", "../secret"), ("self", "."), ("absolute", "/folder/../file")):
        (root / name).symlink_to(target)
    return DeviceRoot(root, read_only=("/shut",))


def word(name: bytes, size: int, data: bytes = b"") -> bytes:
    return name + struct.pack("<I", size & 0xFFFFFFFF) + data


def path(chance: random.Random) -> bytes:
    made = chance.choice((b"/", b"")).join(chance.choice(PARTS) for _ in range(chance.choice((1, 1, 2, 3, 30))))
    return b"/" + made


def request(chance: random.Random) -> bytes:
    """A request of some kind, mostly in order."""
    name = chance.choice(NAMES)
    if name == b"SEND" or chance.randrange(4) == 0:
        argument = path(chance) + chance.choice((b",", b",", b",", b"")) + chance.choice(MODES)
        body = b""
        for _ in range(chance.choice((0, 1, 1, 2, 20))):
            data = bytes(chance.choice((0, 1, 9, 1000, 65536)))
            body += word(chance.choice((b"DATA",) * 12 + NAMES), chance.choice((len(data),) * 12 + SIZES), data)
        return word(b"SEND", len(argument), argument) + body + word(b"DONE", chance.choice((0, 1, 1 << 31, 0xFFFFFFFF)))
    argument = path(chance)
    return word(name, chance.choice((len(argument),) * 12 + SIZES), argument)


def hostile(chance: random.Random) -> bytes:
    """Some requests, one run in two with a few bytes changed, cut or doubled."""
    data = bytearray(b"".join(request(chance) for _ in range(chance.choice((1, 1, 2, 5)))))
    for _ in range(chance.choice((0, 0, 1, 3))):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(4):
            case 0:
                data[at : at + 1] = bytes((chance.randrange(256),))
            case 1:
                del data[at : at + chance.choice((1, 4, 8, 1 << 20))]
            case 2:
                data[at:at] = data[at : at + chance.choice((1, 8, 64))]
            case 3:
                data[at : at + 4] = struct.pack("<I", chance.choice(SIZES))
    return bytes(data)


def understood(messages: list[bytes]) -> None:
    """Read answers as adb does. Raises AssertionError for what is none."""
    data = b"".join(messages)
    at = 0
    fixed = {b"OKAY": 8, b"STAT": 16, b"STA2": 72, b"LST2": 72}
    while at < len(data):
        name = data[at : at + 4]
        if name in (b"DENT", b"DNT2"):
            head = 20 if name == b"DENT" else 76
            at += head + struct.unpack_from("<I", data, at + head - 4)[0]
        elif name in (b"FAIL", b"DATA"):
            at += 8 + struct.unpack_from("<I", data, at + 4)[0]
        elif name == b"DONE":
            # of a file 8 bytes, of a list 20 or 76, all zeros
            rest = data[at + 4 :]
            at += 4 + next(size for size in (72, 16, 4) if rest[:size] == bytes(size))
        else:
            assert name in fixed, (name, at)
            at += fixed[name]
    assert at == len(data)


@pytest.fixture
def watched() -> Iterator[None]:
    """End a run that takes too long."""

    def late(*_: object) -> None:
        raise AssertionError(f"over {SECONDS} s")

    before = signal.signal(signal.SIGALRM, late)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def attempt(runs: int, seed: int, tmp_path: Path) -> str:
    """Serve hostile requests; return how it went. What fails says by which seed."""
    files = len(os.listdir("/proc/self/fd"))
    failed, slowest = 0, 0.0
    for index in range(runs):
        if index % 500 == 0:
            root = furnish(tmp_path / "fuzz")
        root.storage = 1_000_000 if index % 3 == 0 else None
        data = hostile(random.Random(f"sync {seed} {index}"))
        signal.alarm(SECONDS)
        started = time.monotonic()
        try:
            messages = answers(serve, data, root)
            understood(messages)
        except Exception as error:
            error.add_note(f"seed {seed}, run {index}: {data[:200]!r}")
            raise
        slowest = max(slowest, time.monotonic() - started)
        failed += any(message[:4] == b"FAIL" for message in messages)
    assert len(os.listdir("/proc/self/fd")) == files, "files were left open"
    assert (tmp_path / "fuzz/secret").read_text() == "of the host"
    assert sorted(os.listdir(tmp_path / "fuzz")) == ["root", "secret"]
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    assert megabytes < MEGABYTES
    return f"sync: {runs:,} runs, {failed:,} with FAIL, slowest {slowest:.3f} s, largest {megabytes} MB, 0 faults"


def test_a_few_hostile_requests(watched: None, tmp_path: Path) -> None:
    attempt(300, 1, tmp_path)


@pytest.mark.fuzz
def test_hostile_requests(watched: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print("\n" + attempt(int(os.environ.get("KZ_FUZZ_RUNS", "100000")), 0, tmp_path))


def message(chance: random.Random) -> bytes:
    """One message of adb's protocol, mostly in order."""
    command = chance.choice((OPEN, OPEN, WRTE, WRTE, WRTE, OKAY, OKAY, CLSE, CNXN, AUTH, chance.randrange(1 << 32)))
    data = chance.choice((b"sync:\0", b"what:\0", b"", hostile(chance)[:70000], b"\xff" * 5000))
    first, second = (chance.choice((0, 1, 1, 2, 3, 0xFFFFFFFF)) for _ in range(2))
    size = chance.choice((len(data),) * 30 + SIZES)
    magic = command ^ chance.choice((0xFFFFFFFF,) * 30 + (0,))
    return struct.pack("<6I", command, first, second, size, chance.choice((sum(data) & 0xFFFFFFFF, 0)), magic) + data


@pytest.mark.fuzz
def test_hostile_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    faults: list[object] = []
    monkeypatch.setattr(threading, "excepthook", faults.append)
    root = furnish(tmp_path / "fuzz")

    def service(name: str) -> object:
        return (lambda stream: serve(stream, root)) if name == "sync:" else None

    listener = Listener("device::x", service, lambda *_: True)  # type: ignore[arg-type]
    threads = threading.active_count()
    runs = int(os.environ.get("KZ_FUZZ_RUNS", "100000")) // 10
    slowest = 0.0
    for index in range(runs):
        chance = random.Random(f"messages {index}")
        ours, theirs = socket.socketpair()
        link = Link(theirs, listener)
        listener.links.append(link)
        thread = threading.Thread(target=link.serve)
        started = time.monotonic()
        thread.start()
        hello = struct.pack("<6I", CNXN, VERSION, 1 << 20, 0, 0, CNXN ^ 0xFFFFFFFF)
        hello += struct.pack("<6I", AUTH, SIGNATURE, 0, 0, 0, AUTH ^ 0xFFFFFFFF)
        data = (hello if chance.randrange(8) else b"") + b"".join(
            message(chance) for _ in range(chance.randrange(1, 12))
        )
        drain = threading.Thread(target=_drain, args=(ours,))
        drain.start()
        try:
            ours.sendall(data)
            ours.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it was cut off
        thread.join(SECONDS)
        drain.join(SECONDS)
        assert not thread.is_alive() and not drain.is_alive(), f"run {index}"
        ours.close()
        slowest = max(slowest, time.monotonic() - started)
    until(lambda: threading.active_count() <= threads)
    listener.shut()
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    assert not faults and megabytes < MEGABYTES and not listener.links
    with capsys.disabled():
        print(f"\nmessages: {runs:,} runs, slowest {slowest:.3f} s, largest {megabytes} MB, 0 faults")


def _drain(sock: socket.socket) -> None:
    try:
        while sock.recv(1 << 16):
            pass
    except OSError:
        pass

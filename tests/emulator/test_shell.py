"""What a person at a terminal sees of an emulated device."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kz_build.device import adb as adapter
from kz_build.emulator.device import EmulatedDevice
from tests.deadline import patient
from tests.emulator.emulated import emulated

Adb = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def adb(server: adapter.Server, device: EmulatedDevice) -> Adb:
    """The real adb's command line on that device."""

    def run(*argv: str | Path, stdin: bytes = b"", serial: str = "") -> subprocess.CompletedProcess[bytes]:
        command = [adapter._adb(), "-P", str(server.port), "-s", serial or device.serial, *map(str, argv)]
        return subprocess.run(command, input=stdin, capture_output=True, timeout=60)

    return run


def test_a_shell_has_a_terminal_where_adb_asks_for_one(adb: Adb) -> None:
    done = adb("shell", "-tt", "tty; echo to stderr >&2; exit 5", stdin=b"")
    assert (done.returncode, done.stdout, done.stderr) == (5, b"/dev/pts/0\r\nto stderr\r\n", b"")
    done = adb("shell", "-tt", stdin=b"tty </dev/tty\nexit 6\n")
    # The answer, and what the terminal echoes; the prompt may come in the middle of that.
    assert done.returncode == 6 and b"$ " in done.stdout and done.stdout.count(b"/dev/tty\r\n") == 2
    assert adb("shell", "-T", "tty").stdout == b"not a tty\n"


def test_ctrl_c_ends_the_command_in_front(server: adapter.Server, device: EmulatedDevice) -> None:
    argv = [adapter._adb(), "-P", str(server.port), "-s", device.serial, "shell", "-tt", "echo up; sleep 60"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdin and running.stdout and running.stdout.readline() == b"up\r\n"
        running.stdin.write(b"\x03")
        running.stdin.flush()
        assert running.wait(patient(20)) == 130


def test_an_app_is_refused_in_one_line(adb: Adb, tmp_path: Path) -> None:
    (tmp_path / "x.apk").write_bytes(bytes(300_000))
    for words in (("install", tmp_path / "x.apk"), ("shell", "cmd package install -S 2; exit $?")):
        done = adb(*words, stdin=b"xy")
        assert done.returncode == 1
        assert b"Failure [an EMULATED device runs no apps]" in done.stdout + done.stderr, done


def test_the_size_of_the_log_is_told(adb: Adb, device: EmulatedDevice) -> None:
    device.log("I kz: x\n")
    assert adb("logcat", "-g").stdout.startswith(b"main: ring buffer is 256 KiB (8 B consumed, ")


def test_pages_of_16_kb_are_what_the_device_says(server: adapter.Server, tmp_path: Path) -> None:
    with emulated(server, tmp_path / "device", page_size=16384) as device:
        done = server.device(device.serial).shell(
            "getconf PAGE_SIZE; getprop ro.product.cpu.pagesize.max; getconf ARG_MAX"
        )
        assert done.stdout.split()[:2] == [b"16384", b"16384"] and done.code == 0

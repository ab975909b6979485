"""The real adb, and kz, against emulated devices: what a cable, a disk and a busy device do to a transfer."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kz_build.core.errors import ConfigError, DeviceError
from kz_build.core.progress import Event
from kz_build.device import adb as adapter
from kz_build.device import adb_server
from kz_build.device.info import run_on_each
from kz_build.device.push import items, push
from kz_build.device.push_plan import Pushed
from kz_build.emulator.device import EmulatedDevice
from kz_build.emulator.shell import ARM64_LIBC, QEMU
from tests.conftest import Kz
from tests.deadline import patient, until
from tests.emulator.emulated import emulated
from tests.formats.ptes import Qnn, decoder

FOLDER = "/data/local/tmp/kz"
EXAMPLES = max(5, settings().max_examples // 100)
"""Each moves files; `nox -s deep` tries 200."""
Adb = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def adb(server: adapter.Server, device: EmulatedDevice) -> Adb:
    """The real adb's command line on that device."""

    def run(*argv: str | Path, stdin: bytes = b"", serial: str = "") -> subprocess.CompletedProcess[bytes]:
        command = [adapter._adb(), "-P", str(server.port), "-s", serial or device.serial, *map(str, argv)]
        return subprocess.run(command, input=stdin, capture_output=True, timeout=300)

    return run


@pytest.fixture
def kz_here(kz: Kz, server: adapter.Server) -> Kz:
    """`kz` with that adb server as the user's."""
    return lambda *argv, **env: kz(*argv, ANDROID_ADB_SERVER_PORT=str(server.port), **env)


@pytest.fixture
def pushed(server: adapter.Server, device: EmulatedDevice, tmp_path: Path) -> Callable[..., Pushed]:
    """The push stage on that device, with a store of its own."""

    def run(*paths: Path, **named: Any) -> Pushed:
        return push(tmp_path / "store", server.device(device.serial), items(paths), **named)

    return run


def held(device: EmulatedDevice, path: str = FOLDER) -> dict[str, bytes]:
    """Files below a folder of the device, without the record."""
    top = device.root.folder / path[1:]
    found = {p.relative_to(top).as_posix(): p.read_bytes() for p in top.rglob("*") if p.is_file()}
    return {name: data for name, data in found.items() if not name.startswith(".kz-")}


def some_bytes(path: Path, megabytes: int, tick: int = 7) -> Path:
    """A file in which every piece differs from the others."""
    with path.open("wb") as file:
        for index in range(megabytes):
            file.write((b"%016d" % (index * tick)) * 65536)
    return path


def printed(result: subprocess.CompletedProcess[bytes]) -> bytes:
    """What adb says of a failed transfer: on stderr, or on stdout as adb of 2020 does."""
    return result.stdout + result.stderr


def old(folder: Path) -> Path:
    """Let files look as if they had lain there for a while."""
    for path in folder.rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    return folder


def test_exit_codes_arrive_and_stderr_comes_apart(adb: Adb) -> None:
    for code in (0, 1, 7, 255):
        done = adb("shell", f"echo out; echo err >&2; exit {code}")
        assert (done.returncode, done.stdout, done.stderr) == (code, b"out\n", b"err\n")
    assert adb("shell", "no-such-program").returncode == 127
    assert adb("shell", "sh -c 'kill -9 $$'").returncode == 137
    assert adb("shell", "cat; echo seen", stdin=b"in\n").stdout == b"in\nseen\n"


def test_a_command_ends_in_time_and_within_bounds_whatever_it_prints(
    server: adapter.Server, device: EmulatedDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = server.device(device.serial)
    started = time.monotonic()
    with pytest.raises(DeviceError, match="no answer"):
        here.shell("while :; do echo x; sleep 0.1; done", timeout=1)
    assert time.monotonic() - started < patient(5)
    monkeypatch.setattr(adb_server, "MOST_OUTPUT", 1 << 20)
    assert len(here.shell("head -c 1000000 /dev/zero").stdout) == 1_000_000
    with pytest.raises(DeviceError, match="printed more than 1 MB"):
        here.shell("cat /dev/zero")
    until(lambda: not device.alive)


def test_every_byte_passes_both_ways(adb: Adb, device: EmulatedDevice) -> None:
    data = bytes(range(256)) * 8192
    assert adb("exec-in", "cat >/data/local/tmp/y; mv /data/local/tmp/y /data/local/tmp/x", stdin=data).returncode == 0
    until((device.root.folder / "data/local/tmp/x").exists)
    assert adb("exec-out", "cat /data/local/tmp/x").stdout == data
    assert adb("shell", "-T", "cat", stdin=data).stdout == data


def test_a_shell_is_a_plain_user_who_sees_the_device_only(adb: Adb, device: EmulatedDevice, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the host")
    assert adb("shell", "id -u").stdout == b"2000\n"
    assert adb("shell", "command -v su || su -c id").returncode != 0
    assert adb("shell", f"cat {tmp_path}/secret").returncode != 0
    assert set(adb("shell", "ls -a /").stdout.decode().split()) - {".", ".."} == set(os.listdir(device.root.folder))
    assert b"Read-only" in adb("shell", "touch /usr/kz-was-here").stderr
    assert not Path("/usr/kz-was-here").exists()
    assert adb("shell", f"kill -0 {os.getpid()}").returncode != 0
    adb("shell", f"ln -s {tmp_path}/secret /data/local/tmp/link")
    assert adb("pull", "/data/local/tmp/link", tmp_path / "stolen").returncode != 0
    assert adb("root").stdout == b"adbd cannot run as root in production builds\n"


def test_a_file_comes_back_as_it_went_with_mode_and_time(adb: Adb, tmp_path: Path) -> None:
    big = some_bytes(tmp_path / "big", 50)
    big.chmod(0o755)
    os.utime(big, (1_700_000_000, 1_700_000_000))
    assert adb("push", big, "/data/local/tmp/deep/er/big").returncode == 0
    assert adb("shell", "stat -c '%a %Y %s' /data/local/tmp/deep/er/big").stdout.split() == [
        b"755",
        b"1700000000",
        b"%d" % big.stat().st_size,
    ]
    assert adb("pull", "-a", "/data/local/tmp/deep", tmp_path / "back").returncode == 0
    back = tmp_path / "back" / "er" / "big"
    assert subprocess.run(["cmp", big, back]).returncode == 0
    assert back.stat().st_mtime == 1_700_000_000


def test_eight_shells_at_once_each_get_their_own(adb: Adb) -> None:
    def one(index: int) -> tuple[int, bytes]:
        done = adb("shell", f"for i in 1 2 3 4; do head -c 262144 /dev/zero | tr '\\0' {index}; done; exit {index}")
        return done.returncode, done.stdout

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(one, range(8)))
    assert found == [(index, b"%d" % index * (1 << 20)) for index in range(8)]


def test_what_ends_the_client_ends_the_command(server: adapter.Server, device: EmulatedDevice) -> None:
    command = [adapter._adb(), "-P", str(server.port), "-s", device.serial]
    beat = device.root.folder / "data/local/tmp/beat"
    with subprocess.Popen(
        [*command, "shell", "while sleep 0.0517; do date +%N >/data/local/tmp/beat; done"]
    ) as running:
        until(beat.exists)
        running.kill()
    until(lambda: not said_by_processes("0.0517"))


def test_arm64_programs_run(adb: Adb) -> None:
    loader = Path(ARM64_LIBC, "lib", "ld-linux-aarch64.so.1")
    if not (loader.exists() and shutil.which(QEMU)):
        pytest.skip("apt install qemu-user-static libc6-arm64-cross")
    adb("push", loader, "/data/local/tmp/loader")
    done = adb("shell", "cd /data/local/tmp && chmod 755 loader && timeout 20 ./loader --version")
    assert (done.returncode, done.stderr) == (0, b"") and b"ld.so" in done.stdout


def test_the_log_is_what_one_feeds(adb: Adb, device: EmulatedDevice) -> None:
    device.log("E QnnDsp: 0x138d\nI ExecuTorch: loaded\n")
    assert adb("logcat", "-d").stdout == b"E QnnDsp: 0x138d\nI ExecuTorch: loaded\n"
    assert adb("logcat", "-c").returncode == 0
    assert adb("logcat", "-d").stdout == b""


def test_info_says_what_the_device_says_and_names_what_it_does_not(kz_here: Kz, device: EmulatedDevice) -> None:
    vendor = device.root.folder / "vendor" / "lib64"
    vendor.mkdir(parents=True)
    (vendor / "libQnnHtp.so").touch()
    (device.root.folder / "system" / "bin" / "dumpsys").unlink()
    done = kz_here("device", "info", "--serial", device.serial, "--json")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)
    assert (found["soc"], found["arch"], found["android"], found["sdk"]) == ("SM8750", "v79", "16", 36)
    assert (found["selinux"], found["page_size"], found["emulated"]) == ("Enforcing", os.sysconf("SC_PAGE_SIZE"), True)
    assert found["daemons"] == {"adsprpcd": "running", "cdsprpcd": "running"}
    assert found["qnn"] == ["/vendor/lib64/libQnnHtp.so"]
    assert found["ram_total"] == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert found["unsaid"] == ["thermal state", "battery"]
    assert "EMULATED" in kz_here("device", "info", "--serial", device.serial).stdout


def test_two_devices_at_once_are_two_reports(
    kz_here: Kz, server: adapter.Server, device: EmulatedDevice, tmp_path: Path
) -> None:
    (tmp_path / "one").write_bytes(b"1")
    with emulated(server, tmp_path / "other", "SM8650") as other:
        serials = ["--serial", device.serial, "--serial", other.serial]
        found = json.loads(kz_here("device", "info", "--json", *serials).stdout)
        assert [(one["serial"], one["arch"]) for one in found] == [(device.serial, "v79"), (other.serial, "v75")]
        assert kz_here("device", "push", tmp_path / "one", *serials).returncode == 0
        assert held(device) == held(other) == {"one": b"1"}
        assert "kz: exit 2 (config)" in kz_here("device", "info").stderr  # which of them?
        other.listener.shut()
        done = kz_here("device", "info", "--json", *serials)
        assert done.returncode == 8 and other.serial in done.stderr and device.serial not in done.stderr
        assert [one.get("arch", one.get("exit_code")) for one in json.loads(done.stdout)] == ["v79", 8]


def test_what_fails_here_is_said_as_it_is_with_several_devices_too(
    server: adapter.Server, device: EmulatedDevice, tmp_path: Path
) -> None:
    """It was a KeyError: a thread that ended so had no result."""

    def read(one: adapter.Device) -> bytes:
        return (tmp_path / "vanished").read_bytes()

    with emulated(server, tmp_path / "second", "SM8650") as second:
        for serials in ([device.serial], [device.serial, second.serial]):
            with pytest.raises(FileNotFoundError, match="vanished"):
                run_on_each(server, serials, read)


def test_of_two_devices_one_loses_its_cable_and_the_other_nothing(
    kz_here: Kz, server: adapter.Server, device: EmulatedDevice, tmp_path: Path
) -> None:
    """Both are pushed to at the same time; the one that was cut goes on where it stood."""
    folder = tmp_path / "set"
    folder.mkdir()
    for name in ("1", "2", "3"):
        some_bytes(folder / name, 4, tick=int(name))
    whole = {f"set/{name}": (folder / name).read_bytes() for name in "123"}
    with emulated(server, tmp_path / "other", "SM8650") as other:
        serials = ["--serial", device.serial, "--serial", other.serial]
        device.cut_after(10_000_000)
        done = kz_here("device", "push", folder, "--json", *serials)
        assert done.returncode == 8 and device.serial in done.stderr and other.serial not in done.stderr, done.stderr
        cut, well = json.loads(done.stdout)
        assert (cut["serial"], cut["exit_code"], well["serial"], len(well["sent"])) == (
            device.serial,
            8,
            other.serial,
            3,
        )
        assert held(other) == whole and held(device).items() < whole.items()
        cut, well = json.loads(kz_here("device", "push", folder, "--json", *serials).stdout)
        assert (well["sent"], well["bytes"]) == ([], 0)
        assert len(cut["sent"]) + cut["kept"] == 3 and held(device) == held(other) == whole


def test_a_device_that_goes_in_mid_push_and_comes_back_has_all_of_it(
    pushed: Callable[..., Pushed], server: adapter.Server, device: EmulatedDevice, tmp_path: Path
) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    for name in ("1", "2", "3"):
        some_bytes(folder / name, 4, tick=int(name))

    def unplug(event: Event) -> None:
        if event.done > 9_000_000:
            device.listener.shut()

    with pytest.raises(DeviceError, match=rf"^{device.serial}: "):
        push(tmp_path / "store", server.device(device.serial), items([folder]), watch=unplug)
    with pytest.raises(DeviceError, match=rf"^{device.serial}: "):
        pushed(folder)
    device.listener.open()
    assert pushed(folder).kept >= 1
    assert held(device) == {f"set/{name}": (folder / name).read_bytes() for name in "123"}


def test_no_device_is_a_missing_thing(kz_here: Kz, server: adapter.Server) -> None:
    done = kz_here("device", "info")
    assert done.returncode == 6 and "kz device emulate" in done.stderr
    assert kz_here("device", "list").stdout == "no device\n"
    done = kz_here("device", "info", "--serial", "nobody")
    assert done.returncode == 8 and "nobody" in done.stderr


def test_what_is_no_adb_server_is_named(kz: Kz, monkeypatch: pytest.MonkeyPatch) -> None:
    for port in ("abc", "0", "99999", "tcp:5037"):
        done = kz("device", "list", ANDROID_ADB_SERVER_PORT=port)
        assert done.returncode == 2 and f"ANDROID_ADB_SERVER_PORT={port}" in done.stderr, done.stderr
    monkeypatch.setattr(adapter, "SERVER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        with pytest.raises(DeviceError, match=f"adb server at 127.0.0.1:{port}") as found:
            adapter.Server(port, Path()).attached()
    assert "adb kill-server" in found.value.hint


def test_a_report_survives_what_its_reader_cannot_show(
    kz_process: Kz, clean_env: dict[str, str], server: adapter.Server, device: EmulatedDevice
) -> None:
    argv, port = ["device", "info", "--serial", device.serial], {"ANDROID_ADB_SERVER_PORT": str(server.port)}
    done = kz_process(*argv, PYTHONIOENCODING="ascii", **port)
    assert done.returncode == 0 and r"80 %, 25 \xb0C" in done.stdout, done.stderr
    shut = shlex.join([sys.executable, "-m", "kz_build", *argv]) + " >&-"
    env = {**clean_env, **port}
    done = subprocess.run(["sh", "-c", shut], env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_push_brings_what_differs_and_no_more(
    pushed: Callable[..., Pushed], device: EmulatedDevice, tmp_path: Path
) -> None:
    folder = tmp_path / "set"
    (folder / "lib").mkdir(parents=True)
    for name in ("a", "b", "lib/c"):
        (folder / name).write_text(name)
    (folder / "a").chmod(0o755)
    assert pushed(folder).sent == ("set/a", "set/b", "set/lib/c")
    assert held(device) == {"set/a": b"a", "set/b": b"b", "set/lib/c": b"lib/c"}
    assert os.access(device.root.folder / FOLDER[1:] / "set/a", os.X_OK)
    assert pushed(folder).sent == ()
    old(folder)
    assert pushed(folder).sent == (), "a new time alone is no difference"
    (folder / "b").write_text("B")
    (device.root.folder / FOLDER[1:] / "set/lib/c").unlink()
    assert pushed(folder).sent == ("set/b", "set/lib/c")
    (device.root.folder / FOLDER[1:] / "set/a").write_text("longer")
    assert pushed(folder).sent == ("set/a",)
    (folder / "lib/c").unlink()
    (device.root.folder / FOLDER[1:] / "mine").write_text("of the user")
    assert pushed(folder).removed == ()
    assert pushed(folder, clean=True).removed == ("set/lib/c",)
    assert held(device) == {"mine": b"of the user", "set/a": b"a", "set/b": b"B"}
    assert not (device.root.folder / FOLDER[1:] / "set/lib").exists()


def test_a_cut_cable_leaves_no_half_file_and_the_push_goes_on(
    pushed: Callable[..., Pushed], device: EmulatedDevice, tmp_path: Path
) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    for name in ("1", "2", "3"):
        some_bytes(folder / name, 4, tick=int(name))
    whole = {f"set/{name}": (folder / name).read_bytes() for name in "123"}
    device.cut_after(10_000_000)
    with pytest.raises(DeviceError, match=rf"^{device.serial}: "):
        pushed(folder)
    came = held(device)
    assert "set/1" in came and "set/3" not in came and came.items() <= whole.items()
    assert {"set/3"} <= set(pushed(folder).sent) <= whole.keys() - came.keys()  # the device goes on with set/2 alone
    assert held(device) == whole
    assert not list((device.root.folder / FOLDER[1:]).glob(".kz-part*"))


def test_a_push_that_is_interrupted_goes_on(server: adapter.Server, device: EmulatedDevice, tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    for name in ("1", "2", "3"):
        some_bytes(folder / name, 4, tick=int(name))
    whole = {f"set/{name}": (folder / name).read_bytes() for name in "123"}

    def interrupt(event: Event) -> None:
        assert event.total == 3 * (4 << 20)
        if event.done > 10_000_000:
            raise KeyboardInterrupt

    client = server.device(device.serial)
    with pytest.raises(KeyboardInterrupt):
        push(tmp_path / "store", client, items([folder]), watch=interrupt)
    assert held(device) == {name: whole[name] for name in ("set/1", "set/2")}
    assert push(tmp_path / "store", client, items([folder])).sent == ("set/3",)
    assert held(device) == whole


def test_plain_adb_says_when_the_cable_is_cut(adb: Adb, device: EmulatedDevice, tmp_path: Path) -> None:
    device.cut_after(6_000_000)
    done = adb("push", some_bytes(tmp_path / "x", 10), "/data/local/tmp/x")
    assert done.returncode != 0 and b"error" in printed(done)


def test_a_file_that_was_bent_on_its_way_is_not_taken(
    pushed: Callable[..., Pushed], device: EmulatedDevice, tmp_path: Path
) -> None:
    (tmp_path / "x").write_bytes(b"right")
    lies = device.root.folder / "system/bin/sha256sum"
    lies.write_text("#!/bin/sh\ntr r w | /usr/bin/sha256sum\n")
    lies.chmod(0o755)
    with pytest.raises(DeviceError, match="damaged in transfer"):
        pushed(tmp_path / "x")
    assert held(device) == {}


def test_a_full_device_is_known_before_and_survived_in_between(
    pushed: Callable[..., Pushed], adb: Adb, server: adapter.Server, device: EmulatedDevice, tmp_path: Path
) -> None:
    big = some_bytes(tmp_path / "big", 8)
    (tmp_path / "small").write_bytes(b"s")
    device.root.storage = 2_000_000  # in truth; its df does not know
    done = adb("push", big, "/data/local/tmp/big")
    assert done.returncode != 0 and b"No space left on device" in printed(done)
    with pytest.raises(DeviceError, match="No space left on device"):
        pushed(tmp_path / "small", big)
    assert held(device) == {"small": b"s"}
    with emulated(server, tmp_path / "honest", storage=2_000_000) as honest:
        there = server.device(honest.serial)
        with pytest.raises(DeviceError, match=r"has 2\.0 MB free, 8\.4 MB are needed; nothing was pushed") as refused:
            push(tmp_path / "store", there, items([tmp_path / "small", big]))
        assert "make room for 6.4 MB" in refused.value.hint
        assert held(honest) == {}
        assert push(tmp_path / "store", there, items([tmp_path / "small"])).sent == ("small",)
    with (
        emulated(server, tmp_path / "full", storage=400) as full,
        pytest.raises(DeviceError, match=r"has 0 B free, 1 B are needed"),
    ):
        push(tmp_path / "store", server.device(full.serial), items([tmp_path / "small"]))


def test_a_file_that_replaces_another_needs_room_for_both(server: adapter.Server, tmp_path: Path) -> None:
    with emulated(server, tmp_path / "device", storage=10_000_000) as device:
        there = server.device(device.serial)
        big = some_bytes(tmp_path / "big", 4)
        push(tmp_path / "store", there, items([big]))
        some_bytes(big, 4, tick=3)
        assert push(tmp_path / "store", there, items([big])).sent == ("big",)
        some_bytes(big, 7, tick=3)
        with pytest.raises(DeviceError, match="are needed"):
            push(tmp_path / "store", there, items([big]))


def test_a_read_only_folder_is_an_error_that_says_so(
    pushed: Callable[..., Pushed], adb: Adb, server: adapter.Server, tmp_path: Path
) -> None:
    (tmp_path / "x").write_bytes(b"x")
    with emulated(server, tmp_path / "shut", read_only=("/data/local/tmp",)) as shut:
        there = server.device(shut.serial)
        done = adb("push", tmp_path / "x", "/data/local/tmp/x", serial=shut.serial)
        assert done.returncode != 0 and b"Read-only file system" in printed(done)
        assert b"Read-only file system" in adb("shell", "echo >/data/local/tmp/y", serial=shut.serial).stderr
        with pytest.raises(DeviceError, match="Read-only file system"):
            push(tmp_path / "store", there, items([tmp_path / "x"]))
        assert held(shut, "/data") == {}


def test_a_folder_without_write_permission_is_one_too(
    adb: Adb, pushed: Callable[..., Pushed], device: EmulatedDevice, tmp_path: Path
) -> None:
    (tmp_path / "x").write_bytes(b"x")
    (device.root.folder / FOLDER[1:]).mkdir(mode=0o555)
    done = adb("push", tmp_path / "x", f"{FOLDER}/x")
    assert done.returncode != 0 and b"Permission denied" in printed(done)
    with pytest.raises(DeviceError, match="Permission denied"):
        pushed(tmp_path / "x")
    assert held(device) == {}


def test_offline_and_back(kz_here: Kz, adb: Adb, device: EmulatedDevice) -> None:
    device.listener.shut()
    done = kz_here("device", "info", "--serial", device.serial)
    assert done.returncode == 8 and device.serial in done.stderr, done.stderr
    assert adb("shell", "true").returncode != 0
    device.listener.open()
    assert kz_here("device", "info", "--serial", device.serial).returncode == 0
    assert adb("shell", "exit 3").returncode == 3


def test_a_folder_in_the_place_of_a_file_stays(
    pushed: Callable[..., Pushed], device: EmulatedDevice, tmp_path: Path
) -> None:
    (tmp_path / "x").write_bytes(b"x")
    (device.root.folder / FOLDER[1:] / "x").mkdir(parents=True)
    with pytest.raises(DeviceError, match="a folder has that name"):
        pushed(tmp_path / "x")
    assert held(device) == {}


def test_names_that_no_device_can_hold_are_told_all_at_once(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").touch()
    (tmp_path / ".kz-part-0").touch()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="is not a regular file"):
        items([tmp_path / "pipe", tmp_path / "a"])
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "link").symlink_to(tmp_path / "a")
    with pytest.raises(ConfigError, match="b/link: is a link to a folder"):
        items([tmp_path / "b"])
    with pytest.raises(ConfigError, match="kz itself uses that name(.|\n)*also the name of"):
        items([tmp_path / ".kz-part-0", tmp_path / "a", tmp_path / "a"])


NAMES = st.text(st.characters(exclude_characters="/\0", codec="utf-8"), min_size=1, max_size=40).filter(
    lambda name: name not in (".", "..", ".kz-part-0", ".kz-part-1", ".kz-push") and len(name.encode()) <= 200
)


@pytest.fixture(scope="module")
def lasting(server: adapter.Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedDevice]:
    with emulated(server, tmp_path_factory.mktemp("lasting")) as made:
        yield made


@settings(max_examples=EXAMPLES)
@given(NAMES, NAMES, st.binary(max_size=100))
@example("a b", "c'd", b"1")
@example("$(touch x)`id`", '"; exit 9; "', b"2")
@example("new\nline", "-rf\n\\", b"3")
@example("*?[a]", "é\u2028\U0001f600", b"4")
@example("~root", "#\t!x,33188", b"5")
def test_any_name_arrives_as_it_is(
    server: adapter.Server,
    lasting: EmulatedDevice,
    tmp_path_factory: pytest.TempPathFactory,
    top: str,
    name: str,
    data: bytes,
) -> None:
    here = tmp_path_factory.mktemp("names")
    (here / top).mkdir()
    (here / top / name).write_bytes(data)
    shutil.rmtree(lasting.root.folder / FOLDER[1:], ignore_errors=True)
    device = server.device(lasting.serial)
    found = items([here / top])
    assert push(here / "store", device, found).sent == (f"{top}/{name}",)
    assert held(lasting) == {f"{top}/{name}": data}
    assert push(here / "store", device, found).sent == ()
    assert push(here / "store", device, [], clean=True).removed == (f"{top}/{name}",)
    assert os.listdir(lasting.root.folder / FOLDER[1:]) == [".kz-push"]
    shutil.rmtree(here)


@settings(max_examples=EXAMPLES)
@given(NAMES, NAMES)
@example("a b", "$(touch /data/x)")
@example("'\"`id`\\", "-rf")
@example("new\nline", ";exit 3")
def test_any_folder_is_taken_as_it_is(
    server: adapter.Server, lasting: EmulatedDevice, tmp_path_factory: pytest.TempPathFactory, outer: str, inner: str
) -> None:
    here = tmp_path_factory.mktemp("folders")
    (here / "x").write_bytes(b"x")
    (here / "y").write_bytes(b"y")
    shutil.rmtree(lasting.root.folder / "data/local/tmp", ignore_errors=True)
    (lasting.root.folder / "data/local/tmp").mkdir()
    device, folder = server.device(lasting.serial), f"/data/local/tmp/{outer}/{inner}"
    assert push(here / "store", device, items([here / "x", here / "y"]), folder).sent == ("x", "y")
    assert push(here / "store", device, items([here / "x"]), folder, clean=True).removed == ("y",)
    there = held(lasting, "/data/local/tmp")
    assert set(there) == {f"{outer}/{inner}/x", f"{outer}/{inner}/.kz-push"} and there[f"{outer}/{inner}/x"] == b"x"
    shutil.rmtree(here)


@settings(max_examples=EXAMPLES)
@given(st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=200), min_size=1, max_size=5))
@example(["", " ", "'", '"', "\\"])
@example(["$(reboot)", "`id`", "a\nb\n", "; exit 3", "!$*?~"])
def test_any_word_arrives_as_it_is(server: adapter.Server, lasting: EmulatedDevice, words: list[str]) -> None:
    done = server.device(lasting.serial).shell(shlex.join(["printf", r"%s\0", *words]))
    assert (done.code, done.stdout, done.stderr) == (0, "".join(f"{word}\0" for word in words).encode(), b"")


def test_a_device_that_goes_takes_a_command_along_that_reads_no_input(
    server: adapter.Server, device: EmulatedDevice
) -> None:
    command = [adapter._adb(), "-P", str(server.port), "-s", device.serial, "shell", "sleep 1234.503"]
    with subprocess.Popen(command, stdin=Path("/dev/zero").open("rb")) as running:
        until(lambda: said_by_processes("1234.503"))
        until(lambda: waits(running.pid))
        running.kill()
        device.close()
    until(lambda: not said_by_processes("1234.503"))


def test_bad_words_of_emulate_are_said(kz: Kz, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for argv, code in (
        (["--port", "70000"], 2),
        (["--logcat", tmp_path / "none"], 2),
        (["--root", tmp_path / "file"], 2),
        (["--read-only", "data"], 2),
        (["--storage", "-1"], 2),
        (["--cut-after", "-1"], 2),
    ):
        done = kz("device", "emulate", *argv)
        assert done.returncode == code and "Traceback" not in done.stderr, done.stderr


def test_a_device_without_its_port_leaves_nothing_running(device: EmulatedDevice, tmp_path: Path) -> None:
    folder = tmp_path / "second"
    with pytest.raises(ConfigError, match="Address already in use") as caught:
        EmulatedDevice("SM8750", folder, owner=tmp_path, port=device.listener.port)
    assert caught.value.hint  # as long as the error lives, what it was raised from does too
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            assert bytes(folder) not in path.read_bytes(), path


def test_what_shells_wrote_counts_on_a_full_device(adb: Adb, server: adapter.Server, tmp_path: Path) -> None:
    data = some_bytes(tmp_path / "x", 2)
    with emulated(server, tmp_path / "small", storage=3_000_000) as small:
        server.device(small.serial)
        adb("shell", "head -c 2000000 /dev/zero >/data/local/tmp/mine", serial=small.serial)
        assert b"No space left" in printed(adb("push", data, "/data/local/tmp/x", serial=small.serial))
        assert held(small, "/data/local/tmp") == {"mine": bytes(2_000_000)}
        adb("shell", "rm /data/local/tmp/mine", serial=small.serial)
        assert adb("push", data, "/data/local/tmp/x", serial=small.serial).returncode == 0


def test_kz_emulate_is_a_device_until_it_is_told(
    kz_here: Kz, server: adapter.Server, clean_env: dict[str, str], adb: Adb, tmp_path: Path
) -> None:
    (tmp_path / "log").write_bytes(b"I said so\n\xff\n")  # a log may hold anything
    argv = ["device", "emulate", "--soc", "SM8650", "--json", "--logcat", str(tmp_path / "log")]
    env = {**clean_env, "HOME": str(server.home)}  # its owner, whose adb has a key there
    with subprocess.Popen(
        [sys.executable, "-m", "kz_build", *argv], env=env, stdout=subprocess.PIPE, text=True
    ) as running:
        try:
            assert running.stdout
            lines: list[str] = []
            while not lines or lines[-1] != "]\n":
                lines.append(running.stdout.readline())
            (said,) = json.loads("".join(lines))
            assert said["emulated"] and said["soc"] == "SM8650"
            assert kz_here("device", "info", "--serial", said["serial"]).returncode == 0
            assert adb("logcat", "-d", serial=said["serial"]).stdout == "I said so\n\ufffd\n".encode()
        finally:
            running.terminate()
        assert running.wait(patient(20)) == 0
    assert not Path(said["root"]).exists()


def test_a_terminal_that_goes_ends_an_emulated_device_with_its_folder(
    clean_env: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "tmp").mkdir()
    command = [sys.executable, "-m", "kz_build", "device", "emulate"]
    env = {**clean_env, "TMPDIR": str(tmp_path / "tmp")}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as running:
        assert running.stdout and running.stdout.readline().startswith(b"EMULATED") and os.listdir(tmp_path / "tmp")
        running.send_signal(signal.SIGHUP)
        assert running.wait(patient(20)) == 130
    assert os.listdir(tmp_path / "tmp") == []


def test_an_unknown_soc_is_refused(kz: Kz) -> None:
    done = kz("device", "emulate", "--soc", "SM1")
    assert done.returncode == 2 and "SM8750" in done.stderr


def test_nothing_is_left_running(server: adapter.Server, tmp_path: Path) -> None:
    before = threading.active_count()
    for seconds in ("1234.501", "1234.502"):
        with emulated(server, tmp_path / "device") as made:
            command = [adapter._adb(), "-P", str(server.port), "-s", made.serial, "shell", f"sleep {seconds} & wait"]
            server.device(made.serial)
            with subprocess.Popen(command) as running:
                until(partial(said_by_processes, seconds))
                made.close()
                running.wait(patient(20))  # with 1, or with 0 as adb of 2020 does
        until(lambda seconds=seconds: not said_by_processes(seconds))  # type: ignore[misc]
    until(lambda: threading.active_count() <= before)


def test_commands_that_ended_leave_no_thread(adb: Adb) -> None:
    adb("shell", "true")
    before = threading.active_count()
    for _ in range(12):
        assert adb("shell", "echo x").stdout == b"x\n"
    until(lambda: threading.active_count() <= before + 2)


def waits(pid: int) -> bool:
    """Whether a process reads no more of its input: what takes it is full."""
    io = Path(f"/proc/{pid}/io")
    before = io.read_text().split()[1]
    time.sleep(0.05)
    return int(before) > 0 and io.read_text().split()[1] == before


def said_by_processes(word: str) -> list[str]:
    """Processes of this machine that sleep for so many seconds, or do so in a loop."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if f"sleep\0{word}\0".encode() in (data := path.read_bytes()) or f"while sleep {word};".encode() in data:
                found.append(path.parent.name)
    return found


def test_a_context_that_the_device_would_refuse_stays_here(kz_here: Kz, device: EmulatedDevice, tmp_path: Path) -> None:
    """QNN 2.49 compiled it: not beside a 2.42, not where its own record says so, and well beside a 2.49."""
    folder = tmp_path / "model"
    folder.mkdir()

    def pushes(path: Path) -> subprocess.CompletedProcess[str]:
        return kz_here("device", "push", path, "--serial", device.serial)  # others may still be known to the server

    (folder / "x.pte").write_bytes(decoder("hybrid", [Qnn(sdk="2.49.40.260810104044")]))
    (folder / "libQnnHtp.so").write_bytes(b"ELF v2.42.0.251225112233_7\0")
    done = pushes(folder)
    assert done.returncode == 8 and "libQnnHtp.so pushed with it is 2.42.0" in done.stderr, done.stderr
    assert not held(device), "nothing was pushed"

    (folder / "libQnnHtp.so").unlink()
    (folder / "x.pte.json").write_text(json.dumps({"key": "k", "contract": {"newer_than": "2.42.0.251225"}}))
    done = pushes(folder / "x.pte")
    assert done.returncode == 8 and "forbids devices with 2.42.0.251225" in done.stderr, done.stderr
    assert not held(device)

    (folder / "libQnnHtp.so").write_bytes(b"ELF v2.49.40.260810104044\0")
    assert pushes(folder).returncode == 0
    assert {"model/x.pte", "model/libQnnHtp.so"} <= set(held(device))
    (folder / "x.pte.json").unlink()
    assert pushes(folder / "x.pte").returncode == 0, "nothing says what is there"

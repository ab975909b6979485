"""Who may use an emulated device, by which version of the protocol, and how much of this machine they can take."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kz_build.core.errors import DeviceError
from kz_build.device import adb as adapter
from kz_build.emulator.adb_key import proves
from kz_build.emulator.adbd import (
    AUTH,
    CHECKSUMS,
    CLSE,
    CNXN,
    LINKS,
    OKAY,
    OPEN,
    SIGNATURE,
    STREAMS,
    VERSION,
    WRTE,
    Listener,
)
from kz_build.emulator.device import EmulatedDevice
from kz_build.emulator.stream import Stream
from tests.deadline import until
from tests.emulator.client import Client


@pytest.fixture
def listener() -> Iterator[Listener]:
    """A device whose owner's signature is `right`: its only service repeats what it is sent."""

    def echo(stream: Stream) -> None:
        while True:
            stream.write(stream.read_some())

    made = Listener("device::x", lambda name: echo if name == "echo:" else None, lambda _, signed: signed == b"right")
    yield made
    made.shut()


def trusted(listener: Listener, version: int = VERSION, size: int = 1 << 20) -> Client:
    """A client of the owner."""
    client = Client(listener.port, version)
    assert client.introduced(size).command == AUTH
    client.send(AUTH, SIGNATURE, 0, b"right")
    assert client.receive().command == CNXN
    return client


def test_the_adb_of_someone_else_is_not_let_in(server: adapter.Server, device: EmulatedDevice, tmp_path: Path) -> None:
    with adapter.private(tmp_path / "stranger") as other:
        with pytest.raises(DeviceError, match="unauthorized|failed to authenticate"):
            other.device(device.serial)
        argv = [adapter._adb(), "-P", str(other.port), "-s", device.serial, "shell", "id"]
        done = subprocess.run(argv, capture_output=True, timeout=60)
        assert done.returncode and not done.stdout
        other.client.disconnect(device.serial)
    assert server.device(device.serial).shell("id -u").stdout == b"2000\n"


def test_nothing_is_opened_before_a_key_is_proved(listener: Listener) -> None:
    for signature in (None, b"wrong", b""):
        with Client(listener.port) as client:
            token = client.introduced().data
            assert len(token) == 20
            if signature is not None:
                client.send(AUTH, SIGNATURE, 0, signature)
                again = client.receive()
                assert again.command == AUTH and again.data != token
            client.send(OPEN, 1, 0, b"echo:\0")
            assert client.ended()
    with Client(listener.port) as client:
        client.send(AUTH, SIGNATURE, 0, b"right")  # of no token
        assert client.ended()


@pytest.mark.parametrize("key", ["", "AAAA", "!!", "A" * 700 + " x@y", "\udc80"])
def test_what_is_no_key_proves_nothing(key: str) -> None:
    assert not proves(key, bytes(20), bytes(256))


def test_the_first_version_has_checksums_both_ways(listener: Listener) -> None:
    with trusted(listener, CHECKSUMS) as client:
        assert client.opened("echo:").command == OKAY
        client.send(WRTE, 1, 1, b"\xff" * 5000)
        assert client.receive().command == OKAY
        assert client.receive().data == b"\xff" * 5000  # `receive` compares the checksum
        client.send(WRTE, 1, 1, b"x", total=1)
        assert client.ended()


@pytest.mark.parametrize("size", [0, 1, 4096])
def test_no_message_is_longer_than_the_client_takes(listener: Listener, size: int) -> None:
    with trusted(listener, size=size) as client:
        client.opened("echo:")
        client.send(WRTE, 1, 1, b"abc" * 2000)
        got = b""
        while len(got) < 20:
            message = client.receive()
            if message.command == WRTE:
                assert len(message.data) <= max(size, 1)
                got += message.data
                client.send(OKAY, 1, 1)
        assert got == (b"abc" * 2000)[: len(got)]


def test_strangers_do_not_keep_the_owner_out_nor_fill_the_machine(listener: Listener) -> None:
    before = threading.active_count()
    with trusted(listener) as owner:
        strangers = [Client(listener.port) for _ in range(4 * LINKS)]
        for stranger in strangers[-5:]:
            stranger.introduced()
        assert len(listener.links) <= LINKS and threading.active_count() <= before + LINKS + 1
        assert owner.opened("echo:").command == OKAY
        with trusted(listener) as second:
            assert second.opened("echo:").command == OKAY
        for stranger in strangers:
            stranger.sock.close()
    until(lambda: threading.active_count() <= before)


def test_streams_beyond_the_limit_are_refused_until_one_ends(listener: Listener) -> None:
    with trusted(listener) as client:
        found = [client.opened("echo:", own).command for own in range(1, STREAMS + 6)]
        assert found == [OKAY] * STREAMS + [CLSE] * 5
        client.send(CLSE, 1, 1)
        assert client.receive().command == CLSE
        assert client.opened("echo:", 1).command == OKAY


def test_who_does_not_wait_for_an_answer_is_cut_off(listener: Listener) -> None:
    with trusted(listener) as client, pytest.raises(ConnectionError):
        client.opened("echo:")
        for _ in range(200):  # the service waits for an answer to its first message
            client.send(WRTE, 1, 1, bytes(1 << 20))


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        bytes(24),
        b"CNXN" + bytes(8) + b"\xff" * 4 + bytes(4) + b"\xbc\xb1\xa7\xb1",
    ],
    ids=["http", "zeros", "4 GiB"],
)
def test_what_is_not_adb_is_cut_off(listener: Listener, data: bytes) -> None:
    with Client(listener.port) as client:
        client.sock.sendall(data)
        assert client.ended()

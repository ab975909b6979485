"""Android devices through an adb server."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import socket
import stat
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from kz_build.core import env as environment
from kz_build.core import process
from kz_build.core.errors import ConfigError, DeviceError, KzError, Missing, MissingError
from kz_build.core.process import Output
from kz_build.device.adb_server import AdbError, Client, exactly
from kz_build.device.properties import Attached

SHELL_SECONDS = 600.0
ANSWER_SECONDS = 60.0
"""How long a device may be silent in a transfer."""
SERVER_SECONDS = 10.0
"""How long the server itself may be silent: it waits for no device."""
COMMAND_BYTES = 65_000
"""adb sends a command's length in four hex digits."""
SETTLE_SECONDS = 2.0
"""For how long a device may be offline after `connect`: adb can still show the connection that broke."""
PIECE = 64 * 1024
_PIECES = 15
GONE = "is it plugged in, unlocked and authorised? `kz device list` shows what adb sees"


class Remote(NamedTuple):
    """A file on the device; `mtime` in seconds."""

    mode: int
    size: int
    mtime: int


class Server:
    """An adb server on loopback, with the keys in a home folder. Only `running` and `private` start one."""

    def __init__(self, port: int, home: Path) -> None:
        self.port, self.home = port, home
        self.client = Client(port, SERVER_SECONDS)

    def attached(self) -> tuple[Attached, ...]:
        """Return the devices that the server knows, in any state."""
        hint = "the program that listens there is not an adb server, or hangs: `adb kill-server`, or another ANDROID_ADB_SERVER_PORT"
        with _device_errors(f"adb server at 127.0.0.1:{self.port}", hint):
            devices = self.client.devices()
        return tuple(
            Attached(
                d.serial, d.state, model := d.tags.get("model", "").replace("_", " "), model.startswith("EMULATED")
            )
            for d in sorted(devices, key=lambda d: d.serial)
        )

    def device(self, serial: str) -> Device:
        """Return a device; one at `host:port` is connected first.

        Raises DeviceError if it is absent, offline or not authorised.
        """
        states = {one.serial: one.state for one in self.attached()}
        if states.get(serial) != "device" and ":" in serial:
            states = self._connected(serial)
        if serial not in states:
            raise DeviceError(f"{serial}: adb does not know this device", hint=GONE)
        if states[serial] != "device":
            raise DeviceError(f"{serial}: the device is {states[serial]}", hint=GONE)
        return Device(self, serial)

    def _connected(self, serial: str) -> dict[str, str]:
        """Connect to a device at `host:port`; return the states of all. A connection that just broke may be in the way for a moment."""
        started = time.monotonic()
        while True:
            with _device_errors(serial):
                self.client.disconnect(serial)
                answer = self.client.connect(serial, ANSWER_SECONDS)
            states = {one.serial: one.state for one in self.attached()}
            waited = time.monotonic() - started
            if serial in states and (states[serial] not in ("offline", "connecting") or waited > SETTLE_SECONDS):
                return states
            if serial not in states and (not answer.startswith("already connected") or waited > SERVER_SECONDS):
                raise DeviceError(f"{serial}: {answer}", hint="does a device listen there?")
            time.sleep(0.1)


def running() -> Server:
    """Return the user's adb server, with their USB devices and keys, at ANDROID_ADB_SERVER_PORT or 5037; start it if none runs."""
    if server := present():
        return server
    process.checked([_adb(), "-P", str(_port()), "start-server"], env=environment.adb())
    return Server(_port(), Path.home())


def present() -> Server | None:
    """Return the user's adb server, None if none runs. Raises MissingError without an adb that could be one."""
    _adb()
    return Server(_port(), Path.home()) if _listens(_port()) else None


def _port() -> int:
    value = environment.variable("ANDROID_ADB_SERVER_PORT") or "5037"
    if not (value.isdecimal() and 0 < (port := int(value)) < 1 << 16):
        raise ConfigError(
            f"ANDROID_ADB_SERVER_PORT={value} is not a port", hint="1 to 65535, or unset it for adb's own, 5037"
        )
    return port


@contextlib.contextmanager
def private(home: Path) -> Iterator[Server]:
    """Run a separate adb server for emulated devices: its own port and keys, no USB, no search; it ends with the block."""
    settings = {"HOME": str(home), "ADB_USB": "0", "ADB_MDNS": "0", "ADB_EMU": "0"}
    env = {**environment.plain(), **settings}
    home.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    try:
        for attempts_left in (4, 3, 2, 1, 0):
            argv = [_adb(), "-P", str(port), "start-server"]
            if not (started := process.run(argv, env=env)).code:
                break
            if not attempts_left:
                process.require_success(argv, started)
            port = _free_port()  # another program took that one before adb did
        yield Server(port, home)
    finally:
        process.run([_adb(), "-P", str(port), "kill-server"], env=env)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _adb() -> str:
    """Return the path of an adb: ADBUTILS_ADB_PATH, that on PATH, or the one in adbutils' wheel."""
    if path := environment.variable("ADBUTILS_ADB_PATH") or shutil.which("adb"):
        return path
    wheel = importlib.util.find_spec("adbutils")  # its import takes 200 ms
    for folder in (wheel and wheel.submodule_search_locations) or ():
        if os.access(path := os.path.join(folder, "binaries", "adb"), os.X_OK):
            return path
    remedy = "Android's platform-tools, on PATH; adbutils has one for common machines"
    raise MissingError((Missing("adb", "it is neither on PATH nor in adbutils' wheel", remedy),))


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def _device_errors(serial: str, hint: str = GONE) -> Iterator[None]:
    """Raise failures of adb and sockets as DeviceErrors."""
    try:
        yield
    except KzError:
        raise
    except (ConnectionError, EOFError) as error:
        raise DeviceError(f"{serial}: the connection broke", hint=hint) from error
    except TimeoutError as error:
        raise DeviceError(f"{serial}: no answer", hint=hint) from error
    except (AdbError, struct.error) as error:
        message = " ".join(str(part) for part in error.args) or type(error).__name__
        raise DeviceError(f"{serial}: {message}", hint=hint) from error


class Device:
    """One device of a server. Every failure is a DeviceError that names it."""

    def __init__(self, server: Server, serial: str) -> None:
        self.serial, self.client = serial, server.client

    def shell(self, command: str, *, timeout: float = SHELL_SECONDS) -> Output:
        """Run a command line to its end, for at most `timeout` seconds; the caller quotes words from outside (shlex.quote)."""
        if len(command.encode("utf-8", "surrogateescape")) > COMMAND_BYTES:
            raise ConfigError(f"a command of {len(command)} characters is too long for adb")
        with _device_errors(self.serial):
            return self.client.shell(self.serial, command, timeout)

    def checked(self, command: str, *, timeout: float = SHELL_SECONDS) -> bytes:
        """Run `shell` and return stdout. Raises DeviceError with the output if the command fails."""
        done = self.shell(command, timeout=timeout)
        if done.code:
            output = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
            raise DeviceError(f"{self.serial}: {output or command} (exit {done.code})")
        return done.stdout

    @contextlib.contextmanager
    def files(self) -> Iterator[Files]:
        """Open the device's files, over one connection."""
        with _device_errors(self.serial), self.client.service(self.serial, "sync:", ANSWER_SECONDS) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield Files(sock, self.serial)


class Files:
    """adb's sync protocol on one connection; paths are absolute, and may contain any character."""

    def __init__(self, sock: socket.socket, serial: str) -> None:
        self.sock, self.serial = sock, serial

    def listing(self, folder: str) -> dict[str, Remote]:
        """Return the files of a folder, {} if it does not exist."""
        self._ask(b"LIST", os.fsencode(folder))
        files: dict[str, Remote] = {}
        while True:
            kind, mode, size, mtime, length = struct.unpack("<4s4I", self._exactly(20))
            if kind == b"DONE":
                return files
            name = os.fsdecode(self._exactly(length))
            if name not in (".", ".."):
                files[name] = Remote(mode, size, mtime)

    def send(
        self, local: Path, remote: str, *, mode: int, mtime: int, sent: Callable[[int], object] = lambda done: None
    ) -> None:
        """Write a local file to a device's path. `sent` gets the bytes so far. Raises DeviceError with the device's message."""
        with local.open("rb", buffering=0) as file:
            self._ask(b"SEND", os.fsencode(f"{remote},{stat.S_IFREG | mode}"))
            try:
                self._send_data(file.fileno(), sent)
                self.sock.sendall(b"DONE" + struct.pack("<I", mtime))
            except ConnectionError:
                self._answer(remote)  # the device may have said why before it closed
                raise
        self._answer(remote)

    def put(self, data: bytes, remote: str, *, mtime: int = 0) -> None:
        """Write some bytes to a device's path."""
        self._ask(b"SEND", os.fsencode(f"{remote},{stat.S_IFREG | 0o644}"))
        for at in range(0, len(data), PIECE):
            self.sock.sendall(b"DATA" + struct.pack("<I", len(data[at : at + PIECE])) + data[at : at + PIECE])
        self.sock.sendall(b"DONE" + struct.pack("<I", mtime))
        self._answer(remote)

    def _send_data(self, file: int, sent: Callable[[int], object]) -> None:
        """Send a file's content as DATA messages: read right behind their headers, so that nothing is copied."""
        step = 8 + PIECE
        message = memoryview(bytearray(_PIECES * step))
        holes = [message[at + 8 : at + step] for at in range(0, len(message), step)]
        done = 0
        while count := os.readv(file, holes):
            whole, rest = divmod(count, PIECE)
            for index in range(whole + bool(rest)):
                struct.pack_into("<4sI", message, index * step, b"DATA", PIECE if index < whole else rest)
            self.sock.sendall(message[: whole * step + (8 + rest if rest else 0)])
            done += count
            sent(done)

    def _answer(self, remote: str) -> None:
        kind, size = struct.unpack("<4sI", self._exactly(8))
        if kind != b"OKAY":
            message = self._exactly(size).decode("utf-8", "replace") if kind == b"FAIL" else repr(kind)
            raise DeviceError(f"{self.serial}: {remote}: {message}")

    def _ask(self, kind: bytes, argument: bytes) -> None:
        self.sock.sendall(kind + struct.pack("<I", len(argument)) + argument)

    def _exactly(self, size: int) -> bytes:
        if size > PIECE:
            raise AdbError(f"adb sends no name or message of {size:,} bytes")
        return exactly(self.sock, size)

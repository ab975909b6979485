"""Emulated devices that an adb server forgets when they end."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from kz_build.device.adb import Server
from kz_build.emulator.device import EmulatedDevice
from tests.deadline import until


@contextlib.contextmanager
def emulated(
    server: Server,
    folder: Path,
    soc: str = "SM8750",
    *,
    storage: int | None = None,
    read_only: tuple[str, ...] = (),
    page_size: int | None = None,
) -> Iterator[EmulatedDevice]:
    """Run an emulated device that lets this server in.

    adb lists a device that ended as offline for 60 s, and would show it to every test of that time.
    """
    made = EmulatedDevice(soc, folder, owner=server.home, storage=storage, read_only=read_only, page_size=page_size)
    try:
        with made:
            yield made
    finally:
        until(lambda: forgotten(server, made.serial))


def forgotten(server: Server, serial: str) -> bool:
    """Disconnect a device; return whether the server lists it no more."""
    server.client.disconnect(serial)
    return serial not in {one.serial for one in server.attached()}

"""Devices: which there are, and what each says of itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kz_build.core.errors import ConfigError, KzError, Missing, MissingError
from kz_build.device.adb import Device, Server
from kz_build.device.properties import DeviceInfo, question, understood

INFO_SECONDS = 60.0
Found = TypeVar("Found")


@dataclass(frozen=True)
class Failed:
    """A device that did not do what was asked; the others did what they could."""

    serial: str
    error: str
    hint: str
    exit_code: int


def chosen(server: Server, serials: Sequence[str], *, every: bool = False, named: str = "") -> tuple[str, ...]:
    """Serials that are meant: those given, or all, or the one that `named` (ANDROID_SERIAL) or chance leaves.

    Raises MissingError where there is none, ConfigError where it is not clear which.
    """
    if serials and not every:
        return tuple(dict.fromkeys(serials))
    there = [one.serial for one in server.attached()]
    if not there:
        brings = "a device with USB debugging on, `adb connect HOST:PORT`, or `kz device emulate`"
        raise MissingError((Missing("an Android device", "adb sees none", brings),))
    if every:
        return tuple(dict.fromkeys([*there, *serials]))
    if named:
        return (named,)
    if len(there) > 1:
        raise ConfigError(f"several devices are there: {', '.join(there)}", hint="--serial S (repeatable), or --all")
    return (there[0],)


def each(server: Server, serials: Sequence[str], ask: Callable[[Device], Found]) -> tuple[Found | Failed, ...]:
    """Do the same with several devices at once; one that fails does not keep the others."""

    def one(serial: str) -> Found | Failed:
        try:
            return ask(server.device(serial))
        except KzError as error:
            return Failed(serial, str(error), error.hint, error.exit_code)

    if len(serials) == 1:
        return (one(serials[0]),)
    found: dict[str, Found | Failed] = {}
    threads = [
        # Daemons: Ctrl-C ends all of them at once, and what they did up to then holds.
        threading.Thread(target=lambda serial=serial: found.update({serial: one(serial)}), daemon=True)
        for serial in serials
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return tuple(found[serial] for serial in serials)


def info(device: Device) -> DeviceInfo:
    """What a device says of itself. Raises DeviceError where it does not answer."""
    return understood(device.serial, device.checked(question(), timeout=INFO_SECONDS).decode("utf-8", "replace"))

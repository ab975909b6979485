"""Which devices there are, and the facts of each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kz_build.core.errors import ConfigError, KzError, Missing, MissingError
from kz_build.device.adb import Device, Server
from kz_build.device.properties import DeviceInfo, info_command, parse_info

INFO_SECONDS = 60.0
Result = TypeVar("Result")


@dataclass(frozen=True)
class Failed:
    """A device that failed; the others went on."""

    serial: str
    error: str
    hint: str
    exit_code: int


def choose_serials(server: Server, serials: Sequence[str], *, every: bool = False, named: str = "") -> tuple[str, ...]:
    """Choose devices: those given, or all, or `named` (ANDROID_SERIAL), or the only one.

    Raises MissingError without a device, ConfigError if the choice is not clear.
    """
    if serials and not every:
        return tuple(dict.fromkeys(serials))
    attached = [one.serial for one in server.attached()]
    if not attached:
        remedy = "a device with USB debugging on, `adb connect HOST:PORT`, or `kz device emulate`"
        raise MissingError((Missing("an Android device", "adb sees none", remedy),))
    if every:
        return tuple(dict.fromkeys([*attached, *serials]))
    if named:
        return (named,)
    if len(attached) > 1:
        raise ConfigError(f"several devices are there: {', '.join(attached)}", hint="--serial S (repeatable), or --all")
    return (attached[0],)


def run_on_each(server: Server, serials: Sequence[str], ask: Callable[[Device], Result]) -> tuple[Result | Failed, ...]:
    """Do the same with several devices at once; one that fails does not stop the others. What is no KzError is raised at the end."""

    def one(serial: str) -> Result | Failed:
        try:
            return ask(server.device(serial))
        except KzError as error:
            return Failed(serial, str(error), error.hint, error.exit_code)

    if len(serials) == 1:
        return (one(serials[0]),)
    results: dict[str, Result | Failed] = {}
    errors: list[Exception] = []

    def work(serial: str) -> None:
        try:
            results[serial] = one(serial)
        except Exception as error:  # of this machine, or a bug: it is the caller's, as with one device
            errors.append(error)

    # Daemons: Ctrl-C ends all of them at once, and what they did so far stays.
    threads = [threading.Thread(target=work, args=(serial,), daemon=True) for serial in serials]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return tuple(results[serial] for serial in serials)


def info(device: Device) -> DeviceInfo:
    """Read the facts of a device. Raises DeviceError if it does not answer."""
    return parse_info(device.serial, device.checked(info_command(), timeout=INFO_SECONDS).decode("utf-8", "replace"))

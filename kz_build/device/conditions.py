"""Conditions of timed runs on a device: a cool battery, and clocks that Android keeps as they are."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from kz_build.core.errors import KzError
from kz_build.device.adb import Device
from kz_build.device.info import info
from kz_build.device.properties import DeviceInfo

POLL_SECONDS = 10.0
_FIXED = "cmd power set-fixed-performance-mode-enabled"
"""Android 11 and newer, where the vendor's Power HAL has the mode; it fails elsewhere
(https://developer.android.com/games/optimize/adpf/fixed-performance-mode)."""


def wait_until_cool(
    device: Device, celsius: float, minutes: float, note: Callable[[str], None]
) -> tuple[DeviceInfo, bool]:
    """Wait until the battery has at most this temperature. Returns the device's facts, and False if it is still hot after that time.

    A device that does not report its battery's temperature is not waited for.
    """
    deadline = time.monotonic() + minutes * 60
    noted = False
    while True:
        facts = info(device)
        if facts.battery_celsius is None or facts.battery_celsius <= celsius:
            return facts, True
        if time.monotonic() >= deadline:
            note(f"{device.serial}: {facts.battery_celsius:g} °C after {minutes:g} min, so its runs are marked as hot")
            return facts, False
        if not noted:
            note(f"{device.serial}: {facts.battery_celsius:g} °C: waiting up to {minutes:g} min for {celsius:g} °C")
            noted = True
        time.sleep(min(POLL_SECONDS, max(0.0, deadline - time.monotonic())))


def fix_performance(device: Device, at_end: contextlib.ExitStack) -> bool:
    """Switch fixed-performance mode on until `at_end` closes, also by Ctrl-C. Returns whether the device has it."""
    at_end.callback(_release, device)  # before: an interrupt may come between
    return device.shell(f"{_FIXED} true").code == 0


def _release(device: Device) -> None:
    """Switch it off; a device that is gone by now is not what a user must hear of last."""
    with contextlib.suppress(KzError):
        device.shell(f"{_FIXED} false", timeout=10)

"""Big transfers with the real adb on an emulated device: `nox -s deep`. What is compared ran in one run, here."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kz_build.device import adb as adapter
from kz_build.device.push import items, push
from kz_build.emulator.device import EmulatedDevice
from tests.conftest import Kz

pytestmark = [pytest.mark.deep, pytest.mark.xdist_group("device load")]
MEGABYTES = int(os.environ.get("KZ_LOAD_MB", "3072"))
FILES = 12


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder in memory where there is one: a disk would be what is measured."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None, prefix="kz-load-") as made:
        yield Path(made)


@pytest.fixture(scope="module")
def there(place: Path) -> Iterator[tuple[EmulatedDevice, adapter.Device, adapter.Server]]:
    with (
        adapter.private(place / "home") as server,
        EmulatedDevice("SM8750", place / "device", owner=server.home) as device,
    ):
        yield device, server.device(device.serial), server


@pytest.fixture(scope="module")
def big_set(place: Path) -> Path:
    """Files that take no room here: of zeros, each of another size."""
    folder = place / "set"
    folder.mkdir()
    share = MEGABYTES * (1 << 20) * 2 // (FILES * (FILES + 1))
    for index in range(1, FILES + 1):
        path = folder / f"part {index}"
        path.touch()
        os.truncate(path, share * index + index)
        os.utime(path, (1_700_000_000, 1_700_000_000))
    time.sleep(2.5)  # until their digests may be remembered
    return folder


def test_a_first_push_is_as_fast_as_adbs_and_a_second_moves_nothing(
    there: tuple[EmulatedDevice, adapter.Device, adapter.Server], big_set: Path, place: Path, kz: Kz
) -> None:
    device, client, server = there
    argv = [adapter._adb(), "-P", str(server.port), "-s", device.serial, "push", str(big_set), "/data/local/tmp/plain"]
    size = sum(path.stat().st_size for path in big_set.iterdir())
    ratios = []
    for _ in range(3):
        shutil.rmtree(device.root.folder / "data/local/tmp/plain", ignore_errors=True)
        started = time.monotonic()
        subprocess.run(argv, check=True, capture_output=True)
        plain = time.monotonic() - started
        shutil.rmtree(device.root.folder / "data/local/tmp/plain")
        shutil.rmtree(device.root.folder / "data/local/tmp/kz", ignore_errors=True)
        ours = push(place / "store", client, items([big_set]))
        assert len(ours.sent) == FILES and ours.bytes == size
        ratios.append(plain / ours.sending)
        print(
            f"\nadb push {size / 1e6 / plain:,.0f} MB/s in {plain:.2f} s; kz {size / 1e6 / ours.sending:,.0f} MB/s in "
            f"{ours.sending:.2f} s, {ours.verifying:.2f} s more to verify, {ours.seconds:.2f} s in all"
        )
    assert statistics.median(ratios) >= 0.85, ratios
    started = time.monotonic()
    again = push(place / "store", client, items([big_set]))
    took = time.monotonic() - started
    print(f"again: {took:.3f} s, {again.bytes} bytes")
    assert (again.sent, again.bytes, again.kept) == ((), 0, FILES)
    assert took < 1
    env = {"ANDROID_ADB_SERVER_PORT": str(server.port), "KZ_CACHE": str(place / "store")}
    started = time.monotonic()
    done = kz("device", "push", big_set, "--serial", device.serial, **env)
    took = time.monotonic() - started
    print(f"again, as a command: {took:.3f} s")
    assert done.returncode == 0 and "0 files sent" in done.stdout and took < 1

"""An emulated device: a root folder, a port on loopback, and the services that adb expects of a device."""

from __future__ import annotations

import os
import platform
from functools import partial
from pathlib import Path

from kz_build.core.errors import ConfigError, Missing, MissingError
from kz_build.core.files import disk_errors
from kz_build.core.process import Process, find, run
from kz_build.emulator import shell as adbd_shell
from kz_build.emulator import sync as adbd_sync
from kz_build.emulator.adb_key import proves
from kz_build.emulator.adbd import FEATURES, Listener, Service
from kz_build.emulator.root import OWN, DeviceRoot
from kz_build.emulator.shell import ARM64_LIBC, QEMU
from kz_build.formats.soc import arch_of

_NO_ROOT = b"adbd cannot run as root in production builds\n"
ARM64_LOADER = f"{ARM64_LIBC}/lib/ld-linux-aarch64.so.1"
ANSWERS = {
    "root": _NO_ROOT,
    "unroot": b"adbd not running as root\n",
    "remount": _NO_ROOT,
    "reboot": b"an EMULATED device does not reboot\n",
}
"""Services that only say something."""


class EmulatedDevice:
    """A device that the real adb can talk to at `serial`, until `close`.

    It trusts the key of one adb, in the home folder `owner`: that of no other user of this machine. As on a device, adb proves with
    a signature that it has the private key; the public one is read each time, for adb makes both when it first needs them.

    Its faults: `root.storage` and `root.read_only`, `offline` and `online`, and `cut_after`.
    """

    def __init__(
        self,
        soc: str,
        folder: Path,
        *,
        owner: Path,
        port: int = 0,
        storage: int | None = None,
        read_only: tuple[str, ...] = (),
        page_size: int | None = None,
    ) -> None:
        arch_of(soc)
        if not 0 <= port < 1 << 16 or not all(path.startswith("/") for path in read_only):
            raise ConfigError("an emulated device has a port below 65536, and its paths begin with /")
        self.soc, self.owner = soc.upper(), owner
        props = emulated_properties(self.soc, page_size or os.sysconf("SC_PAGE_SIZE"))
        self.root = DeviceRoot(folder, storage, read_only)
        self.alive: set[Process] = set()
        with disk_errors(folder):
            try:
                self.root.furnish(props)
            except (FileExistsError, NotADirectoryError) as error:
                raise ConfigError(f"{error.filename} is in the way of an emulated device's root") from error
            except (FileNotFoundError, PermissionError) as error:
                raise ConfigError(
                    f"{error.filename}: the root of an emulated device cannot be made there: {error.strerror}",
                    hint="choose another --root: a folder that you may write to",
                ) from error
        self.system = adbd_shell.System(self.root)
        _require_shells(self.system)
        product = ";".join(
            f"{name}={props[name]}" for name in ("ro.product.name", "ro.product.model", "ro.product.device")
        )
        try:
            self.listener = Listener(f"device::{product};features={FEATURES}", self._service, self._trusts, port=port)
        except OSError as error:
            self.system.close()
            raise ConfigError(
                f"port {port}: {error.strerror}", hint="choose another --port, or none for any free one"
            ) from error
        self.serial = f"127.0.0.1:{self.listener.port}"

    def __enter__(self) -> EmulatedDevice:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the device, with every connection and every command that still runs."""
        self.listener.shut()
        for running in list(self.alive):
            adbd_shell.end(running)
        self.system.close()

    def missing_for_arm64(self) -> tuple[Missing, ...]:
        """Return what this machine lacks to run the device's arm64 programs; everything else of it works without."""
        why = "arm64 programs of an emulated device run through qemu, with Debian's arm64 C library"
        absent = {QEMU: "qemu-user-static", ARM64_LOADER: "libc6-arm64-cross"}
        if platform.machine() == "aarch64":
            return ()
        if packages := {name: package for name, package in absent.items() if not (find(name) or Path(name).exists())}:
            return (Missing(" and ".join(packages), why, f"apt install {' '.join(packages.values())}"),)
        done = run(self.system.argv(f"{ARM64_LOADER} --version"), env=adbd_shell.environment())
        if done.code == 0:
            return ()
        error = done.stderr.decode("utf-8", "replace").strip()
        remedy = "Linux 6.7 or newer\nsudo systemctl restart systemd-binfmt, which registers qemu"
        return (Missing("a kernel that starts arm64 programs through qemu", error or why, remedy),)

    def cut_after(self, size: int) -> None:
        """Break the connection after this many more received bytes; once."""
        self.listener.cut_after = size

    def log(self, text: str) -> None:
        """Append to the output of logcat."""
        with self.root.own(f"{OWN}/logcat").open("a") as file:
            file.write(text)

    def _service(self, name: str) -> Service | None:
        kind, _, rest = name.partition(":")
        what, *options = kind.split(",")
        if what == "sync":
            return partial(adbd_sync.serve, root=self.root)
        if what in ("shell", "exec"):
            options += ["raw"] if what == "exec" else []
            return partial(adbd_shell.serve, system=self.system, command=rest, options=options, alive=self.alive)
        if what in ANSWERS:
            return lambda stream: stream.write(ANSWERS[what])
        return None

    def _trusts(self, token: bytes, signature: bytes) -> bool:
        try:
            key = (self.owner / ".android" / "adbkey.pub").read_text()
        except (OSError, UnicodeDecodeError):
            return False
        return proves(key, token, signature)


def _require_shells(system: adbd_shell.System) -> None:
    if system.error:
        system.close()
        why = "an emulated device's commands run in a namespace where they see only its root folder"
        remedy = (
            "util-linux, and a kernel that allows user namespaces: sysctl kernel.unprivileged_userns_clone=1, "
            "on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0"
        )
        raise MissingError((Missing(f"user and mount namespaces ({system.error})", why, remedy),))


def emulated_properties(soc: str, page_size: int) -> dict[str, str]:
    """Return what `getprop` of an emulated device with that SoC prints. Every name in it that people read says EMULATED."""
    return {
        "ro.kz.emulated": "1",
        "ro.serialno": "EMULATED",
        "ro.product.name": f"EMULATED_{soc}",
        "ro.product.manufacturer": "kz",
        "ro.product.model": f"EMULATED {soc}",
        "ro.product.device": f"EMULATED_{soc}",
        "ro.product.cpu.abi": "arm64-v8a",
        "ro.product.cpu.abilist": "arm64-v8a",
        "ro.product.cpu.pagesize.max": str(page_size),
        "ro.soc.manufacturer": "QTI",
        "ro.soc.model": soc,
        "ro.build.version.release": "16",
        "ro.build.version.sdk": "36",
        "ro.build.type": "user",
        "ro.build.fingerprint": f"kz/EMULATED_{soc}/EMULATED:16/KZ/1:user/release-keys",
        "ro.debuggable": "0",
        "sys.boot_completed": "1",
        "init.svc.adbd": "running",
        "init.svc.vendor.adsprpcd": "running",
        "init.svc.vendor.cdsprpcd": "running",
    }

"""Verbs about Android devices."""

from __future__ import annotations

import argparse
import contextlib
import signal
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kz_build.cli.common import show
from kz_build.core.errors import ConfigError


def options(made: Any) -> None:
    """`kz device` and its own verbs."""
    verbs = made.add_subparsers(title="verbs", metavar="VERB", required=True)
    for name, fill, text, example in SUBVERBS:
        module = "trying" if name in ("check", "run") else "device"
        sub = verbs.add_parser(
            name,
            help=text,
            description=text,
            epilog=f"example: kz device {name} {example}".rstrip(),
            allow_abbrev=False,
        )
        sub.fill = fill
        sub.set_defaults(verb=f"{module}.device_{name}")


def _json(made: Any) -> None:
    made.add_argument("--json", action="store_true", help="print the result as JSON")


def _which(made: Any) -> None:
    _json(made)
    made.add_argument(
        "--serial",
        metavar="S",
        action="append",
        default=[],
        help="this device (repeatable); HOST:PORT is connected first",
    )
    made.add_argument("--all", dest="every", action="store_true", help="every device that adb sees, at once")


def _push(made: Any) -> None:
    from kz_build.device.push import FOLDER

    _which(made)
    made.add_argument("paths", metavar="PATH", nargs="*", type=Path, help="a file, or a folder with all in it")
    made.add_argument("--to", metavar="DIR", default=FOLDER, help="folder of the device (default: %(default)s)")
    made.add_argument(
        "--clean", action="store_true", help="remove what former pushes brought there and this one does not"
    )


def _trial(made: Any) -> None:
    from kz_build.cli.trying import options

    _which(made)
    options(made)


def _timed(made: Any) -> None:
    from kz_build.cli.trying import timed

    _trial(made)
    timed(made)


def _emulate(made: Any) -> None:
    _json(made)
    made.add_argument(
        "--soc", metavar="S", action="append", default=[], help="SoC of it (default: SM8750); one device for each"
    )
    made.add_argument("--root", metavar="DIR", type=Path, help="its root folder, kept (default: one that goes with it)")
    made.add_argument("--port", metavar="N", type=int, default=0, help="port of the first on loopback (default: any)")
    made.add_argument("--logcat", metavar="FILE", type=Path, help="what its log holds at first")
    made.add_argument("--storage", metavar="MB", type=int, help="how much /data may hold, in 10^6 bytes")
    made.add_argument(
        "--read-only", metavar="PATH", action="append", default=[], help="a folder of it that nobody may write"
    )
    made.add_argument("--cut-after", metavar="MB", type=int, help="break the connection once so much came in")


SUBVERBS = (
    ("list", _json, "devices that adb sees, in whatever state", ""),
    ("info", _which, "what devices are and have: SoC, Android, memory, DSP, heat", "--all"),
    (
        "check",
        _trial,
        "push what was built, load it there, let a model generate: checks with evidence",
        "--recipe qwen3-4b-qnn-hybrid",
    ),
    ("run", _timed, "check, then time a model and compare with before", "--recipe qwen3-4b-qnn-hybrid --runs 10"),
    ("push", _push, "bring files to devices: only what differs, verified there", "dist/et-1.2 --serial R5CT123"),
    ("emulate", _emulate, "an EMULATED device on loopback, for adb, until Ctrl-C", "--soc SM8750 --root /tmp/device"),
)


def device_list(arguments: argparse.Namespace) -> int:
    from kz_build.device.adb import running
    from kz_build.device.text import attached

    found = running().attached()
    show(arguments, found, attached(found))
    return 0


def device_info(arguments: argparse.Namespace) -> int:
    from kz_build.device.info import info
    from kz_build.device.text import info as text

    return on_each(arguments, info, text)


def device_push(arguments: argparse.Namespace) -> int:
    from kz_build.core.env import cache_root
    from kz_build.core.progress import quiet
    from kz_build.core.terminal import Live
    from kz_build.device.context_guard import check_fit
    from kz_build.device.push import items, push
    from kz_build.device.text import pushed

    if not arguments.paths and not arguments.clean:
        raise ConfigError("kz device push: PATH is needed", hint="--clean alone removes what former pushes brought")
    if not arguments.to.startswith("/"):
        raise ConfigError(
            f"kz device push: --to {arguments.to} is no folder of a device", hint="such as /data/local/tmp/kz"
        )
    found = items(arguments.paths)
    check_fit(found)
    folder = arguments.to.rstrip("/")
    with Live() as live:
        alone = len(arguments.serial) < 2 and not arguments.every
        watch = live.event if alone else quiet
        return on_each(
            arguments,
            lambda device: push(cache_root(), device, found, folder, clean=arguments.clean, watch=watch),
            pushed,
        )


def on_each(arguments: argparse.Namespace, ask: Any, text: Any) -> int:
    """Ask every device that is meant, and show what each said; the first failure gives the exit code."""
    from kz_build.core.env import variable
    from kz_build.core.errors import DeviceError, MissingError
    from kz_build.device.adb import running
    from kz_build.device.info import Failed, chosen, each

    server = running()
    serials = chosen(server, arguments.serial, every=arguments.every, named=variable("ANDROID_SERIAL"))
    found = each(server, serials, ask)
    failed = [one for one in found if isinstance(one, Failed)]
    show(arguments, found, "\n".join(text(one) for one in found if not isinstance(one, Failed)))
    if failed:
        said = DeviceError("\n".join(one.error for one in failed), hint=failed[0].hint)
        if all(one.exit_code == MissingError.exit_code for one in failed):
            said.exit_code, said.name = MissingError.exit_code, MissingError.name
        raise said
    bad = [f"{one.serial}: {', '.join(lacks)}" for one in found if (lacks := getattr(one, "failed", ()))]
    if bad:
        raise DeviceError("; ".join(bad))
    return 0


def device_emulate(arguments: argparse.Namespace) -> int:
    from kz_build.emulator.device import EmulatedDevice

    socs: Sequence[str] = arguments.soc or ["SM8750"]
    try:
        log = arguments.logcat.read_text(errors="replace") if arguments.logcat else ""
    except OSError as error:
        raise ConfigError(f"kz device emulate: {arguments.logcat}: {error.strerror}") from error
    if min(arguments.storage or 0, arguments.cut_after or 0) < 0:
        raise ConfigError("kz device emulate: --storage and --cut-after are 0 or more")
    with contextlib.ExitStack() as stack:
        root = arguments.root or Path(stack.enter_context(_passing_folder()))
        devices = []
        for index, soc in enumerate(socs):
            device = EmulatedDevice(
                soc,
                root / str(index + 1) if len(socs) > 1 else root,
                port=arguments.port and arguments.port + index,
                storage=None if arguments.storage is None else arguments.storage * 1_000_000,
                read_only=tuple(arguments.read_only),
            )
            devices.append(stack.enter_context(device))
            if log:
                device.log(log)
            if arguments.cut_after is not None:
                device.cut_after(arguments.cut_after * 1_000_000)
        facts = [{"serial": d.serial, "soc": d.soc, "root": d.root.folder, "emulated": True} for d in devices]
        rows = [f"EMULATED {d.soc} at {d.serial}, its / is {d.root.folder}\n  adb connect {d.serial}" for d in devices]
        show(arguments, facts, "\n".join([*rows, "Ctrl-C ends it."]))
        _until_told()
    return 0


def _passing_folder() -> Any:
    return tempfile.TemporaryDirectory(prefix="kz-emulated-", ignore_cleanup_errors=True)


def _until_told() -> None:
    """Wait for Ctrl-C or a SIGTERM."""
    import sys

    sys.stdout.flush()
    told = threading.Event()
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, lambda *_: told.set())
    told.wait()

"""kz device: Android devices: list, info, check, run, push, emulate."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kz_build.cli.commands import device_check
from kz_build.cli.common import device_options, for_each_device, json_option, show
from kz_build.core.errors import ConfigError
from kz_build.core.locks import scratch_folder

if TYPE_CHECKING:
    from kz_build.cli.parser import VerbParser

EXAMPLE = "info --all"


def options(parser: VerbParser) -> None:
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for name, fill, do, summary, example in SUBVERBS:
        verb = verbs.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=f"example: kz device {name} {example}".rstrip(),
            allow_abbrev=False,
        )
        verb.fill = fill
        verb.set_defaults(do=do)


def run(arguments: argparse.Namespace) -> None:
    arguments.do(arguments)


def _push(parser: argparse.ArgumentParser) -> None:
    from kz_build.device.push import FOLDER

    device_options(parser)
    parser.add_argument("paths", metavar="PATH", nargs="*", type=Path, help="a file, or a whole folder")
    parser.add_argument("--to", metavar="DIR", default=FOLDER, help="folder on the device (default: %(default)s)")
    parser.add_argument(
        "--clean", action="store_true", help="remove files of earlier pushes that this one does not include"
    )


def _emulate(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.add_argument("--soc", metavar="S", action="append", default=[], help="its SoC (default: SM8750); repeatable")
    parser.add_argument("--root", metavar="DIR", type=Path, help="its root folder, kept (default: a temporary one)")
    parser.add_argument("--port", metavar="N", type=int, default=0, help="port of the first one (default: any)")
    parser.add_argument("--logcat", metavar="FILE", type=Path, help="initial content of its log")
    parser.add_argument("--storage", metavar="MB", type=int, help="size of /data, in 10^6 bytes")
    parser.add_argument("--read-only", metavar="PATH", action="append", default=[], help="make this folder read-only")
    parser.add_argument("--page-size", metavar="N", type=int, choices=(4096, 16384), help="size of its pages, in bytes")
    parser.add_argument("--cut-after", metavar="MB", type=int, help="break the connection after receiving this much")


def _do_list(arguments: argparse.Namespace) -> None:
    from kz_build.device.adb import running
    from kz_build.device.text import attached

    devices = running().attached()
    show(arguments, devices, attached(devices))


def _do_info(arguments: argparse.Namespace) -> None:
    from kz_build.device.info import info
    from kz_build.device.text import info as text

    for_each_device(arguments, info, text)


def _do_push(arguments: argparse.Namespace) -> None:
    from kz_build.core.env import cache_root
    from kz_build.core.progress import quiet
    from kz_build.core.terminal import Live
    from kz_build.device.context_guard import check_fit
    from kz_build.device.push import items, push
    from kz_build.device.text import pushed

    if not arguments.paths and not arguments.clean:
        raise ConfigError("kz device push: PATH is needed", hint="--clean alone removes the files of earlier pushes")
    if not arguments.to.startswith("/"):
        raise ConfigError(
            f"kz device push: --to {arguments.to} is not an absolute path", hint="such as /data/local/tmp/kz"
        )
    files = items(arguments.paths)
    check_fit(files)
    folder = arguments.to.rstrip("/")
    with Live() as live:
        alone = len(arguments.serial) < 2 and not arguments.every
        watch = live.event if alone else quiet
        for_each_device(
            arguments,
            lambda device: push(cache_root(), device, files, folder, clean=arguments.clean, watch=watch),
            pushed,
        )


def _do_emulate(arguments: argparse.Namespace) -> None:
    from kz_build.emulator.device import EmulatedDevice

    socs: Sequence[str] = arguments.soc or ["SM8750"]
    try:
        log = arguments.logcat.read_text(errors="replace") if arguments.logcat else ""
    except OSError as error:
        raise ConfigError(f"kz device emulate: {arguments.logcat}: {error.strerror}") from error
    if min(arguments.storage or 0, arguments.cut_after or 0) < 0:
        raise ConfigError("kz device emulate: --storage and --cut-after are 0 or more")
    with contextlib.ExitStack() as stack:
        root = arguments.root or stack.enter_context(scratch_folder())
        devices = []
        for index, soc in enumerate(socs):
            device = EmulatedDevice(
                soc,
                root / str(index + 1) if len(socs) > 1 else root,
                owner=Path.home(),
                port=arguments.port and arguments.port + index,
                storage=None if arguments.storage is None else arguments.storage * 1_000_000,
                read_only=tuple(arguments.read_only),
                page_size=arguments.page_size,
            )
            devices.append(stack.enter_context(device))
            if log:
                device.log(log)
            if arguments.cut_after is not None:
                device.cut_after(arguments.cut_after * 1_000_000)
        for missing in devices[0].missing_for_arm64():
            text = f"kz: it runs no arm64 programs: {missing.what} is missing\n  -> "
            print(text + missing.remedy.replace("\n", "\n  -> "), file=sys.stderr)
        facts = [{"serial": d.serial, "soc": d.soc, "root": d.root.folder, "emulated": True} for d in devices]
        rows = [f"EMULATED {d.soc} at {d.serial}, its / is {d.root.folder}\n  adb connect {d.serial}" for d in devices]
        show(arguments, facts, "\n".join([*rows, "Ctrl-C ends it."]))
        _wait_for_signal()


def _wait_for_signal() -> None:
    """Wait for Ctrl-C or a SIGTERM."""
    from kz_build.core.escape import without_heartbeat

    sys.stdout.flush()
    stopped = threading.Event()
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, lambda *_: stopped.set())
    with without_heartbeat():
        stopped.wait()


SUBVERBS = (
    ("list", json_option, _do_list, "list the devices that adb sees, in any state", ""),
    ("info", device_options, _do_info, "show what a device has: SoC, Android, memory, DSP, heat", "--all"),
    (
        "check",
        device_check.options,
        device_check.check,
        "push what was built, load it and run a model there, and show checks with evidence",
        "--recipe qwen3-4b-qnn-hybrid",
    ),
    (
        "run",
        device_check.run_options,
        device_check.run,
        "check, then time a model and compare with earlier runs",
        "--recipe qwen3-4b-qnn-hybrid --runs 10",
    ),
    (
        "push",
        _push,
        _do_push,
        "copy files to devices: only those that differ, verified there",
        "dist/et-1.2 --serial R5CT123",
    ),
    (
        "emulate",
        _emulate,
        _do_emulate,
        "run an EMULATED device on loopback, for adb, until Ctrl-C",
        "--soc SM8750 --root /tmp/device",
    ),
)

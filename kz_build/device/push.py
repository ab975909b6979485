"""Files to a device: only what differs, verified there, and never half a file under its final name."""

from __future__ import annotations

import os
import posixpath
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from shlex import quote

from kz_build.core.errors import ConfigError, DeviceError, Problem
from kz_build.core.hash_cache import cached_sha256
from kz_build.core.locks import locked
from kz_build.core.progress import Event, Watch, quiet
from kz_build.device.adb import Device, Files
from kz_build.device.properties import free_storage
from kz_build.device.push_plan import (
    PARTS,
    RECORD,
    Difference,
    Entry,
    Item,
    Pushed,
    checked_names,
    difference,
    entries,
    entry_of,
    line,
)

FOLDER = "/data/local/tmp/kz"
HASHING = 4
"""Files hashed at once."""


def items(paths: Iterable[Path]) -> tuple[Item, ...]:
    """Files, and folders with all in them under their own names; links to files go as what they point to.

    Raises ConfigError with every path that is not there or cannot be pushed.
    """
    pairs: list[tuple[Path, str]] = []
    for path in paths:
        top = path.absolute()
        if top.is_dir():
            files = [(file, f"{top.name}/{file.relative_to(top).as_posix()}") for file in sorted(_inside(top))]
        else:
            files = [(top, top.name)]
        pairs += files
    return named(pairs)


def _inside(top: Path) -> list[Path]:
    """All in a folder but its folders: also links to folders, which `named` refuses, for nothing is left out unsaid."""

    def refused(error: OSError) -> None:
        raise ConfigError(f"{error.filename} cannot be pushed: {error.strerror}") from error

    found = []
    for folder, inner, names in os.walk(top, onerror=refused):
        found += [Path(folder, name) for name in names]
        found += [link for name in inner if (link := Path(folder, name)).is_symlink()]
    return found


def named(pairs: Iterable[tuple[Path, str]]) -> tuple[Item, ...]:
    """Files under the names that they get below the device's folder. Raises ConfigError as `items`."""
    found: list[Item] = []
    problems = []
    for file, name in pairs:
        try:
            facts = file.stat()
        except OSError as error:
            problems.append(Problem(str(file), 0, error.strerror or str(error)))
            continue
        if not stat.S_ISREG(facts.st_mode):
            what = "is a link to a folder: kz follows links to files alone" if file.is_symlink() else "is no plain file"
            problems.append(Problem(str(file), 0, what))
            continue
        mode = 0o755 if facts.st_mode & 0o111 else 0o644
        found.append(Item(file, name, facts.st_size, max(0, int(facts.st_mtime)), mode))
    if problems:
        raise ConfigError("these cannot be pushed:", tuple(problems))
    checked_names(found)
    return tuple(found)


def push(
    store: Path,
    device: Device,
    found: Sequence[Item],
    folder: str = FOLDER,
    *,
    clean: bool = False,
    watch: Watch = quiet,
) -> Pushed:
    """Bring files to a folder of the device. Killed at any point, the next push goes on after the last whole file.

    `clean`: what former pushes brought and is not among them goes. Raises DeviceError, StorageError.
    """
    started = time.monotonic()
    with locked(store, f"push-{device.serial.replace('/', '_')}", watch):
        with ThreadPoolExecutor(HASHING) as pool:
            digests = list(pool.map(lambda item: cached_sha256(store, item.local), found))
        hashed = [replace(item, sha256=digest) for item, digest in zip(found, digests, strict=True)]
        recorded, free, emulated = _record(device, folder)
        with device.files() as files:
            plan = difference(hashed, recorded, _there(files, folder, hashed, recorded), clean=clean)
            _require_room(device, folder, plan, free)
            _remove(device, folder, plan.stale)
            total = sum(item.size for item in plan.send)
            sending, verifying = _send(
                device, files, folder, plan.send, lambda done: watch(Event("pushing", done, total, bytes=True))
            )
            if plan.send or plan.stale:
                _rewrite(device, files, folder, {**recorded, **{i.name: entry_of(i) for i in plan.send}}, plan.stale)
    return Pushed(
        serial=device.serial,
        folder=folder,
        emulated=emulated,
        sent=tuple(item.name for item in plan.send),
        bytes=total,
        kept=len(plan.kept),
        removed=plan.stale,
        seconds=round(time.monotonic() - started, 3),
        sending=round(sending, 3),
        verifying=round(verifying, 3),
    )


def _send(
    device: Device, files: Files, folder: str, found: Sequence[Item], sent: Callable[[int], None]
) -> tuple[float, float]:
    """Send files one after the other; the device hashes each while the next one comes. Gives (sending, waiting) in seconds."""
    sending = waiting = 0.0
    done = 0
    settled: Future[None] | None = None
    with ThreadPoolExecutor(1) as beside:
        for index, item in enumerate(found):
            part, at = PARTS[index % 2], done
            started = time.monotonic()
            files.send(
                item.local,
                f"{folder}/{part}",
                mode=item.mode,
                mtime=item.mtime,
                sent=lambda now, at=at: sent(at + now),  # type: ignore[misc]
            )
            sending += time.monotonic() - started
            waiting += _waited(settled)
            settled = beside.submit(_settle, device, folder, part, item)
            done += item.size
        waiting += _waited(settled)
    return sending, waiting


def _waited(settled: Future[None] | None) -> float:
    started = time.monotonic()
    if settled:
        settled.result()
    return time.monotonic() - started


def _record(device: Device, folder: str) -> tuple[dict[str, Entry], int | None, bool]:
    """What former pushes left, how much is free, and whether the device is an emulated one; the folder is made."""
    there = quote(folder)
    parts = " ".join(f"{there}/{part}" for part in PARTS)
    said = device.checked(
        f"mkdir -p {there} && rm -f {parts} && {{ getprop ro.kz.emulated; df -k {there} 2>/dev/null; "
        f"echo; echo @@; cat {there}/{RECORD} 2>/dev/null; true; }}"
    ).decode("utf-8", "replace")
    facts, _, text = said.partition("\n@@\n")
    return entries(text), free_storage(facts)[1], facts.startswith("1\n")


def _there(files: Files, folder: str, found: Sequence[Item], recorded: dict[str, Entry]) -> dict[str, tuple[int, int]]:
    """(size, mtime) of what the device has, asked by folder."""
    names = {item.name for item in found} | set(recorded)
    there = {}
    for inner in sorted({posixpath.dirname(name) for name in names}):
        for name, remote in files.listing(posixpath.join(folder, inner)).items():
            if stat.S_ISREG(remote.mode):
                there[posixpath.join(inner, name)] = (remote.size, remote.mtime)
    return there


def _require_room(device: Device, folder: str, plan: Difference, free: int | None) -> None:
    if free is not None and plan.room > free:
        raise DeviceError(
            f"{device.serial}: {folder} has {free / 1e6:,.0f} MB free, {plan.room / 1e6:,.0f} MB are needed; nothing was pushed",
            hint="make room on the device; --clean removes what former pushes brought and this one does not",
        )


def _remove(device: Device, folder: str, names: Sequence[str]) -> None:
    for at in range(0, len(names), 50):
        words = " ".join(quote(f"{folder}/{name}") for name in names[at : at + 50])
        device.checked(f"rm -f {words}")
    if folders := {posixpath.dirname(name) for name in names} - {""}:
        words = " ".join(quote(f"./{name}") for name in sorted(folders, reverse=True))
        device.shell(f"cd {quote(folder)} && rmdir -p {words}")  # those that are not empty stay


def _settle(device: Device, folder: str, part: str, item: Item) -> None:
    """Let the device hash what came, and only then give it its name and write it down: one command."""
    part, target = quote(f"{folder}/{part}"), quote(f"{folder}/{item.name}")
    parent, record = quote(posixpath.dirname(f"{folder}/{item.name}")), quote(f"{folder}/{RECORD}")
    done = device.shell(
        f"s=$(sha256sum <{part}) || exit 3; "
        f'[ "${{s%% *}}" = {item.sha256} ] || {{ rm -f {part}; exit 4; }}; '
        f"[ ! -d {target} ] || exit 5; "
        f"mkdir -p {parent} && mv -f {part} {target} && printf '%s\\n' {quote(line(entry_of(item)))} >>{record}"
    )
    if done.code == 0:
        return
    why = {
        4: "what arrived is not what was sent; it was removed",
        5: "a folder of that name is there",
    }.get(done.code, done.stderr.decode("utf-8", "replace").strip() or f"exit {done.code}")
    raise DeviceError(f"{device.serial}: {item.name}: {why}", hint="the same command goes on after the last whole file")


def _rewrite(device: Device, files: Files, folder: str, recorded: dict[str, Entry], gone: Sequence[str]) -> None:
    """The record, each file once."""
    text = "".join(f"{line(entry)}\n" for name, entry in sorted(recorded.items()) if name not in gone)
    files.put(text.encode(), f"{folder}/{PARTS[0]}", mtime=int(time.time()))
    device.checked(f"mv -f {quote(f'{folder}/{PARTS[0]}')} {quote(f'{folder}/{RECORD}')}")

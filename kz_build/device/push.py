"""Pushes of files to a device: only what differs, verified there, and never half a file under its final name."""

from __future__ import annotations

import os
import posixpath
import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from shlex import quote

from kz_build.core.errors import ConfigError, DeviceError, Problem
from kz_build.core.escape import size
from kz_build.core.hash_cache import cached_sha256
from kz_build.core.locks import lock
from kz_build.core.progress import Event, Watch, quiet
from kz_build.device.adb import Device, Files
from kz_build.device.properties import free_storage
from kz_build.device.push_batch import ARCHIVE, DAMAGED, SCRIPT, archive, first_damaged, removal, script, staged
from kz_build.device.push_plan import (
    BATCH_BYTES,
    PARTS,
    RECORD,
    Difference,
    Item,
    Pushed,
    batches,
    checked_names,
    difference,
    line,
    parse_record,
)

FOLDER = "/data/local/tmp/kz"
HASHING = 4
"""Files hashed at once."""


def items(paths: Iterable[Path]) -> tuple[Item, ...]:
    """List files, and all files of folders, under their own names; a link to a file stands for that file.

    Raises ConfigError with every path that is absent or cannot be pushed.
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
    """List all files of a folder; links to folders too, which `named` refuses, so that nothing is left out silently."""

    def refused(error: OSError) -> None:
        raise ConfigError(f"{error.filename} cannot be pushed: {error.strerror}") from error

    paths = []
    for folder, inner, names in os.walk(top, onerror=refused):
        paths += [Path(folder, name) for name in names]
        paths += [link for name in inner if (link := Path(folder, name)).is_symlink()]
    return paths


def named(pairs: Iterable[tuple[Path, str]]) -> tuple[Item, ...]:
    """List files under given names below the device's folder. Raises ConfigError as `items` does."""
    items: list[Item] = []
    problems = []
    for file, name in pairs:
        try:
            facts = file.stat()
        except OSError as error:
            problems.append(Problem(str(file), 0, error.strerror or str(error)))
            continue
        if not stat.S_ISREG(facts.st_mode):
            what = "is a link to a folder, which kz does not follow" if file.is_symlink() else "is not a regular file"
            problems.append(Problem(str(file), 0, what))
            continue
        mode = 0o755 if facts.st_mode & 0o111 else 0o644
        items.append(Item(file, name, facts.st_size, max(0, int(facts.st_mtime)), mode))
    if problems:
        raise ConfigError("these cannot be pushed:", tuple(problems))
    checked_names(items)
    return tuple(items)


def push(
    store: Path,
    device: Device,
    batch: Sequence[Item],
    folder: str = FOLDER,
    *,
    clean: bool = False,
    watch: Watch = quiet,
) -> Pushed:
    """Push files to a folder of the device. After a kill, the next push goes on after the last complete file.

    `clean`: remove files of earlier pushes that are not among them. Raises DeviceError, StorageError.
    """
    started = time.monotonic()
    with lock(store, f"push-{device.serial.replace('/', '_')}", watch):
        hashed = _hashed(store, batch)
        recorded, free, emulated = _record(device, folder)
        with device.files() as files:
            plan = difference(hashed, recorded, _remote(files, folder, hashed, recorded), clean=clean)
            _require_space(device, folder, plan, free)
            _remove(device, files, folder, plan.stale)
            total = sum(item.size for item in plan.send)
            sending, verifying = _send(
                device, files, folder, plan.send, lambda done: watch(Event("pushing", done, total, bytes=True))
            )
            new = {item.name: item for item in plan.send}
            if plan.stale or new.keys() & recorded.keys():
                _rewrite(device, files, folder, {**recorded, **new}, plan.stale)
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


def _hashed(store: Path, items: Sequence[Item]) -> list[Item]:
    """Return files with their sha256. Only large ones are worth a thread."""
    with ThreadPoolExecutor(HASHING) as pool:
        large = {item.name: pool.submit(cached_sha256, store, item.local) for item in items if item.size > BATCH_BYTES}
        small = {item.name: cached_sha256(store, item.local) for item in items if item.name not in large}
        return [replace(item, sha256=small.get(item.name) or large[item.name].result()) for item in items]


def _send(
    device: Device, files: Files, folder: str, items: Sequence[Item], sent: Callable[[int], None]
) -> tuple[float, float]:
    """Send files in batches; the device hashes each while the next arrives. Returns (sending, waiting) in seconds."""
    sending = waiting = 0.0
    done = 0
    verified: Future[None] | None = None
    with ThreadPoolExecutor(1) as beside:
        for index, batch in enumerate(batches(items)):
            part, paths = PARTS[index % 2], staged(batch)
            started = time.monotonic()
            _send_batch(files, f"{folder}/{part}", paths, lambda now, at=done: sent(at + now))  # type: ignore[misc]
            files.put(script(part, paths).encode(), f"{folder}/{part}/{SCRIPT}")
            done += sum(item.size for item in batch)
            sending += time.monotonic() - started
            waiting += _wait(verified)
            verified = beside.submit(_verify, device, folder, part, paths)
        waiting += _wait(verified)
    return sending, waiting


def _send_batch(files: Files, folder: str, paths: Mapping[str, Item], sent: Callable[[int], None]) -> None:
    """Send one file as it is, and several as an archive."""
    if len(paths) > 1:
        data = archive((path, item, item.local.read_bytes()) for path, item in paths.items())
        files.put(data, f"{folder}/{ARCHIVE}")
        sent(sum(item.size for item in paths.values()))
        return
    for path, item in paths.items():
        files.send(item.local, f"{folder}/{path}", mode=item.mode, mtime=item.mtime, sent=sent)


def _wait(verified: Future[None] | None) -> float:
    started = time.monotonic()
    if verified:
        verified.result()
    return time.monotonic() - started


def _record(device: Device, folder: str) -> tuple[dict[str, Item], int | None, bool]:
    """Make the folder; return the record of earlier pushes, the free bytes, and whether the device is emulated."""
    there = quote(folder)
    parts = " ".join(f"{there}/{part}" for part in PARTS)
    output = device.checked(
        f"mkdir -p {there} && rm -rf {parts} && {{ getprop ro.kz.emulated; df -k {there} 2>/dev/null; "
        f"echo; echo @@; cat {there}/{RECORD} 2>/dev/null; true; }}"
    ).decode("utf-8", "replace")
    facts, _, text = output.partition("\n@@\n")
    return parse_record(text), free_storage(facts)[1], facts.startswith("1\n")


def _remote(files: Files, folder: str, batch: Sequence[Item], recorded: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Return (size, mtime) of the device's files, with one call per folder. Raises DeviceError for a folder in a file's place."""
    wanted = {item.name for item in batch}
    names = wanted | set(recorded)
    there = {}
    for inner in sorted({posixpath.dirname(name) for name in names}):
        for base, remote in files.listing(posixpath.join(folder, inner)).items():
            name = posixpath.join(inner, base)
            if stat.S_ISDIR(remote.mode) and name in wanted:
                raise DeviceError(
                    f"{files.serial}: {name}: a folder has that name", hint="remove it, or use another --to"
                )
            if stat.S_ISREG(remote.mode):
                there[name] = (remote.size, remote.mtime)
    return there


def _require_space(device: Device, folder: str, plan: Difference, free: int | None) -> None:
    if free is not None and plan.room > free:
        raise DeviceError(
            f"{device.serial}: {folder} has {size(free)} free, {size(plan.room)} are needed; nothing was pushed",
            hint=f"make room for {size(plan.room - free)} on the device; --clean removes files of earlier pushes that are not in this one",
        )


def _remove(device: Device, files: Files, folder: str, names: Sequence[str]) -> None:
    if names:
        files.put(removal(PARTS[0], names).encode(), f"{folder}/{PARTS[0]}/{SCRIPT}")
        device.checked(_run(folder, PARTS[0]))


def _verify(device: Device, folder: str, part: str, paths: Mapping[str, Item]) -> None:
    """Let the device hash a batch of files, then rename and record them, in one command."""
    done = device.shell(_run(folder, part))
    if done.code == 0:
        return
    if done.code == DAMAGED:
        name = first_damaged(paths, done.stdout.decode("utf-8", "replace")).name
        why = f"{name}: the file was damaged in transfer; it was removed"
    else:
        why = done.stderr.decode("utf-8", "replace").strip() or f"{folder}: exit {done.code}"
    raise DeviceError(f"{device.serial}: {why}", hint="run it again: it goes on after the last complete file")


def _run(folder: str, part: str) -> str:
    return f"cd {quote(folder)} && sh {part}/{SCRIPT} </dev/null"


def _rewrite(device: Device, files: Files, folder: str, recorded: dict[str, Item], gone: Sequence[str]) -> None:
    """Rewrite the record, each file once."""
    text = "".join(f"{line(entry)}\n" for name, entry in sorted(recorded.items()) if name not in gone)
    files.put(text.encode(), f"{folder}/{PARTS[0]}/{RECORD}", mtime=int(time.time()))
    device.checked(f"cd {quote(folder)} && mv -f {PARTS[0]}/{RECORD} {RECORD} && rm -rf {PARTS[0]}")

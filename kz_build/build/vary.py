"""Different surroundings for a build: what this machine can vary, and an engine that does it.

The list is that of Debian's reprotest. Nothing needs root where the kernel allows user namespaces.
"""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kz_build.build.engine import HostEngine
from kz_build.build.steps import Checkout, Command, Step
from kz_build.build.variation import Variation
from kz_build.core.command_log import Commands
from kz_build.core.errors import CommandError
from kz_build.core.host import mounts
from kz_build.core.process import find, run

HOSTNAME, UID, TIMEZONE, AHEAD = "kz-elsewhere", 4242, "XST-13:45", "+9631h"
"""Another machine, another user, a time zone that does not exist, and a clock 401 days and some hours ahead."""
_FAKETIME = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib*/faketime/libfaketimeMT.so.1")


def variations(network: str, folder: Path) -> tuple[Variation, ...]:
    """Return all variations but the path, in the order of their commands before a build's. `folder` is for builds."""
    timezone = Variation("timezone", "UTC", TIMEZONE, env=(("TZ", TIMEZONE),))
    return (_hostname(), _umask(), _cpus(), _locale(), timezone, _clock(), _order(folder), _uid(network))


def _hostname() -> Variation:
    script = ("sh", "-c", f'hostname {HOSTNAME} && exec "$@"', "sh")
    for words in (("unshare", "--uts", "--"), ("unshare", "-r", "--uts", "--")):
        if find("unshare") and run([*words, *script, "true"]).code == 0:
            return Variation("hostname", platform.node(), HOSTNAME, (*words, *script))
    return Variation(
        "hostname", platform.node(), absent="this kernel allows no `unshare --uts`, or there is no `hostname`"
    )


def _umask() -> Variation:
    os.umask(mask := os.umask(0))
    other = 0o077 if mask != 0o077 else 0o022
    return Variation("umask", f"{mask:03o}", f"{other:03o}", ("sh", "-c", f'umask {other:03o} && exec "$@"', "sh"))


def _cpus() -> Variation:
    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if not find("taskset") or len(usable) < 2:
        why = "this machine has one" if find("taskset") else "no taskset: apt install util-linux"
        return Variation("cpus", str(len(usable)), absent=why)
    half = usable[: len(usable) // 2]
    return Variation("cpus", str(len(usable)), str(len(half)), ("taskset", "-c", ",".join(map(str, half))))


def _locale() -> Variation:
    first = "C.UTF-8"
    locales = run(["locale", "-a"]).stdout.decode("ascii", "replace").split() if find("locale") else []
    if others := [name for name in locales if not name.startswith(("C", "POSIX", "en_"))]:
        return Variation("locale", first, others[0], env=(("LC_ALL", others[0]),))
    note = "its character set alone; no other language is installed: apt install locales-all"
    return Variation("locale", first, "POSIX", env=(("LC_ALL", "POSIX"),), note=note)


def _clock() -> Variation:
    library = next((str(path) for text in _FAKETIME for path in sorted(Path("/").glob(text[1:]))), "")
    # File times stay: programs that libfaketime does not reach (static ones) see them too.
    env = (("LD_PRELOAD", library), ("FAKETIME", AHEAD), ("NO_FAKE_STAT", "1"))
    if not library:
        return Variation("clock", "now", absent="no libfaketime: apt install faketime")
    date = run(["date", "+%s"], env={"PATH": os.defpath, **dict(env)})
    if date.code or date.stdout[:5] == str(int(time.time()))[:5].encode():
        return Variation("clock", "now", absent=f"{library} does not move the clock of `date`")
    return Variation(
        "clock", "now", f"now {AHEAD}", env=env, note="not for static programs, which libfaketime does not reach"
    )


def _order(folder: Path) -> Variation:
    """Vary file order by disorderfs over the source tree. A checkout in another order is no use: ext4, xfs and btrfs have their own."""
    first = "as the disk lists"
    if not find("disorderfs"):
        return Variation("order", first, absent="no disorderfs: apt install disorderfs")
    probe = folder / "probe"
    under, over = probe / "under", probe / "over"
    for name in ("a", "b"):
        (under / name).mkdir(parents=True, exist_ok=True)
    over.mkdir(exist_ok=True)
    why = _mount(under, over)
    listed = os.listdir(over)
    unmount(over)
    if why or listed != ["b", "a"]:
        return Variation("order", first, absent=f"disorderfs does not mount here: {why or 'the order did not change'}")
    return Variation("order", first, "the source by name, last first")


def _uid(network: str) -> Variation:
    first = "0 in a namespace" if network == "off" else str(os.getuid())
    words = ("unshare", "--user", f"--map-user={UID}", f"--map-group={UID}", "--")
    if find("unshare") and run([*words, "id", "-u"]).stdout.split() == [str(UID).encode()]:
        return Variation("uid", first, str(UID), words)
    return Variation("uid", first, absent="this kernel allows no `unshare --user`, or util-linux is older than 2.36")


def _mount(under: Path, over: Path) -> str:
    """Mount disorderfs; return why it failed, or ''. No padding of blocks: only file order varies."""
    words = ("disorderfs", "--sort-dirents=yes", "--reverse-dirents=yes", "--pad-blocks=0", str(under), str(over))
    output = run(words, timeout=20)
    errors = output.stderr.decode("utf-8", "replace").strip().splitlines()
    return "" if output.code == 0 else (errors or [f"it ended with {output.code}"])[-1]


def mounted_below(folder: Path) -> tuple[Path, ...]:
    """Return the mounts in a folder, or on it, innermost first; also those whose file system has died."""
    real = folder.resolve()
    return tuple(place for place, _ in reversed([*mounts()]) if place.is_relative_to(real))


def unmount(folder: Path) -> None:
    """Unmount every disorderfs in a folder, even if a process left behind is in it."""
    for words in (["fusermount", "-uz"], ["fusermount3", "-uz"], ["umount", "-l"]):
        for place in mounted_below(folder) if find(words[0]) else ():
            run([*words, str(place)])
    if left := mounted_below(folder):
        raise CommandError(f"cannot unmount {left[0]}", hint=f"umount {left[0]}")


class VariedEngine(HostEngine):
    """This machine in the surroundings of `chosen`."""

    def __init__(self, chosen: Sequence[Variation], tree: Path) -> None:
        super().__init__()
        self._argv = tuple(word for v in chosen for word in v.argv)
        self._env = {key: value for v in chosen for key, value in v.env}
        self._umask = next((int(v.second, 8) for v in chosen if v.name == "umask"), None)
        self._disorder = any(v.name == "order" for v in chosen)
        self._tree = tree

    def run(self, step: Step, commands: Commands, watch: Callable[[str], None]) -> None:
        if isinstance(step, Command):
            if self._disorder:
                self._reverse_file_order()
            env = tuple(sorted({**dict(step.env), **self._env}.items()))
            step = replace(step, argv=(*self._argv, *step.argv), env=env)
        with self._with_umask() if isinstance(step, Checkout) else contextlib.nullcontext():
            super().run(step, commands, watch)

    def __enter__(self) -> VariedEngine:
        return self

    def __exit__(self, *_: object) -> None:
        unmount(self._tree)

    def _reverse_file_order(self) -> None:
        """Before the first command, put the checked-out tree under a file system that lists it in another order."""
        if not mounted_below(self._tree):
            under = self._tree.with_name(f"{self._tree.name}.under")
            self._tree.rename(under)
            self._tree.mkdir()
            if why := _mount(under, self._tree):
                raise CommandError(f"disorderfs did not mount: {why}")

    @contextlib.contextmanager
    def _with_umask(self) -> Iterator[None]:
        before = os.umask(self._umask) if self._umask is not None else None
        try:
            yield
        finally:
            if before is not None:
                os.umask(before)

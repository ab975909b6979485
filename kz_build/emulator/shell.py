"""Shells of an emulated device: real ones, in namespaces of their own where they see only the device's root.

No root is needed. The host's /usr is mounted there, read-only (its programs are the device's), without `su`; other processes
are neither visible nor reachable, and arm64 programs run through qemu. A command's background processes end with it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import threading
from collections.abc import Iterator
from typing import IO

from kz_build.core import process
from kz_build.core.process import Process, TimeoutExpired, conversation
from kz_build.emulator.adbd import Gone, Stream
from kz_build.emulator.root import TMP, DeviceRoot

ARM64_LIBC = "/usr/aarch64-linux-gnu"
QEMU = "qemu-aarch64-static"
FINISH_SECONDS = 10.0
"""How long a command of `exec:` may run once nobody listens."""
ALONE = ("-p", "--fork", "--kill-child=KILL")
"""Options of unshare: a process namespace that ends with unshare itself."""
STDIN, STDOUT, STDERR, EXIT, CLOSE_STDIN = range(5)

_SYSTEM = r"""
set -e
PATH=/usr/sbin:/usr/bin:/sbin:/bin
root=$1 qemu=$2; shift 2
cd "$root"; mount --rbind . .; cd "$root"
if [ -n "$qemu" ] && mount -t binfmt_misc binfmt_misc proc 2>/dev/null; then
  { printf '%s' ":kz-arm64:M::\\x7fELF\\x02\\x01\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02\\x00\\xb7\\x00:\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x00\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xfe\\xff\\xff\\xff:$qemu:F" >proc/register; } 2>/dev/null || :
fi
mount -t proc proc proc
mount -t tmpfs tmpfs dev; mkdir dev/shm; ln -s /proc/self/fd dev/fd
for name in null zero full random urandom; do : >dev/$name; mount --bind /dev/$name dev/$name; done
for name in usr bin sbin lib lib64; do
  [ -L "$name" ] || [ ! -d "$name" ] || { mount --rbind "/$name" "$name"; mount -o remount,bind,ro "$name"; }
done
for name in usr/bin/su bin/su; do [ ! -e "$name" ] || mount --bind dev/null "$name"; done
for name; do mount --bind ".$name" ".$name"; mount -o remount,bind,ro ".$name"; done
pivot_root . .
umount -l .
echo ready
exec cat
"""
"""Make the device's root the only one, and hold it until the input ends."""
_COMMAND = r"""
/usr/bin/mount -t proc proc /proc && /usr/bin/mount -t tmpfs -o ro tmpfs /proc/sys &&
exec /usr/bin/unshare -U --map-user=2000 --map-group=2000 /bin/sh -c "$1"
"""
"""Run a command line as user 2000 (shell), which has no rights and sees only its own processes."""


class System:
    """The namespaces in which a device's root is `/`, until `close`. `error`: why this machine cannot make them, or ''."""

    def __init__(self, root: DeviceRoot) -> None:
        shut = [path for path in root.read_only if (root.folder / path.lstrip("/")).is_dir()]
        script = ["/bin/sh", "-c", _SYSTEM, "kz-device", str(root.folder), process.find(QEMU), *shut]
        self._end = contextlib.ExitStack()
        self.error = "" if process.find("unshare") and process.find("nsenter") else "there is no unshare or nsenter"
        if self.error:
            return
        # It reads from our pipe, so it ends with us, however we end.
        self._holder = self._end.enter_context(conversation(["unshare", "-r", "-m", *ALONE, *script], environment()))
        if not self._holder.stdout or self._holder.stdout.readline() != b"ready\n":
            stderr = self._holder.stderr.read() if self._holder.stderr else b""
            self.error = stderr.decode("utf-8", "replace").strip() or f"exit {self._holder.wait()}"
        else:
            done = process.run(self.argv("true"), env=environment())
            self.error = "" if done.code == 0 else done.stderr.decode("utf-8", "replace").strip() or f"exit {done.code}"

    def argv(self, command: str) -> list[str]:
        """Return the command that runs a command line on the device. Its background processes end with it."""
        enter = ["nsenter", f"--target={self._holder.pid}", "--user", "--mount", "--preserve-credentials"]
        return [*enter, "/usr/bin/unshare", "-m", *ALONE, "/bin/sh", "-c", _COMMAND, "kz-device", command]

    def close(self) -> None:
        """End the namespaces; commands that still run in them keep them."""
        self._end.close()


def environment() -> dict[str, str]:
    """Return the environment of a device's shell."""
    return {
        "PATH": "/system/bin:/usr/bin:/bin",
        "HOME": "/",
        "TMPDIR": TMP,
        "ANDROID_DATA": "/data",
        "ANDROID_ROOT": "/system",
        "LC_ALL": "C.UTF-8",
        "QEMU_LD_PREFIX": ARM64_LIBC,
    }


def serve(stream: Stream, system: System, command: str, *, packets: bool, alive: set[Process]) -> None:
    """Run a command for a stream. `packets`: like shell v2, with outputs and exit code apart; else mixed like `exec:`.

    `alive` contains it while it runs.
    """
    with conversation(system.argv(command or "exec /bin/sh"), environment()) as running, _known(alive, running):
        if packets:
            stream.when_over = lambda: end(running)  # nobody listens any more
        # In a thread: it ends with the stream, perhaps long after the command.
        threading.Thread(target=_unpack if packets else _feed, args=(stream, running), daemon=True).start()
        assert running.stdout and running.stderr
        locked = threading.Lock()
        pumps = [
            threading.Thread(target=_pump, args=(stream, pipe, kind if packets else None, locked), daemon=True)
            for pipe, kind in ((running.stdout, STDOUT), (running.stderr, STDERR))
        ]
        for pump in pumps:
            pump.start()
        for pump in pumps:
            pump.join()
        code = running.wait()
    if packets:
        stream.write(struct.pack("<BIB", EXIT, 1, code if code >= 0 else 128 - code))


def _pump(stream: Stream, pipe: IO[bytes], kind: int | None, locked: threading.Lock) -> None:
    with contextlib.suppress(Gone, ValueError, OSError):
        while data := os.read(pipe.fileno(), 1 << 16):
            with locked:
                stream.write(data if kind is None else struct.pack("<BI", kind, len(data)) + data)


def end(running: Process) -> None:
    """End a command, with all that it started."""
    if running.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(running.pid, signal.SIGKILL)


@contextlib.contextmanager
def _known(alive: set[Process], running: Process) -> Iterator[None]:
    alive.add(running)
    try:
        yield
    finally:
        alive.discard(running)


def _feed(stream: Stream, running: Process) -> None:
    with contextlib.suppress(Gone):
        while True:
            _give(running, stream.read_some())
    # `adb exec-in` signals the end of its input this way: the command may still process what it got.
    assert running.stdin
    with contextlib.suppress(OSError, ValueError):
        running.stdin.close()
    with contextlib.suppress(TimeoutExpired):
        running.wait(FINISH_SECONDS)
    end(running)


def _unpack(stream: Stream, running: Process) -> None:
    with contextlib.suppress(Gone):
        while True:
            kind, size = struct.unpack("<BI", stream.read(5))
            data = stream.read(size)
            if kind == STDIN:
                _give(running, data)
            elif kind == CLOSE_STDIN and running.stdin:
                with contextlib.suppress(OSError):
                    running.stdin.close()


def _give(running: Process, data: bytes | memoryview) -> None:
    assert running.stdin
    with contextlib.suppress(OSError, ValueError):  # a command may end before it has read everything
        running.stdin.write(data)
        running.stdin.flush()

"""Shells of an emulated device: real ones, in namespaces of their own where they see only the device's root.

No root is needed. The host's /usr is mounted there, read-only (its programs are the device's), without `su`; other processes
are neither visible nor reachable, and arm64 programs run through qemu. A command's background processes end with it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import struct
import termios
import threading
from collections.abc import Iterator, Sequence
from typing import IO

from kz_build.core import process
from kz_build.core.process import Process, TimeoutExpired, conversation
from kz_build.emulator.root import TMP, DeviceRoot
from kz_build.emulator.stream import Gone, Stream

ARM64_LIBC = "/usr/aarch64-linux-gnu"
QEMU = "qemu-aarch64-static"
FINISH_SECONDS = 10.0
"""How long a command of `exec:` may run once nobody listens."""
ALONE = ("-p", "--fork", "--kill-child=KILL")
"""Options of unshare: a process namespace that ends with unshare itself."""
STDIN, STDOUT, STDERR, EXIT, CLOSE_STDIN, WINDOW_SIZE = range(6)
END_OF_INPUT = b"\4"
"""Ctrl-D: a terminal's input has no other end."""
TIOCSPTLCK, TIOCGPTPEER = 0x40045431, 0x5441
"""Unlock a terminal and open its other end, by asm-generic/ioctls.h; the module termios has them from Python 3.13 on."""

_SYSTEM = r"""
set -e
PATH=/usr/sbin:/usr/bin:/sbin:/bin
root=$1 qemu=$2; shift 2
cd "$root"; mount --rbind . .; cd "$root"
if [ -n "$qemu" ] && mount -t binfmt_misc binfmt_misc proc 2>/dev/null; then
  { printf '%s' ":kz-arm64:M::\\x7fELF\\x02\\x01\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02\\x00\\xb7\\x00:\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x00\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xfe\\xff\\xff\\xff:$qemu:F" >proc/register; } 2>/dev/null || :
fi
mount -t proc proc proc
mount -t tmpfs tmpfs dev; mkdir dev/shm dev/pts; ln -s /proc/self/fd dev/fd; ln -s pts/ptmx dev/ptmx
mount -t devpts -o ptmxmode=666 devpts dev/pts
for name in null zero full random urandom tty; do : >dev/$name; mount --bind /dev/$name dev/$name; done
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
/usr/bin/mount -t tmpfs -o ro tmpfs /proc/sys &&
exec /usr/bin/unshare -U --map-user=2000 --map-group=2000 /bin/sh -c "$@"
"""
"""Run a command line as user 2000 (shell), which has no rights and sees only its own processes."""
_IN_TERMINAL = """/usr/bin/setsid --ctty --wait /bin/sh -c "$1"; exit $?"""


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

    def argv(self, command: str, *, terminal: bool = False) -> list[str]:
        """Return the command that runs a command line on the device. Its background processes end with it.

        `terminal`: its standard input becomes its controlling terminal.
        """
        enter = ["nsenter", f"--target={self._holder.pid}", "--user", "--mount", "--preserve-credentials"]
        words = [_IN_TERMINAL, "kz-device", command] if terminal else [command]
        alone = ["/usr/bin/unshare", "-m", "--mount-proc", *ALONE]
        return [*enter, *alone, "/bin/sh", "-c", _COMMAND, "kz-device", *words]

    def open_terminal(self) -> tuple[int, int]:
        """Open a terminal of the device; return its two ends, the emulator's and the command's. Raises OSError."""
        master = os.open(f"/proc/{self._holder.pid}/root/dev/pts/ptmx", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            fcntl.ioctl(master, TIOCSPTLCK, bytes(4))  # unlock it
            return master, fcntl.ioctl(master, TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            os.close(master)
            raise

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


def serve(stream: Stream, system: System, command: str, *, options: Sequence[str], alive: set[Process]) -> None:
    """Run a command for a stream, or a shell without one. `alive` contains it while it runs.

    `options` are adb's: `v2` for outputs and exit code apart, `pty` or `raw`, and `TERM=NAME`.
    """
    packets = "v2" in options
    terminal = "pty" in options or (not command and "raw" not in options)
    name = next((word for word in options if re.fullmatch(r"TERM=[\w.+-]+", word)), "TERM=dumb")
    env = {**environment(), "TERM": name.partition("=")[2]}
    with _started(system, command or "exec /bin/sh", env, terminal=terminal) as (running, given, outputs):
        alive.add(running)
        try:
            if packets:
                stream.when_over = lambda: end(running)  # nobody listens any more
            # In a thread: it ends with the stream, perhaps long after the command.
            feed = (stream, running, given, END_OF_INPUT if terminal else b"")
            threading.Thread(target=_unpack if packets else _feed, args=feed, daemon=True).start()
            locked = threading.Lock()
            pumped = [(stream, pipe, kind if packets else None, locked) for pipe, kind in outputs]
            others = [threading.Thread(target=_pump, args=words, daemon=True) for words in pumped[1:]]
            for other in others:
                other.start()
            _pump(*pumped[0])
            for other in others:
                other.join()
            code = running.wait()
        finally:
            alive.discard(running)
    if packets:
        stream.write(struct.pack("<BIB", EXIT, 1, code if code >= 0 else 128 - code))


@contextlib.contextmanager
def _started(
    system: System, command: str, env: dict[str, str], *, terminal: bool
) -> Iterator[tuple[Process, IO[bytes], Sequence[tuple[IO[bytes], int]]]]:
    """Start a command; return it, the end of its input, and the ends of its outputs with their numbers."""
    argv = system.argv(command, terminal=terminal)
    if not terminal:
        with conversation(argv, env) as running:
            assert running.stdin and running.stdout and running.stderr
            yield running, running.stdin, ((running.stdout, STDOUT), (running.stderr, STDERR))
        return
    master, slave = system.open_terminal()
    with os.fdopen(master, "r+b", buffering=0) as both, contextlib.ExitStack() as stack:
        try:
            running = stack.enter_context(conversation(argv, env, terminal=slave))
        finally:
            os.close(slave)
        yield running, both, ((both, STDOUT),)


def _pump(stream: Stream, pipe: IO[bytes], kind: int | None, locked: threading.Lock) -> None:
    with contextlib.suppress(Gone, ValueError, OSError):  # a terminal ends with EIO
        while data := os.read(pipe.fileno(), 1 << 16):
            with locked:
                stream.write(data if kind is None else struct.pack("<BI", kind, len(data)) + data)


def end(running: Process) -> None:
    """End a command, with all that it started."""
    if running.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(running.pid, signal.SIGKILL)


def _feed(stream: Stream, running: Process, given: IO[bytes], ending: bytes) -> None:
    with contextlib.suppress(Gone):
        while True:
            _give(given, stream.read_some())
    # `adb exec-in` signals the end of its input this way: the command may still process what it got.
    _end_input(given, ending)
    with contextlib.suppress(TimeoutExpired):
        running.wait(FINISH_SECONDS)
    end(running)


def _unpack(stream: Stream, running: Process, given: IO[bytes], ending: bytes) -> None:
    with contextlib.suppress(Gone):
        while True:
            kind, size = struct.unpack("<BI", stream.read(5))
            if kind == WINDOW_SIZE and ending and size < 64:
                _resize(given, stream.read(size))
                continue
            for data in stream.pieces(size):
                if kind == STDIN:
                    _give(given, data)
            if kind == CLOSE_STDIN:
                _end_input(given, ending)


def _end_input(given: IO[bytes], ending: bytes) -> None:
    """End a command's input: a terminal's by a character, any other by closing it."""
    if ending:
        _give(given, memoryview(ending))
        return
    with contextlib.suppress(OSError, ValueError):
        given.close()


def _give(given: IO[bytes], data: memoryview) -> None:
    with contextlib.suppress(OSError, ValueError):  # a command may end before it has read everything
        while data:
            data = data[given.write(data) :]
        given.flush()


def _resize(terminal: IO[bytes], words: bytes) -> None:
    """Give a terminal the size that adb sends: rows, columns, and both in pixels."""
    if match := re.fullmatch(rb"(\d+)x(\d+),(\d+)x(\d+)\0?", words):
        with contextlib.suppress(OSError, ValueError, struct.error):
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("<4H", *map(int, match.groups())))

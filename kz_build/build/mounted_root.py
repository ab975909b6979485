"""Run a command in a root directory of its own: all of this machine's, with a build's folders at /kz.

A program of its own, started after `unshare -rm` for each command of a build; it imports nothing of kz. Its first argument is
JSON: `root`, an empty folder for the new root; `mounts`, pairs of a folder or file and its path in there; `cwd`; and for a
compile cache's server `server`: `host` and `port` as the command calls it, and `socket`, where kz takes its connections.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import struct
import sys
from collections.abc import Mapping, Sequence
from fcntl import ioctl
from typing import Any

_SET_FLAGS, _UP = 0x8914, 1  # netdevice(7)
_BIND, _RECURSIVE = 0x1000, 0x4000  # mount(2)
_DETACH = 2  # umount2(2)


def listen(port: int, to: str) -> None:
    """Listen in this network namespace, which reaches nothing, and give the socket to kz, which reaches the server."""
    with socket.create_server(("127.0.0.1", port), backlog=64) as listener, socket.socket(socket.AF_UNIX) as control:
        ioctl(listener, _SET_FLAGS, struct.pack("16sh14x", b"lo", _UP))
        control.connect(to)
        socket.send_fds(control, [b"1"], [listener.fileno()])
        control.recv(1)


def hosts_with(host: str) -> bytes:
    """Return /etc/hosts in which a name is this machine."""
    with open("/etc/hosts", "rb") as file:
        return f"127.0.0.1 localhost {host}\n::1 localhost\n".encode() + file.read()


def enter(root: str, mounts: Sequence[tuple[str, str]], server: Mapping[str, Any] | None) -> None:
    """Make a new root of this process's mount namespace. Raises OSError if the kernel does not allow it."""
    libc = ctypes.CDLL(None, use_errno=True)

    def call(function: str, *arguments: str | int | None) -> None:
        words = [os.fsencode(word) if isinstance(word, str) else word for word in arguments]
        if getattr(libc, function)(*words):
            raise OSError(ctypes.get_errno(), f"{function}: {os.strerror(ctypes.get_errno())}", str(arguments[0]))

    def bind(source: str, to: str) -> None:
        if os.path.isdir(source):
            os.makedirs(to, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(to), exist_ok=True)
            os.close(os.open(to, os.O_CREAT, 0o644))
        call("mount", source, to, None, _BIND | _RECURSIVE, None)

    call("mount", "kz", root, "tmpfs", 0, "mode=755")
    # A /kz of this machine stays outside: its links would lead the mounts elsewhere, and the build would see its files.
    for name in set(os.listdir("/")) - {to.split("/")[1] for _, to in mounts}:
        path = f"/{name}"
        if os.path.islink(path):
            os.symlink(os.readlink(path), f"{root}{path}")
        else:
            bind(path, f"{root}{path}")
    for source, to in mounts:
        bind(source, f"{root}{to}")
    os.chdir(root)
    call("pivot_root", ".", ".")
    call("umount2", ".", _DETACH)
    if server and os.path.exists("/etc/hosts"):
        with open("/.kz-hosts", "xb") as file:
            file.write(hosts_with(server["host"]))
        call("mount", "/.kz-hosts", "/etc/hosts", None, _BIND, None)


def main() -> None:
    options = json.loads(sys.argv[1])
    server = options.get("server")
    if server:
        listen(server["port"], server["socket"])
    enter(options["root"], options["mounts"], server)
    os.chdir(options["cwd"])
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()

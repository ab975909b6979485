"""Upstream's server: a git daemon, which is no child of the git that is disturbed."""

from __future__ import annotations

import ctypes
import functools
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def address(folder: Path) -> str:
    """The address of a repository below the temporary folder."""
    return f"git://127.0.0.1:{_port()}/{folder.relative_to(tempfile.gettempdir())}"


@functools.cache
def _port() -> int:
    """Start the daemon; it ends with this process, however that ends."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    programs = subprocess.run(["git", "--exec-path"], capture_output=True, text=True, check=True).stdout.strip()
    argv = [f"{programs}/git-daemon", "--export-all", "--listen=127.0.0.1", f"--port={port}"]
    prctl = ctypes.CDLL(None).prctl
    subprocess.Popen(
        [*argv, f"--base-path={tempfile.gettempdir()}"],
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGTERM),
    )
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return port
        except ConnectionRefusedError:
            time.sleep(0.01)
    raise RuntimeError("git daemon does not listen")

"""A real dockerd for the tests: the one that answers already, or Debian's, on a socket, a root and a network of its own."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import docker
import pytest

from tests.conftest import ROOT
from tests.deadline import patient, until


def packages(*names: str, programs: Sequence[str]) -> None:
    """Install Debian packages whose programs are not there; skips the test where nobody may."""
    if all(shutil.which(program) for program in programs):
        return
    if os.geteuid() or not shutil.which("apt-get"):
        pytest.skip(f"needs {' '.join(names)}, and the right to install them")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    argv = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *names]
    done = subprocess.run(argv, env=env, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"apt-get cannot install {' '.join(names)}: {done.stderr[-300:]}")


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


def answers(address: str) -> bool:
    """Whether a daemon answers there."""
    with contextlib.suppress(Exception):
        return bool(docker.DockerClient(base_url=address, timeout=5).ping())
    return False


class Dockerd:
    """A daemon of our own, ended by its own process id."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = f"unix://{folder}/s"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; skips the test where it cannot run."""
        argv = ["dockerd", "--host", self.address, "--iptables=false", "--ip6tables=false", "--bridge=none"]
        for option in ("data-root", "exec-root", "pidfile"):
            argv += [f"--{option}", str(self.folder / option)]
        with (self.folder / "log").open("ab") as log:
            process = self.process = subprocess.Popen(argv, stdout=log, stderr=log, start_new_session=True)
        until(lambda: answers(self.address) or process.poll() is not None, 30)
        if process.poll() is not None:
            self.stop()
            pytest.skip(f"dockerd cannot run here: {(self.folder / 'log').read_text()[-300:]}")

    def stop(self, sign: int = signal.SIGTERM) -> None:
        """End it, and the containerd that it started."""
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, sign)
            self.process.wait(patient(30))
            with contextlib.suppress(FileNotFoundError, ValueError, ProcessLookupError):
                child = int((self.folder / "exec-root" / "containerd" / "containerd.pid").read_text())
                os.kill(child, signal.SIGTERM)
                until(lambda: not Path(f"/proc/{child}").exists(), 10)
            self.process = None


@contextlib.contextmanager
def dockerd() -> Iterator[Dockerd]:
    """A daemon of our own, with all of it gone at the end."""
    packages("docker.io", programs=["dockerd", "containerd"])
    if os.geteuid():
        pytest.skip("dockerd needs root")
    folder = Path(tempfile.mkdtemp(prefix="kz-dockerd-"))
    made = Dockerd(folder)
    try:
        made.start()
        yield made
    finally:
        made.stop()
        for mount in [row.split()[1] for row in Path("/proc/mounts").read_text().splitlines()]:
            if mount.startswith(f"{folder}/"):
                subprocess.run(["umount", "-l", mount], capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def any_daemon() -> Iterator[str]:
    """Address of a daemon: the caller's own where it answers, else one made for the tests."""
    own = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if answers(own):
        yield own
        return
    with dockerd() as made:
        yield made.address


def apt_mirror() -> str:
    """Where this machine's own apt takes its main archive from."""
    said = subprocess.run(["apt-get", "indextargets", "--format", "$(SITE)"], capture_output=True, text=True).stdout
    found = [site for site in said.splitlines() if "security" not in site]
    assert found, "this machine's apt names no archive"
    return found[0]


def base_tar(store: Path) -> Path:
    """A Debian root by containers/base/make, made once a store."""
    recipe = ROOT / "containers/base/make"
    made = store / "test-base" / f"{hashlib.sha256(recipe.read_bytes()).hexdigest()[:16]}.tar"
    if not made.exists():
        packages("mmdebstrap", programs=["mmdebstrap"])
        made.parent.mkdir(exist_ok=True)
        part = made.with_suffix(f".{os.getpid()}")
        with part.open("wb") as file:
            env = {**os.environ, "APT_MIRROR": apt_mirror()}
            done = subprocess.run([recipe], stdout=file, stderr=subprocess.PIPE, env=env)
        if done.returncode:
            pytest.skip(f"mmdebstrap reaches no mirror: {done.stderr.decode()[-300:]}")
        part.rename(made)
    return made


def imported(address: str, store: Path) -> str:
    """Name of that root as an image of the daemon."""
    client = docker.DockerClient(base_url=address, timeout=120)
    client.api.import_image_from_file(str(base_tar(store)), repository="kz-test-base", tag="latest")
    return "kz-test-base:latest"


@contextlib.contextmanager
def podman() -> Iterator[str]:
    """Address of podman's Docker-compatible socket, with storage of its own."""
    packages("podman", "runc", "catatonit", programs=["podman", "runc"])
    folder = Path(tempfile.mkdtemp(prefix="kz-podman-"))
    argv = ["podman", "--root", f"{folder}/root", "--runroot", f"{folder}/run", "--cgroup-manager", "cgroupfs"]
    # crun refuses machines with both kinds of cgroups.
    argv += ["--runtime", shutil.which("runc") or "runc", "--events-backend", "file"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*argv, "system", "service", "--time", "0", f"unix://{folder}/s"], stdout=log, stderr=log
        )
    try:
        until(lambda: answers(f"unix://{folder}/s") or process.poll() is not None)
        if process.poll() is not None:
            pytest.skip(f"podman cannot run here: {(folder / 'log').read_text()[-300:]}")
        yield f"unix://{folder}/s"
    finally:
        process.terminate()
        process.wait(patient(20))
        subprocess.run([*argv, "system", "reset", "--force"], capture_output=True)
        # The watchers of what ran in containers stay five minutes more, and then write into the folder again.
        for line in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if os.fsencode(folder) in line.read_bytes():
                    os.kill(int(line.parent.name), signal.SIGKILL)
        for mount in [row.split()[1] for row in Path("/proc/mounts").read_text().splitlines()]:
            if mount.startswith(f"{folder}/"):
                subprocess.run(["umount", "-l", mount], capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)

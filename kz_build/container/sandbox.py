"""A container that sees only what is streamed into it, and explanations for programs that reach its limits."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from kz_build.container import tar_stream
from kz_build.container.daemon import OWN, Daemon, Image
from kz_build.container.mount import Mount
from kz_build.core.command_log import Program
from kz_build.core.errors import CommandError, ConfigError, StorageError
from kz_build.core.files import storage_error
from kz_build.core.process import LONGEST_LINE, STOP_SECONDS, Argv, limited

if TYPE_CHECKING:
    from docker.types import HostConfig, Ulimit
    from docker.types import Mount as VolumeMount

ROOT = PurePosixPath("/kz")
PIDS = 4096
ULIMITS = (("nofile", 4096), ("nproc", 4 * PIDS))
"""The same limits on any daemon. `nproc` counts all builds of a machine."""
ABANDONED_SECONDS = 300
"""A container that has not started for so long after its creation never will: the daemon's answers are waited for a minute."""
_OOM_COUNTERS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
"""Of cgroups 2 and 1; a container sees its own."""
# What a program prints at a limit of its container, and what it means.
_LIMITS = (
    (("Read-only file system",), "it wrote outside: only /kz, /cache and /tmp can be written in a build"),
    (
        (
            "Network is unreachable",
            "Temporary failure in name resolution",
            "Could not resolve host",
            "Network unreachable",
        ),
        "it dialled out: the network is off in a build, and what it wants belongs to the sources in pins.yaml",
    ),
    (
        ("Cannot fork", "fork: retry", "Resource temporarily unavailable", "can't fork"),
        f"it started more than {PIDS} processes, the most that a build may have at once",
    ),
    (("No space left on device",), "the disk of the daemon, or /tmp (memory), is full"),
)


class Sandbox:
    """Containers of one image: no network (or one internal to Docker), a read-only root, no capabilities, and limited
    memory and processes. Everything goes in and out as tar streams, so that the daemon may be on another machine.
    `owner` is the label of the containers, and the volume at /cache."""

    def __init__(
        self,
        daemon: Daemon,
        image: Image,
        owner: str,
        memory: int,
        network: str = "",
    ) -> None:
        self.daemon = daemon
        self.image = image
        self.owner = owner
        self.memory = memory
        self.network = network
        self._id = ""
        self._oom_kills = 0

    def volume(self, mount: Mount) -> str:
        """Return a volume with files that a build only reads, sent once. A second, empty volume marks it as complete."""
        identity = mount.identity or tar_stream.state_digest(mount.source, mount.only)
        name = f"kz-{hashlib.sha256(repr((identity, mount.to, mount.only)).encode()).hexdigest()[:24]}"
        api = self.daemon.api
        with self.daemon.kz_errors("its volumes"):
            existing = {v["Name"] for v in api.volumes(filters={"label": OWN})["Volumes"] or ()}
            if {name, f"{name}-whole"} <= existing:
                return name
        if link := next(tar_stream.outside_links(mount.source, mount.only), None):
            raise ConfigError(
                f"{mount.source / link[0]} is a link to {link[1]}, and a container gets only {mount.source}",
                hint="replace it by a copy (cp -rL copies the whole folder), or --engine host",
            )
        with self.daemon.kz_errors("its volumes"):
            with contextlib.suppress(Exception):
                api.remove_volume(name)
            api.create_volume(name, labels={OWN: mount.to.name})
        # It runs while it is filled: without a running container, podman writes below the volume, not into it.
        host = api.create_host_config(
            mounts=[_mount(str(mount.to), name)], network_mode="none", ulimits=_ulimits(), auto_remove=True
        )
        with self._running(host) as filler:
            self.send(mount.source, PurePosixPath(mount.to), mount.only, filler)
        with self.daemon.kz_errors("its volumes"):
            api.create_volume(f"{name}-whole", labels={OWN: mount.to.name})
        return name

    @contextlib.contextmanager
    def started(self, volumes: Sequence[tuple[str, Mount]]) -> Iterator[None]:
        """Start the container; at the end of the block it is gone, with all that runs in it."""
        api = self.daemon.api
        mounts = [_mount(str(ROOT), None), _mount("/cache", self.owner)]
        mounts += [_mount(str(mount.to), name, read_only=True) for name, mount in volumes]
        host = api.create_host_config(
            network_mode=self.network or "none",
            read_only=True,
            tmpfs={"/tmp": f"exec,mode=1777,size={self.memory // 2}"},
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            mem_limit=self.memory,
            memswap_limit=self.memory,
            pids_limit=PIDS,
            ulimits=_ulimits(),
            init=True,
            auto_remove=True,
            mounts=mounts,
        )
        with self._running(host) as self._id:
            self._oom_kills = 0
            yield

    @contextlib.contextmanager
    def _running(self, host: HostConfig) -> Iterator[str]:
        """Run a container; yield its id. At the end it is killed; the daemon then removes it and its volume, which takes seconds
        after a build, without anybody waiting.

        Its first process reads from kz: it ends, and all others with it, if kz is killed or the connection breaks. An interrupt
        while the daemon creates it waits for its id: otherwise it would stay there.
        """
        api = self.daemon.api
        user = f"{tar_stream.USER}:{tar_stream.USER}"
        pool = ThreadPoolExecutor(1)
        creation = pool.submit(
            api.create_container,
            self.image.tag,
            ["cat"],
            user=user,
            hostname="kz",
            stdin_open=True,
            host_config=host,
            labels={OWN: self.owner},
            use_config_proxy=False,  # of the user's ~/.docker/config.json, perhaps with a password
        )
        pool.shutdown(wait=False)
        try:
            with self.daemon.kz_errors("a container"):
                container = creation.result()["Id"]
                self._remove_abandoned(container)
            with self.daemon.kz_errors("to start a container"):
                stdin = api.attach_socket(container, params={"stdin": 1, "stream": 1})
            try:
                with self.daemon.kz_errors("to start a container"):
                    api.start(container)
                yield container
            finally:
                with contextlib.suppress(OSError):
                    stdin.close()
        except KeyboardInterrupt:
            api.timeout = (
                STOP_SECONDS  # where the daemon does not answer, the container of a build ends with kz all the same
            )
            raise
        finally:
            with contextlib.suppress(Exception):
                api.kill(creation.result()["Id"])
            with contextlib.suppress(Exception):  # it never started, or does not remove itself
                api.remove_container(creation.result()["Id"], force=True, v=True)

    def _remove_abandoned(self, new: str) -> None:
        """Remove the containers that were created long before the new one, and never started: a killed kz left them."""
        api = self.daemon.api
        created = api.containers(all=True, filters={"label": OWN, "status": "created"})
        ages = {container["Id"]: container["Created"] for container in created}
        for container, at in ages.items():
            if at < ages.get(new, 0) - ABANDONED_SECONDS:
                with contextlib.suppress(Exception):  # another kz removes it, or it starts after all
                    api.remove_container(container, v=True)

    def send(self, source: Path, to: PurePosixPath, only: Sequence[str] = (), container: str = "") -> None:
        """Send a folder, or what `only` names in it, or a file, to a path below /kz."""
        pieces = _read_here(tar_stream.archive(source, to.relative_to(ROOT), only), source)
        with self.daemon.kz_errors(f"to take {to}"):
            self.daemon.api.put_archive(container or self._id, str(ROOT), pieces)

    def fetch(self, folder: str, places: Callable[[str], Path | None]) -> set[str]:
        """Fetch the files of a folder for which `places` returns a path; return their names (tar_stream.extract)."""
        with self.daemon.kz_errors(f"to give {folder}"):
            pieces, _ = self.daemon.api.get_archive(self._id, folder)
            return tar_stream.extract(pieces, places)

    def exec(self, argv: Argv, *, may_fail: bool = False) -> tuple[int, str]:
        """Run a short command; return its exit code and output. Raises CommandError if it fails, unless it may."""
        output: list[bytes] = []
        code = self.program(60)(argv, Path(ROOT), {}, output.append)
        text = b"".join(output).decode("utf-8", "replace").strip()
        if code and not may_fail:
            raise CommandError(f"`{' '.join(argv)[:80]}` in the container ended with {code}: {text}")
        return code, text

    def run_and_capture(self, argv: Argv, env: Mapping[str, str]) -> tuple[int, str, str]:
        """Run a command; return its exit code, standard output and standard error."""
        streams: tuple[list[bytes], list[bytes]] = ([], [])
        with self.daemon.kz_errors(f"while `{argv[0]}` ran"):
            process = self.daemon.api.exec_create(self._id, list(argv), environment=dict(env), workdir=str(ROOT))["Id"]
            for pair in self.daemon.api.exec_start(process, stream=True, demux=True):
                for stream, chunk in zip(streams, pair, strict=True):
                    stream.append(chunk or b"")
            code = self._code(process)
        out, err = (b"".join(chunks).decode("utf-8", "replace") for chunks in streams)
        return code, out, err

    def program(self, limit: float) -> Program:
        """Return a function that runs a command line in the container (command_log.Program)."""

        def run(argv: Argv, cwd: Path, env: Mapping[str, str], line: Callable[[bytes], None]) -> int:
            last: list[bytes] = []

            def keep(raw: bytes) -> None:
                last[:] = [*last[-30:], raw]
                line(raw)

            api = self.daemon.api
            with limited(limit, self._kill), self.daemon.kz_errors(f"while `{argv[0]}` ran"):
                process = api.exec_create(self._id, list(argv), environment=dict(env), workdir=str(cwd))["Id"]
                for raw in _lines(api.exec_start(process, stream=True)):
                    keep(raw)
                code = self._code(process)
            if code:
                for sentence in self._reasons(b"".join(last).decode("utf-8", "replace")):
                    line(f"kz: {sentence}\n".encode())
            return code

        return run

    def _code(self, process: str) -> int:
        import docker.errors

        try:
            code = self.daemon.api.exec_inspect(process)["ExitCode"]
            return 137 if code is None else int(code)
        except docker.errors.NotFound:
            return 137

    def _kill(self) -> None:
        with contextlib.suppress(Exception):
            self.daemon.api.kill(self._id)

    def _reasons(self, output: str) -> Iterator[str]:
        """Yield which limits of the container a failed command reached."""
        killed = self._killed_for_memory()
        if killed is None:
            yield "the container ended while it ran: was it stopped from outside, or its first process killed?"
        elif killed:
            yield (
                f"out of memory: the container may use {self.memory / 2**30:.1f} GB and something in it wanted more."
                " Fewer compilations at once (--jobs N), or more memory: KZ_MEMORY=16g"
            )
        for words, meaning in _LIMITS:
            if any(word in output for word in words):
                yield meaning

    def _killed_for_memory(self) -> bool | None:
        """Whether the kernel killed a process in the container since the last call, None if the container is gone.

        The daemon's own OOMKilled covers only a container's first process.
        """
        counters: list[bytes] = []
        try:
            api = self.daemon.api
            if not api.inspect_container(self._id)["State"]["Running"]:
                return None
            process = api.exec_create(self._id, ["cat", *_OOM_COUNTERS])["Id"]
            counters += _lines(api.exec_start(process, stream=True))
            if api.exec_inspect(process)["ExitCode"] == 137:  # no memory even for this
                return True
        except Exception:
            return None
        count = sum(int(raw.split()[1]) for raw in counters if raw.startswith(b"oom_kill "))
        before, self._oom_kills = self._oom_kills, count
        return count > before


def _read_here(pieces: Iterator[bytes], source: Path) -> Iterator[bytes]:
    """Yield pieces of files of this machine: an OSError within a request would count as one of its connection."""
    try:
        yield from pieces
    except OSError as error:
        changed = StorageError(f"{source} changed while it was sent: {error}", hint="run the command again")
        raise storage_error(error) or changed from error


def _ulimits() -> list[Ulimit]:
    from docker.types import Ulimit

    return [Ulimit(name=name, soft=most, hard=most) for name, most in ULIMITS]


def _mount(target: str, volume: str | None, *, read_only: bool = False) -> VolumeMount:
    from docker.types import Mount

    return Mount(target, volume, type="volume", read_only=read_only, labels={OWN: ""})


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (raw + b"\n" for raw in whole)
        if len(rest) > LONGEST_LINE:
            yield rest
            rest = b""
    if rest:
        yield rest

"""A container that is shut off from all but what is streamed into it, and what it says when it runs into its walls."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from kz_build.container import tar_stream
from kz_build.container.daemon import OWN, Daemon, Image
from kz_build.container.mount import Bring
from kz_build.core.command_log import Program
from kz_build.core.errors import CommandError, ConfigError
from kz_build.core.process import Argv, limited

ROOT = PurePosixPath("/kz")
PIDS = 4096
ULIMITS = (("nofile", 4096), ("nproc", 4 * PIDS))
"""The same wherever the daemon runs, whose own differ. `nproc` counts all builds of a machine."""
_OOM_COUNTERS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
"""Of cgroups 2 and 1; a container sees its own."""
# What a program says when it runs into a wall of its container, and what it means.
_WALLS = (
    (("Read-only file system",), "it wrote outside: only /kz, /cache and /tmp can be written in a build"),
    (
        (
            "Network is unreachable",
            "Temporary failure in name resolution",
            "Could not resolve host",
            "Network unreachable",
        ),
        "it dialled out: the network is off in a build, and what it wants belongs among the sources of pins.yaml",
    ),
    (
        ("Cannot fork", "fork: retry", "Resource temporarily unavailable", "can't fork"),
        f"it started more than {PIDS} processes, the most that a build may have at once",
    ),
    (("No space left on device",), "the disk of the daemon, or /tmp (memory), is full"),
)


class Box:
    """Containers of one image: no network (or one that Docker itself keeps internal), a read-only root, no rights, and
    not more memory and processes than these. Everything goes in and out as tar streams, so that the daemon may be on
    another machine. `owner` names whose they are: the label of containers, and the volume at /cache."""

    def __init__(
        self,
        daemon: Daemon,
        image: Image,
        owner: str,
        memory: int,
        network: str = "",
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.daemon = daemon
        self.image = image
        self.owner = owner
        self.memory = memory
        self.network = network
        self.env = dict(env or {})
        self._id = ""
        self._oom_kills = 0

    def volume(self, bring: Bring) -> str:
        """A volume with what a build reads and never writes, sent once. A second volume, empty, says that it is whole."""
        known = bring.identity or tar_stream.state(bring.source, bring.only)
        name = f"kz-{hashlib.sha256(repr((known, bring.to, bring.only)).encode()).hexdigest()[:24]}"
        api = self.daemon.api
        with self.daemon.answering("its volumes"):
            there = {v["Name"] for v in api.volumes(filters={"label": OWN})["Volumes"] or ()}
            if {name, f"{name}-whole"} <= there:
                return name
        if outside := next(tar_stream.leaving(bring.source, bring.only), None):
            raise ConfigError(
                f"{bring.source / outside[0]} is a link to {outside[1]}, and a container gets {bring.source} alone",
                hint="put a copy in its place (cp -rL makes one of the whole folder), or --engine host",
            )
        with self.daemon.answering("its volumes"):
            with contextlib.suppress(Exception):
                api.remove_volume(name)
            api.create_volume(name, labels={OWN: bring.to.name})
        # It runs while it is filled: podman lays files below the volume, not into it, where none runs.
        host = api.create_host_config(mounts=[_mount(str(bring.to), name)], network_mode="none", ulimits=_ulimits())
        with self._running(["sleep", "3600"], host) as (filler, start):
            start()
            self.send(bring.source, PurePosixPath(bring.to), bring.only, filler)
        with self.daemon.answering("its volumes"):
            api.create_volume(f"{name}-whole", labels={OWN: bring.to.name})
        return name

    @contextlib.contextmanager
    def started(self, volumes: Sequence[tuple[str, Bring]]) -> Iterator[None]:
        """The container, gone at the end with all that runs in it.

        Its first process reads from us: it ends, and all others with it, when we are killed or the connection breaks.
        """
        api = self.daemon.api
        mounts = [_mount(str(ROOT), None), _mount("/cache", self.owner)]
        mounts += [_mount(str(bring.to), name, read_only=True) for name, bring in volumes]
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
        with self._running(["cat"], host, stdin_open=True) as (self._id, start):
            self._oom_kills = 0
            with self.daemon.answering("to start a container"):
                held = api.attach_socket(self._id, params={"stdin": 1, "stream": 1})
            try:
                start()
                yield
            finally:
                with contextlib.suppress(OSError):
                    held.close()

    @contextlib.contextmanager
    def _running(self, argv: Argv, host: Any, *, stdin_open: bool = False) -> Iterator[tuple[str, Callable[[], None]]]:
        """(id, what starts it) of a new container. At the end nothing in it runs on; the daemon removes it and its volume then,
        which takes seconds for a build and which nobody waits for."""
        api = self.daemon.api
        user = f"{tar_stream.USER}:{tar_stream.USER}"
        with self.daemon.answering("a container"):
            made = api.create_container(
                self.image.tag,
                argv,
                user=user,
                hostname="kz",
                stdin_open=stdin_open,
                host_config=host,
                labels={OWN: self.owner},
            )["Id"]

        def start() -> None:
            with self.daemon.answering("to start a container"):
                api.start(made)

        try:
            yield made, start
        finally:
            with contextlib.suppress(Exception):
                api.kill(made)
            with contextlib.suppress(Exception):  # what never started, and what removes not itself
                api.remove_container(made, force=True, v=True)

    def send(self, source: Path, to: PurePosixPath, only: Sequence[str] = (), container: str = "") -> None:
        """Lay a folder, or what of `only` lies in it, or a file, to a place below /kz."""
        with self.daemon.answering(f"to take {to}"):
            self.daemon.api.put_archive(
                container or self._id, str(ROOT), tar_stream.archive(source, to.relative_to(ROOT), only)
            )

    def take(self, folder: str, places: Callable[[str], Path | None]) -> set[str]:
        """Bring those files of a folder for which `places` knows a place; gives their names (tar.extract)."""
        with self.daemon.answering(f"to give {folder}"):
            pieces, _ = self.daemon.api.get_archive(self._id, folder)
            return tar_stream.extract(pieces, places)

    def exec(self, argv: Argv, *, may_fail: bool = False) -> tuple[int, str]:
        """Run a short command; gives its exit code and what it said. Raises CommandError when it fails, unless it may."""
        said: list[bytes] = []
        code = self.program(60)(argv, Path(ROOT), {}, said.append)
        text = b"".join(said).decode("utf-8", "replace").strip()
        if code and not may_fail:
            raise CommandError(f"`{' '.join(argv)[:80]}` in the container ended with {code}: {text}")
        return code, text

    def talk(self, argv: Argv, env: Mapping[str, str]) -> tuple[int, str, str]:
        """Run a command; gives its exit code, what it printed, and what it complained of."""
        said: tuple[list[bytes], list[bytes]] = ([], [])
        with self.daemon.answering(f"while `{argv[0]}` ran"):
            made = self.daemon.api.exec_create(self._id, list(argv), environment=dict(env), workdir=str(ROOT))["Id"]
            for pair in self.daemon.api.exec_start(made, stream=True, demux=True):
                for into, chunk in zip(said, pair, strict=True):
                    into.append(chunk or b"")
            code = self._code(made)
        out, err = (b"".join(chunks).decode("utf-8", "replace") for chunks in said)
        return code, out, err

    def program(self, limit: float) -> Program:
        """Runs a command line in the container (process.Program)."""

        def run(argv: Argv, cwd: Path, env: Mapping[str, str], line: Callable[[bytes], None]) -> int:
            last: list[bytes] = []

            def keep(raw: bytes) -> None:
                last[:] = [*last[-30:], raw]
                line(raw)

            api = self.daemon.api
            with limited(limit, self._kill), self.daemon.answering(f"while `{argv[0]}` ran"):
                made = api.exec_create(self._id, list(argv), environment={**env, **self.env}, workdir=str(cwd))["Id"]
                for raw in _lines(api.exec_start(made, stream=True)):
                    keep(raw)
                code = self._code(made)
            if code:
                for sentence in self._reasons(code, b"".join(last).decode("utf-8", "replace")):
                    line(f"kz: {sentence}\n".encode())
            return code

        return run

    def _code(self, made: str) -> int:
        import docker.errors

        try:
            found = self.daemon.api.exec_inspect(made)["ExitCode"]
            return 137 if found is None else int(found)
        except docker.errors.NotFound:
            return 137

    def _kill(self) -> None:
        with contextlib.suppress(Exception):
            self.daemon.api.kill(self._id)

    def _reasons(self, code: int, said: str) -> Iterator[str]:
        """What walls of the container a failed command ran into."""
        killed = self._killed_for_memory()
        if killed is None:
            yield "the container ended under it: was it stopped from outside, or its first process killed?"
        elif killed:
            yield (
                f"out of memory: the container may use {self.memory / 2**30:.1f} GB and something in it wanted more."
                " Fewer compilations at once (--jobs N), or more memory: KZ_MEMORY=16g"
            )
        for words, meaning in _WALLS:
            if any(word in said for word in words):
                yield meaning

    def _killed_for_memory(self) -> bool | None:
        """Whether the kernel killed something in the container since this was asked last, None if that is no more.

        The daemon's own OOMKilled is not set for what is run beside a container's first process.
        """
        said: list[bytes] = []
        try:
            api = self.daemon.api
            if not api.inspect_container(self._id)["State"]["Running"]:
                return None
            made = api.exec_create(self._id, ["cat", *_OOM_COUNTERS])["Id"]
            said += _lines(api.exec_start(made, stream=True))
            if api.exec_inspect(made)["ExitCode"] == 137:  # not even this has room
                return True
        except Exception:
            return None
        count = sum(int(raw.split()[1]) for raw in said if raw.startswith(b"oom_kill "))
        before, self._oom_kills = self._oom_kills, count
        return count > before


def _ulimits() -> list[Any]:
    from docker.types import Ulimit

    return [Ulimit(name=name, soft=most, hard=most) for name, most in ULIMITS]


def _mount(target: str, volume: str | None, *, read_only: bool = False) -> Any:
    from docker.types import Mount

    return Mount(target, volume, type="volume", read_only=read_only, labels={OWN: ""})


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    held = b""
    for chunk in chunks:
        *whole, held = (held + chunk).split(b"\n")
        yield from (raw + b"\n" for raw in whole)
    if held:
        yield held

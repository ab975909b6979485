"""Engine `docker`: one container a build, shut off from all but what is streamed into it."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from kz_build.adapters import environment, tar
from kz_build.adapters.daemon import _OWN, Daemon, Image
from kz_build.adapters.files import remove
from kz_build.adapters.git import Repository
from kz_build.adapters.process import Argv, Commands, limited
from kz_build.model.errors import CommandError, ConfigError, Missing, MissingError
from kz_build.model.plan import Bring, Checkout, Command, Layout, Plan, Step

ROOT = PurePosixPath("/kz")
PIDS = 4096
ULIMITS = (("nofile", 4096), ("nproc", 4 * PIDS))
"""The same wherever the daemon runs, whose own differ. `nproc` counts all builds of a machine."""
_OOM_COUNTERS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
"""Of cgroups 2 and 1; a container sees its own."""
_COPY = 'test -f "$1" || exit 44; mkdir -p "${2%/*}" && cp "$1" "$2" && if test -x "$1"; then chmod 755 "$2"; else chmod 644 "$2"; fi'
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


class Container:
    """See Engine. Everything goes in and out as tar streams, so that the daemon may be on another machine."""

    name = "docker"

    def __init__(self, daemon: Daemon, image: Image, store: Path, *, ccache: bool) -> None:
        self.daemon = daemon
        self.image = image
        self.ccache = ccache
        self.cache = f"kz-cache-{hashlib.sha256(bytes(store)).hexdigest()[:12]}"
        self.memory = _bytes(environment.variable("KZ_MEMORY")) or daemon.memory * 7 // 8
        self._remote = environment.variable("KZ_CCACHE_REMOTE") if ccache else ""
        self._within = environment.variable("KZ_CCACHE_NETWORK") if self._remote else ""
        if self._remote:
            if not self._within:
                raise ConfigError(
                    "KZ_CCACHE_REMOTE needs KZ_CCACHE_NETWORK: the network is off in a build",
                    hint="docker network create --internal NAME, the cache's container on it, KZ_CCACHE_NETWORK=NAME",
                )
            daemon.internal(self._within)
        self.network = f"off, but for the internal network {self._within}" if self._within else "off"
        self._id = ""
        self._oom_kills = 0

    def layout(self) -> Layout:
        """Where things lie in the container: the same for everyone."""
        return Layout(Path(ROOT), Path(ROOT / "out"), Path("/cache"), "/usr/bin/python3", self.image.key, self.ccache)

    def facts(self) -> dict[str, Any]:
        """What a manifest says of this engine."""
        image = {"name": self.image.tag, "key": self.image.key, "base": self.image.base, "base_is": self.image.base_is}
        return {
            "engine": self.name,
            "network": self.network,
            "image": {**image, "apt": self.image.mirror or "snapshot"},
        }

    @contextlib.contextmanager
    def opened(self, plan: Plan, commands: Commands) -> Iterator[None]:
        """See Engine."""
        self.daemon.ensure(self.image, commands)
        volumes = [(self._volume(bring), bring) for bring in plan.brought]
        with self._started(volumes):
            self._require(plan.needs)
            stage = plan.layout.build / "stage"
            self._exec(
                ["mkdir", "-p", *map(str, sorted({stage / a.folder for a in plan.artifacts})), f"{stage}/symbols"]
            )
            self._exec(["mkdir", "-p", f"{plan.layout.build}/home"])
            yield
            self._collect(plan, stage)

    def run(self, step: Step, commands: Commands, watch: Callable[[str], None]) -> None:
        """See Engine."""
        if isinstance(step, Checkout):
            self._checkout(step, commands)
        elif isinstance(step, Command):
            commands.run(
                step.phase,
                step.argv,
                cwd=step.cwd,
                env=dict(step.env),
                watch=watch,
                program=self._program(commands.limit),
            )
        else:
            code, said = self._exec(["sh", "-c", _COPY, "copy", str(step.source), str(step.to)], may_fail=True)
            if code == 44:
                raise CommandError(
                    f"{step.source} was not made, or is not in its source",
                    hint="does the name in pins.yaml (outputs, prebuilt, lay) still fit upstream?",
                )
            if code:
                raise CommandError(f"cannot copy {step.source} to {step.to}: {said}")

    def _checkout(self, step: Checkout, commands: Commands) -> None:
        """Lay the tree here, by the same git as engine host, and send it."""
        folder = commands.folder / "checkout"
        repository = Repository(step.repository)
        try:
            repository.checkout(repository.entries(step.tree, step.exclude), folder)
            self._send(self._id, folder, PurePosixPath(step.folder))
        finally:
            remove(folder)

    def _send(self, container: str, source: Path, to: PurePosixPath, only: Sequence[str] = ()) -> None:
        with self.daemon.answering(f"to take {to}"):
            self.daemon.api.put_archive(container, str(ROOT), tar.archive(source, to.relative_to(ROOT), only))

    def _volume(self, bring: Bring) -> str:
        """A volume with what a build reads and never writes, sent once. A second volume, empty, says that it is whole."""
        known = bring.identity or tar.state(bring.source, bring.only)
        name = f"kz-{hashlib.sha256(repr((known, bring.to, bring.only)).encode()).hexdigest()[:24]}"
        api = self.daemon.api
        with self.daemon.answering("its volumes"):
            there = {v["Name"] for v in api.volumes(filters={"label": _OWN})["Volumes"] or ()}
            if {name, f"{name}-whole"} <= there:
                return name
            with contextlib.suppress(Exception):
                api.remove_volume(name)
            api.create_volume(name, labels={_OWN: bring.to.name})
        # It runs while it is filled: podman lays files below the volume, not into it, where none runs.
        host = api.create_host_config(mounts=[_mount(str(bring.to), name)], network_mode="none", ulimits=_ulimits())
        with self._running(["sleep", "3600"], host) as (filler, start):
            start()
            self._send(filler, bring.source, PurePosixPath(bring.to), bring.only)
        with self.daemon.answering("its volumes"):
            api.create_volume(f"{name}-whole", labels={_OWN: bring.to.name})
        return name

    @contextlib.contextmanager
    def _started(self, volumes: Sequence[tuple[str, Bring]]) -> Iterator[None]:
        """The container, gone at the end with all that runs in it.

        Its first process reads from us: it ends, and all others with it, when we are killed or the connection breaks.
        """
        api = self.daemon.api
        mounts = [_mount(str(ROOT), None), _mount("/cache", self.cache)]
        mounts += [_mount(str(bring.to), name, read_only=True) for name, bring in volumes]
        host = api.create_host_config(
            network_mode=self._within or "none",
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
        """(id, what starts it) of a new container that is removed at the end, with all that runs in it."""
        api = self.daemon.api
        user = f"{tar.USER}:{tar.USER}"
        with self.daemon.answering("a container"):
            made = api.create_container(
                self.image.tag,
                argv,
                user=user,
                hostname="kz",
                stdin_open=stdin_open,
                host_config=host,
                labels={_OWN: ""},
            )["Id"]

        def start() -> None:
            with self.daemon.answering("to start a container"):
                api.start(made)

        try:
            yield made, start
        finally:
            with contextlib.suppress(Exception):
                api.remove_container(made, force=True, v=True)

    def _require(self, programs: Sequence[str]) -> None:
        script = 'for name; do command -v "$name" >/dev/null || echo "$name"; done'
        _, said = self._exec(["sh", "-c", script, "sh", *programs])
        if lacks := said.split():
            why = f"the target needs it, {self.image.tag} has it not"
            brings = f"{self.image.folder.name}/packages, or the Dockerfile beside it; or --engine host"
            raise MissingError(tuple(Missing(name, why, brings) for name in lacks))

    def _exec(self, argv: Argv, *, may_fail: bool = False) -> tuple[int, str]:
        said: list[bytes] = []
        code = self._program(60)(argv, Path(ROOT), {}, said.append)
        text = b"".join(said).decode("utf-8", "replace").strip()
        if code and not may_fail:
            raise CommandError(f"`{' '.join(argv)[:80]}` in the container ended with {code}: {text}")
        return code, text

    def _program(self, limit: float) -> Callable[[Argv, Path, Mapping[str, str], Callable[[bytes], None]], int]:
        """Runs a command line in the container (process.Program)."""

        def run(argv: Argv, cwd: Path, env: Mapping[str, str], line: Callable[[bytes], None]) -> int:
            last: list[bytes] = []

            def keep(raw: bytes) -> None:
                last[:] = [*last[-30:], raw]
                line(raw)

            api = self.daemon.api
            more = {"CCACHE_REMOTE_STORAGE": self._remote} if self._remote else {}
            with limited(limit, self._kill), self.daemon.answering(f"while `{argv[0]}` ran"):
                made = api.exec_create(self._id, list(argv), environment={**env, **more}, workdir=str(cwd))["Id"]
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

    def _collect(self, plan: Plan, stage: Path) -> None:
        wanted = {f"stage/{a.folder}/{a.name}": plan.stage / a.folder / a.name for a in plan.artifacts}
        symbols = {f"{a.name}.debug" for a in plan.artifacts if a.symbols}
        wanted |= {f"stage/symbols/{name}": plan.stage / "symbols" / name for name in symbols}
        with self.daemon.answering("to give what was built"):
            pieces, _ = self.daemon.api.get_archive(self._id, str(stage))
            found = tar.extract(pieces, wanted.get)
        if lacks := sorted(set(wanted) - found):
            raise CommandError(f"the container gave no {', '.join(lacks)}")


def _ulimits() -> list[Any]:
    from docker.types import Ulimit

    return [Ulimit(name=name, soft=most, hard=most) for name, most in ULIMITS]


def _mount(target: str, volume: str | None, *, read_only: bool = False) -> Any:
    from docker.types import Mount

    return Mount(target, volume, type="volume", read_only=read_only, labels={_OWN: ""})


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    held = b""
    for chunk in chunks:
        *whole, held = (held + chunk).split(b"\n")
        yield from (raw + b"\n" for raw in whole)
    if held:
        yield held


def _bytes(text: str) -> int:
    """Bytes of a size as Docker writes it: 512m, 16g; 0 of ''. Raises ConfigError."""
    if not text:
        return 0
    number, unit = (text[:-1], text[-1].lower()) if text[-1].isalpha() else (text, "b")
    if not number.isdigit() or unit not in "bkmg":
        raise ConfigError(f"KZ_MEMORY={text} is no size", hint="as Docker writes them: 512m, 16g")
    return int(number) << (10 * "bkmg".index(unit))

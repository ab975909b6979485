"""Engine `docker`: one container per build (container/sandbox.py)."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from threading import Event

from kz_build.build.cache_server import CacheServer
from kz_build.build.steps import Ccache, Checkout, Command, Layout, Plan, Step, not_made
from kz_build.container.daemon import Daemon, Image
from kz_build.container.sandbox import ROOT, Sandbox
from kz_build.core import env as environment
from kz_build.core.command_log import Commands
from kz_build.core.errors import CommandError, ConfigError, Missing, MissingError
from kz_build.core.files import remove
from kz_build.git.repository import Repository

_COPY = 'test -f "$1" || exit 44; mkdir -p "${2%/*}" && cp "$1" "$2" && if test -x "$1"; then chmod 755 "$2"; else chmod 644 "$2"; fi'


class DockerEngine:
    """See HostEngine."""

    name = "docker"
    unmapped = ""

    def __init__(
        self, daemon: Daemon, image: Image, store: Path, *, ccache: bool, server: CacheServer | None = None
    ) -> None:
        self.image = image
        self.ccache = ccache and environment.variable("KZ_CCACHE") != "0"
        self.cache = f"kz-cache-{hashlib.sha256(bytes(store)).hexdigest()[:12]}"
        server = server if self.ccache else None
        internal = environment.variable("KZ_CCACHE_NETWORK") if server and not server.tls else ""
        self.storage = server.storage() if server and internal else ""
        self.network = "off"
        if internal:
            daemon.require_internal(internal)
            self.network = f"off, but for the internal network {internal}"
        elif server:
            why = "ccache speaks no TLS" if server.tls else "KZ_CCACHE_NETWORK names no network"
            self.network = f"off; the compile cache at {server.name} is not asked: {why}"
        memory = memory_limit(environment.variable("KZ_MEMORY")) or daemon.memory * 7 // 8
        self.sandbox = Sandbox(daemon, image, self.cache, memory, internal)
        self._checkouts: dict[Path, Future[Path]] = {}

    def layout(self, cache: Path) -> Layout:
        """Return the paths in the container: the same for everyone."""
        return Layout(Path(ROOT), Path(ROOT / "out"), Path("/cache"), "/usr/bin/python3", self.image.key)

    def compile_cache(self, store: Path) -> Ccache | None:
        return Ccache("ccache", Path("/cache/ccache")) if self.ccache else None

    def facts(self) -> dict[str, object]:
        """Return what a record says of this engine."""
        image = {
            "digest": self.sandbox.daemon.id(self.image),
            "name": self.image.tag,
            "key": self.image.key,
            "base": self.image.base,
            "base_is": self.image.base_is,
        }
        return {
            "engine": self.name,
            "network": self.network,
            "image": {**image, "apt": self.image.apt or "snapshot"},
        }

    @contextlib.contextmanager
    def opened(self, plan: Plan, commands: Commands) -> Iterator[None]:
        self.sandbox.daemon.ensure(self.image, commands)
        volumes = [(self.sandbox.volume(mount), mount) for mount in plan.mounts]
        with self._checking_out(plan), self.sandbox.started(volumes):
            self._require(plan.needs)
            stage = plan.layout.build / "stage"
            folders = {stage / a.folder for a in plan.artifacts} | {stage / "symbols", plan.layout.build / "home"}
            self.sandbox.exec(["mkdir", "-p", *map(str, sorted(folders))])
            yield
            self._collect(plan, stage)

    def run(self, step: Step, commands: Commands, watch: Callable[[str], None]) -> None:
        if isinstance(step, Checkout):
            self._send(step)
        elif isinstance(step, Command):
            asking = self.storage and step.phase.endswith("-build")
            commands.run(
                step.phase,
                step.argv,
                cwd=step.cwd,
                env={**dict(step.env), **({"CCACHE_REMOTE_STORAGE": self.storage} if asking else {})},
                watch=watch,
                program=self.sandbox.program(commands.limit),
            )
        else:
            code, output = self.sandbox.exec(["sh", "-c", _COPY, "copy", str(step.source), str(step.to)], may_fail=True)
            if code == 44:
                raise not_made(step.source)
            if code:
                raise CommandError(f"cannot copy {step.source} to {step.to}: {output}")

    @contextlib.contextmanager
    def _checking_out(self, plan: Plan) -> Iterator[None]:
        """Check out the trees of a plan here, with the same git as engine host, each while the one before is sent.

        If the block fails, the checkout under way is stopped, and nobody waits for the deletion of its files: the next build
        deletes what is in its folder.
        """
        folder = plan.build / "checkout"
        trees = [step for step in plan.steps if isinstance(step, Checkout)]
        pool, stop = ThreadPoolExecutor(1), Event()
        self._checkouts = {t.folder: pool.submit(_checkout, t, folder / str(n), stop) for n, t in enumerate(trees)}
        try:
            yield
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
        remove(folder)

    def _send(self, step: Checkout) -> None:
        checkout = self._checkouts[step.folder].result()
        self.sandbox.send(checkout, PurePosixPath(step.folder))
        remove(checkout)

    def _require(self, programs: Sequence[str]) -> None:
        script = 'for name; do command -v "$name" >/dev/null || echo "$name"; done'
        _, output = self.sandbox.exec(["sh", "-c", script, "sh", *programs])
        if missing := output.split():
            why = f"the target needs it, {self.image.tag} does not have it"
            remedy = f"{self.image.folder.name}/packages, or the Dockerfile beside it; or --engine host"
            raise MissingError(tuple(Missing(name, why, remedy) for name in missing))

    def _collect(self, plan: Plan, stage: Path) -> None:
        wanted = {f"stage/{a.folder}/{a.name}": plan.stage / a.folder / a.name for a in plan.artifacts}
        symbols = {f"{a.name}.debug" for a in plan.artifacts if a.symbols}
        wanted |= {f"stage/symbols/{name}": plan.stage / "symbols" / name for name in symbols}
        if missing := sorted(set(wanted) - self.sandbox.fetch(str(stage), wanted.get)):
            raise CommandError(f"the container has no {', '.join(missing)}")


def _checkout(step: Checkout, folder: Path, stop: Event) -> Path:
    repository = Repository(step.repository)
    repository.checkout(repository.entries(step.tree, step.exclude), folder, stop)
    return folder


def memory_limit(text: str) -> int:
    """Return the bytes of a size in Docker's form (512m, 16g); 0 for ''. Raises ConfigError."""
    if not text:
        return 0
    number, unit = (text[:-1], text[-1].lower()) if text[-1].isalpha() else (text, "b")
    if not re.fullmatch("[0-9]{1,15}", number) or unit not in "bkmg":
        raise ConfigError(f"KZ_MEMORY={text} is not a size", hint="use Docker's form: 512m, 16g")
    return int(number) << (10 * "bkmg".index(unit))

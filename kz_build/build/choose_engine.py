"""The engine for a target: `docker` if a daemon answers and its base is known, else `host`, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kz_build.build.cache_server import cache_server
from kz_build.build.engine import HostEngine
from kz_build.container import daemon
from kz_build.core import env as environment
from kz_build.core.errors import ConfigError, LockError, MissingError
from kz_build.pins.pins import Override
from kz_build.pins.project import Project

if TYPE_CHECKING:
    from kz_build.build.engine import Engine


class EngineChoice(NamedTuple):
    """An engine, the reason for it, the cores of the machine it runs on (0: this one), and the overrides that make builds
    differ from other machines'. `instead`: a daemon is configured here, yet it is engine host."""

    engine: Engine
    why: str
    cores: int = 0
    overrides: tuple[Override, ...] = ()
    instead: bool = False


def choose(project: Project, line: str, target: str, wanted: str) -> EngineChoice:
    """Return the engine that `--engine` names. For `docker`, raises what keeps it from running."""
    container = project.pins.target(target, line)["container"]
    instead = False
    if wanted == "host":
        why = "--engine host"
    elif wanted == "auto" and not container:
        why = f"{target} names no container in pins.yaml"
    elif wanted == "auto" and not daemon.is_configured():
        why = f"no container daemon: DOCKER_HOST is unset, {daemon.SOCKET} is not there"
    elif not container:
        raise ConfigError(
            f"target {target} has no `container` in pins.yaml, so engine docker has no image for it",
            hint="--engine host",
        )
    else:
        try:
            return _docker(project, line, container, wanted)
        except (MissingError, LockError) as error:
            if wanted == "docker":
                raise
            why, instead = f"engine docker cannot run: {_one_line(error)}", True
    return EngineChoice(HostEngine(cache_server(project)), why, instead=instead)


def _one_line(error: MissingError | LockError) -> str:
    """Return what keeps engine docker from running, as part of a line."""
    if isinstance(error, MissingError):
        return "; ".join(f"{item.what}: {item.why}" for item in error.missing)
    return str(error).splitlines()[0]


def _docker(project: Project, line: str, container: dict[str, str], wanted: str) -> EngineChoice:
    from kz_build.build.docker_engine import DockerEngine

    own = environment.variable("BASE_IMAGE")
    base, base_id = ("", "") if own else _locked(project, line, container["base"])
    connection = daemon.connect()
    if own:
        base, base_id = own, connection.layers(own)
    folder = (project.root / container["folder"]).resolve()
    if not (folder / "Dockerfile").is_file():
        raise ConfigError(f"{folder} has no Dockerfile", hint="fix `container` of the target in pins.yaml")
    image = daemon.Image(folder, base, base_id, environment.variable("APT_MIRROR"))
    engine = DockerEngine(
        connection, image, project.store, ccache=bool(container["ccache"]), server=cache_server(project)
    )
    overrides = [
        Override(name, value) for name in ("BASE_IMAGE", "APT_MIRROR") if (value := environment.variable(name))
    ]
    why = "--engine docker" if wanted == "docker" else f"a daemon answers at {connection.address}"
    return EngineChoice(engine, why, connection.cores, tuple(overrides))


def _locked(project: Project, line: str, name: str) -> tuple[str, str]:
    """Return (base, its digest) from the lock."""
    alternatives = "or BASE_IMAGE=NAME, an image of the daemon's (containers/base/make), or --engine host"
    if not name:
        raise LockError("the container of this target names no base", hint=alternatives.removeprefix("or "))
    digest = project.locked(line, name).get("digest")
    if not digest:
        raise LockError(
            f"pins.lock does not know the digest of {name}: its registry could not be reached when it was locked",
            hint=f"kz lock --write --line {line}, where a daemon reaches it; {alternatives}",
        )
    return f"{project.pins.source(name).location}@{digest}", str(digest)

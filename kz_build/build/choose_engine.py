"""Which engine builds a target: `docker` where a daemon answers and its base is known, else `host`, and why."""

from __future__ import annotations

from typing import NamedTuple

from kz_build.build.engine import Engine, Host
from kz_build.container import daemon
from kz_build.core import env as environment
from kz_build.core.errors import ConfigError, LockError, MissingError
from kz_build.pins.pins import Override
from kz_build.pins.project import Project

CHOICES = ("auto", "host", "docker")


class Chosen(NamedTuple):
    """An engine and why it is that one, the cores of the machine it runs on (0: this one), and what it makes this machine's
    own. `instead`: a daemon is named here, and yet it is engine host."""

    engine: Engine
    why: str
    cores: int = 0
    overrides: tuple[Override, ...] = ()
    instead: bool = False


def choose(project: Project, line: str, target: str, wanted: str) -> Chosen:
    """The engine that `--engine` names. Raises, where that is `docker`, for what keeps it from running."""
    container = project.pins.target(target, line)["container"]
    if wanted == "host":
        return Chosen(Host(), "--engine host")
    if wanted == "auto" and not container:
        return Chosen(Host(), f"{target} names no container in pins.yaml")
    if wanted == "auto" and not daemon.named():
        return Chosen(Host(), f"no container daemon: DOCKER_HOST is unset, {daemon.SOCKET} not there")
    if not container:
        raise ConfigError(
            f"target {target} has no `container` in pins.yaml, so that engine docker does not know its image",
            hint="--engine host",
        )
    try:
        return _docker(project, line, container, wanted)
    except (MissingError, LockError) as error:
        if wanted == "docker":
            raise
        return Chosen(Host(), f"engine docker cannot run: {_short(error)}", instead=True)


def _short(error: MissingError | LockError) -> str:
    """What keeps engine docker from running, as part of a line."""
    if isinstance(error, MissingError):
        return "; ".join(f"{lacks.what}: {lacks.why}" for lacks in error.missing)
    return str(error).splitlines()[0]


def _docker(project: Project, line: str, container: dict[str, str], wanted: str) -> Chosen:
    from kz_build.build.docker_engine import Container

    own = environment.variable("BASE_IMAGE")
    base, base_is = ("", "") if own else _locked(project, line, container["base"])
    found = daemon.connect()
    if own:
        base, base_is = own, found.layers(own)
    folder = (project.root / container["folder"]).resolve()
    if not (folder / "Dockerfile").is_file():
        raise ConfigError(f"{folder} has no Dockerfile", hint="mend `container` of the target in pins.yaml")
    image = daemon.Image(folder, base, base_is, environment.variable("APT_MIRROR"))
    engine = Container(found, image, project.store, ccache=bool(container["ccache"]))
    overrides = [
        Override(name, value) for name in ("BASE_IMAGE", "APT_MIRROR") if (value := environment.variable(name))
    ]
    why = "--engine docker" if wanted == "docker" else f"a daemon answers at {found.address}"
    return Chosen(engine, why, found.cores, tuple(overrides))


def _locked(project: Project, line: str, name: str) -> tuple[str, str]:
    """(base, its digest) as the lock has it."""
    own = "or BASE_IMAGE=NAME for one that the daemon has (containers/base/make makes one), or --engine host"
    if not name:
        raise LockError("the container of this target names no base", hint=own.removeprefix("or "))
    digest = project.locked(line, name).get("digest")
    if not digest:
        raise LockError(
            f"pins.lock does not know the digest of {name}: nobody who locked could reach its registry",
            hint=f"kz lock --write --line {line}, where a daemon reaches it; {own}",
        )
    return f"{project.pins.source(name).location}@{digest}", str(digest)

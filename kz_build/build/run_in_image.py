"""A verb about patches, run in the image that builds: with its git instead of this machine's.

The verb runs there, on the parts of the project and the store that it reads; upstream is asked here, before.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Collection, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import kz_build
from kz_build.build.choose_engine import choose
from kz_build.build.docker_engine import DockerEngine
from kz_build.container.sandbox import Sandbox
from kz_build.container.tar_stream import listing
from kz_build.core import transaction
from kz_build.core.command_log import Commands
from kz_build.core.errors import ConfigError, Missing, MissingError
from kz_build.core.locks import scratch_folder
from kz_build.core.rules import unsafe_path
from kz_build.git import repository as git
from kz_build.pins.load import LOCAL, LOCK, PINS
from kz_build.pins.project import Project
from kz_build.stack.files import stack_sources
from kz_build.upstream.verify import verify

_PROJECT = PurePosixPath("/kz/project")
_STORE = PurePosixPath("/kz/store")
_TOOL = PurePosixPath("/kz/tool/kz_build")


class VerbResult(NamedTuple):
    """A verb's exit code and output in the container, and the files of the project that it changed."""

    code: int
    stdout: str
    stderr: str
    changed: tuple[str, ...] = ()


def run_in_image(
    project: Project, lines: Sequence[str], argv: Sequence[str], commands: Commands, *, onto: Sequence[str] = ()
) -> VerbResult:
    """Run `kz ARGV` in the image of the first target. `onto` are revisions it needs; what it writes comes back if it succeeds.

    Raises MissingError if no daemon answers or the image lacks git or Python.
    """
    engine = choose(project, lines[0], project.pins.first_target, "docker").engine
    if not isinstance(engine, DockerEngine):
        raise ConfigError(f"engine {engine.name} has no image to run a verb in")
    verify(project, lines, onto)  # fetches what is missing of upstream: there is no network inside
    sandbox = engine.sandbox
    sandbox.daemon.ensure(engine.image, commands)
    with sandbox.started(()):
        code, output = sandbox.exec(["sh", "-c", "command -v git && python3 -c 'import yaml'"], may_fail=True)
        if code:
            remedy = "git, python3 and python3-yaml among its packages"
            raise MissingError((Missing(engine.image.tag, f"verbs about patches need more in it: {output}", remedy),))
        sandbox.send(Path(kz_build.__file__).parent, _TOOL)
        needed = _needed_paths(project, lines)
        sent = [path for path, kind in listing(project.root, needed) if kind == tarfile.REGTYPE]
        sandbox.send(project.root, _PROJECT, needed)
        for name, source in _repositories(project, lines).items():
            sandbox.send(source, _STORE / "git" / name)
        if (project.store / "validated").is_dir():
            sandbox.send(project.store, _STORE, ["validated/"])
        env = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        env |= {"KZ_CACHE": str(_STORE), "PYTHONPATH": str(_TOOL.parent), "PYTHONDONTWRITEBYTECODE": "1"}
        result = VerbResult(*sandbox.run_and_capture(["python3", "-m", "kz_build", "-C", str(_PROJECT), *argv], env))
        if result.code or argv[0] != "rebase":
            return result
        return result._replace(changed=_fetch_changes(project, sandbox, sent))


def _needed_paths(project: Project, lines: Sequence[str]) -> tuple[str, ...]:
    """Return what a verb reads of the project: its files, the stacks, and upstreams in its folder."""
    stacks = [f"{project.stack_folder(line, name)}/" for line in lines for name in stack_sources(project, line)]
    local = []
    for name in project.pins.data["sources"]:
        source = project.pins.source(name)
        if source.kind == "git" and (project.root / source.location).exists():
            local.append(source.location)
    return (PINS, LOCK, LOCAL, "patches/", *stacks, *local)


def _repositories(project: Project, lines: Sequence[str]) -> dict[str, Path]:
    """Return name in the container's store -> repository here, of each source with a stack."""
    repositories = {}
    for name in {name for line in lines for name in stack_sources(project, line)}:
        source = project.pins.source(name)
        if source.kind != "git":
            repositories["contents.git"] = git.contents_path(project.store)
            continue
        here = git.repository_path(project.store, name, project.git_url(source))
        there = project._replace(root=Path(_PROJECT)).git_url(source)
        repositories[git.repository_path(Path(_STORE), name, there).name] = here
    return repositories


def _fetch_changes(project: Project, sandbox: Sandbox, sent: Collection[str]) -> tuple[str, ...]:
    """Fetch what a verb wrote: pins, lock and patches, all as one change. Of what was sent, it removed what does not come back."""
    written = _written(project)
    with scratch_folder() as root:

        def place(name: str) -> Path | None:
            inside = name.removeprefix(f"{_PROJECT.name}/")
            return root / name if written.fullmatch(inside) and not unsafe_path(name) else None

        names = sandbox.fetch(str(_PROJECT), place)
        if f"{_PROJECT.name}/{PINS}" not in names:
            raise ConfigError("the container returned no project")
        new = {name.removeprefix(f"{_PROJECT.name}/"): (root / name).read_bytes() for name in names}
        old = {name for name in sent if place(f"{_PROJECT.name}/{name}")}
    return transaction.change_all(project.root, {**dict.fromkeys(old - set(new)), **new})


def _written(project: Project) -> re.Pattern[str]:
    """Return what the files match that a verb may change: pins, lock, and all below patches/ and the folders of other stacks."""
    own = [str(project.pins.source(name).options.get("patches") or "") for name in project.pins.data["sources"]]
    folders = ["patches", *(re.escape(folder).replace(re.escape("{line}"), "[^/]+") for folder in own if folder)]
    return re.compile(f"{re.escape(PINS)}|{re.escape(LOCK)}|(?:{'|'.join(folders)})/.+", re.DOTALL)

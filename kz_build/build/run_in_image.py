"""A verb about patches inside the image that builds: with its git, and away from this machine's.

The verb itself runs there, on what of the project and the store it reads; upstream is asked here, before.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import NamedTuple

import kz_build
from kz_build.build.choose_engine import choose
from kz_build.build.docker_engine import Container
from kz_build.core import transaction
from kz_build.core.command_log import Commands
from kz_build.core.errors import ConfigError, Missing, MissingError
from kz_build.core.rules import unsafe_path
from kz_build.git import repository as git
from kz_build.pins.load import LOCAL, LOCK, PINS
from kz_build.pins.project import Project
from kz_build.stack.files import stack_sources
from kz_build.upstream.verify import verify

_AT = PurePosixPath("/kz/project")
_STORE = PurePosixPath("/kz/store")
_TOOL = PurePosixPath("/kz/tool/kz_build")
_WRITES = (f"{_AT.name}/{PINS}", f"{_AT.name}/{LOCK}", f"{_AT.name}/patches/")


class Said(NamedTuple):
    """What a verb said in the container, its exit code, and the files of the project that it changed."""

    code: int
    stdout: str
    stderr: str
    changed: tuple[str, ...] = ()


def inside(
    project: Project, lines: Sequence[str], argv: Sequence[str], commands: Commands, *, onto: Sequence[str] = ()
) -> Said:
    """Run `kz ARGV` in the image of the first target. `onto` are revisions it will want; what it writes comes back if it ends well.

    Raises MissingError where no daemon answers or the image lacks git or Python.
    """
    engine = choose(project, lines[0], project.pins.targets[0], "docker").engine
    assert isinstance(engine, Container)
    verify(project, lines, onto)  # what is not here yet of upstream is fetched now: there is no network inside
    box = engine.box
    box.daemon.ensure(engine.image, commands)
    with box.started(()):
        code, said = box.exec(["sh", "-c", "command -v git && python3 -c 'import yaml'"], may_fail=True)
        if code:
            brings = "git, python3 and python3-yaml among its packages"
            raise MissingError((Missing(engine.image.tag, f"verbs about patches need more in it: {said}", brings),))
        box.send(Path(kz_build.__file__).parent, _TOOL)
        box.send(project.root, _AT, _read(project, lines))
        for name, source in _repositories(project, lines).items():
            box.send(source, _STORE / "git" / name)
        if (project.store / "validated").is_dir():
            box.send(project.store, _STORE, ["validated/"])
        env = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        env |= {"KZ_CACHE": str(_STORE), "PYTHONPATH": str(_TOOL.parent), "PYTHONDONTWRITEBYTECODE": "1"}
        done = Said(*box.talk(["python3", "-m", "kz_build", "-C", str(_AT), *argv], env))
        return done if done.code or argv[0] != "rebase" else done._replace(changed=_take(project, engine))


def _read(project: Project, lines: Sequence[str]) -> tuple[str, ...]:
    """What a verb reads of the project: its files, the stacks, and upstreams that lie in it."""
    stacks = [f"{project.stack_folder(line, name)}/" for line in lines for name in stack_sources(project, line)]
    local = []
    for name in project.pins.data["sources"]:
        source = project.pins.source(name)
        if source.kind == "git" and (project.root / source.location).exists():
            local.append(source.location)
    return (PINS, LOCK, LOCAL, "patches/", *stacks, *local)


def _repositories(project: Project, lines: Sequence[str]) -> dict[str, Path]:
    """Name in the container's store -> repository here, of each source with a stack."""
    found = {}
    for name in {name for line in lines for name in stack_sources(project, line)}:
        source = project.pins.source(name)
        if source.kind != "git":
            found["contents.git"] = git.contents_path(project.store)
            continue
        here = git.repository_path(project.store, name, project.git_url(source))
        there = project._replace(root=Path(_AT)).git_url(source)
        found[git.repository_path(Path(_STORE), name, there).name] = here
    return found


def _take(project: Project, engine: Container) -> tuple[str, ...]:
    """Bring back what a verb wrote: pins, lock and patches, all as one change."""
    with TemporaryDirectory() as folder:
        root = Path(folder)

        def place(name: str) -> Path | None:
            return root / name if name.startswith(_WRITES) and not unsafe_path(name) else None

        names = engine.box.take(str(_AT), place)
        if f"{_AT.name}/{PINS}" not in names:
            raise ConfigError("the container gave no project back")
        new = {name.removeprefix(f"{_AT.name}/"): (root / name).read_bytes() for name in names}
    old = {p.relative_to(project.root).as_posix() for p in (project.root / "patches").rglob("*") if p.is_file()}
    changes = {**dict.fromkeys(old - set(new)), **new}
    changed = [name for name, data in changes.items() if data is None or _differs(project.root / name, data)]
    transaction.change_all(project.root, {name: changes[name] for name in changed})
    return tuple(sorted(changed))


def _differs(path: Path, data: bytes) -> bool:
    return not path.is_file() or path.read_bytes() != data

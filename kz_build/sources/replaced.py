"""Folders and files of this machine that pins.local.yaml puts in the place of sources and submodules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kz_build.core.env import index_url
from kz_build.core.errors import ConfigError, Problem
from kz_build.pins.load import LOCAL
from kz_build.pins.pins import Replacement, Source
from kz_build.pins.project import Project
from kz_build.sources.request import Request, file_address, filled


def check(project: Project, request: Request) -> None:
    """Raise ConfigError with every folder, file and repository that pins.local.yaml names and that is not what it must be."""
    problems = []
    for name in request.names:
        source = project.pins.source(name)
        if own := project.pins.replacement(name):
            problems += [(name, wrong) for wrong in _wrong(project, request.line, source, own)]
        for path, own in project.pins.replaced_submodules(name).items() if request.paths is None else ():
            if not f"{name}/{path}/".startswith(request.omit):
                problems += [(f"{name}/{path}", wrong) for wrong in _wrong(project, request.line, source, own)]
    if problems:
        raise ConfigError(
            f"{LOCAL} names what is not there:",
            tuple(Problem(LOCAL, 0, f"sources.{name}: {wrong}") for name, wrong in problems),
        )


def _wrong(project: Project, line: str, source: Source, own: Replacement) -> Iterator[str]:
    """Yield what is wrong with the folder, file or repository of a replacement."""
    version = project.pins.line(line).get(source.name, "")
    for kind, address in (("folder", own.folder), ("file", own.file), ("git", own.git), ("index", own.index)):
        path = project.local_path(address.replace("{version}", version)) if address else None
        if path is None:
            if kind == "folder" and address:
                yield f"the folder {address} is no path of this machine"
        elif not path.exists():
            yield f"the {kind} {path} is not there"
        elif kind == "file" and path.is_dir():
            yield f"{path} is a folder: write `folder`, not `file`"
        elif kind == "folder" and not path.is_dir():
            yield f"{path} is a file: write `file`, not `folder`"
        elif kind == "folder" and _is_bare(path):
            yield f"{path} is a git repository without files: write `git`, not `folder`"
        elif kind == "folder" and source.kind in ("wheel", "archive") and not file_in(project, line, source, path):
            suffix = ".whl" if source.kind == "wheel" else Path(file_address(project, line, source)).suffix
            if others := sorted(p.name for p in path.glob(f"*{suffix}") if suffix):
                yield f"{path} has no {_wanted_file(project, line, source)}; it has {', '.join(others[:3])}"


def _is_bare(folder: Path) -> bool:
    return (folder / "HEAD").is_file() and (folder / "objects").is_dir() and (folder / "refs").is_dir()


def _wanted_file(project: Project, line: str, source: Source) -> str:
    version = project.pins.line(line)[source.name]
    if source.kind == "wheel":
        return f"wheel of {source.location} {version} for {source.options['tag']}"
    return Path(file_address(project, line, source)).name


def folder_of(project: Project, line: str, source: Source) -> Path | None:
    """Return the folder that replaces a source, None without one."""
    own = project.pins.replacement(source.name)
    return Path(filled(project, line, source.name, own.folder)) if own and own.folder else None


def file_in(project: Project, line: str, source: Source, folder: Path) -> Path | None:
    """Return a wheel's or archive's file in a folder, None if the folder has no such file."""
    if source.kind == "wheel":
        from kz_build.sources.package_index import wheel_in  # with requests 160 ms

        return wheel_in(folder, source.location, project.pins.line(line)[source.name], source.options["tag"])
    path = folder / _wanted_file(project, line, source)
    return path if path.is_file() else None


def has_only_content(project: Project, line: str, source: Source) -> bool:
    """Return whether pins.local.yaml has a wheel or archive without its file: a tree, or a folder with what it contains."""
    own, folder = project.pins.replacement(source.name), folder_of(project, line, source)
    return bool(own and own.git or folder and folder.is_dir() and not file_in(project, line, source, folder))


def no_file(target: str, name: str) -> ConfigError:
    """Return the error for a target that uses the file of a source of which there is only the content."""
    return ConfigError(
        f"target {target} uses the file of {name} as it is, and {LOCAL} has only its content",
        hint=f"name the file, or a folder that has it: sources: {{{name}: {{file: PATH}}}}",
    )


def index_address(project: Project, source: Source) -> str:
    """Return the package index of a wheel: a URL, or the absolute path of a folder."""
    own = project.pins.replacement(source.name)
    named = index_url(own.index if own and own.index else source.options["index"])
    path = project.local_path(named)
    return str(path) if path else named

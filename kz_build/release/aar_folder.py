"""The folder of an AAR: the AAR, its piece for Gradle, and papers of it and of the libraries in it, all of them or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kz_build import __version__
from kz_build.core import files, locks
from kz_build.core.check import Check
from kz_build.core.errors import LockError
from kz_build.pins.lock_file import as_text
from kz_build.pins.project import Project
from kz_build.release import statement as papers
from kz_build.release.statement import Component
from kz_build.release.write import sign as signed
from kz_build.sources.fetched import Fetched

Statement = Callable[[Mapping[str, str]], dict[str, Any]]
"""Gives the provenance of files: name -> sha256."""


@dataclass(frozen=True)
class Package:
    """An AAR that kz made. `libraries` are (path in it, `replaced` or `added`), `left_out` (path, why). `path` and `sha256`
    are empty where a check failed: nothing is written then.
    `overrides` say what made it this machine's own, as those of a build do."""

    line: str
    target: str
    abi: str
    version: str
    path: str
    sha256: str
    tree: str
    libraries: tuple[tuple[str, str], ...]
    left_out: tuple[tuple[str, str], ...]
    dependencies: tuple[str, ...]
    hexagon: bool
    overrides: tuple[Mapping[str, str], ...]
    checks: tuple[Check, ...]


Snippet = Callable[[Package, str], str]
"""Gives the piece for Gradle of a package and its file's name."""


def publish(
    project: Project, made: Package, data: bytes, snippet: str, statement: Statement, sign: Path | None
) -> None:
    """Write the folder of a package. Raises LockError where the target has no papers."""
    path, own = Path(made.path), project.dist_folder(made.line, made.target)
    if not (own / papers.SUMS).is_file():
        hint = f"kz build --line {made.line} --target {made.target}"
        raise LockError(f"{made.target} of {made.line} has no papers in {own}", hint=hint)
    with (
        locks.locked(project.out("build", made.line), made.target),
        files.new_folder(path.parent, project.out("package", made.line)) as folder,
    ):
        files.write_new(folder / path.name, data)
        files.write_new(folder / path.with_suffix(".gradle.kts").name, snippet.encode())
        subjects = {p.name: files.sha256_file(p) for p in folder.iterdir()}
        files.write_new(folder / papers.PROVENANCE, as_text(statement(subjects)).encode())
        for name in papers.parse_sums((own / papers.SUMS).read_text()):
            if name in (papers.PROVENANCE, papers.SBOM) or name.startswith(f"{papers.NOTICES}/"):
                files.hardlink_or_copy(own / name, folder / papers.LIBRARIES / name)
        for name in papers.UNLISTED:
            if (own / name).is_file():
                files.hardlink_or_copy(own / name, folder / papers.LIBRARIES / name)
        there = [p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()]
        sums = {name: files.sha256_file(folder / name) for name in there}
        text = papers.sums_text(sums).encode()
        files.write_new(folder / papers.SUMS, text)
        if not sign and (path.parent / papers.SUMS).is_file() and (path.parent / papers.SUMS).read_bytes() == text:
            for name in (papers.SIGNATURE, papers.PUBLIC_KEY):  # the same again: a signature on it stays
                if (path.parent / name).is_file():
                    files.hardlink_or_copy(path.parent / name, folder / name)
    if sign:
        signed(path.parent, sign, f"kz {made.line}/{made.target} aar")


def said(project: Project, made: Package, source: Fetched, aar: Fetched, paths: Mapping[str, Path]) -> Statement:
    """What the AAR was made of: upstream's, the libraries, and the tree that the Java side was held against."""
    entry = project.lock.entry(made.line, aar.name) or {}
    at, digest = source.trees[0], aar.identity.removeprefix("sha256 ")
    url = papers.public_url(str(entry.get("url") or ""))
    components = [
        Component(aar.name, aar.name, aar.version, "archive", url, "", {"sha256": digest}, {}, (), aar.note),
        Component(source.name, source.name, source.version, "git", "", "", {"gitTree": at.tree}, {}, (), source.note),
    ]
    for path, _ in made.libraries:
        library = paths[path.rsplit("/", 1)[-1]]
        name = library.relative_to(project.dist_folder(made.line, made.target)).as_posix()
        digests = {"sha256": files.sha256_file(library)}
        components.append(Component(name, name, made.version, "artifact", "", "", digests, {}, ()))
    overrides = [{**o, "value": papers.public_url(o["value"]) or o["value"]} for o in made.overrides]
    external = {"line": made.line, "target": made.target, "canonical": not overrides, "overrides": overrides}
    internal = {"libraries": dict(made.libraries), "leftOut": dict(made.left_out)}
    return lambda subjects: papers.statement(
        subjects, components, external, internal, None, __version__, papers.PACKAGE_TYPE
    )

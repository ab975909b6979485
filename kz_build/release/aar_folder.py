"""The folder of an AAR: the AAR, its Gradle snippet, and release files of it and of its libraries; all of them or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kz_build import __version__
from kz_build.core import files, locks
from kz_build.core.check import Check
from kz_build.core.errors import LockError
from kz_build.pins.lock_file import as_text
from kz_build.pins.project import Project
from kz_build.release import statement
from kz_build.release.gradle import snippet
from kz_build.release.statement import Component
from kz_build.release.write import sign as signed
from kz_build.sources.fetched import Fetched


@dataclass(frozen=True)
class Package:
    """An AAR that kz made. `libraries` are (path in it, `replaced` or `added`), `left_out` (path, why). `path` and `sha256`
    are empty if a check failed: then nothing is written.
    `overrides` make it specific to this machine, like those of a build."""

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


def publish(
    project: Project,
    package: Package,
    data: bytes,
    source: Fetched,
    aar: Fetched,
    libraries: Mapping[str, Path],
    sign: Path | None,
) -> None:
    """Write the folder of a package. Raises LockError if the target has no release files."""
    path, own = Path(package.path), project.dist_folder(package.line, package.target)
    if not (own / statement.SUMS).is_file():
        hint = f"kz build --line {package.line} --target {package.target}"
        raise LockError(f"{package.target} of {package.line} has no release files in {own}", hint=hint)
    with (
        locks.lock(project.out("build", package.line), package.target),
        files.new_folder(path.parent, project.out("package", package.line)) as folder,
    ):
        files.write_new(folder / path.name, data)
        files.write_new(folder / path.with_suffix(".gradle.kts").name, snippet(package, path.name).encode())
        subjects = {p.name: files.sha256_file(p) for p in folder.iterdir()}
        provenance = _provenance(project, package, source, aar, libraries, subjects)
        files.write_new(folder / statement.PROVENANCE, as_text(provenance).encode())
        for name in statement.parse_sums((own / statement.SUMS).read_text()):
            if name in (statement.PROVENANCE, statement.SBOM) or name.startswith(f"{statement.NOTICES}/"):
                files.hardlink_or_copy(own / name, folder / statement.LIBRARIES / name)
        for name in statement.UNLISTED:
            if (own / name).is_file():
                files.hardlink_or_copy(own / name, folder / statement.LIBRARIES / name)
        there = [p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()]
        sums = {name: files.sha256_file(folder / name) for name in there}
        text = statement.sums_text(sums).encode()
        files.write_new(folder / statement.SUMS, text)
        published = path.parent / statement.SUMS
        if not sign and published.is_file() and published.read_bytes() == text:
            for name in (statement.SIGNATURE, statement.PUBLIC_KEY):  # nothing changed: its signature stays
                if (path.parent / name).is_file():
                    files.hardlink_or_copy(path.parent / name, folder / name)
    if sign:
        signed(path.parent, sign, f"kz {package.line}/{package.target} aar")


def _provenance(
    project: Project,
    package: Package,
    source: Fetched,
    aar: Fetched,
    libraries: Mapping[str, Path],
    subjects: Mapping[str, str],
) -> dict[str, object]:
    """Return the provenance of an AAR: upstream's AAR, the libraries, and the tree that its Java side was compared with."""
    entry = project.lock.entry(package.line, aar.name) or {}
    at, digest = source.trees[0], aar.identity.removeprefix("sha256 ")
    url = "" if aar.note else statement.public_url(str(entry.get("url") or ""))
    components = [
        Component(aar.name, aar.name, aar.version, "archive", url, "", {"sha256": digest}, {}, (), aar.note),
        Component(source.name, source.name, source.version, "git", "", "", {"gitTree": at.tree}, {}, (), source.note),
    ]
    for path, _ in package.libraries:
        library = libraries[path.rsplit("/", 1)[-1]]
        name = library.relative_to(project.dist_folder(package.line, package.target)).as_posix()
        digests = {"sha256": files.sha256_file(library)}
        components.append(Component(name, name, package.version, "artifact", "", "", digests, {}, ()))
    overrides = [{**o, "value": statement.public_url(o["value"]) or o["value"]} for o in package.overrides]
    external = {"line": package.line, "target": package.target, "canonical": not overrides, "overrides": overrides}
    internal = {"libraries": dict(package.libraries), "leftOut": dict(package.left_out)}
    return statement.provenance_statement(
        subjects, components, external, internal, None, __version__, statement.PACKAGE_TYPE
    )

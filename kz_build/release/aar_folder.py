"""The folder of an AAR: the AAR, its Gradle snippet, and release files of it and of its libraries; all of them or none."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kz_build import __version__
from kz_build.checks.elf_rules import android_abi
from kz_build.core import files, locks
from kz_build.core.check import Check
from kz_build.core.errors import LockError
from kz_build.core.paths import files_below
from kz_build.core.stage_record import Output, changed, load_any
from kz_build.pins.lock_file import as_text
from kz_build.pins.project import Project
from kz_build.release import maven, statement
from kz_build.release.gradle import snippet
from kz_build.release.maven import Coordinates, coordinates
from kz_build.release.statement import Component
from kz_build.release.write import sign as signed
from kz_build.release.write import write_sums
from kz_build.sources.fetched import Fetched


@dataclass(frozen=True)
class Part:
    """What a target gives to an AAR: its libraries in `folder`, and their audit profiles, by file name. `wanted` is its plain form.
    `overrides` make it specific to this machine."""

    target: str
    wanted: Mapping[str, Any]
    folder: Path
    libraries: Mapping[str, str]
    profiles: Mapping[str, str]
    overrides: tuple[Mapping[str, str], ...]

    @property
    def abi(self) -> str:
        return str(self.wanted["abi"])

    def path(self, name: str) -> Path:
        """Return the path of a library."""
        return self.folder / self.libraries[name]


@dataclass(frozen=True)
class Package:
    """An AAR that kz made, with the libraries of one target for each of `abis`. `libraries` are (path in it, `replaced` or `added`), `left_out` (path, why). `path` and `sha256`
    are empty if a check failed: then nothing is written. `qnn` is the version of QNN that they need, `qnn_runtime` its coordinates
    in Maven; both '' if there is none.
    `overrides` make it specific to this machine, like those of a build."""

    line: str
    targets: tuple[str, ...]
    abis: tuple[str, ...]
    coordinates: str
    path: str
    sha256: str
    tree: str
    libraries: tuple[tuple[str, str], ...]
    left_out: tuple[tuple[str, str], ...]
    dependencies: tuple[str, ...]
    hexagon: bool
    qnn: str
    qnn_runtime: str
    overrides: tuple[Mapping[str, str], ...]
    checks: tuple[Check, ...]

    @property
    def name(self) -> str:
        """The name of its folder and its record."""
        return "+".join(self.targets)

    @property
    def maven(self) -> Coordinates:
        """What names it in Maven."""
        return coordinates(self.coordinates)

    @property
    def has_qnn(self) -> bool:
        """Whether QNN itself is among its libraries."""
        return any(place.endswith("/libQnnHtp.so") for place, _ in self.libraries)


def publish(
    project: Project,
    package: Package,
    data: bytes,
    source: Fetched,
    aar: Fetched,
    parts: Sequence[Part],
    sign: Path | None,
) -> None:
    """Write the folder of a package. Raises LockError if a target's release files are not as its build wrote them."""
    path = Path(package.path)
    with contextlib.ExitStack() as stack:
        for part in parts:
            stack.enter_context(locks.lock(project.out("build", package.line), part.target))
        folder = stack.enter_context(files.new_folder(path.parent, project.out("package", package.line)))
        files.write_new(folder / path.name, data)
        files.write_new(folder / path.with_suffix(".gradle.kts").name, snippet(package).encode())
        _add_repository(folder, package, data)
        subjects = {p.relative_to(folder).as_posix(): files.sha256_file(p) for p in files_below(folder)}
        provenance = _provenance(project, package, source, aar, parts, subjects)
        files.write_new(folder / statement.PROVENANCE, as_text(provenance).encode())
        for part in parts:
            _add_release_files(project, package.line, part, folder / statement.LIBRARIES / part.target)
        sums = write_sums(folder, subjects)
        published = path.parent / statement.SUMS
        if published.is_file() and published.read_bytes() == sums:
            # Nothing changed: all signatures stay.
            for file in path.parent.iterdir():
                if statement.is_unlisted(file.name) and file.name != statement.SUMS and file.is_file():
                    files.hardlink_or_copy(file, folder / file.name)
    if sign:
        signed(path.parent, sign, f"kz {package.line}/{package.name} aar")


def _add_repository(folder: Path, package: Package, aar: bytes) -> None:
    """Add a Maven repository with the AAR alone, and its digests for Gradle."""
    own = package.maven
    what = f"line {package.line}, {'targets' if len(package.targets) > 1 else 'target'} {', '.join(package.targets)}, tree {package.tree}"
    pom = maven.pom(own, [coordinates(at) for at in package.dependencies], what)
    repository = folder / maven.FOLDER
    files.hardlink_or_copy(folder / own.file("aar"), repository / own.place("aar"))
    files.write_new(repository / own.place("pom"), pom)
    for place, digest in maven.checksums({own.place("aar"): aar, own.place("pom"): pom}).items():
        files.write_new(repository / place, digest)
    digests = {own.file("aar"): package.sha256, own.file("pom"): hashlib.sha256(pom).hexdigest()}
    files.write_new(folder / maven.VERIFICATION, maven.verification(own, digests))


def _add_release_files(project: Project, line: str, part: Part, to: Path) -> None:
    """Add what describes a target's libraries: its release files without the artifacts, as its build wrote them."""
    own, hint = part.folder, f"kz build --line {line} --target {part.target}"
    record = load_any(project.record("papers", line, part.target))
    if record is None or not (own / statement.SUMS).is_file():
        raise LockError(f"{part.target} of {line} has no release files in {own}", hint=hint)
    other = changed(own, {statement.SUMS: Output(record.get("sums", str))})
    listed = {} if other else statement.parse_sums((own / statement.SUMS).read_text("utf-8"))
    notices = f"{statement.NOTICES}/"
    names = [n for n in listed if n in (statement.PROVENANCE, statement.SBOM) or n.startswith(notices)]
    if other := other or changed(own, {name: Output(listed[name]) for name in names}):
        raise LockError(f"{other} has changed since the build wrote it", hint=hint)
    for name in (*names, *(name for name in statement.UNLISTED if (own / name).is_file())):
        files.hardlink_or_copy(own / name, to / name)


def _provenance(
    project: Project,
    package: Package,
    source: Fetched,
    aar: Fetched,
    parts: Sequence[Part],
    subjects: Mapping[str, str],
) -> dict[str, object]:
    """Return the provenance of an AAR: upstream's AAR, the libraries, and the tree that its Java side was compared with."""
    entry = project.lock.entry(package.line, aar.name) or {}
    at, digest = source.trees[0], aar.identity.removeprefix("sha256 ")
    url = "" if aar.note else statement.public_url(str(entry.get("url") or ""))
    components = [
        Component(aar.name, aar.name, aar.version, "archive", url, "", {"sha256": digest}, {}, (), "", aar.note),
        Component(
            source.name, source.name, source.version, "git", "", "", {"gitTree": at.tree}, {}, (), "", source.note
        ),
    ]
    by_abi = {f"jni/{part.abi}": part for part in parts} | {
        f"libs/android.{android_abi(part.abi)}": part for part in parts
    }
    libraries = {}
    for place, _ in package.libraries:
        *_, above, folder, name = place.split("/")
        part = by_abi[f"{above}/{folder}"]
        libraries[place] = f"{part.target}/{part.libraries[name]}"
        digests = {"sha256": files.sha256_file(part.path(name))}
        components.append(
            Component(libraries[place], libraries[place], package.maven.version, "artifact", "", "", digests, {}, ())
        )
    overrides = [{**o, "value": statement.public_url(o["value"]) or o["value"]} for o in package.overrides]
    external = {
        "line": package.line,
        "targets": list(package.targets),
        "canonical": not overrides,
        "overrides": overrides,
    }
    internal = {"libraries": libraries, "leftOut": dict(package.left_out)}
    return statement.provenance_statement(
        subjects, components, external, internal, None, __version__, statement.PACKAGE_TYPE
    )

"""package: upstream's published AAR with the libraries of targets instead of its own (docs/reference/verbs/package.md)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kz_build.build.build import java_paths, with_stacks
from kz_build.build.wheel_types import local_version, zip_bytes
from kz_build.checks.apk_qnn import QNN
from kz_build.checks.audit import recorded
from kz_build.core import files
from kz_build.core.errors import AuditError, ConfigError, LockError
from kz_build.core.progress import Watch
from kz_build.core.stage_record import Output, StageRecord, load_any
from kz_build.formats import zip as zips
from kz_build.formats.library import qnn_version
from kz_build.formats.qnn_maven import ARTIFACT, maven_version
from kz_build.git.object_types import Blob
from kz_build.pins.load import PLACEHOLDER
from kz_build.pins.pins import JavaSources, digest_of
from kz_build.pins.project import Project
from kz_build.release.aar_checks import aar_checks
from kz_build.release.aar_folder import Package, Part, publish
from kz_build.release.maven import coordinates
from kz_build.release.prefab import headers_of, modules
from kz_build.sources.fetch import fetch
from kz_build.sources.fetched import Fetched
from kz_build.sources.request import Request
from kz_build.stack.apply import apply

_LIBRARY = re.compile(r"jni/([^/]+)/([^/]+)")


def package(project: Project, line: str, targets: Sequence[str], watch: Watch, sign: Path | None = None) -> Package:
    """Write dist/<line>/aar/<targets>/: <name>-<version>+kz.g<tree>-<targets>.aar, its Gradle snippet and release files.

    Raises ConfigError for targets that cannot be packed, or not together, LockError for one that was not built, or an AAR
    of unknown digest, AuditError for one whose audit failed.
    """
    wanted = _wanted(project, line, targets)
    how, java = next((one["package"], one["audit"]["java"]) for one in wanted.values())
    for target in wanted:
        if failed := [c for c in recorded(project, line, target) if c.failed]:
            raise AuditError(
                f"{len(failed)} checks of {target} failed", hint=f"kz audit --line {line} --target {target}"
            )
    prefab = {library: paths for one in wanted.values() for library, paths in one["package"]["prefab"].items()}
    sources = _fetched(project, line, java, [path for paths in prefab.values() for path in paths], how["aar"], watch)
    source, aar = with_stacks(sources, apply(project, line, watch, (java["source"],)))
    parts = tuple(_part(project, line, target, one, source) for target, one in wanted.items())
    content = _content(aar)
    dependencies = _dependencies(project, line, parts)
    members, placed, left_out = combine(content, parts, dependencies)
    checks = tuple(aar_checks(content, parts, dict(placed), dependencies, source, sources[0]))
    tree = source.trees[0].tree
    name = "+".join(wanted)
    own = coordinates(f"{how['module']}:{local_version(aar.version, tree)}-{name}")
    path = project.dist_folder(line, "aar", name) / own.file("aar")
    exported = modules(own.name, aar.version, prefab, parts, headers_of(source, prefab))
    members |= {place: Blob("100644", data) for place, data in exported.items()}
    placed += tuple((place, "added") for place in exported if place.endswith(".so"))
    passed = not any(c.failed for c in checks)
    data = zip_bytes(tuple(sorted(members.items()))) if passed else b""
    sha256 = hashlib.sha256(data).hexdigest() if passed else ""
    overrides = [o for part in parts for o in part.overrides]
    overrides += [{"where": s.name, "value": s.note} for s in (source, aar) if s.note]
    qnn, runtime = qnn_of(parts, project.pins.line(line))
    if runtime and not any(place.endswith("/libQnnHtp.so") for place, _ in placed):
        dependencies.setdefault(runtime, ())
    result = Package(
        line, tuple(wanted), tuple(part.abi for part in parts), str(own), str(path) if sha256 else "", sha256, tree,
        placed, left_out, tuple(dependencies), _hexagon(parts, dict(placed)), qnn, runtime,
        tuple(o for at, o in enumerate(overrides) if o not in overrides[:at]), checks,
    )  # fmt: skip
    if sha256:
        publish(project, result, data, source, aar, parts, sign)
    _record(project, result, aar)
    return result


def _wanted(project: Project, line: str, targets: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Return the plain forms of targets, in the order of pins.yaml. Raises ConfigError unless one AAR can have all of them."""
    forms = {name: project.pins.target(name, line) for name in targets}
    wanted: dict[str, Mapping[str, Any]] = {name: forms[name] for name in project.pins.targets if name in forms}
    for name, one in wanted.items():
        if not one["package"] or not one["audit"]["java"]:
            raise ConfigError(
                f"{name} says no `package`, or no `audit.java`, in pins.yaml",
                hint="kz's docs/reference/verbs/package.md",
            )
    (first, form), *rest = wanted.items()
    for name, one in rest:
        same = {f"package.{key}": form["package"][key] == one["package"][key] for key in ("aar", "module")}
        for key, equal in {**same, "audit.java": form["audit"]["java"] == one["audit"]["java"]}.items():
            if not equal:
                raise ConfigError(
                    f"{first} and {name} have no AAR in common: their {key} differs", hint="pack each alone"
                )
    by_abi: dict[str, str] = {}
    for name, one in wanted.items():
        if (other := by_abi.setdefault(one["abi"], name)) != name:
            raise ConfigError(f"{other} and {name} are both for {one['abi']}", hint="name one target for each ABI")
    return wanted


def _fetched(
    project: Project, line: str, java: JavaSources, headers: Sequence[str], aar: str, watch: Watch
) -> tuple[Fetched, ...]:
    """Fetch the source of the Java side, only its files and these headers, and upstream's AAR."""
    wanted = JavaSources(source=java["source"], paths=[*java["paths"], *headers], classes=[])
    paths = java_paths(project, line, wanted, watch)
    return fetch(project, Request(line, (java["source"], aar), paths={java["source"]: paths}, watch=watch))


def _content(aar: Fetched) -> dict[str, bytes]:
    """Return the AAR's files by path."""
    if not aar.file:
        raise ConfigError(f"{aar.name} {aar.version} is not a file", hint="`package.aar` in pins.yaml names an archive")
    with aar.file.open("rb") as file, zips.opened(f"{aar.name} {aar.version}", file) as archive:
        if sum(e.size for e in archive.entries) > zips.MOST:
            raise AuditError(f"{aar.name} {aar.version} would unpack to more than {zips.MOST:,} bytes")
        return {entry.name: archive.read(entry, zips.MOST) for entry in archive.entries}


def _part(project: Project, line: str, target: str, wanted: Mapping[str, Any], source: Fetched) -> Part:
    """Return what a target gives. Raises LockError unless it was built of this tree."""
    record = load_any(project.record("build", line, target))
    sources = record.get("sources", list) if record else ()
    tree = next((s["trees"].get(".") for s in sources if s["name"] == source.name), None)
    if not record or tree != source.trees[0].tree:
        raise LockError(
            f"{target} of {line} was built of {source.name} with tree {tree}, its stack now gives {source.trees[0].tree}",
            hint=f"kz build --line {line} --target {target}",
        )
    kept = {n: f.profile for n, f in record.outputs.items() if f.profile in ("ours", "vendor", "hexagon")}
    return Part(
        target,
        wanted,
        project.dist_folder(line, target),
        {Path(n).name: n for n in kept},
        {Path(n).name: profile for n, profile in kept.items()},
        tuple(record.get("overrides", list)),
    )


def _dependencies(project: Project, line: str, parts: Sequence[Part]) -> dict[str, tuple[str, ...]]:
    """Return Gradle coordinates with versions -> the libraries that come with them, of all targets."""
    result: dict[str, tuple[str, ...]] = {}
    for part in parts:
        for at, libraries in part.wanted["package"]["dependencies"].items():
            filled = _with_versions(project, line, at)
            result[filled] = tuple(dict.fromkeys((*result.get(filled, ()), *libraries)))
    return result


def _with_versions(project: Project, line: str, at: str) -> str:
    """Return coordinates with pinned versions instead of names."""
    pins = project.pins.line(line)
    if unknown := [name for name in PLACEHOLDER.findall(at) if name not in pins]:
        raise ConfigError(f"package.dependencies: {at}: line {line} has no {unknown[0]}", hint="fix pins.yaml")
    filled = PLACEHOLDER.sub(lambda m: pins[m[1]], at)
    if filled.count(":") != 2:
        raise ConfigError(f"package.dependencies: {filled} is not GROUP:NAME:VERSION", hint="fix pins.yaml")
    return filled


_Placed = tuple[tuple[str, str], ...]


def combine(
    content: Mapping[str, bytes], parts: Sequence[Part], dependencies: Mapping[str, Sequence[str]]
) -> tuple[dict[str, Blob], _Placed, _Placed]:
    """Return (files of the new AAR, libraries put in, files left out)."""
    members: dict[str, Blob] = {}
    left_out: list[tuple[str, str]] = []
    by_abi = {part.abi: part for part in parts}
    for place, data in content.items():
        match = _LIBRARY.fullmatch(place)
        if not match:
            members[place] = Blob("100644", data)
        elif match[1] not in by_abi:
            left_out.append((place, f"{match[1]} is not built here"))
        elif match[2] not in by_abi[match[1]].libraries:
            left_out.append((place, f"{by_abi[match[1]].target} does not build it"))
    provided = {library: at for at, libraries in dependencies.items() for library in libraries}
    placed = []
    for place, path in sorted((f"jni/{part.abi}/{name}", part.path(name)) for part in parts for name in part.libraries):
        if path.name in provided:
            left_out.append((place, f"comes with {provided[path.name]}"))
            continue
        members[place] = Blob("100644", path.read_bytes())
        placed.append((place, "replaced" if place in content else "added"))
    return members, tuple(placed), tuple(sorted(left_out))


def _hexagon(parts: Sequence[Part], placed: Mapping[str, str]) -> bool:
    return any(
        profile == "hexagon" and f"jni/{part.abi}/{name}" in placed
        for part in parts
        for name, profile in part.profiles.items()
    )


def qnn_of(parts: Sequence[Part], pins: Mapping[str, str]) -> tuple[str, str]:
    """Return the version of QNN that the libraries need, and its coordinates in Maven; '' for what there is not."""
    for part in parts:
        if any(QNN.fullmatch(name) for name in part.libraries):
            own = qnn_version(part.path("libQnnHtp.so")) if "libQnnHtp.so" in part.libraries else ""
            version = own or pins.get("qnn-sdk", "")
            maven = maven_version(version)
            return version, f"{ARTIFACT}:{maven}" if maven else ""
    return "", ""


def _record(project: Project, result: Package, aar: Fetched) -> None:
    record = project.record("package", result.line, result.name)
    if not result.path:
        files.remove(record)
        return
    facts = {k: v for k, v in vars(result).items() if k not in ("checks", "overrides", "sha256")}
    facts["path"] = Path(result.path).relative_to(project.root).as_posix()
    facts["checks"] = [c.as_json() for c in result.checks]
    inputs = {"aar": aar.identity, "canonical": not result.overrides, "overrides": result.overrides}
    key = digest_of([result.sha256, aar.identity])
    StageRecord(record, key, inputs, {"": Output(result.sha256)}, facts).save()

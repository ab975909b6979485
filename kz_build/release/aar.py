"""package: upstream's published AAR with a target's libraries instead of its own (docs/reference/verbs/package.md)."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kz_build.build.build import java_paths, java_sources, with_stacks
from kz_build.build.wheel_types import local_version, zip_bytes
from kz_build.checks.audit import Audited, Rules, audit_files, recorded
from kz_build.core import files
from kz_build.core.check import Check, Status
from kz_build.core.errors import AuditError, ConfigError, LockError
from kz_build.core.progress import Watch
from kz_build.core.stage_record import Output, StageRecord, load_any
from kz_build.formats import zip as zips
from kz_build.formats.android_manifest import DamagedError
from kz_build.formats.classfile import java_side
from kz_build.formats.elf_types import JavaSide
from kz_build.formats.java_source import java_side as java_of_sources
from kz_build.git.object_types import Blob
from kz_build.pins.load import PLACEHOLDER
from kz_build.pins.pins import JavaSources, digest_of
from kz_build.pins.project import Project
from kz_build.release.aar_folder import Package, publish
from kz_build.sources.fetch import fetch
from kz_build.sources.fetched import Fetched
from kz_build.sources.request import Request
from kz_build.stack.apply import apply

_LIBRARY = re.compile(r"jni/([^/]+)/([^/]+)")
_JAR = re.compile(r"classes\.jar|libs/[^/]+\.jar")
_CHECKED = ("needed", "jni", "natives")


@dataclass(frozen=True)
class _Built:
    """The libraries of a build by file name: their paths and audit profiles. `overrides` make it specific to this machine."""

    paths: Mapping[str, Path]
    profiles: Mapping[str, str]
    overrides: tuple[Mapping[str, str], ...]


def package(project: Project, line: str, target: str, watch: Watch, sign: Path | None = None) -> Package:
    """Write dist/<line>/aar/<target>/: <name>-<version>+kz.g<tree>-<target>.aar, its Gradle snippet and release files.

    Raises ConfigError for a target that cannot be packed, LockError for one that was not built, or an AAR of unknown
    digest, AuditError for one whose audit failed.
    """
    wanted = project.pins.target(target, line)
    how, java = wanted["package"], wanted["audit"]["java"]
    if not how or not java:
        raise ConfigError(
            f"{target} says no `package`, or no `audit.java`, in pins.yaml", hint="docs/reference/verbs/package.md"
        )
    if failed := [c for c in recorded(project, line, target) if c.failed]:
        raise AuditError(f"{len(failed)} checks of {target} failed", hint=f"kz audit --line {line} --target {target}")
    sources = _fetched(project, line, java, how["aar"], watch)
    source, aar = with_stacks(sources, apply(project, line, watch, (java["source"],)))
    built = _built(project, line, target, source)
    content = _content(aar)
    dependencies = {lib: _with_versions(project, line, at) for at, libs in how["dependencies"].items() for lib in libs}
    members, placed, left_out = _combine(content, built, wanted["abi"], dependencies)
    included = {p.rsplit("/", 1)[-1] for p, _ in placed}
    checks = tuple(_checks(content, built, included, wanted, dependencies, source, sources[0]))
    tree = source.trees[0].tree
    version = local_version(aar.version, tree)
    path = project.dist_folder(line, "aar", target) / f"{_name(project, line, aar)}-{version}-{target}.aar"
    passed = not any(c.failed for c in checks)
    data = zip_bytes(tuple(sorted(members.items()))) if passed else b""
    sha256 = hashlib.sha256(data).hexdigest() if passed else ""
    result = Package(
        line, target, wanted["abi"], version, str(path) if sha256 else "", sha256, tree, placed, left_out,
        tuple(_with_versions(project, line, at) for at in how["dependencies"]),
        any(built.profiles[name] == "hexagon" for name in included),
        (*built.overrides, *({"where": s.name, "value": s.note} for s in (source, aar) if s.note)), checks,
    )  # fmt: skip
    if sha256:
        publish(project, result, data, source, aar, built.paths, sign)
    _record(project, result, aar)
    return result


def _fetched(project: Project, line: str, java: JavaSources, aar: str, watch: Watch) -> tuple[Fetched, ...]:
    """Fetch the source of the Java side, only its files, and upstream's AAR."""
    paths = java_paths(project, line, java, watch)
    return fetch(project, Request(line, (java["source"], aar), paths={java["source"]: paths}, watch=watch))


def _content(aar: Fetched) -> dict[str, bytes]:
    """Return the AAR's files by path."""
    if not aar.file:
        raise ConfigError(f"{aar.name} {aar.version} is not a file", hint="`package.aar` in pins.yaml names an archive")
    with aar.file.open("rb") as file, zips.opened(f"{aar.name} {aar.version}", file) as archive:
        if sum(e.size for e in archive.entries) > zips.MOST:
            raise AuditError(f"{aar.name} {aar.version} would unpack to more than {zips.MOST:,} bytes")
        return {entry.name: archive.read(entry, zips.MOST) for entry in archive.entries}


def _built(project: Project, line: str, target: str, source: Fetched) -> _Built:
    record = load_any(project.record("build", line, target))
    sources = record.get("sources", list) if record else ()
    tree = next((s["trees"].get(".") for s in sources if s["name"] == source.name), None)
    if not record or tree != source.trees[0].tree:
        raise LockError(
            f"{target} of {line} was built of {source.name} with tree {tree}, its stack now gives {source.trees[0].tree}",
            hint=f"kz build --line {line} --target {target}",
        )
    folder = project.dist_folder(line, target)
    kept = {n: f.profile for n, f in record.outputs.items() if f.profile in ("ours", "vendor", "hexagon")}
    return _Built(
        {Path(n).name: folder / n for n in kept},
        {Path(n).name: profile for n, profile in kept.items()},
        tuple(record.get("overrides", list)),
    )


def _with_versions(project: Project, line: str, coordinates: str) -> str:
    """Return coordinates with pinned versions instead of names."""
    pins = project.pins.line(line)
    if unknown := [name for name in PLACEHOLDER.findall(coordinates) if name not in pins]:
        raise ConfigError(f"package.dependencies: {coordinates}: line {line} has no {unknown[0]}", hint="fix pins.yaml")
    return PLACEHOLDER.sub(lambda m: pins[m[1]], coordinates)


_Placed = tuple[tuple[str, str], ...]


def _combine(
    content: Mapping[str, bytes], built: _Built, abi: str, dependencies: Mapping[str, str]
) -> tuple[dict[str, Blob], _Placed, _Placed]:
    """Return (files of the new AAR, libraries put in, files left out)."""
    members: dict[str, Blob] = {}
    left_out: list[tuple[str, str]] = []
    upstreams: set[str] = set()
    for place, data in content.items():
        match = _LIBRARY.fullmatch(place)
        if not match:
            members[place] = Blob("100644", data)
        elif match[1] != abi:
            left_out.append((place, f"{match[1]} is not built here"))
        else:
            upstreams.add(match[2])
            if match[2] not in built.paths:
                left_out.append((place, "this target does not build it"))
    placed = []
    for name, path in sorted(built.paths.items()):
        if name in dependencies:
            left_out.append((f"jni/{abi}/{name}", f"comes with {dependencies[name]}"))
            continue
        members[f"jni/{abi}/{name}"] = Blob("100644", path.read_bytes())
        placed.append((f"jni/{abi}/{name}", "replaced" if name in upstreams else "added"))
    return members, tuple(placed), tuple(sorted(left_out))


def _checks(
    content: Mapping[str, bytes],
    built: _Built,
    included: set[str],
    wanted: Mapping[str, Any],
    dependencies: Mapping[str, str],
    source: Fetched,
    plain: Fetched,
) -> Iterator[Check]:
    """Yield checks that the classes and the libraries of the new AAR belong together."""
    java = wanted["audit"]["java"]
    try:
        classes = java_side(_classes(content))
    except (DamagedError, AuditError) as error:
        yield Check("classes.jar", "classes", Status.ERROR, str(error), True)
        return
    yield _same_java(classes, java_of_sources(java_sources((source,), java)))
    yield _unpatched(source, plain, java)
    rules = Rules(
        wanted["platform"], wanted["abi"], frozenset(_CHECKED), frozenset({*wanted["audit"]["needed"], *dependencies}),
        wanted["audit"]["max_api"], (), classes, frozenset(java["classes"]),
    )  # fmt: skip
    subjects = tuple(
        Audited(path, built.profiles[name]) for name, path in sorted(built.paths.items()) if name in included
    )
    yield from (c for c in audit_files(subjects, rules) if c.name in _CHECKED)


def _classes(content: Mapping[str, bytes]) -> Iterator[bytes]:
    for path, data in sorted(content.items()):
        if _JAR.fullmatch(path):
            with zips.opened(path, io.BytesIO(data)) as jar:
                for entry in jar.entries:
                    if entry.name.endswith(".class") and not entry.name.startswith("META-INF/"):
                        yield jar.read(entry, zips.MOST)


def _same_java(classes: JavaSide, sources: JavaSide) -> Check:
    """Check that the published classes declare the native methods of the pinned sources."""
    ours, theirs = set(sources.methods), set(classes.methods)
    rows = [
        f"{what} {' '.join(sorted(m.java_class.rsplit('/', 1)[-1] + '.' + m.name for m in methods))}"
        for what, methods in (("they lack", ours - theirs), ("the pinned sources lack", theirs - ours))
        if methods
    ]
    evidence = "; ".join(rows) or f"{len(theirs)} native methods, those of the pinned sources"
    return Check("classes.jar", "classes", Status.FAIL if rows else Status.PASS, evidence, True)


def _unpatched(source: Fetched, plain: Fetched, java: JavaSources) -> Check:
    """Check that no patch of the stack changes a Java file: the published classes would not have it."""
    before, after = (java_sources((s,), java) for s in (plain, source))
    changed = sorted(p for p in {*before, *after} if before.get(p) != after.get(p))
    evidence = (
        f"the stack changes {' '.join(changed)}, upstream's classes do not have it"
        if changed
        else "no patch changes it"
    )
    return Check("classes.jar", "java", Status.FAIL if changed else Status.PASS, evidence, True)


def _name(project: Project, line: str, aar: Fetched) -> str:
    """Return the artifact's name as upstream publishes it, without version."""
    entry = project.lock.entry(line, aar.name) or {}
    last = str(entry.get("url") or "").rsplit("/", 1)[-1]
    return last.removesuffix(f"-{aar.version}.aar") if last.endswith(f"-{aar.version}.aar") else aar.name


def _record(project: Project, result: Package, aar: Fetched) -> None:
    record = project.record("package", result.line, result.target)
    if not result.path:
        files.remove(record)
        return
    facts = {k: v for k, v in vars(result).items() if k not in ("checks", "overrides", "sha256")}
    facts["path"] = Path(result.path).relative_to(project.root).as_posix()
    facts["checks"] = [c.as_json() for c in result.checks]
    inputs = {"aar": aar.identity, "canonical": not result.overrides, "overrides": result.overrides}
    key = digest_of([result.sha256, aar.identity])
    StageRecord(record, key, inputs, {"": Output(result.sha256)}, facts).save()

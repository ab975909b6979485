"""Release files of a build's artifacts: provenance, bill of materials, notices and sums beside them; all of them or none."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kz_build import __version__
from kz_build.build import native_sources
from kz_build.build.build import Built
from kz_build.build.steps import MAPPED, Copy, Plan
from kz_build.core import files, locks
from kz_build.core.env import variable
from kz_build.core.errors import ConfigError
from kz_build.core.paths import all_below, files_below
from kz_build.core.stage_record import Output, StageRecord, changed, load
from kz_build.pins.pins import NATIVE, digest_of
from kz_build.pins.project import Project
from kz_build.release import cmake, minisign, notices, statement
from kz_build.release.components import components
from kz_build.release.statement import Component
from kz_build.sources.fetched import Fetched, Tree

CACHE_EPOCH = 4
"""Raise it when the same facts give other release files."""


@dataclass(frozen=True)
class ReleaseFiles:
    """The files beside the artifacts. `sums` is the sha256 of SHA256SUMS; `unlicensed` names components without a licence file."""

    sums: str
    unlicensed: tuple[str, ...]
    fresh: bool
    signed: bool = False


def write_release_files(
    project: Project,
    built: Built,
    sources: tuple[Fetched, ...],
    trees: tuple[Tree, ...],
    soc: str = "",
    sign: Path | None = None,
) -> ReleaseFiles:
    """Write the release files of a build, unless they are there already. `sign`: key file of minisign."""
    plan = built.plan
    parts = tuple(components(project, plan.line, plan.target, built.record, sources, trees))
    provenance = _statement(project, built, sources, parts, soc)
    key = digest_of([CACHE_EPOCH, provenance, [_concluded(project, part.ref) for part in parts]])
    path = project.record("papers", plan.line, plan.target)
    result = _done(plan, built, path, key)
    if result and not sign:
        return result
    with locks.lock(plan.build.parent, plan.target):
        result = _done(plan, built, path, key)
        if result is None:
            unlicensed = _write(project, plan, built, parts, provenance, sources, key)
            result = ReleaseFiles(files.sha256_file(plan.dist / statement.SUMS), unlicensed, True)
            facts = {"sums": result.sums, "unlicensed": list(unlicensed), "line": plan.line, "target": plan.target}
            StageRecord(path, key, facts=facts).save()
        return _signed(plan, result, sign)


def signing_key(named: str) -> Path | None:
    """Return the key file to sign with: named, or by KZ_MINISIGN_KEY; None for neither. Raises if signing would fail."""
    if not (file := named or variable("KZ_MINISIGN_KEY")):
        return None
    key = Path(file).expanduser().absolute()
    minisign.require(key)
    return key


def _done(plan: Plan, built: Built, path: Path, key: str) -> ReleaseFiles | None:
    record = load(path, key)
    if record is None or changed(plan.dist, {statement.SUMS: Output(record.get("sums", str))}):
        return None
    digests = statement.parse_sums((plan.dist / statement.SUMS).read_text("utf-8"))
    # The artifacts themselves were compared by the build.
    if changed(
        plan.dist, {name: Output(sha256) for name, sha256 in digests.items() if name not in built.record.outputs}
    ):
        return None
    signed = (plan.dist / statement.SIGNATURE).is_file()
    return ReleaseFiles(record.get("sums", str), tuple(record.get("unlicensed", list)), False, signed)


def _statement(
    project: Project, built: Built, sources: tuple[Fetched, ...], listed: tuple[Component, ...], soc: str
) -> dict[str, object]:
    plan, record = built.plan, built.record
    target = project.pins.target(plan.target, plan.line)
    pins = {s.name: [s.version, project.pins.source(s.name).location] for s in sources}
    overrides = [{**o, "value": statement.public_url(o["value"]) or o["value"]} for o in record.get("overrides", list)]
    external = {
        "line": plan.line,
        "target": plan.target,
        "soc": soc or target["soc"],
        "pins": {
            "digest": {
                "sha256": digest_of(
                    [pins, {k: v for k, v in target.items() if k not in ("audit", "package", "device")}]
                )
            }
        },
        "canonical": record.get("canonical", bool),
        "overrides": overrides,
    }
    names = _names(project, plan, sources)
    engine = record.get("engine", str)
    internal = {
        "engine": engine,
        "key": plan.key,
        "python": "{}.{}".format(*sys.version_info[:2]) if "{python}" in str(target) else None,
        "unpinnedPrograms": sorted(target["needs"]) if engine == "host" else [],
        "steps": [statement.plain_step(step, names) for step in plan.steps],
    }
    subjects = _subjects(built, _cmake_config(project, built))
    image = record.get("image", dict) if engine != "host" else None
    return statement.provenance_statement(subjects, listed, external, internal, image, __version__)


def _cmake_config(project: Project, built: Built) -> bytes:
    line, target = built.plan.line, built.plan.target
    return cmake.config(line, target, project.pins.target(target, line)["abi"], built.record.outputs)


def _subjects(built: Built, config: bytes) -> dict[str, str]:
    """Return the sha256 of the artifacts, and of the CMake file about them."""
    return {n: output.sha256 for n, output in built.record.outputs.items()} | {
        cmake.CONFIG: hashlib.sha256(config).hexdigest()
    }


def _names(project: Project, plan: Plan, sources: tuple[Fetched, ...]) -> list[tuple[str, str]]:
    """Return folders of this machine with their names in release files."""
    names = {str(s.folder): f"/kz/{s.name}" for s in sources if s.folder and not s.trees}
    for source in sources:
        if source.file:
            own, mapped = str(source.file), f"{MAPPED}/files/{source.name}/{source.file.name}"
            names |= {own: f"/kz/file/{source.name}", mapped: f"/kz/file/{source.name}"}
    names |= {str(native_sources.FOLDER): f"/kz/{NATIVE}"}
    names |= {str(project.store): "/kz/cache", str(project.root): "/kz/project", sys.executable: "/kz/python"}
    names |= {str(plan.tree): "/kz", str(plan.build): "/kz/out"}
    return list(names.items())


def _write(
    project: Project,
    plan: Plan,
    built: Built,
    listed: tuple[Component, ...],
    provenance: Mapping[str, object],
    sources: tuple[Fetched, ...],
    key: str,
) -> tuple[str, ...]:
    from kz_build.pins.lock_file import as_text
    from kz_build.release import sbom

    with files.new_folder(plan.dist, plan.build) as folder:
        for name in built.record.outputs:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            files.hardlink_or_copy(plan.dist / name, folder / name)
        parts = []
        texts = dict(_texts(sources))
        _require_concluded(project, plan, texts)
        source_paths = _source_paths(plan, built, _names(project, plan, sources))
        notice_names = {ref: list(by_name) for ref, by_name in texts.items()}
        compiled = statement.artifacts_by_component(notice_names, source_paths, MAPPED)
        for component in listed:
            base = f"{statement.NOTICES}/{component.ref}"
            licences = {f"{base}/{name}": data for name, data in texts[component.ref].items()}
            for path, data in licences.items():
                files.write_new(folder / path, data)
            spdx_ids = {path: notices.licence(data) for path, data in sorted(licences.items())}
            by_folder = {folder: sorted(names) for folder, names in compiled.get(component.ref, {}).items()}
            parts.append(sbom.Licensed(component, spdx_ids, by_folder, _concluded(project, component.ref)))
        files.write_new(folder / statement.PROVENANCE, as_text(provenance).encode())
        config = _cmake_config(project, built)
        files.write_new(folder / cmake.CONFIG, config)
        subjects = _subjects(built, config)
        files.write_new(folder / statement.SBOM, sbom.sbom(plan.target, plan.line, subjects, parts, __version__, key))
        write_sums(folder, subjects)
        for inner in (p for p in all_below(folder) if p.is_dir()):
            inner.chmod(0o755)
    return tuple(part.component.ref for part in parts if not part.notices)


def _concluded(project: Project, ref: str) -> dict[str, tuple[str, str]]:
    """Return folder of a component ('' for itself) -> the licence that pins.yaml concludes for it, and why."""
    name = ref.partition("/")[0]
    named: Mapping[str, Mapping[str, str]] = project.pins.source(name).options.get("concluded") or {}
    places = {f"{name}/{at}".removesuffix("/."): (one["licence"], one["because"]) for at, one in named.items()}
    return {at[len(ref) + 1 :]: licence for at, licence in places.items() if f"{at}/".startswith(f"{ref}/")}


def _require_concluded(project: Project, plan: Plan, texts: Mapping[str, Mapping[str, bytes]]) -> None:
    """Raise ConfigError for a path of `concluded` that is no component of the SBOM: it would say nothing. What the target omits may be one."""
    places = {*texts} | {f"{ref}/{path.rpartition('/')[0]}" for ref, by_name in texts.items() for path in by_name}
    omit = tuple(project.pins.target(plan.target, plan.line)["omit"])
    for name in sorted({ref.partition("/")[0] for ref in texts}):
        for at in project.pins.source(name).options.get("concluded") or {}:
            if f"{name}/{at}".removesuffix("/.") not in places and not f"{name}/{at}/".startswith(omit):
                raise ConfigError(
                    f"sources.{name}.concluded in pins.yaml: {at} is neither a submodule of {name} in {plan.line}, nor a folder "
                    "with a licence text of its own",
                    hint="correct the path, or remove it: the SBOM would not say what it concludes",
                )


def _source_paths(plan: Plan, built: Built, names: Sequence[tuple[str, str]]) -> dict[str, frozenset[str]]:
    """Return artifact -> the source paths that its debug information names, or the one that it is a copy of; artifacts
    without either are left out."""
    from kz_build.formats.elf import compiled_from

    paths = {}
    for name, output in built.record.outputs.items():
        if build_id := output.build_id:
            debug = f"symbols/{build_id[:2]}/{build_id[2:]}.debug"
            paths[name] = compiled_from(plan.dist / (debug if debug in built.record.outputs else name), MAPPED)
    stage = plan.layout.build / "stage"
    for step in plan.steps:
        if isinstance(step, Copy) and step.to.is_relative_to(stage):
            name = step.to.relative_to(stage).as_posix()
            paths[name] = paths.get(name, frozenset()) | {statement.replace_folders(str(step.source), names)}
    return paths


def _texts(sources: tuple[Fetched, ...]) -> Iterator[tuple[str, dict[str, bytes]]]:
    for source in sources:
        for at in source.trees:
            yield f"{source.name}/{at.path}".rstrip("/"), notices.of_tree(at)
        if not source.trees:
            yield source.name, notices.of_files(source)


def _signed(plan: Plan, result: ReleaseFiles, key: Path | None) -> ReleaseFiles:
    if key:
        sign(plan.dist, key, f"kz {plan.line}/{plan.target}")
    return replace(result, signed=(plan.dist / statement.SIGNATURE).is_file())


def write_sums(folder: Path, known: Mapping[str, str]) -> bytes:
    """Write SHA256SUMS of all files in a folder, and return it. `known`: name -> sha256 of some of them."""
    there = [p.relative_to(folder).as_posix() for p in files_below(folder)]
    sums = {name: known.get(name) or files.sha256_file(folder / name) for name in there}
    data = statement.sums_text(sums).encode()
    files.write_new(folder / statement.SUMS, data)
    return data


def sign(folder: Path, key: Path, comment: str) -> None:
    """Sign the SHA256SUMS of a folder; write the public key beside it."""
    signature, public = minisign.sign(folder / statement.SUMS, key, comment)
    for path, data in ((folder / statement.PUBLIC_KEY, public), (folder / statement.SIGNATURE, signature)):
        if not path.is_file() or path.read_bytes() != data:
            files.write_atomic(path, data)

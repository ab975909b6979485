"""papers: artifacts of a build -> provenance, bill of materials, notices and sums beside them, all of them or none."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kz_build import __version__
from kz_build.build import native_sources
from kz_build.build.build import Built
from kz_build.build.plan import MAPPED
from kz_build.build.steps import Copy, Plan
from kz_build.core import files, locks
from kz_build.core.env import variable
from kz_build.core.stage_record import Output, StageRecord, changed, load
from kz_build.git import repository as git
from kz_build.pins.pins import NATIVE, digest_of
from kz_build.pins.project import Project
from kz_build.release import minisign, notices
from kz_build.release import statement as model
from kz_build.release.statement import Component
from kz_build.sources.fetched import Fetched, Tree, TreeAt

_MAVEN = re.compile(r"https://repo1\.maven\.org/maven2/(.+)/([^/]+)/([^/]+)/\2-\3\.(\w+)")
CACHE_EPOCH = 2
"""Raise it when papers of the same facts are written in another way."""


@dataclass(frozen=True)
class Papers:
    """What lies beside the artifacts. `sums` is the sha256 of SHA256SUMS; `unlicensed` names components without a licence file."""

    sums: str
    unlicensed: tuple[str, ...]
    fresh: bool
    signed: bool = False


def papers(
    project: Project,
    built: Built,
    sources: tuple[Fetched, ...],
    trees: tuple[Tree, ...],
    soc: str = "",
    sign: Path | None = None,
) -> Papers:
    """Write the papers of a build, or find that they are as they would be written. `sign`: key file of minisign."""
    plan = built.plan
    components = tuple(_components(project, plan, sources, trees))
    said = _statement(project, built, sources, components, soc)
    key = digest_of([CACHE_EPOCH, said])
    path = project.record("papers", plan.line, plan.target)
    found = _done(plan, built, path, key)
    if found and not sign:
        return found
    with locks.locked(plan.build.parent, plan.target):
        found = _done(plan, built, path, key)
        if found is None:
            unlicensed = _write(project, plan, built, components, said, sources, key)
            found = Papers(files.sha256_file(plan.dist / model.SUMS), unlicensed, True)
            facts = {"sums": found.sums, "unlicensed": list(unlicensed), "line": plan.line, "target": plan.target}
            StageRecord(path, key, facts=facts).save()
        return _signed(plan, found, sign)


def signing_key(named: str) -> Path | None:
    """The key file to sign with: named, or by KZ_MINISIGN_KEY; None for neither. Raises what would be wrong with signing."""
    if not (file := named or variable("KZ_MINISIGN_KEY")):
        return None
    key = Path(file).expanduser().absolute()
    minisign.require(key)
    return key


def _done(plan: Plan, built: Built, path: Path, key: str) -> Papers | None:
    record = load(path, key)
    if record is None or changed(plan.dist, {model.SUMS: Output(record.get("sums", str))}):
        return None
    digests = model.parse_sums((plan.dist / model.SUMS).read_text())
    # The artifacts themselves were compared by the build.
    if changed(
        plan.dist, {name: Output(sha256) for name, sha256 in digests.items() if name not in built.record.outputs}
    ):
        return None
    signed = (plan.dist / model.SIGNATURE).is_file()
    return Papers(record.get("sums", str), tuple(record.get("unlicensed", list)), False, signed)


def _components(
    project: Project, plan: Plan, sources: tuple[Fetched, ...], trees: tuple[Tree, ...]
) -> Iterator[Component]:
    stacks = {tree.source: tree for tree in trees}
    tools = _tools(project.pins.target(plan.target, plan.line), sources)
    for source in sources:
        entry = project.lock.entry(plan.line, source.name) or {}
        if source.trees:
            first, *rest = source.trees
            yield _git_component(project, plan.line, source, first, stacks.get(source.name))
            for at in rest:
                sub = (entry.get("submodules") or {}).get(at.path, {})
                override = project.pins.submodule_overrides(source.name).get(at.path, {})
                url = override.get("git", "") if override else sub.get("url", "")
                yield _tree_component(f"{source.name}/{at.path}", at.commit if url else "", url, at, source.note)
        else:
            yield replace(_file_component(project, source, entry), tool=source.name in tools)


def _tools(target: Mapping[str, Any], sources: Sequence[Fetched]) -> set[str]:
    """Sources that a target names as tools, or for its Python, and nowhere else."""
    run = str([target["tools"], target["python"]])
    rest = str([v for k, v in target.items() if k not in ("tools", "python")])
    return {s.name for s in sources if f"{{{s.name}}}" in run and f"{{{s.name}" not in rest}


def _git_component(project: Project, line: str, source: Fetched, at: TreeAt, stack: Tree | None) -> Component:
    base = at
    if stack:
        locked = project.lock.entry(line, source.name) or {}
        known = locked.get("tree") if locked.get("commit") == stack.base else None
        base = replace(at, commit=stack.base, tree=known or git.Repository(at.repository).tree_id(stack.base))
    location = project.pins.source(source.name).location if source.kind == "git" else ""
    found = _tree_component(source.name, source.version, location, base, source.note)
    if not stack:
        return found
    folder = project.stack_folder(line, source.name)
    patches = tuple((f"{folder}/{name}", files.sha256_file(project.root / folder / name)) for name, _ in stack.patches)
    return replace(found, patched={"gitCommit": stack.commit, "gitTree": stack.tree}, patches=patches)


def _tree_component(ref: str, version: str, url: str, at: TreeAt, note: str) -> Component:
    from kz_build.release.sbom import purl

    address = model.public_url(url)
    name = ref.rpartition("/")[2]
    uri = f"git+{address}@{at.commit}" if address else ""
    host, _, path = address.partition("://")[2].partition("/")
    if host == "github.com":
        given = purl("github", path.removesuffix(".git").rstrip("/"), version or at.commit)
    else:
        given = purl("generic", name, version or (at.commit if url else at.tree), vcs_url=uri)
    # A folder of this machine became a commit in the store, which means nothing elsewhere; its tree does.
    digests = {"gitCommit": at.commit, "gitTree": at.tree} if url else {"gitTree": at.tree}
    return Component(ref, name, version or f"tree {at.tree}", "git" if url else "folder", uri, given, digests, {}, (), note)  # fmt: skip


def _file_component(project: Project, source: Fetched, entry: Mapping[str, Any]) -> Component:
    from kz_build.release.sbom import purl

    pinned = project.pins.source(source.name)
    sha256 = source.identity.removeprefix("sha256 ") if source.identity.startswith("sha256 ") else ""
    if source.kind == "wheel":
        file = "" if source.note else str(entry.get("file", ""))
        index = model.public_url(str(pinned.options.get("index") or ""))
        uri = given = purl("pypi", pinned.location, source.version, file_name=file, repository_url=index)
    else:
        uri = model.public_url(pinned.location.replace("{version}", source.version))
        maven = _MAVEN.fullmatch(uri)
        given = (
            purl("maven", f"{maven[1].replace('/', '.')}/{maven[2]}", maven[3], type=maven[4])
            if maven
            else purl("generic", source.name, source.version, download_url=uri)
        )
    note = source.note or ("" if sha256 else f"{source.identity}: not fetched by kz, no digest proves it")
    digests = {"sha256": sha256} if sha256 else {}
    return Component(source.name, source.name, source.version, source.kind, uri, given, digests, {}, (), note)


def _statement(
    project: Project, built: Built, sources: tuple[Fetched, ...], components: tuple[Component, ...], soc: str
) -> dict[str, Any]:
    plan, record = built.plan, built.record
    target = project.pins.target(plan.target, plan.line)
    pins = {s.name: [s.version, project.pins.source(s.name).location] for s in sources}
    overrides = [{**o, "value": model.public_url(o["value"]) or o["value"]} for o in record.get("overrides", list)]
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
        "steps": [model.plain_step(step, names) for step in plan.steps],
    }
    subjects = {name: output.sha256 for name, output in built.record.outputs.items()}
    image = record.get("image", dict) if engine != "host" else None
    return model.statement(subjects, components, external, internal, image, __version__)


def _names(project: Project, plan: Plan, sources: tuple[Fetched, ...]) -> list[tuple[str, str]]:
    """Folders of this machine, and what papers call them."""
    found = {str(s.folder): f"/kz/{s.name}" for s in sources if s.folder and not s.trees}
    found |= {str(s.file): f"/kz/file/{s.name}" for s in sources if s.file}
    found |= {str(native_sources.FOLDER): f"/kz/{NATIVE}"}
    found |= {str(project.store): "/kz/cache", str(project.root): "/kz/project", sys.executable: "/kz/python"}
    found |= {str(plan.tree): "/kz", str(plan.build): "/kz/out"}
    return list(found.items())


def _write(
    project: Project,
    plan: Plan,
    built: Built,
    components: tuple[Component, ...],
    said: Mapping[str, Any],
    sources: tuple[Fetched, ...],
    key: str,
) -> tuple[str, ...]:
    from kz_build.pins.lock_file import as_text
    from kz_build.release import sbom

    with files.new_folder(plan.dist, plan.build) as made:
        for name in built.record.outputs:
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            files.hardlink_or_copy(plan.dist / name, made / name)
        parts = []
        texts = dict(_texts(sources))
        named = _named(plan, built, _names(project, plan, sources))
        compiled = model.compiled({ref: list(found) for ref, found in texts.items()}, named, MAPPED)
        for component in components:
            found = {f"{model.NOTICES}/{component.ref}/{name}": data for name, data in texts[component.ref].items()}
            for path, data in found.items():
                files.write_new(made / path, data)
            licences = {path: notices.licence(made / path) for path in sorted(found)}
            inside = {folder: sorted(names) for folder, names in compiled.get(component.ref, {}).items()}
            parts.append(sbom.Licensed(component, licences, inside))
        files.write_new(made / model.PROVENANCE, as_text(said).encode())
        subjects = {name: output.sha256 for name, output in built.record.outputs.items()}
        files.write_new(made / model.SBOM, sbom.sbom(plan.target, plan.line, subjects, parts, __version__, key))
        there = [p.relative_to(made).as_posix() for p in made.rglob("*") if p.is_file()]
        sums = {name: subjects.get(name) or files.sha256_file(made / name) for name in there}
        files.write_new(made / model.SUMS, model.sums_text(sums).encode())
        for folder in (p for p in made.rglob("*") if p.is_dir()):
            folder.chmod(0o755)
    return tuple(part.component.ref for part in parts if not part.notices)


def _named(plan: Plan, built: Built, names: Sequence[tuple[str, str]]) -> dict[str, frozenset[str]]:
    """Artifact -> the paths of sources that its debug information names, or the one that it is a copy of; those that tell
    nothing are not there."""
    from kz_build.formats.elf import compiled_from

    found = {}
    for name, output in built.record.outputs.items():
        if build_id := output.build_id:
            debug = f"symbols/{build_id[:2]}/{build_id[2:]}.debug"
            found[name] = compiled_from(plan.dist / (debug if debug in built.record.outputs else name), MAPPED)
    stage = plan.layout.build / "stage"
    for step in plan.steps:
        if isinstance(step, Copy) and step.to.is_relative_to(stage):
            name = step.to.relative_to(stage).as_posix()
            found[name] = found.get(name, frozenset()) | {model.renamed(str(step.source), names)}
    return found


def _texts(sources: tuple[Fetched, ...]) -> Iterator[tuple[str, dict[str, bytes]]]:
    for source in sources:
        for at in source.trees:
            yield f"{source.name}/{at.path}".rstrip("/"), notices.of_tree(at)
        if not source.trees:
            yield source.name, notices.of_files(source)


def _signed(plan: Plan, found: Papers, key: Path | None) -> Papers:
    if key:
        sign(plan.dist, key, f"kz {plan.line}/{plan.target}")
    return replace(found, signed=(plan.dist / model.SIGNATURE).is_file())


def sign(folder: Path, key: Path, comment: str) -> None:
    """Sign the SHA256SUMS of a folder; the public key goes beside it."""
    signature, public = minisign.sign(folder / model.SUMS, key, comment)
    for path, data in ((folder / model.PUBLIC_KEY, public), (folder / model.SIGNATURE, signature)):
        if not path.is_file() or path.read_bytes() != data:
            files.write_atomic(path, data)

"""The components of a build: each source and submodule as it was used, by the record of the build."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from kz_build.core import files
from kz_build.core.stage_record import StageRecord
from kz_build.git import repository as git
from kz_build.pins.project import Project
from kz_build.release import statement
from kz_build.release.statement import Component
from kz_build.sources.fetched import Fetched, Tree, TreeAt
from kz_build.sources.used import Used, used

_MAVEN = re.compile(r"https://repo1\.maven\.org/maven2/(.+)/([^/]+)/([^/]+)/\2-\3\.(\w+)")


def components(
    project: Project, line: str, target: str, record: StageRecord, sources: tuple[Fetched, ...], trees: tuple[Tree, ...]
) -> Iterator[Component]:
    """Yield the components of a build of a target, whose record says what was used."""
    stacks = {tree.source: tree for tree in trees}
    tools = _tools(project.pins.target(target, line), sources)
    recorded = {row["name"]: row.get("used") for row in record.get("sources", list)}
    for source in sources:
        if source.trees:
            pinned = project.pins.source(source.name).kind == "git"
            first, *rest = source.trees
            component = _git_component(project, line, source, first, stacks.get(source.name))
            yield component if pinned else replace(component, tool=source.name in tools)
            for at in rest:
                yield _tree_component(f"{source.name}/{at.path}", at.commit if at.url else "", at)
        else:
            facts = recorded.get(source.name)
            what = Used(**facts) if facts else used(project, line, source)
            yield replace(_file_component(project, source, what), tool=source.name in tools)


def _tools(target: Mapping[str, object], sources: Sequence[Fetched]) -> set[str]:
    """Return the sources that a target names only as tools, or for its Python."""
    run = str([target["tools"], target["python"]])
    rest = str([v for k, v in target.items() if k not in ("tools", "python")])
    return {s.name for s in sources if f"{{{s.name}}}" in run and f"{{{s.name}" not in rest}


def _git_component(project: Project, line: str, source: Fetched, at: TreeAt, stack: Tree | None) -> Component:
    base = at
    if stack:
        locked = project.lock.entry(line, source.name) or {}
        known = locked.get("tree") if locked.get("commit") == stack.base else None
        base = replace(at, commit=stack.base, tree=known or git.Repository(at.repository).tree_id(stack.base))
    own = project.pins.replacement(source.name)
    version = source.version if at.url and not (at.note and own and own.commit) else ""
    component = _tree_component(source.name, version, base)
    if not stack:
        return component
    folder = project.stack_folder(line, source.name)
    patches = tuple((f"{folder}/{name}", files.sha256_file(project.root / folder / name)) for name, _ in stack.patches)
    return replace(component, patched={"gitCommit": stack.commit, "gitTree": stack.tree}, patches=patches)


def _tree_component(ref: str, version: str, at: TreeAt) -> Component:
    url, address = at.url, statement.public_url(at.url)
    name = ref.rpartition("/")[2]
    uri = f"git+{address}@{at.commit}" if address else ""
    host, _, path = address.partition("://")[2].partition("/")
    if host == "github.com":
        package_url = _purl("github", path.removesuffix(".git").rstrip("/"), version or at.commit)
    else:
        package_url = _purl("generic", name, version or (at.commit if url else at.tree), vcs_url=uri)
    # For a folder of this machine, the commit in the store means nothing elsewhere; its tree does.
    digests = {"gitCommit": at.commit, "gitTree": at.tree} if url else {"gitTree": at.tree}
    version = version or (at.commit if url else f"tree {at.tree}")
    return Component(ref, name, version, "git" if url else "folder", uri, package_url, digests, {}, (), overridden=at.note)  # fmt: skip


def _file_component(project: Project, source: Fetched, what: Used) -> Component:
    address = statement.public_url(what.address)
    if what.registry and source.kind == "wheel":
        location = project.pins.source(source.name).location
        uri = package_url = _purl("pypi", location, what.version, file_name=what.file, repository_url=address)
    elif maven := _MAVEN.fullmatch(address):
        uri = address
        package_url = _purl("maven", f"{maven[1].replace('/', '.')}/{maven[2]}", maven[3], type=maven[4])
    else:
        uri, package_url = address, _purl("generic", source.name, what.version, download_url=address)
    note = "" if "sha256" in what.digests else "installed here, not downloaded: no lock proves its bytes"
    kind = source.kind if "sha256" in what.digests else "installed"
    return Component(
        source.name, source.name, what.version, kind, uri, package_url, what.digests, {}, (), note, source.note
    )


def _purl(kind: str, name: str, version: str, **qualifiers: str) -> str:
    """Return a package URL of a PyPI wheel, a Maven archive or anything with only a name; empty qualifiers are left out."""
    from packageurl import PackageURL

    set_qualifiers = {key: value for key, value in qualifiers.items() if value}
    namespace, _, last = name.rpartition("/")
    return PackageURL(kind, namespace or None, last, version or None, set_qualifiers or None).to_string()

"""verify-release: a folder with papers -> is it what they say? Asks nothing but the folder, and a public key where one is given."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kz_build.core.check import Check, Status
from kz_build.core.errors import AuditError, ConfigError
from kz_build.core.files import sha256_file
from kz_build.formats.zip import digests_of
from kz_build.release import minisign
from kz_build.release import statement as papers

_Rows = Iterator[tuple[str, str]]
"""(file, what is wrong with it)"""


@dataclass(frozen=True)
class _Folder:
    """What was found: `there` maps each file to its sha256, '' for what is no plain file; `listed` is SHA256SUMS. `package`:
    it is that of an AAR, with the papers of its libraries in a folder of their own."""

    path: Path
    there: Mapping[str, str]
    listed: Mapping[str, str]
    provenance: Any
    sbom: Any
    package: bool

    @property
    def artifacts(self) -> dict[str, str]:
        return {
            name: sha256
            for name, sha256 in self.listed.items()
            if name not in (papers.PROVENANCE, papers.SBOM) and not name.startswith(self.papers_in)
        }

    @property
    def papers_in(self) -> tuple[str, ...]:
        return (f"{papers.LIBRARIES}/",) if self.package else (f"{papers.NOTICES}/",)


_ABOUT = {"provenance": papers.PROVENANCE, "sbom": papers.SBOM, "fits": papers.SBOM, "notices": papers.SBOM}


def verify(path: Path, key: str = "") -> tuple[Check, ...]:
    """Every answer about a folder. `key`: a public key of minisign or its file; a signature of it is then required."""
    if not path.is_dir():
        raise ConfigError(f"{path} is no folder", hint="name the folder that SHA256SUMS lies in")
    found = list(_sums(path))
    folder = _read(path)
    found += _answers(folder, {"files": _files, "provenance": _provenance})
    if folder.package:
        inner = _read(path / papers.LIBRARIES)
        found += _answers(folder, {"libraries": lambda outer: _libraries(outer, inner)})
        found += [
            replace(c, subject=c.subject if c.subject == "-" else f"{papers.LIBRARIES}/{c.subject}")
            for c in _answers(inner, _BILL)
        ]
    else:
        found += _answers(folder, _BILL)
    return (*found, *_signature(path, key))


def _answers(folder: _Folder, checks: Mapping[str, Callable[[_Folder], _Rows]]) -> Iterator[Check]:
    for name, check in checks.items():
        try:
            rows = list(check(folder))
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            rows = [(_ABOUT.get(name, papers.PROVENANCE), f"is not as kz writes it: {type(error).__name__} {error}")]
        yield from (Check(file, name, Status.FAIL, said, True) for file, said in rows)
        if not rows:
            yield Check("-", name, Status.PASS, _passed(name, folder), True)


def _read(path: Path) -> _Folder:
    there = {
        p.relative_to(path).as_posix(): _digest(p) for p in sorted(path.rglob("*")) if p.is_symlink() or not p.is_dir()
    }
    try:
        listed = papers.parse_sums((path / papers.SUMS).read_text())
    except (OSError, ValueError):
        listed = {}
    return _Folder(
        path, there, listed, said := _json(path / papers.PROVENANCE), _json(path / papers.SBOM), _is_package(said)
    )


def _is_package(said: Any) -> bool:
    try:
        return bool(said["predicate"]["buildDefinition"]["buildType"] == papers.PACKAGE_TYPE)
    except (LookupError, TypeError):
        return False


def _digest(path: Path) -> str:
    try:
        return sha256_file(path) if path.is_file() and not path.is_symlink() else ""
    except OSError:
        return ""


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def _sums(path: Path) -> Iterator[Check]:
    try:
        papers.parse_sums((path / papers.SUMS).read_text())
    except FileNotFoundError:
        yield Check(papers.SUMS, "files", Status.FAIL, "is not there", True)
    except ValueError as error:
        yield Check(papers.SUMS, "files", Status.FAIL, str(error), True)


def _files(folder: _Folder) -> _Rows:
    for name, sha256 in folder.listed.items():
        if name not in folder.there:
            yield name, "is listed in SHA256SUMS and not there"
        elif folder.there[name] != sha256:
            now = folder.there[name] or "no plain file that one can read"
            yield name, f"is not what SHA256SUMS lists: {now[:16]} for {sha256[:16]}"
    for name in folder.there:
        if name not in folder.listed and name not in papers.UNLISTED:
            yield name, "is not listed in SHA256SUMS"
        elif name in papers.UNLISTED and not folder.there[name]:
            yield name, "is no plain file"
    bill = f"{papers.LIBRARIES}/{papers.SBOM}" if folder.package else papers.SBOM
    for name in (papers.PROVENANCE, bill):
        if name not in folder.listed:
            yield papers.SUMS, f"does not list {name}"


def _provenance(folder: _Folder) -> _Rows:
    said = folder.provenance
    if said is None:
        yield papers.PROVENANCE, "is no JSON, or not there"
        return
    for field, wanted in (("_type", papers.STATEMENT), ("predicateType", papers.PREDICATE)):
        if said[field] != wanted:
            yield papers.PROVENANCE, f"{field} is {said[field]}, not {wanted}"
    if not folder.package and said["predicate"]["buildDefinition"]["buildType"] != papers.BUILD_TYPE:
        yield papers.PROVENANCE, f"buildType is neither {papers.BUILD_TYPE} nor {papers.PACKAGE_TYPE}"
    subjects = {s["name"]: s["digest"]["sha256"] for s in said["subject"]}
    for name, sha256 in folder.artifacts.items():
        if name not in subjects:
            yield name, "is no subject of provenance.json"
        elif subjects[name] != sha256:
            yield name, f"is not the subject of provenance.json: {sha256[:16]} for {subjects[name][:16]}"
    for name in sorted(set(subjects) - set(folder.artifacts)):
        yield papers.PROVENANCE, f"has a subject {name}, which SHA256SUMS does not list"


def _libraries(folder: _Folder, inner: _Folder) -> _Rows:
    """The libraries in the AAR are those of its provenance, and those are what the target's own papers speak of."""
    definition = folder.provenance["predicate"]["buildDefinition"]
    built = {s["name"]: s["digest"]["sha256"] for s in inner.provenance["subject"]}
    proved = {}
    for one in definition["resolvedDependencies"]:
        if one["annotations"]["kind"] == "artifact":
            proved[one["name"].rpartition("/")[2]] = one["digest"]["sha256"]
            if built.get(one["name"]) != one["digest"]["sha256"]:
                yield one["name"], f"went in and is not what {papers.LIBRARIES}/{papers.PROVENANCE} is about"
    for name in (name for name in folder.artifacts if name.endswith(".aar")):
        try:
            packed = digests_of(folder.path / name, "jni/")
        except AuditError as error:
            yield name, str(error)
            continue
        for path in sorted({*packed, *definition["internalParameters"]["libraries"]}):
            if path not in packed or packed[path] != proved.get(path.rpartition("/")[2]):
                yield name, f"{path} in it is not what {papers.PROVENANCE} says"


def _sbom(folder: _Folder) -> _Rows:
    from kz_build.release.sbom import problem

    if folder.sbom is None:
        yield papers.SBOM, "is no JSON, or not there"
    elif said := problem((folder.path / papers.SBOM).read_text()):
        yield papers.SBOM, said


def _fits(folder: _Folder) -> _Rows:
    """The bill of materials names the same artifacts and the same sources as the provenance."""
    if folder.sbom is None or folder.provenance is None:
        yield papers.SBOM, "cannot be compared with provenance.json"
        return
    definition = folder.provenance["predicate"]["buildDefinition"]
    top = folder.sbom["metadata"]["component"]
    for field, parameter in (("version", "line"), ("name", "target")):
        if top[field] != definition["externalParameters"][parameter]:
            yield papers.SBOM, f"is of {parameter} {top[field]}, provenance.json is not"
    files = {c["name"]: {"sha256": c["hashes"][0]["content"]} for c in top["components"]}
    subjects = {s["name"]: s["digest"] for s in folder.provenance["subject"]}
    yield from _differences(files, subjects, "file")
    components = {c["bom-ref"]: _identity(c) for c in folder.sbom["components"]}
    sources = {
        d["name"]: {**d.get("digest", {}), "version": d["annotations"]["version"]}
        for d in definition["resolvedDependencies"]
        if d["annotations"]["kind"] not in ("patch", "image")
    }
    yield from _differences(components, sources, "source")
    patches = {p["diff"]["url"] for c in folder.sbom["components"] for p in c.get("pedigree", {}).get("patches", ())}
    proved = {d["name"] for d in definition["resolvedDependencies"] if d["annotations"]["kind"] == "patch"}
    for name in sorted(patches ^ proved):
        yield papers.SBOM, f"and provenance.json differ in the patch {name}"


def _differences(listed: Mapping[str, Any], proved: Mapping[str, Any], what: str) -> _Rows:
    for name in sorted({*listed, *proved}):
        if listed.get(name) != proved.get(name):
            lacks = "lacks" if name not in listed else "has" if name not in proved else "and provenance.json differ in"
            more = "" if lacks.startswith("and") else f" that provenance.json {'has' if lacks == 'lacks' else 'lacks'}"
            yield papers.SBOM, f"{lacks} the {what} {name}{more}"


def _identity(component: Mapping[str, Any]) -> dict[str, str]:
    found = {"version": component["version"]}
    for given in component.get("hashes", ()):
        found[{"SHA-256": "sha256"}[given["alg"]]] = given["content"]
    for swhid in component.get("swhid", ()):
        _, _, kind, value = swhid.split(":")
        found[{"rev": "gitCommit", "dir": "gitTree"}[kind]] = value
    return found


def _notices(folder: _Folder) -> _Rows:
    if folder.sbom is None:
        yield papers.SBOM, "cannot be asked which notices there must be"
        return
    claimed = set()
    for component in folder.sbom["components"]:
        names = [p["value"] for p in component["properties"] if p["name"] == "kz:notice"]
        claimed |= set(names)
        for name in names:
            if name not in folder.there:
                yield name, f"the notice of {component['bom-ref']} is not there"
        if not names and not any(p["name"] == "kz:notice:none" for p in component["properties"]):
            yield papers.SBOM, f"{component['bom-ref']} has no notice, and does not say that there is none"
    for name in folder.there:
        if name.startswith(f"{papers.NOTICES}/") and name not in claimed:
            yield name, "is the notice of no component"


def _passed(check: str, folder: _Folder) -> str:
    if check == "files":
        return f"{len(folder.listed)} files as SHA256SUMS lists them, no other"
    if check == "provenance":
        return f"{len(folder.artifacts)} artifacts are its subjects"
    if check == "libraries":
        return "those in the AAR are the target's, and its papers are here"
    if check == "sbom":
        return f"CycloneDX {folder.sbom['specVersion']}, valid by its schema"
    if check == "fits":
        return f"{len(folder.sbom['components'])} components, the sources of the provenance"
    without = [c["bom-ref"] for c in folder.sbom["components"] if any(p["name"] == "kz:notice:none" for p in c["properties"])]  # fmt: skip
    return "every component has its own" + (f", or none: {', '.join(without)}" if without else "")


_BILL: Mapping[str, Callable[[_Folder], _Rows]] = {"sbom": _sbom, "fits": _fits, "notices": _notices}


def _signature(path: Path, key: str) -> Iterator[Check]:
    name = papers.SIGNATURE
    signed, own = (path / name).is_file(), path / papers.PUBLIC_KEY
    if not signed and (key or own.exists()):
        yield Check(name, "signature", Status.FAIL, "is not there, and should be", True)
    elif not signed:
        yield Check("-", "signature", Status.SKIP, "not signed: whoever can change all files can change these", False)  # fmt: skip
    elif not key and not own.is_file():
        yield Check(name, "signature", Status.ERROR, f"no {own.name} beside it; name the key: --key PUB", True)
    else:
        good, said = minisign.verify(path / papers.SUMS, path / name, key or str(own))
        status = Status.ERROR if good is None else Status.PASS if good else Status.FAIL
        more = "" if key or not good else f" (by the {own.name} that lies beside it; who signed, only --key can tell)"
        yield Check(name, "signature", status, said + more, True)

"""verify-release: check a folder against its release files, with nothing else but a public key if one is given."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from kz_build.core.check import Check, Status
from kz_build.core.errors import AuditError, ConfigError
from kz_build.core.files import sha256_file
from kz_build.core.paths import all_below
from kz_build.core.plain_json import parsed
from kz_build.formats.zip import digests_of
from kz_build.release import minisign, statement

_Rows = Iterator[tuple[str, str]]
"""(file, what is wrong with it)"""
_MOST_OF_PAPER = 64 << 20  # bytes of a release file; ExecuTorch's largest has less than 1 MB
MOST_BYTES = 8 << 30
MOST_FILES = 10_000
"""Of a release folder, which somebody else may have filled: all of it is read."""


@dataclass(frozen=True)
class Folder:
    """A release folder: `there` maps each file to its sha256, '' if it is not a plain file; `listed` is SHA256SUMS.
    `package`: it is an AAR's, with the release files of its libraries in a folder of their own."""

    path: Path
    there: Mapping[str, str]
    listed: Mapping[str, str]
    provenance: Any
    sbom: Any
    package: bool
    problem: str
    """what is wrong with SHA256SUMS"""

    @property
    def artifacts(self) -> dict[str, str]:
        return {
            name: sha256
            for name, sha256 in self.listed.items()
            if name not in (statement.PROVENANCE, statement.SBOM) and not name.startswith(self.excluded)
        }

    @property
    def excluded(self) -> tuple[str, ...]:
        return (f"{statement.LIBRARIES}/",) if self.package else (f"{statement.NOTICES}/",)

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets whose release files lie in the folder of an AAR."""
        paths = [name.split("/") for name in self.there if name.startswith(f"{statement.LIBRARIES}/")]
        return tuple(sorted({path[1] for path in paths if len(path) > 2}))


_ABOUT = {"provenance": statement.PROVENANCE, "sbom": statement.SBOM, "fits": statement.SBOM, "notices": statement.SBOM}


def verify(path: Path, key: str = "") -> tuple[Check, ...]:
    """Check a release folder. `key`: a public key of minisign or its file; its signature is then required."""
    if not path.is_dir():
        raise ConfigError(f"{path} is not a folder", hint="name the folder that SHA256SUMS lies in")
    folder = read(path)
    results = [Check(statement.SUMS, "files", Status.FAIL, folder.problem)] if folder.problem else []
    results += _run_checks(folder, {"files": _files, "provenance": _provenance})
    if folder.package:
        inner = {target: read(path / statement.LIBRARIES / target) for target in folder.targets}
        results += _run_checks(folder, {"libraries": lambda outer: _libraries(outer, inner)})
        for target, own in inner.items():
            place = f"{statement.LIBRARIES}/{target}"
            results += [
                replace(c, subject=place if c.subject == "-" else f"{place}/{c.subject}")
                for c in (*_run_checks(own, _SBOM_CHECKS), _pinned(own))
            ]
    else:
        results += _run_checks(folder, _SBOM_CHECKS)
    return (*results, _pinned(folder), *_signature(path, key))


def bills(path: Path) -> list[Any]:
    """Return the bills of materials of a release folder: its own, or those of the targets in an AAR."""
    folder = read(path)
    places = [path / statement.LIBRARIES / target for target in folder.targets] if folder.package else [path]
    return [_json(place / statement.SBOM) for place in places]


def _run_checks(folder: Folder, checks: Mapping[str, Callable[[Folder], _Rows]]) -> Iterator[Check]:
    for name, check in checks.items():
        try:
            rows = list(check(folder))
            passed = "" if rows else _passed(name, folder)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            rows = [(_ABOUT.get(name, statement.PROVENANCE), f"is not as kz writes it: {type(error).__name__} {error}")]
        yield from (Check(file, name, Status.FAIL, wrong, True) for file, wrong in rows)
        if not rows:
            yield Check("-", name, Status.PASS, passed, True)


def read(path: Path) -> Folder:
    """Read a release folder; what is wrong with it, the checks say. Raises AuditError for one that is too large."""
    paths = sorted(islice(all_below(path), MOST_FILES + 1))
    size = sum(facts.st_size for p in paths if stat.S_ISREG((facts := p.lstat()).st_mode))
    if len(paths) > MOST_FILES or size > MOST_BYTES:
        raise AuditError(f"{path} has more than {MOST_FILES:,} files or {MOST_BYTES >> 30} GB: it is no release of kz")
    there = {p.relative_to(path).as_posix(): _digest(p) for p in paths if p.is_symlink() or not p.is_dir()}
    listed, problem = {}, ""
    try:
        listed = statement.parse_sums(paper(path / statement.SUMS).decode())
    except FileNotFoundError:
        problem = "is not there"
    except (OSError, ValueError) as error:
        problem = str(error)
    provenance = _json(path / statement.PROVENANCE)
    return Folder(path, there, listed, provenance, _json(path / statement.SBOM), _is_package(provenance), problem)


def _pinned(folder: Folder) -> Check:
    """Warn of what went in and is not what is pinned. The papers name what was used: they can be right about the wrong thing."""
    try:
        dependencies = folder.provenance["predicate"]["buildDefinition"]["resolvedDependencies"]
        rows = [f"{d['name']}: {d['annotations']['overridden']}" for d in dependencies if "overridden" in d["annotations"]]  # fmt: skip
    except (LookupError, TypeError):
        return Check(statement.PROVENANCE, "pinned", Status.FAIL, "does not say what went in", True)
    if rows:
        return Check(statement.PROVENANCE, "pinned", Status.WARN, "; ".join(rows), False)
    return Check("-", "pinned", Status.PASS, "all that went in is what the pins name", False)


def _is_package(provenance: Any) -> bool:
    try:
        return bool(provenance["predicate"]["buildDefinition"]["buildType"] == statement.PACKAGE_TYPE)
    except (LookupError, TypeError):
        return False


def _digest(path: Path) -> str:
    try:
        return sha256_file(path) if path.is_file() and not path.is_symlink() else ""
    except OSError:
        return ""


def paper(path: Path, most: int = _MOST_OF_PAPER) -> bytes:
    """Return a file of somebody's folder. Raises OSError if it cannot be read, ValueError if no release has one like it."""
    facts = path.lstat()
    if not stat.S_ISREG(facts.st_mode):
        raise ValueError("is not a regular file")
    if facts.st_size > most:
        raise ValueError(f"has {facts.st_size:,} bytes; {most:,} are read")
    return path.read_bytes()


def _json(path: Path) -> Any:
    try:
        return parsed(paper(path))
    except (OSError, ValueError):
        return None


def _files(folder: Folder) -> _Rows:
    for name, sha256 in folder.listed.items():
        if name not in folder.there:
            yield name, "is listed in SHA256SUMS and not there"
        elif folder.there[name] != sha256:
            now = folder.there[name] or "not a readable plain file"
            yield name, f"is not what SHA256SUMS lists: {now[:16]} for {sha256[:16]}"
    for name in folder.there:
        if name not in folder.listed and not statement.is_unlisted(name):
            yield name, "is not listed in SHA256SUMS"
        elif statement.is_unlisted(name) and not folder.there[name]:
            yield name, "is not a plain file"
    bills = [f"{statement.LIBRARIES}/{target}/{statement.SBOM}" for target in folder.targets or ("*",)]
    for name in (statement.PROVENANCE, *(bills if folder.package else [statement.SBOM])):
        if name not in folder.listed:
            yield statement.SUMS, f"does not list {name}"


def _provenance(folder: Folder) -> _Rows:
    provenance = folder.provenance
    if provenance is None:
        yield statement.PROVENANCE, "is not JSON, or not there"
        return
    for field, wanted in (("_type", statement.STATEMENT), ("predicateType", statement.PREDICATE)):
        if provenance[field] != wanted:
            yield statement.PROVENANCE, f"{field} is {provenance[field]}, not {wanted}"
    if not folder.package and provenance["predicate"]["buildDefinition"]["buildType"] != statement.BUILD_TYPE:
        yield statement.PROVENANCE, f"buildType is neither {statement.BUILD_TYPE} nor {statement.PACKAGE_TYPE}"
    subjects = {s["name"]: s["digest"]["sha256"] for s in provenance["subject"]}
    for name, sha256 in folder.artifacts.items():
        if name not in subjects:
            yield name, "is no subject of provenance.json"
        elif subjects[name] != sha256:
            yield name, f"is not the subject of provenance.json: {sha256[:16]} for {subjects[name][:16]}"
    for name in sorted(set(subjects) - set(folder.artifacts)):
        yield statement.PROVENANCE, f"has a subject {name}, which SHA256SUMS does not list"


def _libraries(folder: Folder, inner: Mapping[str, Folder]) -> _Rows:
    """Compare the libraries in the AAR with its provenance, and that with the release files of the targets."""
    definition = folder.provenance["predicate"]["buildDefinition"]
    built = {f"{t}/{s['name']}": s["digest"]["sha256"] for t, own in inner.items() for s in own.provenance["subject"]}
    proved = {}
    for one in definition["resolvedDependencies"]:
        if one["annotations"]["kind"] == "artifact":
            proved[one["name"]] = one["digest"]["sha256"]
            if built.get(one["name"]) != one["digest"]["sha256"]:
                about = f"{statement.LIBRARIES}/{one['name'].split('/')[0]}/{statement.PROVENANCE}"
                yield one["name"], f"went in and is not a subject of {about}"
    libraries = definition["internalParameters"]["libraries"]
    for name in (name for name in folder.artifacts if name.endswith(".aar")):
        try:
            packed = digests_of(folder.path / name, "jni/")
            prefab = digests_of(folder.path / name, "prefab/")
            packed |= {path: digest for path, digest in prefab.items() if path.endswith(".so")}
        except AuditError as error:
            yield name, str(error)
            continue
        for path in sorted({*packed, *libraries}):
            if path not in packed or packed[path] != proved.get(libraries.get(path)):
                yield name, f"{path} in it is not what {statement.PROVENANCE} says"


def _sbom(folder: Folder) -> _Rows:
    from kz_build.release.sbom import problem

    if folder.sbom is None:
        yield statement.SBOM, "is not JSON, or not there"
    elif wrong := problem(paper(folder.path / statement.SBOM).decode()):
        yield statement.SBOM, wrong


def _fits(folder: Folder) -> _Rows:
    """Compare the artifacts and sources of the bill of materials with those of the provenance."""
    if folder.sbom is None or folder.provenance is None:
        yield statement.SBOM, "cannot be compared with provenance.json"
        return
    definition = folder.provenance["predicate"]["buildDefinition"]
    top = folder.sbom["metadata"]["component"]
    for field, parameter in (("version", "line"), ("name", "target")):
        if top[field] != definition["externalParameters"][parameter]:
            yield statement.SBOM, f"is of {parameter} {top[field]}, provenance.json is not"
    files = {c["name"]: {"sha256": c["hashes"][0]["content"]} for c in top["components"]}
    subjects = {s["name"]: s["digest"] for s in folder.provenance["subject"]}
    yield from _differences(files, subjects, "file")
    components = {c["bom-ref"]: _identity(c) for c in folder.sbom["components"]}
    sources = {
        d["name"]: {**d.get("digest", {}), **{k: d["annotations"].get(k, "") for k in ("version", "overridden")}}
        for d in definition["resolvedDependencies"]
        if d["annotations"]["kind"] not in ("patch", "image")
    }
    yield from _differences(components, sources, "source")
    patches = {p["diff"]["url"] for c in folder.sbom["components"] for p in c.get("pedigree", {}).get("patches", ())}
    proved = {d["name"] for d in definition["resolvedDependencies"] if d["annotations"]["kind"] == "patch"}
    for name in sorted(patches ^ proved):
        yield statement.SBOM, f"and provenance.json differ in the patch {name}"


def _differences(listed: Mapping[str, Any], proved: Mapping[str, Any], what: str) -> _Rows:
    for name in sorted({*listed, *proved}):
        if listed.get(name) != proved.get(name):
            lacks = "lacks" if name not in listed else "has" if name not in proved else "and provenance.json differ in"
            more = "" if lacks.startswith("and") else f" that provenance.json {'has' if lacks == 'lacks' else 'lacks'}"
            yield statement.SBOM, f"{lacks} the {what} {name}{more}"


def _identity(component: Mapping[str, Any]) -> dict[str, str]:
    named = {p["name"]: p["value"] for p in component["properties"]}
    identity = {"version": component["version"], "overridden": named.get("kz:overridden", "")}
    for digest in component.get("hashes", ()):
        identity[{"SHA-256": "sha256"}[digest["alg"]]] = digest["content"]
    for swhid in component.get("swhid", ()):
        _, _, kind, value = swhid.split(":")
        identity[{"rev": "gitCommit", "dir": "gitTree"}[kind]] = value
    return identity


def _notices(folder: Folder) -> _Rows:
    if folder.sbom is None:
        yield statement.SBOM, "does not say which notices there must be"
        return
    claimed = set()
    for component in folder.sbom["components"]:
        names = [p["value"] for p in component["properties"] if p["name"] == "kz:notice"]
        claimed |= set(names)
        for name in names:
            if name not in folder.there:
                yield name, f"the notice of {component['bom-ref']} is not there"
        if not names and not any(p["name"] == "kz:notice:none" for p in component["properties"]):
            yield statement.SBOM, f"{component['bom-ref']} has no notice, and does not say that there is none"
    for name in folder.there:
        if name.startswith(f"{statement.NOTICES}/") and name not in claimed:
            yield name, "is the notice of no component"


def _passed(check: str, folder: Folder) -> str:
    if check == "files":
        return f"{len(folder.listed)} files as SHA256SUMS lists them, no other"
    if check == "provenance":
        return f"{len(folder.artifacts)} artifacts are its subjects"
    if check == "libraries":
        return "those in the AAR are the target's, and its release files are here"
    if check == "sbom":
        return f"CycloneDX {folder.sbom['specVersion']}, valid by its schema"
    if check == "fits":
        return f"{len(folder.sbom['components'])} components, the sources of the provenance"
    without = [c["bom-ref"] for c in folder.sbom["components"] if any(p["name"] == "kz:notice:none" for p in c["properties"])]  # fmt: skip
    return "every component has its own" + (f", or none: {', '.join(without)}" if without else "")


_SBOM_CHECKS: Mapping[str, Callable[[Folder], _Rows]] = {"sbom": _sbom, "fits": _fits, "notices": _notices}


def _signature(path: Path, key: str) -> Iterator[Check]:
    name = statement.SIGNATURE
    signed, own = (path / name).is_file(), path / statement.PUBLIC_KEY
    if not signed and (key or own.exists()):
        yield Check(name, "signature", Status.FAIL, "is not there, and should be", True)
    elif not signed and any(path.glob(f"*{statement.BUNDLE_SUFFIX}")):
        yield Check("-", "signature", Status.SKIP, "signed by the identity of a CI: kz attest --verify DIR checks by whose", False)  # fmt: skip
    elif not signed:
        yield Check("-", "signature", Status.SKIP, "not signed: anyone who can change all files can change these", False)  # fmt: skip
    elif not (path / statement.SUMS).is_file():  # minisign would wait for who writes into a pipe
        yield Check(name, "signature", Status.FAIL, f"{statement.SUMS} is no regular file", True)
    elif not key and not own.is_file():
        yield Check(name, "signature", Status.ERROR, f"no {own.name} beside it; name the key: --key PUB", True)
    else:
        good, message = minisign.verify(path / statement.SUMS, path / name, key or str(own))
        status = Status.ERROR if good is None else Status.PASS if good else Status.FAIL
        more = "" if key or not good else f" (by the {own.name} beside it; only --key can tell who signed)"
        yield Check(name, "signature", status, message + more, True)

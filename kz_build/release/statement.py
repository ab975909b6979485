"""Release files: what lies beside a build's artifacts and describes them (docs/reference/verbs/verify-release.md). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from kz_build.build.steps import ASSEMBLE, CACHING, Checkout, Command, Copy, Step

PROVENANCE = "provenance.json"
SBOM = "sbom.cdx.json"
NOTICES = "THIRD-PARTY-NOTICES"
SUMS = "SHA256SUMS"
SIGNATURE = "SHA256SUMS.minisig"
PUBLIC_KEY = "minisign.pub"
BUNDLE_SUFFIX = ".sigstore.json"
BUNDLE = f"provenance{BUNDLE_SUFFIX}"
LIBRARIES = "libraries"
"""In the folder of an AAR: the release files of the target whose libraries it contains."""
UNLISTED = (SUMS, SIGNATURE, PUBLIC_KEY)
"""What SHA256SUMS cannot list: itself and its signature. Bundles are not listed either: `is_unlisted`."""

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:kz-build:build:1"
PACKAGE_TYPE = "urn:kz-build:package:1"
BUILDER = "urn:kz-build:builder"
_NOTICE = re.compile(
    r"(licen[cs]es?|copying|copyright|notices?|unlicense|patents|third[-_ ]?party[-_ ]?(notices?|licen[cs]es?))([-_. ].*)?",
    re.IGNORECASE,
)
_WHEELS_OWN = re.compile(r"[^/]+\.dist-info/licenses/(.+)")
_NO_TEXT = (
    ".py", ".pdf", ".h", ".c", ".cc", ".cpp", ".java", ".sh", ".bzl", ".cmake", ".json", ".yml", ".yaml", ".toml",
)  # fmt: skip


@dataclass(frozen=True)
class Component:
    """One thing that went into a build. `ref` is the source's name, and a submodule's path behind it.

    `uri` is '' if it was not downloaded.
    """

    ref: str
    name: str
    version: str
    kind: str
    uri: str
    purl: str
    digests: Mapping[str, str]
    patched: Mapping[str, str]
    patches: tuple[tuple[str, str], ...]
    """(path in the project, sha256) of the stack that was applied"""
    note: str = ""
    overridden: str = ""
    """why it is not what is pinned, '' if it is"""
    tool: bool = False
    """the build runs it, and its target uses no file of it"""


def is_unlisted(name: str) -> bool:
    """Whether a file is one that SHA256SUMS does not list: a signature, of whichever builder."""
    return name in UNLISTED or ("/" not in name and name.endswith(BUNDLE_SUFFIX))


def subjects(digests: Mapping[str, str]) -> list[dict[str, object]]:
    """Return the subjects of a statement: files by their sha256."""
    return [{"name": name, "digest": {"sha256": sha256}} for name, sha256 in sorted(digests.items())]


def is_notice(path: str) -> bool:
    """Whether a file of a tree is a licence or a notice, by its name; in any folder, for vendored code."""
    folder, _, name = path.rpartition("/")
    if name.lower().endswith(_NO_TEXT):
        return False
    return folder.rpartition("/")[2] == "LICENSES" or bool(_NOTICE.fullmatch(name))


def is_own_notice(path: str) -> bool:
    """Whether a file of a wheel or archive is its own licence: at its root, or in a wheel's list of licences."""
    if "/" in path and ".dist-info/" not in path:
        return False
    inner = re.sub(r"^[^/]+\.dist-info/", "", path)
    return bool(_WHEELS_OWN.fullmatch(path)) or ("/" not in inner and is_notice(inner))


def nearest(notices: Sequence[str]) -> list[str]:
    """Return the notices of a component itself, not of vendored code: those at the least depth."""
    least = min((path.count("/") for path in notices), default=0)
    return [path for path in notices if path.count("/") == least]


def artifacts_by_component(
    notices: Mapping[str, Sequence[str]], named: Mapping[str, Iterable[str]], root: str
) -> dict[str, dict[str, set[str]]]:
    """Return component -> folder in it -> the artifacts with code of it: '' for the whole component, and each folder of
    vendored code, which is one with its own licence.

    `notices` are those of each component, by their names in it; `named` the paths below `root`, the folder of all
    components, that each artifact's debug information names.
    """
    folders = {
        ref: {name.rpartition("/")[0] for name in set(names) - set(nearest(names))} - {""}
        for ref, names in notices.items()
    }
    result: dict[str, dict[str, set[str]]] = {}
    for artifact, paths in named.items():
        for path in paths:
            ref = _deepest(path.removeprefix(f"{root}/"), folders)
            if ref:
                inner = path.removeprefix(f"{root}/{ref}/")
                for folder in {"", _deepest(inner, folders[ref])}:
                    result.setdefault(ref, {}).setdefault(folder, set()).add(artifact)
    return result


def _deepest(path: str, folders: Iterable[str]) -> str:
    """Return the longest of these folders that contains a path, '' for none."""
    return max((f for f in folders if f"{path}/".startswith(f"{f}/")), key=len, default="")


def notice_name(path: str) -> str:
    """Return a notice's name below its component's folder, without a wheel's own folder."""
    match = _WHEELS_OWN.fullmatch(path)
    return match[1] if match else re.sub(r"^[^/]+\.dist-info/", "", path)


def public_url(url: str) -> str:
    """Return an address without its password, safe to print; '' for a path of this machine."""
    if "://" not in url:
        return ""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return ""
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def replace_folders(text: str, names: Sequence[tuple[str, str]]) -> str:
    """Replace folders of this machine in a text by neutral names: longest first, whole names only."""
    for real, name in sorted(names, key=lambda pair: -len(pair[0])):
        text = re.sub(rf"{re.escape(real)}(?![\w.-])", lambda _, name=name: name, text)  # type: ignore[misc]
    return text


def plain_step(step: Step, names: Sequence[tuple[str, str]]) -> dict[str, object]:
    """Return a step of a plan as any machine would print it, without the number of jobs and the compile cache."""
    if isinstance(step, Checkout):
        to = replace_folders(str(step.folder), names).rstrip("/")
        return {"checkout": to, "gitTree": step.tree, "exclude": list(step.exclude)}
    if isinstance(step, Copy):
        return {"copy": replace_folders(str(step.source), names), "to": replace_folders(str(step.to), names)}
    return _plain_command(step, names)


def _plain_command(step: Command, names: Sequence[tuple[str, str]]) -> dict[str, object]:
    argv = [replace_folders(word, names) for word in step.argv if not _is_cache_option(word)]
    for at, word in enumerate(argv[:-1]):
        if word == "--parallel":
            argv[at + 1] = "{jobs}"
    return {
        "phase": step.phase,
        "argv": argv,
        "cwd": replace_folders(str(step.cwd), names),
        "env": {key: _plain_value(key, value, names) for key, value in step.env if key not in CACHING},
    }


def _is_cache_option(word: str) -> bool:
    """Whether a CMake option puts the compile cache before the assembler."""
    return word.startswith("-DCMAKE_ASM_COMPILE_OBJECT=") and word.endswith(f" {ASSEMBLE}")


def _plain_value(key: str, value: str, names: Sequence[tuple[str, str]]) -> str:
    text = replace_folders(value, names)
    if key != "PATH":
        return text
    # The plan sorts the tools' folders by their paths here.
    folders = text.split(":")
    return ":".join([*sorted(f for f in folders if f.startswith("/kz/")), *(f for f in folders if not f.startswith("/kz/"))])  # fmt: skip


def provenance_statement(
    artifacts: Mapping[str, str],
    components: Sequence[Component],
    external: Mapping[str, object],
    internal: Mapping[str, object],
    image: Mapping[str, str] | None,
    version: str,
    build_type: str = BUILD_TYPE,
) -> dict[str, object]:
    """Return the in-toto statement with SLSA provenance, version 1. `artifacts` maps a file's name to its sha256."""
    resolved = [_descriptor(c) for c in components]
    for component in components:
        resolved += [
            {"name": path, "digest": {"sha256": sha256}, "annotations": {"kind": "patch", "of": component.ref}}
            for path, sha256 in component.patches
        ]
    if image:
        named = {"name": image["name"], "digest": {"sha256": image["digest"].removeprefix("sha256:")}}
        resolved.append({**named, "annotations": {"kind": "image"}})
    return {
        "_type": STATEMENT,
        "subject": subjects(artifacts),
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": build_type,
                "externalParameters": dict(external),
                "internalParameters": dict(internal),
                "resolvedDependencies": resolved,
            },
            "runDetails": {"builder": {"id": BUILDER, "version": {"kz_build": version}}},
        },
    }


def _descriptor(component: Component) -> dict[str, object]:
    annotations: dict[str, object] = {"kind": component.kind, "version": component.version}
    if component.patched:
        annotations["patched"] = dict(component.patched)
    if component.note:
        annotations["note"] = component.note
    if component.overridden:
        annotations["overridden"] = component.overridden
    descriptor: dict[str, object] = {"name": component.ref, "annotations": annotations}
    if component.uri:
        descriptor["uri"] = component.uri
    if component.digests:
        descriptor["digest"] = dict(component.digests)
    return descriptor


def sums_text(files: Mapping[str, str]) -> str:
    """Return SHA256SUMS of name -> sha256, as `sha256sum -c` reads it."""
    return "".join(f"{sha256}  {name}\n" for name, sha256 in sorted(files.items()))


def parse_sums(text: str) -> dict[str, str]:
    """Return name -> sha256. Raises ValueError that names a line no build writes."""
    sums: dict[str, str] = {}
    for number, row in enumerate(text.splitlines(), 1):
        match = re.fullmatch(r"([0-9a-f]{64})  ([^/\0][^\0]*)", row)
        if not match or ".." in match[2].split("/"):
            raise ValueError(f"line {number} is not `<sha256>  <file>`")
        if match[2] in sums:
            raise ValueError(f"line {number} names {match[2]} again")
        sums[match[2]] = match[1]
    return sums

"""Libraries of an AAR as prefab modules: what the C++ code of an app links (https://google.github.io/prefab)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from kz_build.checks.elf_rules import CXX_RUNTIME_INSIDE, android_abi
from kz_build.core.errors import ConfigError
from kz_build.formats.elf import read_elf, registered_strings
from kz_build.git import repository as git
from kz_build.release.aar_folder import Part
from kz_build.release.notices import linked
from kz_build.sources.fetched import Fetched

FOLDER = "prefab"
_HEADERS = (".h", ".hpp")


def modules(
    name: str, version: str, listed: Mapping[str, Sequence[str]], parts: Sequence[Part], headers: Mapping[str, bytes]
) -> dict[str, bytes]:
    """Return the files of a prefab package by their path in the AAR, libraries too. `listed`: library -> its headers in the source."""
    if not listed:
        return {}
    about = {"name": name, "schema_version": 2, "dependencies": [], "version": version}
    if not re.fullmatch(r"\d+(\.\d+){0,3}", version):
        del about["version"]  # CMake's own form of versions, and no other
    result = {f"{FOLDER}/prefab.json": _json(about)}
    for library, paths in listed.items():
        module = f"{FOLDER}/modules/{library.removeprefix('lib').removesuffix('.so')}"
        result[f"{module}/module.json"] = _json({"export_libraries": []})
        for path, data in headers.items():
            if _is_listed(path, paths):
                result[f"{module}/include/{path}"] = data
        having = [part for part in parts if library in part.libraries]
        if not having:
            raise ConfigError(f"package.prefab: no target builds {library}", hint="fix pins.yaml")
        for part in having:
            folder = f"{module}/libs/android.{android_abi(part.abi)}"
            result[f"{folder}/abi.json"] = _json(_abi(part, part.path(library)))
            result[f"{folder}/{library}"] = part.path(library).read_bytes()
    return result


def headers_of(source: Fetched, listed: Mapping[str, Sequence[str]]) -> dict[str, bytes]:
    """Return the headers of a source by path, from its patched tree; links are followed. Raises ConfigError for a path that has none."""
    if not listed:
        return {}
    repository, tree = git.Repository(source.trees[0].repository), source.trees[0].tree
    wanted = [path for paths in listed.values() for path in paths]
    entries = {e.path: e for e in repository.entries(tree) if not e.submodule}
    with repository.objects() as objects:
        files = {path: linked(path, entries, objects) for path in entries if _is_listed(path, wanted)}
        for path in wanted:
            if not any(file and _is_listed(at, [path]) for at, file in files.items()):
                raise ConfigError(
                    f"package.prefab: {source.name} {source.version} has no header {path}", hint="fix pins.yaml"
                )
        return {path: objects.content(file.id) for path, file in files.items() if file}


def _is_listed(path: str, listed: Sequence[str]) -> bool:
    return path in listed or (path.endswith(_HEADERS) and path.startswith(tuple(p for p in listed if p.endswith("/"))))


def _abi(part: Part, library: Path) -> dict[str, object]:
    """Return what prefab compares with an app, from the library itself."""
    elf = read_elf(library, exports=False)
    ndk = re.match(r"r(\d+)", elf.ndk)
    if not ndk:
        raise ConfigError(
            f"package.prefab: {library.name} of {part.target} has no Android note, so its API level and NDK are unknown",
            hint="only libraries that the NDK links can be prefab modules",
        )
    if "libc++_shared.so" in elf.needed:
        stl = "c++_shared"
    else:
        stl = "c++_static" if registered_strings(library, (CXX_RUNTIME_INSIDE,)) else "none"
    return {"abi": android_abi(part.abi), "api": elf.api, "ndk": int(ndk[1]), "stl": stl, "static": False}


def _json(data: Mapping[str, object]) -> bytes:
    return json.dumps(data, indent=1).encode() + b"\n"

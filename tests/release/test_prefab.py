"""Prefab modules as prefab itself reads them: names of folders, keys of JSON, and a library that links."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kz_build.core.errors import ConfigError
from kz_build.git.object_types import Blob
from kz_build.release.aar_folder import Part
from kz_build.release.prefab import headers_of, modules
from kz_build.sources import clones
from kz_build.sources.fetched import Fetched
from tests.formats.apps import TRIPLES, Lib, Linker

NOTE = """
__attribute__((section(".note.android.ident"), used, aligned(4))) static const struct {
  int name_size, size, type; char name[8]; int api; char ndk[64], build[64];
} note = {8, 132, 1, "Android", 26, "r28c", "1"};
__attribute__((visibility("default"))) int toy_answer(void) { return 42; }
"""
HEADERS = {"toy/toy.h": b"int toy_answer(void);\n", "toy/more/other.h": b"", "toy/toy.c": b""}
# The keys of google/prefab's data classes: PackageMetadataV1, ModuleMetadataV1 and AndroidAbiMetadataV2. It refuses others.
PACKAGE: dict[str, type] = {"name": str, "schema_version": int, "dependencies": list, "version": str}
MODULE: dict[str, type] = {"export_libraries": list, "library_name": str, "android": dict}
ABI: dict[str, type] = {"abi": str, "api": int, "ndk": int, "stl": str, "static": bool}
STLS = ("c++_shared", "c++_static", "gnustl_shared", "gnustl_static", "none", "stlport_shared", "stlport_static", "system")  # fmt: skip


def part(linker: Linker, folder: Path, abi: str, code: str = NOTE) -> Part:
    folder.mkdir()
    (folder / "toy.c").write_text(code)
    linker.run("cc", "-target", TRIPLES[abi], "-fPIC", "-c", "-o", folder / "toy.o", folder / "toy.c")
    needed = linker.linked(folder, Lib("libc++_shared.so", abi), ())
    argv: list[str | Path] = ["-shared", "-soname", "libtoy.so", "-o", folder / "libtoy.so", folder / "toy.o"]
    linker.run("ld.lld", *argv, "--no-as-needed", needed)
    return Part(folder.name, {"abi": abi}, folder, {"libtoy.so": "libtoy.so"}, {"libtoy.so": "ours"}, ())


def as_prefab_reads(folder: Path, abi: str) -> tuple[str, Path, Path]:
    """(CMake's name, library, headers) of the only module."""
    package = json.loads((folder / "prefab.json").read_text())
    has_keys(package, PACKAGE, {"name", "schema_version", "dependencies"})
    assert package["schema_version"] == 2
    assert re.fullmatch(r"\d+(\.\d+(\.\d+(\.\d+)?)?)?", package.get("version", "1"))
    (module,) = (folder / "modules").iterdir()
    has_keys(json.loads((module / "module.json").read_text()), MODULE, set())
    for place in (module / "libs").iterdir():
        data = json.loads((place / "abi.json").read_text())
        has_keys(data, ABI, {"abi", "api", "ndk", "stl"})
        assert place.name == f"android.{data['abi']}" and data["stl"] in STLS
    return f"{package['name']}::{module.name}", module / f"libs/android.{abi}/lib{module.name}.so", module / "include"


def has_keys(data: dict[str, object], known: dict[str, type], required: set[str]) -> None:
    assert required <= set(data) <= set(known), data
    assert all(isinstance(value, known[key]) for key, value in data.items()), data


@pytest.mark.parametrize("abi", ["arm64-v8a", "x86_64"])
def test_an_app_links_a_module(linker: Linker, tmp_path: Path, abi: str) -> None:
    parts = tuple(part(linker, tmp_path / one, one) for one in ("arm64-v8a", "x86_64"))
    members = modules("toy-android", "1.2.0", {"libtoy.so": ["toy/"]}, parts, HEADERS)
    for path, data in members.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    name, library, headers = as_prefab_reads(tmp_path / "prefab", abi)
    assert name == "toy-android::toy" and library.read_bytes() == (tmp_path / abi / "libtoy.so").read_bytes()
    assert sorted(p.name for p in headers.rglob("*.*")) == ["other.h", "toy.h"]
    about = json.loads((library.parent / "abi.json").read_text())
    assert about == {"abi": abi, "api": 26, "ndk": 28, "stl": "c++_shared", "static": False}
    (tmp_path / "app.c").write_text("#include <toy/toy.h>\nint app(void) { return toy_answer(); }\n")
    linker.run(
        "cc", "-target", TRIPLES[abi], "-fPIC", "-I", headers, "-c", "-o", tmp_path / "app.o", tmp_path / "app.c"
    )
    linker.run("ld.lld", "-shared", "--no-undefined", "-o", tmp_path / "libapp.so", tmp_path / "app.o", library)


def test_a_header_that_is_a_link_has_the_text_of_its_file(tmp_path: Path) -> None:
    files = {
        "toy/toy.h": Blob("120000", b"../src/toy.h"), "src/toy.h": Blob("100644", b"int toy;\n"),
        "toy/gone.h": Blob("120000", b"../../elsewhere.h"),
    }  # fmt: skip
    at = clones.import_files(tmp_path, "", files, "test")
    source = Fetched("toy", "git", "1", "", (at,))
    assert headers_of(source, {"libtoy.so": ["toy/"]}) == {"toy/toy.h": b"int toy;\n"}
    with pytest.raises(ConfigError, match="toy 1 has no header toy/gone.h"):
        headers_of(source, {"libtoy.so": ["toy/gone.h"]})


def test_what_prefab_cannot_have(linker: Linker, tmp_path: Path) -> None:
    own = part(linker, tmp_path / "own", "x86_64")
    assert "version" not in json.loads(modules("a", "1.2-rc1", {"libtoy.so": []}, (own,), {})["prefab/prefab.json"])
    with pytest.raises(ConfigError, match="no target builds libother.so"):
        modules("a", "1", {"libother.so": []}, (own,), {})
    plain = part(linker, tmp_path / "plain", "x86_64", "int x;")
    with pytest.raises(ConfigError, match="libtoy.so of plain has no Android note"):
        modules("a", "1", {"libtoy.so": []}, (plain,), {})

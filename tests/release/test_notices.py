"""Licence texts out of real git trees and wheels, and the SBOM of nested submodules by its own schema."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from kz_build.core.errors import ConfigError
from kz_build.git.object_types import Blob
from kz_build.release import notices, sbom
from kz_build.release.statement import Component
from kz_build.sources import clones
from kz_build.sources.fetched import Fetched, TreeAt

MIT = """MIT License

Copyright (c) 2026 Somebody Else

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.
"""


def tree(store: Path, exclude: tuple[str, ...] = (), **files: str) -> TreeAt:
    blobs = {n: Blob("120000" if d.startswith("-> ") else "100644", d.removeprefix("-> ").encode()) for n, d in files.items()}  # fmt: skip
    at = clones.import_files(store, "", blobs, "test")
    return TreeAt("", at.repository, at.commit, at.tree, exclude)


def test_texts_come_out_of_the_tree(tmp_path: Path) -> None:
    files = {
        "LICENSE": "-> docs/legal.txt",
        "docs/legal.txt": "the text",
        "COPYING": "-> /etc/passwd",
        "NOTICE": "-> ../../outside",
        "vendor/x/LICENSE": "of x",
        "heavy/LICENSE": "left out",
        "src/main.c": "int x;",
        "vendor/y/LICENSE": "-> ../x/COPYING",
        "vendor/x/COPYING": "-> ../../LICENSE",
        "a/LICENSE": "-> ../b/LICENSE",
        "b/LICENSE": "-> ../a/LICENSE",
    }
    found = notices.of_tree(tree(tmp_path, ("heavy/",), **files))
    text = b"the text"
    assert found == {"LICENSE": text, "vendor/x/LICENSE": b"of x", "vendor/x/COPYING": text, "vendor/y/LICENSE": text}


@pytest.mark.parametrize("name", ["LICENSES/a\nb", "LICENSES/a\n", "COPYING.\u2028", "LICENSE.\udcfc"])
def test_a_licence_that_no_line_of_sums_can_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="a line end in it, or bytes that are not UTF-8"):
        notices.of_tree(tree(tmp_path, (), **{"LICENSE": "text", name: "text"}))


def test_texts_come_out_of_the_whole_wheel_though_a_part_is_unpacked(tmp_path: Path) -> None:
    wheel = tmp_path / "x.whl"
    with zipfile.ZipFile(wheel, "w") as zipped:
        zipped.writestr("x/a.py", "")
        zipped.writestr("x/vendor/LICENSE", "not its own")
        zipped.writestr("x-1.dist-info/licenses/LICENSE", "its own")
    assert notices.of_files(Fetched("x", "wheel", "1", "sha256 0", (), tmp_path, wheel)) == {"LICENSE": b"its own"}
    with zipfile.ZipFile(wheel, "a") as zipped:
        zipped.writestr("x-1.dist-info/LICENSE", "another")
        zipped.writestr("x-1.dist-info/NOTICE", "once")
        zipped.writestr("x-1.dist-info/licenses/NOTICE", "once")
    assert notices.of_files(Fetched("x", "wheel", "1", "sha256 0", (), tmp_path, wheel)) == {
        "LICENSE": b"another", "x-1.dist-info/licenses/LICENSE": b"its own", "NOTICE": b"once"
    }  # fmt: skip
    sdk = tmp_path / "sdk.zip"
    with zipfile.ZipFile(sdk, "w") as zipped:
        zipped.writestr("qairt/2.42/NOTICE.txt", "of the SDK")
        zipped.writestr("qairt/2.42/lib/x.so", "")
    assert notices.of_files(Fetched("sdk", "archive", "1", "sha256 0", (), tmp_path, sdk)) == {
        "NOTICE.txt": b"of the SDK"
    }


@pytest.mark.parametrize(
    ("text", "spdx"), [(MIT, "MIT"), (MIT.replace("Somebody Else", "Me"), "MIT"), ("mine, all mine", ""), ("", ""), ("\udcff", "")]
)  # fmt: skip
def test_a_licence_is_told_by_its_text(text: str, spdx: str) -> None:
    assert notices.licence(text.encode("utf-8", "surrogateescape")) == spdx


def part(ref: str, *found: str) -> sbom.Licensed:
    digests = {"gitCommit": "a" * 40, "gitTree": "b" * 40}
    purl = f"pkg:github/google/{ref.rpartition('/')[2]}@{'a' * 40}"
    component = Component(ref, ref.rpartition("/")[2], "a" * 40, "git", "", purl, digests, {}, ())
    return sbom.Licensed(component, {f"THIRD-PARTY-NOTICES/{ref}/{name}": "MIT" for name in found}, {})


def test_nested_submodules_are_components_below_theirs() -> None:
    refs = ["et", "et/llm/tokenizers", "et/llm/tokenizers/third-party/abseil-cpp", "et/xnn/XNNPACK"]
    parts = [part(ref, "LICENSE", "vendor/x/LICENSE") for ref in refs] + [part("et2")]
    text = sbom.sbom("t", "l", {"lib/x.so": "0" * 64}, parts, "1", "seed")
    assert text == sbom.sbom("t", "l", {"lib/x.so": "0" * 64}, parts[::-1], "1", "seed")
    assert sbom.problem(text.decode()) == ""
    said = json.loads(text)
    below = {d["ref"]: d.get("dependsOn", []) for d in said["dependencies"]}
    assert below["kz:l/t"] == ["et", "et2"]
    assert below["et"] == ["et/llm/tokenizers", "et/xnn/XNNPACK"]
    assert below["et/llm/tokenizers"] == ["et/llm/tokenizers/third-party/abseil-cpp"]
    bare = next(c for c in said["components"] if c["bom-ref"] == "et2")
    assert {"name": "kz:notice:none", "value": "no licence file in what is pinned"} in bare["properties"]


def test_the_schema_is_asked() -> None:
    text = sbom.sbom("t", "l", {}, [part("et")], "1", "seed").decode()
    assert "thing" in sbom.problem(text.replace('"type": "library"', '"type": "thing"'))
    assert sbom.problem("{") and sbom.problem("[]")


def test_an_sbom_that_would_be_checked_for_hours_is_refused_at_once() -> None:
    """The validator compares each component with all others: 600 kB took it three minutes, 6 MB would take it hours."""
    many = [{"type": "library", "name": str(number)} for number in range(16_000)]
    said = json.loads(sbom.sbom("t", "l", {}, [part("et")], "1", "seed"))
    assert sbom.problem(json.dumps({**said, "components": many[:200]})) == ""
    assert sbom.problem(json.dumps({**said, "components": many})) == "has lists that take too long to check"


def test_a_concluded_licence_stands_beside_those_that_are_shipped() -> None:
    eigen = replace(part("et/eigen", "LICENSE"), concluded={"": ("MPL-2.0", "blas/ alone is compiled")})
    text = sbom.sbom("t", "l", {}, [eigen], "1", "seed").decode()
    assert sbom.problem(text) == ""
    component = json.loads(text)["components"][0]
    assert {"name": "kz:concluded", "value": "blas/ alone is compiled"} in component["properties"]
    assert {(one["license"]["id"], one["license"]["acknowledgement"]) for one in component["licenses"]} == {
        ("MPL-2.0", "concluded"), ("MIT", "declared")
    }  # fmt: skip
    with pytest.raises(ConfigError, match="MPL-2 is no identifier"):
        sbom.sbom("t", "l", {}, [replace(eigen, concluded={"": ("MPL-2", "x")})], "1", "seed")


def test_a_licence_without_an_end_is_refused_before_it_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "unpacked"
    folder.mkdir()
    with (folder / "LICENSE").open("wb") as file:
        file.truncate(1 << 40)
    wheel = tmp_path / "w.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("w.dist-info/LICENSE", bytes(notices.MOST_BYTES + 1))
    unpacked, in_wheel = (Fetched("s", "wheel", "1", "sha256 0", (), folder, file) for file in (None, wheel))
    for source in (unpacked, in_wheel):
        with pytest.raises(ConfigError, match="LICENSE has the name of a licence, but"):
            notices.of_files(source)

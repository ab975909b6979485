"""Known vulnerabilities by a file of OSV: by package and version, by commit, and by what only a history can tell."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from kz_build.core.errors import AuditError
from kz_build.release import osv, sbom
from kz_build.release.statement import Component
from tests.conftest import Kz

DIST = Path("dist/sample-0.1/linux-arm64")
OLD, NOW, NEW = "1" * 40, "2" * 40, "3" * 40


def parts() -> tuple[osv.Part, ...]:
    """Components as kz writes them, read back from an SBOM: two wheels, an archive of Maven, a submodule at a commit, a source at a tag."""
    listed = [
        Component("pyyaml", "pyyaml", "6.0.1", "wheel", "", "pkg:pypi/pyyaml@6.0.1?file_name=x.whl", {"sha256": "0" * 64}, {}, (), tool=True),
        Component("torch", "torch", "2.5.1+cpu", "wheel", "", "pkg:pypi/torch@2.5.1%2Bcpu", {"sha256": "0" * 64}, {}, ()),
        Component("fbjni", "fbjni", "0.7.0", "archive", "", "pkg:maven/com.facebook.fbjni/fbjni@0.7.0?type=aar", {"sha256": "0" * 64}, {}, ()),
        Component("et/xnn", "xnn", NOW, "git", "", f"pkg:github/google/XNNPACK@{NOW}", {"gitCommit": NOW, "gitTree": NEW}, {}, ()),
        Component("re2", "re2", "v2.1", "git", "", f"pkg:generic/re2@v2.1?vcs_url=git%2Bhttps://code.example/re2.git%40{NOW}", {"gitCommit": NOW, "gitTree": NEW}, {}, ()),
    ]  # fmt: skip
    text = sbom.sbom("t", "l", {}, [sbom.Licensed(one, {}, {}) for one in listed], "1", "seed").decode()
    return osv.parts(json.loads(text))


def affected(
    ecosystem: str, name: str, *events: dict[str, str], versions: tuple[str, ...] = (), **more: Any
) -> dict[str, Any]:
    kind = more.get("type", "ECOSYSTEM")
    return {
        "package": {"ecosystem": ecosystem, "name": name},
        "versions": list(versions),
        "ranges": [{"type": kind, "events": list(events), **more}],
    }


def git(repo: str, *events: dict[str, str], versions: tuple[str, ...] = ()) -> dict[str, Any]:
    return affected("OSS-Fuzz", "name", *events, versions=versions, type="GIT", repo=repo)


XNN, RE2 = "https://github.com/google/xnnpack.git", "https://code.example/re2"
SINCE, ALWAYS = {"introduced": "1.0"}, {"introduced": "0"}
ROWS = [
    # what a record says, and which component it is about: for certain, perhaps, or none
    (affected("PyPI", "PyYAML", ALWAYS, {"fixed": "6.0.2"}), "pyyaml", True),
    (affected("PyPI", "PyYAML", ALWAYS, {"fixed": "6.0.1"}), "", False),
    (affected("PyPI", "PyYAML", ALWAYS, {"last_affected": "6.0.1"}), "pyyaml", True),
    (affected("PyPI", "PyYAML", ALWAYS, {"last_affected": "6.0"}), "", False),
    (affected("PyPI", "torch", ALWAYS, {"last_affected": "2.5.1"}), "torch", True),
    (affected("PyPI", "torch", {"introduced": "8"}, versions=("2.5.1",)), "torch", True),
    (affected("PyPI", "torch", ALWAYS, {"fixed": "2.5.1"}), "", False),
    (affected("PyPI", "PyYAML", {"introduced": "6.0.2"}), "", False),
    (affected("PyPI", "PyYAML", {"introduced": "6.0rc1"}, {"fixed": "7"}, {"introduced": "5.0"}, {"fixed": "5.4"}), "pyyaml", True),
    (affected("PyPI", "PyYAML", {"introduced": "8"}, versions=("6.0.1",)), "pyyaml", True),
    (affected("PyPI", "PyYAML", {"introduced": "not a version"}), "pyyaml", False),
    (affected("PyPI", "PyYAML", ALWAYS, type="GIT", repo="https://github.com/yaml/pyyaml"), "pyyaml", False),
    (affected("PyPI", "PyYAML", ALWAYS, type="GIT", repo="https://github.com/yaml/pyyaml", versions=("5.0",)), "", False),
    ({"package": {"ecosystem": "PyPI", "name": "PyYAML"}}, "pyyaml", False),
    (affected("npm", "pyyaml", ALWAYS), "", False),
    (affected("Maven", "com.facebook.fbjni:fbjni", ALWAYS, {"fixed": "0.8.0"}), "fbjni", True),
    (affected("Maven", "com.example:fbjni", ALWAYS), "", False),
    (git(XNN, {"introduced": NOW}), "et/xnn", True),
    (git(XNN, ALWAYS, {"fixed": NOW}), "", False),
    (git(XNN, ALWAYS, {"fixed": NEW}), "et/xnn", False),
    (git(XNN, ALWAYS), "et/xnn", True),
    (git(XNN, {"introduced": OLD}, {"fixed": NEW}), "et/xnn", False),
    (git("https://github.com/google/other", ALWAYS), "", False),
    (git(RE2, {"introduced": OLD}, {"fixed": NEW}, versions=("v2.0", "v2.1")), "re2", True),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
def test_a_record_is_about_the_component_that_it_names_in_the_versions_that_it_names(
    tmp_path: Path, row: tuple[dict[str, Any], str, bool]
) -> None:
    one, ref, certain = row
    file = tmp_path / "osv.json"
    file.write_text(
        json.dumps({"id": "OSV-1", "summary": "it breaks", "affected": [affected("npm", "x", ALWAYS), one]})
    )
    found, count = osv.ask(parts(), file)
    assert count == 1 and [(f.part.ref, f.certain) for f in found] == ([(ref, certain)] if ref else [])
    file.write_text(json.dumps({"id": "OSV-1", "withdrawn": "2026-01-01T00:00:00Z", "affected": [one]}))
    assert osv.ask(parts(), file)[0] == ()


def test_a_release_is_asked_with_a_zip_of_osv_and_the_findings_are_cyclonedx(
    built: Path, kz: Kz, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(built / DIST, tmp_path / "release"))
    database, vex = tmp_path / "all.zip", tmp_path / "vex.json"
    records = {
        "CMAKE-1": affected("PyPI", "cmake", ALWAYS), "ZIG-1": affected("PyPI", "ziglang", ALWAYS, {"fixed": "0.15"}),
        "NONE-1": affected("PyPI", "requests", ALWAYS),
    }  # fmt: skip
    with zipfile.ZipFile(database, "w") as zipped:
        for name, one in records.items():
            zipped.writestr(
                f"{name}.json",
                json.dumps({"id": name, "aliases": ["CVE-2026-1"], "summary": "bad \x1b[31m", "affected": [one]}),
            )
    done = kz("verify-release", folder, "--osv", database, "--vex", vex)
    assert done.returncode == 7 and "known vulnerabilities in ziglang" in done.stderr, done.stdout + done.stderr
    assert (
        "ZIG-1 (CVE-2026-1)" in done.stdout
        and "fixed in 0.15" in done.stdout
        and "it is a tool" in done.stdout
        and "\x1b" not in done.stdout
    )
    assert sbom.problem(vex.read_text()) == ""
    said = json.loads(vex.read_text())
    serial = json.loads((folder / "sbom.cdx.json").read_text())["serialNumber"].removeprefix("urn:uuid:")
    assert {(v["id"], v["affects"][0]["ref"], v["analysis"]["state"]) for v in said["vulnerabilities"]} == {
        ("CMAKE-1", f"urn:cdx:{serial}/1#cmake", "in_triage"), ("ZIG-1", f"urn:cdx:{serial}/1#ziglang", "in_triage")
    }  # fmt: skip
    for nothing in ("[]", "{}", '{"vulns": []}'):  # a server's answers, too
        (tmp_path / "none.json").write_text(nothing)
        done = kz("verify-release", folder, "--osv", tmp_path / "none.json")
        assert done.returncode == 0 and "0 records, none is about these 4 components" in done.stdout
    with zipfile.ZipFile(database, "w") as zipped:
        zipped.writestr("src/main.c", "int x;")
    done = kz("verify-release", folder, "--osv", database)
    assert done.returncode == 2 and "no file in it ends in .json" in done.stderr
    assert kz("verify-release", folder, "--vex", vex).returncode == 2


HALF = {"bom-ref": "\ud800", "version": "1", "purl": "pkg:pypi/x@1"}


@pytest.mark.parametrize(
    "bill", [[], {"components": 7}, {"components": [{}]}, {"components": [{"purl": "x"}]}, {"serialNumber": "1", "components": [HALF]}]
)  # fmt: skip
def test_an_sbom_that_kz_did_not_write_is_refused(bill: Any) -> None:
    with pytest.raises(AuditError, match="not as kz writes it"):
        osv.parts(bill)


@pytest.mark.parametrize(
    "text", ["", "x", "7", "null", '"x"', "[7]", '[{"affected": 7}]', '{"id": "A", "affected": [{"package": 7}]}', "[" * 100_000, '{"results": [{"vulns": [{"id": "A"}]}]}', '[{}]', '{"id": "\\ud800"}', "PK\x03\x04xxxx"]
)  # fmt: skip
def test_what_is_no_file_of_osv_is_refused(tmp_path: Path, text: str, built: Path, kz: Kz) -> None:
    file = tmp_path / "osv"
    file.write_text(text)
    done = kz("verify-release", built / DIST, "--osv", file)
    assert done.returncode == 2 and "kz: exit 2 (config)" in done.stderr, done.stderr

"""Release files beside the artifacts: what they say, and that no change to any of it goes unseen."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kz_build.release.verify import verify
from tests.conftest import Kz, snapshot

DIST = Path("dist/sample-0.1/linux-arm64")
MINISIGN = shutil.which("minisign")
signs = pytest.mark.skipif(not MINISIGN, reason="needs minisign")


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    """The artifacts with their release files and nothing else, in a folder that a test may change."""
    return Path(shutil.copytree(built / DIST, tmp_path / "shipped"))


@pytest.fixture(scope="session")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key of minisign without a password; KEY.pub lies beside it."""
    at = tmp_path_factory.mktemp("key") / "key"
    subprocess.run(["minisign", "-G", "-W", "-s", at, "-p", f"{at}.pub"], check=True, capture_output=True)
    return at


def answers(kz: Kz, folder: Path, *more: str | Path) -> dict[str, str]:
    """check -> status of `kz verify-release` on artifacts that are as they should be."""
    done = kz("verify-release", folder, *more, "--json")
    assert done.returncode == 0, done.stdout
    return {c["check"]: c["status"] for c in json.loads(done.stdout)}


def test_cmake_takes_the_libraries_as_they_were_built_and_no_others(
    built: Path, folder: Path, kz: Kz, tmp_path: Path
) -> None:
    sources = json.loads(kz("-C", built, "fetch", "--json").stdout)
    cmake = next(s["folder"] for s in sources if s["name"] == "cmake") + "/cmake/data/bin/cmake"
    (tmp_path / "app").mkdir()
    (tmp_path / "app/CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.24)\nproject(app LANGUAGES NONE)\n"
        f"set_property(GLOBAL PROPERTY TARGET_SUPPORTS_SHARED_LIBS TRUE)\nfind_package(kz CONFIG REQUIRED PATHS {folder} NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH)\n"
        "get_target_property(at kz::minirt IMPORTED_LOCATION)\nget_property(again DIRECTORY PROPERTY CMAKE_CONFIGURE_DEPENDS)\n"
        'message("takes ${at}, looks at ${again}")\n'
    )

    def configured(*more: str) -> subprocess.CompletedProcess[str]:
        ndk = ("-DCMAKE_FIND_ROOT_PATH=/none", "-DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=ONLY")  # as its toolchain file says
        argv = [cmake, *ndk, "-G", "Unix Makefiles", "-S", tmp_path / "app", "-B", tmp_path / "out", *more]
        return subprocess.run(argv, capture_output=True, text=True)

    library = folder / "lib/libminirt.so"
    done = configured()
    assert done.returncode == 0 and f"takes {library}, looks at {library}" in done.stderr, done.stderr
    done = configured("-DANDROID_ABI=x86_64")
    assert done.returncode and "are for arm64, not x86_64" in done.stderr
    good = library.read_bytes()
    for at in (0, len(good) // 2, len(good) - 1):
        library.unlink()
        library.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        done = configured("-UANDROID_ABI")
        assert done.returncode and "is not the file that was built" in done.stderr, done.stderr
    library.unlink()
    assert f"kz: {library} is not there" in " ".join(configured().stderr.split())


def test_the_provenance_names_all_that_went_in_and_came_out(built: Path) -> None:
    said = json.loads((built / DIST / "provenance.json").read_text())
    assert said["_type"] == "https://in-toto.io/Statement/v1"
    assert said["predicateType"] == "https://slsa.dev/provenance/v1"
    assert {s["name"]: s["digest"]["sha256"] for s in said["subject"]} == {
        name: sha256(built / DIST / name)
        for name in snapshot(built / DIST)
        if name.startswith(("bin", "lib", "symb", "kz-config"))
    }
    definition = said["predicate"]["buildDefinition"]
    assert definition["externalParameters"]["line"] == "sample-0.1"
    assert definition["externalParameters"]["overrides"] == []
    resolved = {d["name"]: d for d in definition["resolvedDependencies"]}
    for name, entry in json.loads((built / "pins.lock").read_text())["lines"]["sample-0.1"].items():
        if entry["kind"] == "git":
            assert resolved[name]["digest"] == {"gitCommit": entry["commit"], "gitTree": entry["tree"]}
            patched = {"gitCommit": entry["patched"]["commit"], "gitTree": entry["patched"]["tree"]}
            assert resolved[name]["annotations"]["patched"] == patched
        else:
            assert resolved[name]["digest"] == {"sha256": entry["sha256"]}
            assert resolved[name]["uri"].startswith(f"pkg:pypi/{name}@{entry['version']}?file_name={entry['file']}")
    patches = sorted((built / "patches/sample-0.1/minirt").glob("*.patch"))
    assert len(patches) == 5
    for patch in patches:
        assert resolved[patch.relative_to(built).as_posix()]["digest"] == {"sha256": sha256(patch)}
    phases = [s["phase"] for s in definition["internalParameters"]["steps"] if "phase" in s]
    assert phases == [
        "library-configure",
        "library-build",
        "kz-configure",
        "kz-build",
        "symbols-libminirt.so",
        "strip-libminirt.so",
    ]


def test_no_paper_names_this_machine(built: Path, clean_env: dict[str, str]) -> None:
    for name in ("provenance.json", "sbom.cdx.json", "SHA256SUMS"):
        text = (built / DIST / name).read_text()
        for own in (str(built), built.parent.name, clean_env["KZ_CACHE"], os.uname().nodename, str(Path.home())):
            assert own not in text.replace("/root", "/r" if own == "/root" else "/root"), (name, own)


def test_notices_are_the_pinned_trees_own(built: Path) -> None:
    components = {c["bom-ref"]: c for c in json.loads((built / DIST / "sbom.cdx.json").read_text())["components"]}
    notices = built / DIST / "THIRD-PARTY-NOTICES"
    assert sorted(p.name for p in notices.iterdir()) == sorted(components) == ["cmake", "minirt", "ninja", "ziglang"]
    assert (notices / "minirt/LICENSE").read_bytes() == (built / "upstream/LICENSE").read_bytes()
    assert components["minirt"]["licenses"] == [{"license": {"id": "BSD-3-Clause", "acknowledgement": "declared"}}]
    assert len(components["minirt"]["pedigree"]["patches"]) == 5
    assert (notices / "ziglang/ziglang/lib/libcxx/LICENSE.TXT").is_file(), "libc++ is linked in"


def test_the_bill_tells_what_is_in_which_artifact(built: Path) -> None:
    components = {c["bom-ref"]: c for c in json.loads((built / DIST / "sbom.cdx.json").read_text())["components"]}

    def inside(component: dict[str, Any]) -> set[str]:
        return {p["value"] for p in component["properties"] if p["name"] == "kz:part-of"}

    # The probe is made without debug information: nothing tells what is in it.
    assert inside(components["minirt"]) == {"lib/libminirt.so"} and components["minirt"]["scope"] == "required"
    for tool in ("cmake", "ninja"):
        assert components[tool]["scope"] == "excluded" and not inside(components[tool])


def test_a_folder_as_it_was_built_passes_wherever_it_lies(folder: Path, kz: Kz) -> None:
    assert set(answers(kz, folder).values()) == {"PASS", "SKIP"}
    assert subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=folder).returncode == 0


def edit(name: str, change: Callable[[Any], Any]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        data = json.loads((folder / name).read_text())
        change(data)
        (folder / name).write_text(json.dumps(data))

    return apply


def resolved(provenance: Any) -> Any:
    return provenance["predicate"]["buildDefinition"]["resolvedDependencies"]


def append(name: str, data: bytes = b"x") -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        with (folder / name).open("ab") as file:
            file.write(data)

    return apply


def linked(folder: Path) -> None:
    (folder / "lib/libminirt.so").rename(folder.parent / "elsewhere.so")
    (folder / "lib/libminirt.so").symlink_to(folder.parent / "elsewhere.so")


NOTICE = "THIRD-PARTY-NOTICES/minirt/LICENSE"
PLAIN = {
    "artifact": (append("lib/libminirt.so"), "lib/libminirt.so"),
    "symbols": (lambda f: append(next(f.glob("symbols/*/*")).relative_to(f).as_posix())(f), ".debug"),
    "provenance": (append("provenance.json", b"\n"), "provenance.json"),
    "provenance cut": (lambda f: os.truncate(f / "provenance.json", 100), "provenance.json"),
    "sbom": (append("sbom.cdx.json", b"\n"), "sbom.cdx.json"),
    "notice": (append(NOTICE), NOTICE),
    "sums": (append("SHA256SUMS", b"hello\n"), "SHA256SUMS"),
    "sums twice": (lambda f: append("SHA256SUMS", (f / "SHA256SUMS").read_bytes())(f), "SHA256SUMS"),
    "sums gone": (lambda f: (f / "SHA256SUMS").unlink(), "SHA256SUMS"),
    "more": (lambda f: (f / "lib/libmore.so").write_bytes(b"x"), "lib/libmore.so"),
    "less": (lambda f: (f / "bin/minirt_probe").unlink(), "bin/minirt_probe"),
    "notice gone": (lambda f: (f / NOTICE).unlink(), NOTICE),
    "link": (linked, "lib/libminirt.so"),
    "list": (lambda f: (f / "provenance.json").write_text("[]"), "provenance.json"),
    "deep": (lambda f: (f / "sbom.cdx.json").write_text("[" * 100_000), "sbom.cdx.json"),
    "bytes": (append("SHA256SUMS", b"\xff\xfe"), "SHA256SUMS"),
    "pipe": (lambda f: os.mkfifo(f / "lib/pipe"), "lib/pipe"),
}


@pytest.mark.parametrize("change", PLAIN)
def test_a_change_is_found_and_named(folder: Path, kz: Kz, change: str) -> None:
    apply, named = PLAIN[change]
    apply(folder)
    done = kz("verify-release", folder)
    assert done.returncode == 7 and "kz: exit 7 (audit)" in done.stderr, done.stdout
    assert named in done.stderr.splitlines()[0], done.stderr


def with_new_sums(folder: Path) -> None:
    """As one does who knows what SHA256SUMS is for."""
    names = [n for n in snapshot(folder) if n not in ("SHA256SUMS", "SHA256SUMS.minisig", "minisign.pub")]
    (folder / "SHA256SUMS").write_text("".join(f"{sha256(folder / n)}  {n}\n" for n in sorted(names)))


FORGED = {
    "artifact": (append("lib/libminirt.so"), "lib/libminirt.so"),
    "more": (lambda f: (f / "lib/libmore.so").write_bytes(b"x"), "lib/libmore.so"),
    "less": (lambda f: (f / "bin/minirt_probe").unlink(), "provenance.json"),
    "subject": (edit("provenance.json", lambda d: d["subject"].pop()), ".debug"),
    "source": (
        edit("provenance.json", lambda d: d["predicate"]["buildDefinition"]["resolvedDependencies"].pop(0)),
        "sbom.cdx.json",
    ),
    "patch": (
        edit("provenance.json", lambda d: d["predicate"]["buildDefinition"]["resolvedDependencies"].pop()),
        "sbom.cdx.json",
    ),
    "line": (
        edit("provenance.json", lambda d: d["predicate"]["buildDefinition"]["externalParameters"].update(line="x")),
        "sbom.cdx.json",
    ),
    "other predicate": (edit("provenance.json", lambda d: d.update(predicateType="https://x")), "provenance.json"),
    "overridden": (
        edit("provenance.json", lambda d: resolved(d)[0]["annotations"].update(overridden="by mine")),
        "sbom.cdx.json",
    ),
    "no predicate": (edit("provenance.json", lambda d: d.pop("predicate")), "provenance.json"),
    "component": (edit("sbom.cdx.json", lambda d: d["components"].pop()), "sbom.cdx.json"),
    "version": (edit("sbom.cdx.json", lambda d: d["components"][0].update(version="0")), "sbom.cdx.json"),
    "hash": (edit("sbom.cdx.json", lambda d: d["components"][0].pop("hashes")), "sbom.cdx.json"),
    "schema": (edit("sbom.cdx.json", lambda d: d["components"][0].update(type="thing")), "sbom.cdx.json"),
    "unknown field": (edit("sbom.cdx.json", lambda d: d.update(hello=1)), "sbom.cdx.json"),
    "claim": (edit("sbom.cdx.json", lambda d: d["components"][0].pop("properties")), "sbom.cdx.json"),
    "text for a list": (edit("sbom.cdx.json", lambda d: d.update(components="x")), "sbom.cdx.json"),
    "digests of no kind": (edit("provenance.json", lambda d: d["subject"][0].update(digest=7)), "provenance.json"),
    "notice gone": (lambda f: (f / NOTICE).unlink(), NOTICE),
    "notice more": (lambda f: (f / "THIRD-PARTY-NOTICES/minirt/MORE").write_text("x"), "MORE"),
}


@pytest.mark.parametrize("change", FORGED)
def test_release_files_that_do_not_fit_each_other_are_found_though_the_sums_are_right(
    folder: Path, kz: Kz, change: str
) -> None:
    apply, named = FORGED[change]
    apply(folder)
    with_new_sums(folder)
    done = kz("verify-release", folder)
    assert done.returncode == 7 and named in done.stderr.splitlines()[0], done.stdout + done.stderr


def test_papers_that_name_something_overridden_pass_with_a_warning_that_names_it(folder: Path, kz: Kz) -> None:
    assert answers(kz, folder)["pinned"] == "PASS"
    edit("provenance.json", lambda d: resolved(d)[0]["annotations"].update(overridden="by mine"))(folder)
    own = {"name": "kz:overridden", "value": "by mine"}
    name = resolved(json.loads((folder / "provenance.json").read_text()))[0]["name"]
    edit("sbom.cdx.json", lambda d: [c["properties"].append(own) for c in d["components"] if c["bom-ref"] == name])(
        folder
    )
    with_new_sums(folder)
    done = kz("verify-release", folder)
    assert done.returncode == 0 and f"{name}: by mine" in done.stdout and "WARN" in done.stdout


def test_no_name_or_text_of_a_folder_adds_a_row(folder: Path, kz: Kz) -> None:
    forged = "\nPASS  -                     signature    Signature and comment signature verified"
    (folder / f"x.so{forged}").touch()
    edit("provenance.json", lambda d: resolved(d)[0]["annotations"].update(overridden=f"mine{forged}"))(folder)
    done = kz("verify-release", folder)
    assert done.returncode == 7 and "Signature and comment" in done.stdout
    assert not [
        row for row in (done.stdout + done.stderr).splitlines() if row.startswith("PASS") and "Signature" in row
    ]


@signs
def test_a_signature_holds_the_whole_folder(built: Path, sample: Path, kz: Kz, key: Path) -> None:
    shutil.copytree(built, sample, dirs_exist_ok=True)
    plain = snapshot(sample / DIST)
    done = kz("-C", sample, "build", "--json", KZ_MINISIGN_KEY=str(key))
    assert done.returncode == 0 and not json.loads(done.stdout)["fresh"], done.stderr
    signed = snapshot(sample / DIST)
    assert signed.keys() - plain.keys() == {"SHA256SUMS.minisig", "minisign.pub"} and plain.items() < signed.items()
    stamp = (sample / DIST / "SHA256SUMS.minisig").stat().st_mtime_ns
    assert kz("-C", sample, "build", "--sign", key).returncode == 0
    assert snapshot(sample / DIST) == signed and (sample / DIST / "SHA256SUMS.minisig").stat().st_mtime_ns == stamp
    assert answers(kz, sample / DIST)["signature"] == "PASS"
    assert answers(kz, sample / DIST, "--key", f"{key}.pub")["signature"] == "PASS"
    written = Path(f"{key}.pub").read_text().splitlines()[1]
    assert answers(kz, sample / DIST, "--key", written)["signature"] == "PASS"


@pytest.fixture
def signed(folder: Path, key: Path) -> Path:
    """A shipped folder with a signature, as `kz build --sign` leaves it."""
    argv: list[str | Path] = [
        "minisign",
        "-S",
        "-s",
        key,
        "-m",
        folder / "SHA256SUMS",
        "-x",
        folder / "SHA256SUMS.minisig",
    ]
    subprocess.run(argv, check=True, capture_output=True)
    shutil.copy(f"{key}.pub", folder / "minisign.pub")
    return folder


@signs
def test_a_forger_without_the_key_is_found(signed: Path, kz: Kz, key: Path, tmp_path: Path) -> None:
    assert answers(kz, signed)["signature"] == "PASS"
    original = (signed / "SHA256SUMS.minisig").read_text()
    # Everything made to fit, but for the signature.
    (signed / NOTICE).write_text("public domain")
    with_new_sums(signed)
    done = kz("verify-release", signed)
    assert done.returncode == 7 and "SHA256SUMS.minisig" in done.stderr
    # Signed again with a key of his own: only one who knows the right key sees it.
    other = tmp_path / "other"
    subprocess.run(["minisign", "-G", "-W", "-s", other, "-p", signed / "minisign.pub", "-f"], check=True, capture_output=True)  # fmt: skip
    (signed / "SHA256SUMS.minisig").unlink()
    argv: list[str | Path] = [
        "minisign",
        "-S",
        "-s",
        other,
        "-m",
        signed / "SHA256SUMS",
        "-x",
        signed / "SHA256SUMS.minisig",
    ]
    subprocess.run(argv, check=True, capture_output=True)
    assert answers(kz, signed)["signature"] == "PASS"
    done = kz("verify-release", signed, "--key", f"{key}.pub")
    assert done.returncode == 7 and "SHA256SUMS.minisig" in done.stderr
    (signed / "SHA256SUMS.minisig").write_text(original)
    assert kz("verify-release", signed).returncode == 7


@signs
@pytest.mark.parametrize(("gone", "given"), [("SHA256SUMS.minisig", ()), ("both", ("--key",)), ("minisign.pub", ())])
def test_a_signature_that_is_gone_is_missed(signed: Path, kz: Kz, key: Path, gone: str, given: tuple[str, ...]) -> None:
    for name in ("SHA256SUMS.minisig", "minisign.pub"):
        if gone in (name, "both"):
            (signed / name).unlink()
    done = kz("verify-release", signed, *([*given, f"{key}.pub"] if given else []))
    assert done.returncode == 7 and "SHA256SUMS.minisig" in done.stderr


@signs
def test_a_minisign_that_could_not_look_proves_no_forger(signed: Path, kz: Kz, key: Path, tmp_path: Path) -> None:
    for wrong in (f"{key}.pbu", "R" * 5000):
        done = kz("verify-release", signed, "--key", wrong)
        assert done.returncode == 2 and f"{wrong[:9]}" in done.stderr, done.stderr
        assert "is neither a file nor a public key of minisign" in done.stderr
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/minisign"
    for script, wanted in (
        ("kill -9 $$", "minisign ended with -9"),
        ("echo 'SHA256SUMS: Permission denied' >&2; exit 2", "SHA256SUMS: Permission denied"),
    ):
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        done = kz("verify-release", signed, "--json", PATH=f"{program.parent}:{os.environ['PATH']}")
        rows = [c for c in json.loads(done.stdout) if c["check"] == "signature"]
        assert done.returncode == 7 and [(c["status"], c["evidence"]) for c in rows] == [("ERROR", wanted)]


@signs
def test_signing_that_cannot_work_is_refused_before_the_build(sample: Path, kz: Kz, tmp_path: Path) -> None:
    done = kz("-C", sample, "build", "--sign", tmp_path / "nokey")
    assert done.returncode == 2 and "there is no key" in done.stderr
    (tmp_path / "bad").write_text("no key")
    done = kz("-C", sample, "build", "--sign", tmp_path / "bad")
    assert done.returncode == 5 and "cannot sign" in done.stderr
    empty = tmp_path / "bin"
    empty.mkdir()
    (empty / "git").symlink_to(str(shutil.which("git")))
    done = kz("-C", sample, "build", "--sign", tmp_path / "bad", PATH=str(empty))
    assert done.returncode == 6 and "apt install minisign" in done.stderr
    (empty / "minisign").write_text("#!/bin/sh\nkill -9 $$\n")
    (empty / "minisign").chmod(0o755)
    done = kz("-C", sample, "build", "--sign", tmp_path / "bad", PATH=str(empty))
    assert done.returncode == 5 and "was killed by signal 9" in done.stderr and "password" not in done.stderr
    assert not (sample / "out").exists()


def test_a_paper_that_is_no_paper_is_not_read(tmp_path: Path) -> None:
    """A folder comes from anywhere: a link may lead to a device without an end."""
    with (tmp_path / "SHA256SUMS").open("wb") as file:
        file.truncate(1 << 27)
    (tmp_path / "provenance.json").symlink_to("/dev/zero")
    said = [check.evidence for check in verify(tmp_path) if check.subject == "SHA256SUMS"]
    assert said[0] == "has 134,217,728 bytes; 67,108,864 are read"


def test_a_folder_of_pipes_links_and_holes_is_refused_at_once(kz: Kz, kz_process: Kz, tmp_path: Path) -> None:
    """Pipes in a process of its own, which can be ended when it waits for a writer."""
    pipes, large = tmp_path / "pipes", tmp_path / "large"
    for folder in (pipes, large / "lib"):
        folder.mkdir(parents=True)
    for name in ("SHA256SUMS", "x.sigstore.json", "libx.so", "AndroidManifest.xml"):
        os.mkfifo(pipes / name)
    for name in ("SHA256SUMS.minisig", "minisign.pub"):
        (pipes / name).write_text("x\n")
    (pipes / "loop").symlink_to("loop")
    (pipes / "link-to-a-folder").symlink_to(tmp_path)
    (pipes / "sbom.cdx.json").symlink_to("/dev/zero")
    with (large / "lib/libx.so").open("wb") as file:
        file.truncate(100 << 30)
    verify_it = ("attest", "--verify", "--identity", "https://example.com/x", "--issuer", "https://example.com")
    done = kz_process(*verify_it, pipes)
    assert done.returncode == 7 and "SHA256SUMS is no regular file" in done.stdout, done.stderr
    assert "x.sigstore.json" in done.stdout and "link-to-a-folder" in done.stdout, done.stdout
    for words in (("verify-release",), verify_it):
        assert "more than 10,000 files or 8 GB: it is no release" in kz(*words, large).stderr
    assert "bytes; 8,589,934,592 are read" in kz("check-apk", "--bundle", large).stderr


def test_a_folder_without_release_files_and_no_folder(kz: Kz, tmp_path: Path) -> None:
    done = kz("verify-release", tmp_path)
    assert done.returncode == 7 and "SHA256SUMS" in done.stderr
    assert kz("verify-release", tmp_path / "none").returncode == 2


@pytest.mark.parametrize("harm", ["gone", "changed", "sums"])
def test_the_next_build_fixes_release_files_and_builds_nothing(built: Path, sample: Path, kz: Kz, harm: str) -> None:
    shutil.copytree(built, sample, dirs_exist_ok=True)
    name = "SHA256SUMS" if harm == "sums" else "sbom.cdx.json"
    (sample / DIST / name).unlink() if harm == "gone" else append(name)(sample / DIST)
    done = kz("-C", sample, "build", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["fresh"] is False and json.loads(done.stdout)["papers"]["fresh"] is True
    assert snapshot(sample / DIST) == snapshot(built / DIST)


def test_a_conclusion_about_nothing_is_an_error_that_names_it(built: Path, sample: Path, kz: Kz) -> None:
    shutil.copytree(built, sample, dirs_exist_ok=True)
    pins = (sample / "pins.yaml").read_text()
    before = snapshot(sample / DIST)

    def concluded(at: str) -> str:
        own = f"{{git: upstream.bundle, concluded: {{{at}: {{licence: MIT, because: we read it}}}}}}"
        (sample / "pins.yaml").write_text(pins.replace("{git: upstream.bundle}", own))
        done = kz("-C", sample, "build", "--json")
        return done.stderr if done.returncode == 2 else f"exit {done.returncode}"

    assert "sources.minirt.concluded in pins.yaml: third_party/gone is neither" in concluded("third_party/gone")
    assert "src is neither" in concluded("src"), "a folder without a licence text is no component either"
    assert snapshot(sample / DIST) == before
    assert concluded(".") == "exit 0" and '"we read it"' in (sample / DIST / "sbom.cdx.json").read_text()


def test_the_matrix_is_what_a_workflow_takes(kz: Kz) -> None:
    line = kz("matrix", "--format", "github").stdout
    assert line.count("\n") == 1
    rows = json.loads(line)["include"]
    assert {"line": "et-1.2", "target": "android-arm64-qnn"} in rows
    assert not [r for r in rows if r["line"] == "et-1.5"], "it has the sources of no target"
    listed = json.loads(kz("matrix", "--format", "json", "--line", "et-1.3").stdout)
    assert {r["line"] for r in listed} == {"et-1.3"}
    assert {"target", "platform", "abi"} <= listed[0].keys()
    assert kz("matrix", "--line", "et-9").returncode == 2

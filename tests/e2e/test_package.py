"""`kz package`: the sample's library in an AAR as upstream would publish it, from a web server, its digest trusted once."""

from __future__ import annotations

import functools
import hashlib
import http.server
import json
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kz_build.formats.android_manifest import DamagedError
from kz_build.formats.classfile import java_side
from kz_build.formats.elf_types import NativeMethod
from tests.conftest import ROOT, SAMPLE, Kz
from tests.formats.apps import good, written

JAVA = SAMPLE / "upstream/extension/android/src/main/java"
LIBRARY = "jni/arm64/libminirt.so"
X86_64 = """
  linux-x86_64: # the same library by the compiler of this machine
    platform: linux
    abi: x86_64
    sources: [minirt, cmake, ninja]
    tools:
      cmake: ["{cmake}/cmake/data/bin/cmake"]
      ninja: ["{ninja}/ninja-1.13.0.data/scripts/ninja"]
      objcopy: [objcopy]
    cmake:
      library:
        source: minirt
        preset: host
        build: [minirt_jni]
        defines: {CMAKE_SHARED_LINKER_FLAGS: "-Wl,-z,max-page-size=16384 -Wl,--build-id=sha1"}
    outputs:
      libminirt_jni.so: {path: "{build.library}/libminirt_jni.so", install_as: libminirt.so}
    audit:
      required: [elf, pages-16k, soname, needed, runtime, exports, jni, natives, textrel, build-id, paths, size]
      needed: [libc.so.6, libm.so.6, libgcc_s.so.1, libstdc++.so.6, ld-linux-x86-64.so.2]
      exports: {libminirt.so: [minirt_run, minirt_version]}
      java: {source: minirt, paths: [extension/android/src/main/java/]}
    package: *package
"""
MAVEN = Path("/usr/share/maven/lib")
pytestmark = [
    pytest.mark.apps,
    pytest.mark.xdist_group("package"),
    pytest.mark.skipif(not shutil.which("javac"), reason="needs javac (default-jdk-headless)"),
]
needs_cmake = pytest.mark.skipif(not shutil.which("cmake"), reason="needs cmake")


def compiled(folder: Path, sources: Path = JAVA) -> Path:
    """classes.jar of Java sources."""
    files = sorted(map(str, sources.rglob("*.java")))
    subprocess.run(["javac", "--release", "11", "-d", folder / "classes", *files], check=True, capture_output=True)
    jar = folder / "classes.jar"
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as zipped:
        for path in sorted((folder / "classes").rglob("*.class")):
            zipped.write(path, path.relative_to(folder / "classes").as_posix())
    return jar


def aar(path: Path, jar: Path, *more: str) -> Path:
    """An AAR as Gradle's plugin makes one, with upstream's own library for two ABIs."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("R.txt", "")
        zipped.writestr("AndroidManifest.xml", written(good()))
        zipped.write(jar, "classes.jar")
        zipped.writestr("META-INF/com/android/build/gradle/aar-metadata.properties", "aarFormatVersion=1.0\n")
        for name in (LIBRARY, "jni/x86_64/libminirt.so", *more):
            zipped.writestr(name, b"upstream's own")
    return path


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    folder = tmp_path_factory.mktemp("www")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", folder
    server.shutdown()
    server.server_close()


def with_package(project: Path, url: str, version: str = "0.1.0") -> None:
    """The sample with an AAR of its own in its pins."""
    pins = (project / "pins.yaml").read_text()
    pins = pins.replace(
        "sources:\n", "sources:\n  minirt-aar: {archive: '" + url + "/minirt-android-{version}.aar'}\n", 1
    )
    pins = pins.replace("ninja: 1.13.0}", f"ninja: 1.13.0, minirt-aar: {version}}}")
    pins += """    package: &package
      aar: minirt-aar
      module: org.minirt:minirt-android
      dependencies: {"org.example:base:{ninja}": [libbase.so]}
"""
    (project / "pins.yaml").write_text(pins + X86_64)


@pytest.fixture(scope="module")
def jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("jar"))


@pytest.fixture(scope="module")
def built(
    tmp_path_factory: pytest.TempPathFactory, web: tuple[str, Path], jar: Path, clean_env: dict[str, str]
) -> Path:
    """The sample with an AAR in its pins, locked and built."""
    url, folder = web
    aar(folder / "minirt-android-0.1.0.aar", jar)
    project = tmp_path_factory.mktemp("package") / "sample"
    shutil.copytree(SAMPLE, project, ignore=shutil.ignore_patterns("out", "dist"))
    with_package(project, url)
    for argv in (["lock", "--write"], ["build"]):
        done = subprocess.run(
            [sys.executable, "-m", "kz_build", "-C", str(project), *argv],
            cwd=ROOT,
            env=clean_env,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    return project


def copied(built: Path, to: Path, kz: Kz) -> Path:
    """A copy that is up to date: paths of the old folder are none of a build's inputs."""
    shutil.copytree(built, to, symlinks=True)
    assert kz("-C", to, "build").returncode == 0
    return to


def test_an_aar_is_packed_once_its_digest_is_trusted(
    built: Path, web: tuple[str, Path], kz: Kz, tmp_path: Path
) -> None:
    project = copied(built, tmp_path / "p", kz)
    done = kz("-C", project, "package")
    assert done.returncode == 3 and "kz lock --write --line sample-0.1 --trust minirt-aar" in done.stderr, done.stderr
    assert kz("-C", project, "lock", "--write", "--trust", "minirt-aar").returncode == 0
    done = kz("-C", project, "package", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    made = json.loads(done.stdout)
    tree = json.loads((project / "pins.lock").read_text())["lines"]["sample-0.1"]["minirt"]["patched"]["tree"]
    path = Path(made["path"])
    assert (
        path.name == f"minirt-android-0.1.0+kz.g{tree[:8]}-linux-arm64.aar"
        and path.parent == project / "dist/sample-0.1/aar/linux-arm64"
    )
    assert hashlib.sha256(path.read_bytes()).hexdigest() == made["sha256"]
    with zipfile.ZipFile(path) as zipped:
        assert zipped.testzip() is None and zipped.namelist() == sorted(zipped.namelist())
        assert zipped.read(LIBRARY) == (project / "dist/sample-0.1/linux-arm64/lib/libminirt.so").read_bytes()
        assert "jni/x86_64/libminirt.so" not in zipped.namelist()
        assert {i.date_time for i in zipped.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert made["libraries"] == [[LIBRARY, "replaced"]]
    assert made["left_out"] == [["jni/x86_64/libminirt.so", "x86_64 is not built here"]]
    checks = {c["check"]: c for c in made["checks"]}
    assert {c["status"] for c in checks.values()} == {"PASS"} and set(checks) == {
        "classes",
        "java",
        "needed",
        "jni",
        "natives",
    }
    assert checks["natives"]["evidence"] == "4 methods of 2 classes"
    said = json.loads((path.parent / "provenance.json").read_text())
    assert {"name": path.name, "digest": {"sha256": made["sha256"]}} in said["subject"]
    assert {s["name"].rsplit(".", 1)[-1] for s in said["subject"]} == {
        "aar",
        "pom",
        "kts",
        "xml",
        "sha1",
        "sha256",
        "sha512",
    }
    parts = {d["name"]: d for d in said["predicate"]["buildDefinition"]["resolvedDependencies"]}
    assert (
        parts["minirt-aar"]["digest"]["sha256"]
        == hashlib.sha256((web[1] / "minirt-android-0.1.0.aar").read_bytes()).hexdigest()
    )
    assert (
        parts["minirt-aar"]["uri"] == f"{web[0]}/minirt-android-0.1.0.aar"
        and parts["minirt"]["digest"]["gitTree"] == tree
    )
    library = (project / "dist/sample-0.1/linux-arm64/lib/libminirt.so").read_bytes()
    assert parts["linux-arm64/lib/libminirt.so"]["digest"]["sha256"] == hashlib.sha256(library).hexdigest()
    assert f"package linux-arm64: {path.relative_to(project)}" in kz("-C", project, "report").stdout
    record = json.loads((project / "out/package/sample-0.1/linux-arm64/manifest.json").read_text())
    assert record["canonical"] is True and record["overrides"] == []
    assert record["sha256"] == made["sha256"] and record["path"] == str(path.relative_to(project))


@pytest.fixture(scope="module")
def shipped(built: Path, tmp_path_factory: pytest.TempPathFactory, clean_env: dict[str, str]) -> Path:
    """The folder of an AAR, alone."""
    project = tmp_path_factory.mktemp("shipped") / "p"
    shutil.copytree(built, project, symlinks=True)
    for argv in (["build"], ["lock", "--write", "--trust", "minirt-aar"], ["package"]):
        command = [sys.executable, "-m", "kz_build", "-C", str(project), *argv]
        done = subprocess.run(command, cwd=ROOT, env=clean_env, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    return project / "dist/sample-0.1/aar/linux-arm64"


def resolved(repository: Path, version: str, cache: Path) -> subprocess.CompletedProcess[str]:
    """What Maven's own resolver gets from a repository, with another one for the dependency, and every checksum checked."""
    base = cache / "base"
    (base / "org/example/base/1.13.0").mkdir(parents=True)
    (base / "org/example/base/1.13.0/base-1.13.0.jar").write_bytes(b"PK")
    head = "<modelVersion>4.0.0</modelVersion><groupId>org.example</groupId>"
    pom = f"<project>{head}<artifactId>base</artifactId><version>1.13.0</version></project>"
    (base / "org/example/base/1.13.0/base-1.13.0.pom").write_text(pom)
    for path in list((base / "org/example/base/1.13.0").iterdir()):
        Path(f"{path}.sha1").write_text(hashlib.sha1(path.read_bytes()).hexdigest())
    argv: list[str | Path] = ["java", "-cp", f"{MAVEN}/*", ROOT / "tests/data/maven/Resolve.java", cache / "local"]
    argv += ["org.minirt", "minirt-android", version, repository, base]
    return subprocess.run(argv, capture_output=True, text=True)


@pytest.mark.skipif(not MAVEN.is_dir(), reason="needs maven")
def test_maven_resolves_the_aar_and_its_dependencies_from_the_folder(shipped: Path, tmp_path: Path) -> None:
    path = next(shipped.glob("*.aar"))
    version = path.stem.removeprefix("minirt-android-")
    done = resolved(shipped / "maven", version, tmp_path / "a")
    assert done.returncode == 0, done.stderr
    found = dict(row.split(" ") for row in done.stdout.splitlines())
    assert set(found) == {f"org.minirt:minirt-android:aar:{version}", "org.example:base:jar:1.13.0"}
    assert Path(found[f"org.minirt:minirt-android:aar:{version}"]).read_bytes() == path.read_bytes()
    repository = shutil.copytree(shipped / "maven", tmp_path / "maven")
    flipped(next(repository.rglob("*.aar")), 100)
    done = resolved(repository, version, tmp_path / "b")
    assert done.returncode and "ChecksumFailureException" in done.stderr, done.stdout


def flipped(path: Path, at: int) -> None:
    """Change one byte."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.unlink()
    path.write_bytes(data)


def gradle_refuses(metadata: Path, repository: Path) -> list[str]:
    """The files of a repository that Gradle's dependency verification would not take by a verification-metadata.xml."""
    space = "{https://schema.gradle.org/dependency-verification}"
    top = ElementTree.parse(metadata).getroot()
    assert top.tag == f"{space}verification-metadata" and [e.tag for e in top] == [f"{space}configuration", f"{space}components"]  # fmt: skip
    assert {e.tag.removeprefix(space): e.text for e in top[0]} == {"verify-metadata": "true", "verify-signatures": "false"}  # fmt: skip
    known = {}
    for component in top[1]:
        assert component.tag == f"{space}component" and set(component.attrib) == {"group", "name", "version"}
        folder = "/".join(
            (*component.attrib["group"].split("."), component.attrib["name"], component.attrib["version"])
        )
        for artifact in component:
            assert artifact.tag == f"{space}artifact" and [e.tag for e in artifact] == [f"{space}sha256"]
            known[f"{folder}/{artifact.attrib['name']}"] = artifact[0].attrib["value"]
    there = {p.relative_to(repository).as_posix(): p for p in repository.rglob("*") if p.suffix in (".aar", ".pom")}
    return [n for n, p in sorted(there.items()) if known.get(n) != hashlib.sha256(p.read_bytes()).hexdigest()]


def test_what_is_pasted_finds_any_changed_byte(shipped: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(shipped, tmp_path / "aar")
    metadata, repository = folder / "verification-metadata.xml", folder / "maven"
    assert gradle_refuses(metadata, repository) == []
    aar, pom = next(repository.rglob("*.aar")), next(repository.rglob("*.pom"))
    for path in (aar, pom):
        for kind in ("sha1", "sha256", "sha512"):
            beside = path.with_name(f"{path.name}.{kind}")
            assert beside.read_text() == hashlib.new(kind, path.read_bytes()).hexdigest()
        good, size = path.read_bytes(), path.stat().st_size
        for at in (0, size // 3, size - 1):
            flipped(path, at)
            assert gradle_refuses(metadata, repository) == [path.relative_to(repository).as_posix()]
            path.write_bytes(good)
    text = next(folder.glob("*.gradle.kts")).read_text()
    assert f'"{hashlib.sha256(aar.read_bytes()).hexdigest()}"' in text
    assert f'rootProject.file("libs/maven/{aar.relative_to(repository)}")' in text
    group, name, version = "org.minirt", "minirt-android", aar.parent.name
    assert f'includeModule("{group}", "{name}")' in text
    assert f'implementation("{group}:{name}") {{ version {{ strictly("{version}") }} }}' in text


def with_new_sums(folder: Path) -> None:
    """One who changes a file can change its sum too."""
    names = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file() and p != folder / "SHA256SUMS")  # fmt: skip
    rows = (f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names)
    (folder / "SHA256SUMS").write_text("".join(rows))


def test_the_release_files_of_an_aar_fit_it(shipped: Path, kz: Kz) -> None:
    done = kz("verify-release", shipped, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = {c["check"]: c["status"] for c in json.loads(done.stdout)}
    assert found == {**dict.fromkeys(("files", "provenance", "libraries", "sbom", "fits", "notices", "pinned"), "PASS"), "signature": "SKIP"}  # fmt: skip
    assert subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=shipped).returncode == 0


def test_the_sums_of_an_aar_are_signed(built: Path, kz: Kz, tmp_path: Path) -> None:
    project, key = copied(built, tmp_path / "p", kz), tmp_path / "key"
    subprocess.run(["minisign", "-G", "-W", "-s", key, "-p", f"{key}.pub"], check=True, capture_output=True)
    assert kz("-C", project, "lock", "--write", "--trust", "minirt-aar").returncode == 0
    done = kz("-C", project, "package", "--sign", key)
    assert done.returncode == 0, done.stderr
    folder = project / "dist/sample-0.1/aar/linux-arm64"
    assert kz("verify-release", folder, "--key", f"{key}.pub").returncode == 0
    bundles = {"provenance.sigstore.json": "ours", "theirs.sigstore.json": "theirs"}
    for name, text in bundles.items():
        (folder / name).write_text(text)
    for again in ((), ("--sign", key)):
        assert kz("-C", project, "package", *again).returncode == 0
        assert kz("verify-release", folder, "--key", f"{key}.pub").returncode == 0, "the same again keeps its signature"
        assert {path.name: path.read_text() for path in folder.glob("*.sigstore.json")} == bundles
    (folder / "SHA256SUMS.minisig").unlink()
    assert kz("verify-release", folder, "--key", f"{key}.pub").returncode == 7


def test_release_files_that_the_build_did_not_write_are_not_packed(built: Path, kz: Kz, tmp_path: Path) -> None:
    project = copied(built, tmp_path / "p", kz)
    assert kz("-C", project, "lock", "--write", "--trust", "minirt-aar").returncode == 0
    own = project / "dist/sample-0.1/linux-arm64"
    for name in ("SHA256SUMS", "THIRD-PARTY-NOTICES/minirt/LICENSE", "provenance.json"):
        text = (own / name).read_text()
        (own / name).write_text("public domain\n")
        done = kz("-C", project, "package")
        assert done.returncode == 3 and f"{name} has changed since the build wrote it" in done.stderr, done.stderr
        (own / name).write_text(text)
    (own / "SHA256SUMS").unlink()
    done = kz("-C", project, "package")
    assert done.returncode == 3 and "has no release files" in done.stderr
    assert not (project / "dist/sample-0.1/aar").exists()


def test_an_aar_says_that_its_libraries_were_built_of_something_else(shipped: Path, kz: Kz, tmp_path: Path) -> None:
    folder = shutil.copytree(shipped, tmp_path / "aar")
    path = folder / "libraries/linux-arm64/provenance.json"
    said = json.loads(path.read_text())
    said["predicate"]["buildDefinition"]["resolvedDependencies"][0]["annotations"]["overridden"] = "another NDK"
    path.write_text(json.dumps(said))
    with_new_sums(folder)
    rows = [c for c in json.loads(kz("verify-release", folder, "--json").stdout) if c["check"] == "pinned"]
    assert [c["status"] for c in rows] == ["WARN", "PASS"] and "another NDK" in rows[0]["evidence"]
    assert rows[0]["file"] == "libraries/linux-arm64/provenance.json"


def other_library(folder: Path, place: str = LIBRARY) -> None:
    path = next(folder.glob("*.aar"))
    with zipfile.ZipFile(path) as zipped:
        held = {name: zipped.read(name) for name in zipped.namelist()}
    with zipfile.ZipFile(path, "w") as zipped:
        for name, data in held.items():
            zipped.writestr(name, b"\x7fELF evil" if name == place else data)
    for name in ("provenance.json", "SHA256SUMS"):  # its own digest made to fit
        text = (folder / name).read_text()
        old = next(row.split()[0] for row in (folder / "SHA256SUMS").read_text().splitlines() if row.endswith(".aar"))
        (folder / name).write_text(text.replace(old, hashlib.sha256(path.read_bytes()).hexdigest()))
    with_new_sums(folder)


def other_build(folder: Path) -> None:
    path = folder / "libraries/linux-arm64/provenance.json"
    said = json.loads(path.read_text())
    subject = next(s for s in said["subject"] if s["name"] == "lib/libminirt.so")
    subject["digest"]["sha256"] = "0" * 64
    path.write_text(json.dumps(said))
    with_new_sums(folder)


def no_notice(folder: Path) -> None:
    next((folder / "libraries/linux-arm64/THIRD-PARTY-NOTICES").rglob("LICENSE*")).unlink()
    with_new_sums(folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda folder: next(folder.glob("*.gradle.kts")).write_text("evil"), "is not what SHA256SUMS lists"),
        (
            lambda folder: (folder / "libraries/linux-arm64/sbom.cdx.json").unlink(),
            "libraries/linux-arm64/sbom.cdx.json",
        ),
        (other_library, f"{LIBRARY} in it is not what provenance.json says"),
        (other_build, "went in and is not a subject of libraries/linux-arm64/provenance.json"),
        (no_notice, "libraries/linux-arm64/THIRD-PARTY-NOTICES"),
        (lambda folder: shutil.rmtree(folder / "libraries"), "does not list libraries/*/sbom.cdx.json"),
        (lambda folder: next(folder.glob("*.aar")).write_bytes(b"PK"), "is not a complete zip"),
    ],
)
def test_an_aar_that_was_tampered_with(
    shipped: Path, kz: Kz, tmp_path: Path, change: Callable[[Path], object], said: str
) -> None:
    folder = shutil.copytree(shipped, tmp_path / "aar")
    change(folder)
    done = kz("verify-release", folder)
    assert done.returncode == 7 and said in done.stdout, done.stdout + done.stderr


def test_one_aar_for_two_abis(built: Path, kz: Kz, tmp_path: Path) -> None:
    project = copied(built, tmp_path / "p", kz)
    assert kz("-C", project, "lock", "--write", "--trust", "minirt-aar").returncode == 0
    both = ("--target", "linux-x86_64", "--target", "linux-arm64")
    done = kz("-C", project, "package", *both)
    assert done.returncode == 3 and "linux-x86_64 of sample-0.1 was not built" in done.stderr
    assert kz("-C", project, "build", "--target", "linux-x86_64").returncode == 0
    done = kz("-C", project, "package", *both, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    made = json.loads(done.stdout)
    folder, path = project / "dist/sample-0.1/aar/linux-arm64+linux-x86_64", Path(made["path"])
    assert path.parent == folder and path.name.endswith("-linux-arm64+linux-x86_64.aar")
    assert made["targets"] == ["linux-arm64", "linux-x86_64"] and made["abis"] == ["arm64", "x86_64"]
    with zipfile.ZipFile(path) as zipped:
        held = {name: zipped.read(name) for name in zipped.namelist()}
    for abi in ("arm64", "x86_64"):
        ours = (project / f"dist/sample-0.1/linux-{abi}/lib/libminirt.so").read_bytes()
        assert held[f"jni/{abi}/libminirt.so"] == ours
    assert sum(name.endswith("classes.jar") for name in held) == 1 and made["left_out"] == []
    checks = {(c["file"], c["check"]): c["status"] for c in made["checks"]}
    assert set(checks.values()) == {"PASS"}
    assert {(f"jni/{abi}/libminirt.so", name) for abi in made["abis"] for name in ("needed", "jni", "natives")} <= set(checks)  # fmt: skip
    assert 'abiFilters += listOf("arm64", "x86_64")' in path.with_suffix(".gradle.kts").read_text()
    assert f"package linux-arm64+linux-x86_64: {path.relative_to(project)}" in kz("-C", project, "report").stdout
    first, sums = path.read_bytes(), (folder / "SHA256SUMS").read_bytes()
    assert kz("-C", project, "package", *both[2:], *both[:2]).returncode == 0
    assert (path.read_bytes(), (folder / "SHA256SUMS").read_bytes()) == (first, sums)

    done = kz("verify-release", folder, "--json")
    said = [(c["file"], c["check"], c["status"]) for c in json.loads(done.stdout)]
    assert done.returncode == 0, done.stdout
    assert {(f"libraries/linux-{abi}", name, "PASS") for abi in made["abis"] for name in ("sbom", "fits", "notices")} <= {*said}  # fmt: skip
    parts = json.loads((folder / "provenance.json").read_text())["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert {"linux-arm64/lib/libminirt.so", "linux-x86_64/lib/libminirt.so"} <= {d["name"] for d in parts}

    # One ABI's library in the place of another's, all digests made to fit: the provenance says which is which.
    held["jni/x86_64/libminirt.so"] = held[LIBRARY]
    with zipfile.ZipFile(path, "w") as zipped:
        for name, data in held.items():
            zipped.writestr(name, data)
    for name in ("provenance.json",):
        text = (folder / name).read_text()
        (folder / name).write_text(text.replace(made["sha256"], hashlib.sha256(path.read_bytes()).hexdigest()))
    with_new_sums(folder)
    done = kz("verify-release", folder)
    assert done.returncode == 7 and "jni/x86_64/libminirt.so in it is not what provenance.json says" in done.stdout


def test_targets_that_one_aar_cannot_have(built: Path, kz: Kz, tmp_path: Path) -> None:
    project = copied(built, tmp_path / "p", kz)
    pins = project / "pins.yaml"
    text = pins.read_text()
    both = ("package", "--target", "linux-arm64", "--target", "linux-x86_64")
    for old, new, said in (
        ("abi: x86_64", "abi: arm64", "linux-arm64 and linux-x86_64 are both for arm64"),
        ("package: *package", "package: {aar: ninja, module: 'a:b'}", "linux-arm64 and linux-x86_64 have no AAR in common: their package.aar differs"),
        ("package: *package", "", "linux-x86_64 says no `package`"),
    ):  # fmt: skip
        pins.write_text(text.replace(old, new))
        done = kz("-C", project, *both)
        assert done.returncode == 2 and said in done.stderr, done.stderr


def test_the_same_bytes_in_another_folder(built: Path, kz: Kz, tmp_path: Path) -> None:
    found = []
    for name, zone in (("a", "UTC"), ("b c", "Asia/Tokyo")):
        project = copied(built, tmp_path / name, kz)
        assert kz("-C", project, "lock", "--write", "--trust", "minirt-aar", TZ=zone).returncode == 0
        done = kz("-C", project, "package", "--json", TZ=zone, PYTHONHASHSEED="7")
        path = Path(json.loads(done.stdout)["path"])
        found.append((path.read_bytes(), (path.parent / "SHA256SUMS").read_bytes()))
    assert found[0] == found[1]


def test_the_snippet_names_file_digest_and_what_comes_with_it(built: Path, kz: Kz, tmp_path: Path) -> None:
    project = copied(built, tmp_path / "p", kz)
    kz("-C", project, "lock", "--write", "--trust", "minirt-aar")
    said = kz("-C", project, "package").stdout
    path = next((project / "dist/sample-0.1/aar/linux-arm64").glob("*.aar"))
    text = path.with_suffix(".gradle.kts").read_text()
    assert text in said + "\n"
    assert "// needs org.example:base:1.13.0" in text and hashlib.sha256(path.read_bytes()).hexdigest() in text
    assert 'abiFilters += listOf("arm64")' in text
    assert text.count("{") == text.count("}") and text.count("(") == text.count(")")


def published(project: Path, web: tuple[str, Path], path: Path, version: str, kz: Kz) -> None:
    """Another version of the AAR, published, pinned and trusted."""
    shutil.copy(path, web[1] / f"minirt-android-{version}.aar")
    pins = project / "pins.yaml"
    pins.write_text(pins.read_text().replace("minirt-aar: 0.1.0", f"minirt-aar: {version}"))
    assert kz("-C", project, "lock", "--write", "--trust", "minirt-aar").returncode == 0


def changed_java(folder: Path, old: str, new: str) -> Path:
    sources = shutil.copytree(JAVA, folder / "java")
    path = sources / "org/minirt/LlmModule.java"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    return sources


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("  private static native void destroy(long handle);", "  private static void destroy(long handle) {}", "they lack LlmModule.destroy"),
        ("  private static native void destroy", "  static native void more();\n\n  private static native void destroy", "not registered: LlmModule.more"),
    ],
)  # fmt: skip
def test_classes_that_do_not_belong_to_the_library(
    built: Path, web: tuple[str, Path], kz: Kz, tmp_path: Path, old: str, new: str, said: str
) -> None:
    project = copied(built, tmp_path / "p", kz)
    other = compiled(tmp_path, changed_java(tmp_path, old, new))
    published(project, web, aar(tmp_path / "x.aar", other), f"0.1.{len(new)}", kz)
    done = kz("-C", project, "package")
    assert done.returncode == 7 and said in done.stdout and "no AAR was written" in done.stderr, (
        done.stdout + done.stderr
    )
    assert not (project / "dist/sample-0.1/aar").exists()


def test_a_library_of_upstream_that_nobody_builds_stays_out(
    built: Path, web: tuple[str, Path], jar: Path, kz: Kz, tmp_path: Path
) -> None:
    project = copied(built, tmp_path / "p", kz)
    published(project, web, aar(tmp_path / "x.aar", jar, "jni/arm64/libmore.so"), "0.1.7", kz)
    made = json.loads(kz("-C", project, "package", "--json").stdout)
    assert ["jni/arm64/libmore.so", "linux-arm64 does not build it"] in made["left_out"]


def test_what_a_dependency_brings_stays_out(built: Path, kz: Kz, tmp_path: Path) -> None:
    project = copied(built, tmp_path / "p", kz)
    assert kz("-C", project, "lock", "--write", "--trust", "minirt-aar").returncode == 0
    pins = project / "pins.yaml"
    pins.write_text(pins.read_text().replace("[libbase.so]", "[libminirt.so]"))
    done = kz("-C", project, "package")
    assert done.returncode == 7 and "Java loads it, and no file has that name" in done.stdout, done.stdout + done.stderr
    assert f"{LIBRARY}: comes with org.example:base:1.13.0" in done.stdout
    pins.write_text(pins.read_text().replace("base:{ninja}", "base:{nina}"))
    done = kz("-C", project, "package")
    assert done.returncode == 2 and "org.example:base:{nina}: line sample-0.1 has no nina" in done.stderr


def test_what_is_no_aar(built: Path, web: tuple[str, Path], jar: Path, kz: Kz, tmp_path: Path) -> None:
    project = copied(built, tmp_path / "p", kz)
    broken = jar.read_bytes()[:-30]
    (tmp_path / "classes.jar").write_bytes(broken)
    published(project, web, aar(tmp_path / "x.aar", tmp_path / "classes.jar"), "0.1.8", kz)
    done = kz("-C", project, "package")
    assert done.returncode == 7 and "classes.jar is not a complete zip" in done.stdout, done.stdout + done.stderr


def test_a_patch_to_java_is_not_in_upstreams_classes(built: Path, kz: Kz, tmp_path: Path) -> None:
    project = copied(built, tmp_path / "p", kz)
    path = "extension/android/src/main/java/org/minirt/Calculator.java"
    lines = (SAMPLE / "upstream" / path).read_text().splitlines(keepends=True)
    head = "From: t <t@t>\nDate: Thu, 15 Jan 2026 12:00:00 +0000\nSubject: [PATCH] java\n\n---\n"
    hunk = f"--- a/{path}\n+++ b/{path}\n@@ -1,3 +1,4 @@\n {lines[0]}+// more\n {lines[1]} {lines[2]}"
    stack = project / "patches/sample-0.1/minirt"
    (stack / "0009-java.patch").write_text(f"{head}diff --git a/{path} b/{path}\n{hunk}")
    (stack / "series").write_text((stack / "series").read_text() + "0009-java.patch\n")
    assert kz("-C", project, "lock", "--write", "--trust", "minirt-aar").returncode == 0
    done = kz("-C", project, "package")
    assert done.returncode == 3 and "was built of minirt with tree" in done.stderr and "kz build" in done.stderr
    assert kz("-C", project, "build").returncode == 0
    done = kz("-C", project, "package")
    assert done.returncode == 7 and f"the stack changes {path}" in done.stdout, done.stdout + done.stderr


@needs_cmake
def test_cmake_links_a_library_and_looks_at_it_before_each_build(built: Path, kz: Kz, tmp_path: Path) -> None:
    project = copied(built, tmp_path / "p", kz)
    assert kz("-C", project, "build", "--target", "linux-x86_64").returncode == 0
    dist, app, out = project / "dist/sample-0.1/linux-x86_64", tmp_path / "app", tmp_path / "out"
    app.mkdir()
    (app / "main.c").write_text(
        "#include <stdio.h>\nconst char* minirt_version();\nint main() { return puts(minirt_version()) < 0; }\n"
    )
    (app / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.20)\nproject(app C)\ninclude({dist}/kz-config.cmake)\n"
        "add_executable(app main.c)\ntarget_link_libraries(app PRIVATE kz::minirt)\n"
    )

    def run(*argv: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(argv, capture_output=True, text=True)

    assert run("cmake", "-S", app, "-B", out).returncode == 0
    done = run("cmake", "--build", out)
    assert done.returncode == 0, done.stdout + done.stderr
    (out / "libminirt_jni.so").symlink_to(dist / "lib/libminirt.so")  # its SONAME: what the app then asks for
    assert run("env", f"LD_LIBRARY_PATH={out}", out / "app").stdout == "0.1.0\n"
    flipped(dist / "lib/libminirt.so", 4000)
    done = run("cmake", "--build", out)
    assert done.returncode and "is not the file that was built and checked" in done.stderr, done.stderr


NOTE = """\
+#pragma clang diagnostic ignored "-Wunused-const-variable"
+__attribute__((section(".note.android.ident"), used, aligned(4))) static const struct {
+  int name_size, size, type; char name[8]; int api; char ndk[64], build[64];
+} kNote = {8, 132, 1, "Android", 26, "r28c", "1"};
"""


def test_a_library_that_an_apps_own_code_links(built: Path, kz: Kz, tmp_path: Path) -> None:
    """The sample's, with the note that Android's compilers leave, and its headers from the patched tree."""
    project = copied(built, tmp_path / "p", kz)
    path, header = "runtime/c_api.cpp", "runtime/program.h"
    lines = (SAMPLE / "upstream" / path).read_text().splitlines(keepends=True)
    head = "From: t <t@t>\nDate: Thu, 15 Jan 2026 12:00:00 +0000\nSubject: [PATCH] note\n\n---\n"
    hunk = f"--- a/{path}\n+++ b/{path}\n@@ -1,3 +1,7 @@\n {lines[0]} {lines[1]}{NOTE} {lines[2]}"
    first = (SAMPLE / "upstream" / header).read_text().splitlines(keepends=True)[:2]
    more = f"--- a/{header}\n+++ b/{header}\n@@ -1,2 +1,3 @@\n {first[0]}+// patched\n {first[1]}"
    stack = project / "patches/sample-0.1/minirt"
    diffs = f"diff --git a/{path} b/{path}\n{hunk}diff --git a/{header} b/{header}\n{more}"
    (stack / "0009-note.patch").write_text(head + diffs)
    (stack / "series").write_text((stack / "series").read_text() + "0009-note.patch\n")
    pins = project / "pins.yaml"
    text = pins.read_text()
    pins.write_text(
        text.replace("module: org.minirt", f"prefab: {{libminirt.so: [{header}]}}\n      module: org.minirt")
    )
    assert kz("-C", project, "lock", "--write", "--trust", "minirt-aar").returncode == 0
    done = kz("-C", project, "build")
    assert done.returncode == 0, done.stdout + done.stderr
    done = kz("-C", project, "package")
    assert done.returncode == 0, done.stdout + done.stderr
    folder = project / "dist/sample-0.1/aar/linux-arm64"
    with zipfile.ZipFile(next(folder.glob("*.aar"))) as zipped:
        module = {name.removeprefix("prefab/modules/minirt/"): zipped.read(name) for name in zipped.namelist() if name.startswith("prefab/modules/")}  # fmt: skip
        library = zipped.read(LIBRARY)
    assert set(module) == {"module.json", f"include/{header}", "libs/android.arm64-v8a/abi.json", "libs/android.arm64-v8a/libminirt.so"}  # fmt: skip
    assert module["libs/android.arm64-v8a/libminirt.so"] == library and b"// patched" in module[f"include/{header}"]
    assert json.loads(module["libs/android.arm64-v8a/abi.json"])["api"] == 26
    assert kz("verify-release", folder).returncode == 0
    other_library(folder, "prefab/modules/minirt/libs/android.arm64-v8a/libminirt.so")
    done = kz("verify-release", folder)
    assert done.returncode == 7 and "libs/android.arm64-v8a/libminirt.so in it is not what provenance.json says" in done.stdout  # fmt: skip
    pins.write_text(pins.read_text().replace(header, "runtime/none.h"))
    done = kz("-C", project, "package")
    assert done.returncode == 2 and "minirt v0.1.0 has no header runtime/none.h" in done.stderr


def test_what_cannot_be_packed(sample: Path, kz: Kz, web: tuple[str, Path]) -> None:
    done = kz("-C", sample, "package")
    assert done.returncode == 2 and "says no `package`" in done.stderr
    with_package(sample, web[0])
    done = kz("-C", sample, "package")
    assert done.returncode == 3 and "was not built" in done.stderr


def test_native_methods_of_compiled_java(tmp_path: Path, jar: Path) -> None:
    with zipfile.ZipFile(jar) as zipped:
        classes = {n: zipped.read(n) for n in zipped.namelist()}
    side = java_side(classes.values())
    assert side.loads == {"minirt"}
    assert {(m.java_class, m.name) for m in side.methods} == {
        ("org/minirt/LlmModule", "load"), ("org/minirt/LlmModule", "generate"), ("org/minirt/LlmModule", "destroy"),
        ("org/minirt/Calculator", "nativeMultiplyAdd"),
    }  # fmt: skip
    data = classes["org/minirt/LlmModule.class"]
    for size in range(len(data) - 20):
        with pytest.raises(DamagedError):
            java_side([data[:size]])


def test_nested_classes_and_long_constants(tmp_path: Path) -> None:
    (tmp_path / "A.java").write_text(
        "package p; public class A { static final long L = 1L << 40; static final double D = 1.5; native int a(String s) throws Exception;\n"
        '  static class Inner { static { System.loadLibrary("in" + "ner"); } native void go(); String nul = "\\0\\u00e9"; }\n'
        '  interface I { default void x() {} } Runnable r = () -> System.out.println("libnot.so"); }\n'
    )
    with zipfile.ZipFile(compiled(tmp_path, tmp_path)) as zipped:
        side = java_side([zipped.read(n) for n in zipped.namelist()])
    assert side.methods == (NativeMethod("p/A", "a"), NativeMethod("p/A$Inner", "go")) and side.loads == {"inner"}

"""The sample through the whole pipeline, with the real compiler; the result is loaded and called."""

from __future__ import annotations

import difflib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from tests.conftest import ROOT, Kz, snapshot
from tests.deadline import patient, until

DIST = Path("dist/sample-0.1/linux-arm64")
ARM64 = Path("/usr/aarch64-linux-gnu")
QEMU = shutil.which("qemu-aarch64-static")


def test_every_required_check_passes(built: Path, kz: Kz) -> None:
    checks = json.loads(kz("-C", built, "audit", "--json").stdout)
    assert {c["status"] for c in checks} == {"PASS"}
    library = {c["check"] for c in checks if c["file"] == "libminirt.so"}
    assert library >= {"elf", "pages-16k", "soname", "needed", "jni", "natives", "textrel", "build-id", "paths", "size"}


def test_the_report_is_canonical_and_names_what_went_in(built: Path, kz: Kz) -> None:
    report = json.loads((built / "out/report/report.json").read_text())
    assert report["canonical"] is True and report["overrides"] == []
    record = report["build"]["linux-arm64"]
    lock = json.loads((built / "pins.lock").read_text())["lines"]["sample-0.1"]
    assert record["stacks"][0]["tree"] == lock["minirt"]["patched"]["tree"]
    assert {s["name"] for s in record["sources"]} == set(lock)
    assert kz("-C", built, "report").returncode == 0


def test_a_record_that_kz_did_not_write_is_named_and_not_left_out(sample: Path, kz: Kz) -> None:
    record = sample / "out/build/sample-0.1/linux-arm64/manifest.json"
    record.parent.mkdir(parents=True)
    record.write_text('{"key": "k", "files": {"../x": "a"}}')
    result = kz("-C", sample, "report")
    assert result.returncode == 3 and f"{record} was not written by kz" in result.stderr
    result = kz("-C", sample, "audit")
    assert result.returncode == 3 and "linux-arm64 of sample-0.1 was not built" in result.stderr


def test_symbols_lie_where_debuggers_look(built: Path) -> None:
    files = json.loads((built / "out/build/sample-0.1/linux-arm64/manifest.json").read_text())["files"]
    build_id = files["lib/libminirt.so"]["build_id"]
    debug = built / DIST / "symbols" / build_id[:2] / f"{build_id[2:]}.debug"

    def sections(path: Path) -> set[str]:
        with path.open("rb") as file:
            return {s.name for s in ELFFile(file).iter_sections()}

    assert ".debug_info" in sections(debug)
    assert not {".debug_info", ".symtab"} & sections(built / DIST / "lib/libminirt.so")


@pytest.mark.skipif(not QEMU or not ARM64.is_dir(), reason="needs qemu-user-static and libc6-arm64-cross")
def test_the_library_is_loaded_and_called(built: Path) -> None:
    def run(*argv: str | Path) -> str:
        return subprocess.run([str(QEMU), "-L", ARM64, *argv], capture_output=True, text=True, check=True).stdout

    probed = [
        json.loads(line)
        for line in run(built / DIST / "bin/minirt_probe", built / DIST / "lib/libminirt.so").splitlines()
    ]
    said = json.dumps(probed)
    # 8-bit KV: only with the JNI patch. Without it the values do not wrap (342, 1717, …).
    assert "[12, 67, 86, 181, 144, 215]" in said, said
    assert "LlmModule" in said
    assert "12 67 86 181 144 215 58 41" in run(built / DIST / "bin/minirt_runner")


def test_a_second_build_does_nothing(built: Path, kz: Kz) -> None:
    before = snapshot(built)
    done = kz("-C", built, "build", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["fresh"] is False
    assert snapshot(built) == before


@pytest.mark.reproduce
def test_another_folder_store_and_umask_the_same_bytes(
    built: Path, sample: Path, clean_env: dict[str, str], tmp_path: Path
) -> None:
    """Artifacts and release files: another machine as far as one machine can be one."""
    for kept in ("sha256", "addresses"):
        shutil.copytree(Path(clean_env["KZ_CACHE"], kept), tmp_path / "store" / kept)
    argv = ["sh", "-c", 'umask 077 && exec "$@"', "sh", sys.executable, "-m", "kz_build", "-C", str(sample), "build"]
    mine = {
        "TZ": "Asia/Tokyo",
        "CFLAGS": "-O0",
        "LANG": "C",
        "HOME": str(tmp_path),
        "KZ_CACHE": str(tmp_path / "store"),
    }
    done = subprocess.run([*argv, "--jobs", "3"], cwd=ROOT, env={**clean_env, **mine}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert snapshot(sample / DIST) == snapshot(built / DIST)


def test_a_file_that_was_touched_is_not_taken_for_the_built_one(built: Path, sample: Path, kz: Kz) -> None:
    shutil.copytree(built, sample, dirs_exist_ok=True)
    with (sample / DIST / "lib/libminirt.so").open("ab") as file:
        file.write(b"x")
    audit = kz("-C", sample, "audit")
    assert audit.returncode == 3 and "has changed since it was built" in audit.stderr
    done = kz("-C", sample, "build", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["fresh"] is True


def test_an_audit_asks_again_and_does_not_repeat_its_record(built: Path, sample: Path, kz: Kz) -> None:
    shutil.copytree(built, sample, dirs_exist_ok=True)
    path = sample / "out/audit/sample-0.1/linux-arm64/manifest.json"
    was = json.loads(path.read_text())
    path.write_text(json.dumps({**was, "checks": [{**check, "status": "FAIL"} for check in was["checks"]]}))
    done = kz("-C", sample, "audit", "--json")
    assert done.returncode == 0 and {c["status"] for c in json.loads(done.stdout)} == {"PASS"}
    assert {c["status"] for c in json.loads(path.read_text())["checks"]} == {"PASS"}
    pins = sample / "pins.yaml"
    pins.write_text(pins.read_text().replace("needed: [", "needed: [libnone.so] # ["))
    stricter = kz("-C", sample, "audit")
    assert stricter.returncode == 7 and "FAIL" in stricter.stdout, "by the pins of now"


def test_a_native_method_that_only_java_knows_is_not_hidden_by_an_older_audit(
    built: Path, sample: Path, kz: Kz
) -> None:
    """A patch to the Java side leaves the library as it was, byte for byte; the audit must ask again."""
    shutil.copytree(built, sample, dirs_exist_ok=True)
    assert kz("-C", sample, "build").returncode == 0
    path = "extension/android/src/main/java/org/minirt/LlmModule.java"
    text = (ROOT / "examples/sample/upstream" / path).read_text().splitlines(keepends=True)
    at = next(i for i, line in enumerate(text) if " native " in line)
    more = [*text[:at], "  public native void neverBound();\n", *text[at:]]
    diff = "".join(difflib.unified_diff(text, more, f"a/{path}", f"b/{path}"))
    head = "From: t <t@t>\nDate: Thu, 15 Jan 2026 12:00:00 +0000\nSubject: [PATCH] java\n\n---\n"
    stack = sample / "patches/sample-0.1/minirt"
    (stack / "0006-java.patch").write_text(f"{head}diff --git a/{path} b/{path}\n{diff}")
    (stack / "series").write_text((stack / "series").read_text() + "0006-java.patch\n")
    assert kz("-C", sample, "lock", "--write").returncode == 0
    done = kz("-C", sample, "build")
    assert done.returncode == 7 and "LlmModule.neverBound" in done.stdout, done.stdout + done.stderr
    made = snapshot(sample / DIST)
    assert made.items() < snapshot(built / DIST).items()
    assert not [name for name in made if not name.startswith(("bin/", "lib/", "symbols/"))], (
        "release files for what failed"
    )


def test_the_dry_run_is_a_script_that_builds(
    sample: Path, kz: Kz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where upstream has attributes for its release archives, and the user other line ends."""
    (sample / "patches/sample-0.1/minirt/0006-attributes.patch").write_text(
        "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n"
        "From: A <a@example.org>\nDate: Mon, 1 Jan 2024 00:00:00 +0000\nSubject: [PATCH] attributes\n\n---\n"
        "diff --git a/.gitattributes b/.gitattributes\nnew file mode 100644\n--- /dev/null\n+++ b/.gitattributes\n"
        "@@ -0,0 +1 @@\n+*.cpp export-ignore\n-- \n2.40.0\n"
    )
    with (sample / "patches/sample-0.1/minirt/series").open("a") as series:
        series.write("0006-attributes.patch\n")
    assert kz("-C", sample, "lock", "--write").returncode == 0
    (tmp_path / "gitconfig").write_text("[core]\n\tautocrlf = true\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    before = snapshot(sample)
    script = kz("-C", sample, "build", "--dry-run")
    assert script.returncode == 0 and snapshot(sample) == before
    done = subprocess.run(["sh", "-c", script.stdout], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (sample / "out/build/sample-0.1/linux-arm64/stage/lib/libminirt.so").is_file()
    tree = snapshot(sample / "out/tree")
    assert kz("-C", sample, "build", "--engine", "host").returncode == 0
    assert snapshot(sample / "out/tree") == tree


def test_overrides_are_reported(sample: Path, kz: Kz) -> None:
    (sample / "pins.local.yaml").write_text("targets: {linux-arm64: {environment: {EXTRA: yes-please}}}\n")
    done = kz("-C", sample, "build")
    assert done.returncode == 0, done.stderr
    assert "canonical: false" in done.stdout and "targets.linux-arm64.environment.EXTRA: yes-please" in done.stdout
    assert json.loads((sample / "out/report/report.json").read_text())["canonical"] is False


def test_a_mirror_of_what_the_lock_proves_is_the_same_build(built: Path, tmp_path: Path, kz: Kz) -> None:
    project = Path(shutil.copytree(built, tmp_path / "project", symlinks=True))
    mirror = tmp_path / "mirror.git"
    subprocess.run(["git", "clone", "-q", "--bare", str(project / "upstream.bundle"), str(mirror)], check=True)
    (project / "pins.local.yaml").write_text("sources: {minirt: {git: ../mirror.git}}\n")
    done = kz("-C", project, "build", "--json")
    assert done.returncode == 0, done.stderr
    build = json.loads(done.stdout)
    assert not build["fresh"] and build["manifest"]["canonical"] is True and build["manifest"]["overrides"] == []
    report = json.loads(kz("-C", project, "report", "--json").stdout)
    assert report["canonical"] is True and report["overrides"] == []


def test_status_finds_the_branch_of_a_bundle_and_what_landed_there(sample: Path, kz: Kz) -> None:
    """A bundle says where HEAD is, and not by which name."""
    done = kz("-C", sample, "status")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("sample-0.1 minirt against main f4b83123b9")
    assert "! main has what it changes, at runtime/program.cpp:50-57: the next rebase" in done.stdout


def test_a_stopped_build_leaves_nothing_half_made(built: Path, sample: Path, clean_env: dict[str, str], kz: Kz) -> None:
    """By Ctrl-C, by SIGTERM, and by SIGKILL in the end; the next build makes it all."""
    shutil.copytree(built / "dist", sample / "dist")
    before = snapshot(sample / "dist")
    # A program that goes on for a minute in the place of ninja, and marks its life.
    slow = sample / "slow ninja"
    slow.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo 1.11 && exit\necho $$ > \'' + str(sample) + "/started'\nsleep 60\n"
    )
    slow.chmod(0o755)
    (sample / "pins.local.yaml").write_text(f"targets: {{linux-arm64: {{tools: {{ninja: ['{slow}']}}}}}}\n")
    for sign, code in ((signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -9)):
        (sample / "started").unlink(missing_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-m", "kz_build", "-C", sample, "build"],
            cwd=ROOT,
            env=clean_env,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        until(lambda: (sample / "started").exists() or process.poll() is not None, 60)  # noqa: B023
        until(lambda: (sample / "started").read_text().endswith("\n"))
        os.kill(process.pid, sign)
        _, stderr = process.communicate(timeout=patient(20))
        assert process.returncode == code
        if sign != signal.SIGKILL:
            assert b"kz: exit 130 (interrupt)" in stderr
            assert str(slow) not in subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True).stdout
        else:  # who is killed cannot end what he began
            os.killpg(os.getpgid(int((sample / "started").read_text())), signal.SIGKILL)
        assert snapshot(sample / "dist") == before
    (sample / "pins.local.yaml").unlink()
    assert kz("-C", sample, "build").returncode == 0
    assert snapshot(sample / DIST) == snapshot(built / DIST)


BUSY = """
import sys, time
from kz_build.core import files
from kz_build.cli import main
remove = files.remove
files.remove = lambda path: time.sleep(60) if "old" in path.parts else remove(path)
main(sys.argv[1:])
"""
"""kz, when old files take long to delete."""


@pytest.mark.parametrize("sign", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.reproduce)])
def test_a_build_that_is_stopped_waits_for_no_old_files_and_dist_is_still_known(
    built: Path, sample: Path, clean_env: dict[str, str], kz: Kz, sign: int
) -> None:
    for name in ("dist", "out"):
        shutil.copytree(built / name, sample / name, symlinks=True)
    assert kz("-C", sample, "build").returncode == 0
    report, checks = (kz("-C", sample, verb, "--json").stdout for verb in ("report", "audit"))
    slow = sample / "slow"
    slow.write_text(
        f"#!/bin/sh\n[ \"$1\" = --version ] && echo 1.11 && exit\ntrap '' TERM INT\n: > '{sample}/started'\nsleep 60\n"
    )
    slow.chmod(0o755)
    (sample / "pins.local.yaml").write_text(f"targets: {{linux-arm64: {{tools: {{ninja: ['{slow}']}}}}}}\n")
    command = [sys.executable, "-c", BUSY, "-C", str(sample), "build"]
    process = subprocess.Popen(command, cwd=ROOT, env=clean_env, stderr=subprocess.PIPE, start_new_session=True)
    until(lambda: (sample / "started").exists() or process.poll() is not None, 60)
    stopped = time.monotonic()
    os.kill(process.pid, sign)
    _, stderr = process.communicate(timeout=patient(20))
    assert process.returncode == 130 and time.monotonic() - stopped < patient(2), stderr
    (sample / "pins.local.yaml").unlink()
    assert kz("-C", sample, "report", "--json").stdout == report
    assert kz("-C", sample, "audit", "--json").stdout == checks
    assert list((sample / "out/old").rglob("manifest.json")) == [] and list((sample / "out/old").rglob("*.so"))
    again = kz("-C", sample, "build")
    assert again.returncode == 0 and "nothing to do: up to date" in again.stdout, again.stdout + again.stderr


KILLED = """
import os, signal, sys
from pathlib import Path
from kz_build.core import files
from kz_build.cli import main
dist, at_once, exchanged, rename = Path(sys.argv[1]), sys.argv[2] == "at once", files._exchanged_atomically, os.rename

def killed():
    os.kill(os.getpid(), signal.SIGKILL)

files._exchanged_atomically = lambda made, path: at_once and exchanged(made, path) and killed()
os.rename = lambda source, target: (rename(source, target), Path(source) == dist and killed())
main(sys.argv[3:])
"""
"""kz, killed as soon as the old dist is not in its place any more."""


def test_a_kill_while_dist_is_exchanged_loses_nothing(
    built: Path, sample: Path, clean_env: dict[str, str], kz: Kz
) -> None:
    """Killed between two renames; then, where the kernel exchanges both at once, behind that."""
    shutil.copytree(built / "dist", sample / "dist")
    (sample / DIST / "old").touch()
    old = snapshot(sample / "dist")
    for how in ("by two renames", "at once"):
        killed = [sys.executable, "-c", KILLED, str(sample / DIST), how, "-C", str(sample), "build"]
        assert subprocess.run(killed, cwd=ROOT, env=clean_env).returncode == -signal.SIGKILL
        assert (sample / DIST).exists() == (how == "at once") and not list((sample / "dist").rglob(".*"))
        if how == "by two renames":
            (sample / "pins.local.yaml").write_text("targets: {linux-arm64: {tools: {ninja: [/bin/false]}}}\n")
            assert kz("-C", sample, "build").returncode == 5
            assert snapshot(sample / "dist") == old
            (sample / "pins.local.yaml").unlink()
    done = kz("-C", sample, "build")
    assert done.returncode == 0, done.stderr
    assert snapshot(sample / DIST) == snapshot(built / DIST)
    assert not [path for path in sample.rglob("*") if path.name.endswith((".new", ".old"))]


def test_an_engine_that_is_not_the_wanted_one_is_said_in_a_line(built: Path, kz: Kz) -> None:
    said = kz("-C", built, "build", DOCKER_HOST="unix:///nowhere/s").stderr.splitlines()
    assert [row for row in said if row.startswith("engine ")] == [
        "engine host: engine docker cannot run: the container of this target names no base"
    ]
    assert "engine" not in kz("-C", built, "build", "--engine", "host", DOCKER_HOST="unix:///nowhere/s").stderr
    why = json.loads((built / "out/build/sample-0.1/linux-arm64/manifest.json").read_text())["engine_why"]
    assert f"  engine host: {why}" in kz("-C", built, "report").stdout

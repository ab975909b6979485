"""`kz all`: the sample from its pins to an emulated device, in one command."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kz_build.device import adb as adapter
from kz_build.emulator.shell import ARM64_LIBC, QEMU
from tests.conftest import Kz
from tests.deadline import patient
from tests.export.toys import toy
from tests.formats.ptes import Method, program

EMULATES = pytest.mark.skipif(
    not shutil.which(QEMU) or not Path(ARM64_LIBC).is_dir(), reason="needs qemu-user-static and libc6-arm64-cross"
)
STAGES = ("fetch", "apply", "build", "audit", "package", "export", "device", "in-app", "report")


@pytest.fixture
def project(built: Path, sample: Path) -> Path:
    """A copy of the built sample."""
    shutil.copytree(built, sample, dirs_exist_ok=True)
    return sample


@pytest.fixture(scope="module")
def nobody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """An adb server of the user's that knows no device."""
    with adapter.private(tmp_path_factory.mktemp("adb-home")) as server:
        yield {"ANDROID_ADB_SERVER_PORT": str(server.port)}


def stages(stdout: str) -> dict[str, dict[str, Any]]:
    found = {row["stage"]: row for row in json.loads(stdout)["stages"]}
    assert tuple(found) == STAGES
    return found


@EMULATES
def test_the_sample_is_built_pushed_loaded_called_and_timed(sample: Path, kz: Kz, nobody: dict[str, str]) -> None:
    done = kz("-C", sample, "all", "--emulate", "--json", **nobody)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = stages(done.stdout)
    assert {name for name, row in rows.items() if row["status"] == "PASS"} == set(STAGES) - {
        "package",
        "export",
        "in-app",
    }
    assert "nothing is exported" in rows["export"]["report"]
    for name in ("build", "audit", "report"):
        assert (sample / rows[name]["report"]).is_file()
    assert rows["device"]["report"].startswith("EMULATED out/device/sample-0.1/")
    (device,) = json.loads(done.stdout)["device"]
    assert device["emulated"] and {c["check"]: c["status"] for c in device["checks"]}["dlopen"] == "PASS"
    assert device["run"]["spreads"]["load_s"] and device["run"]["compared"] == []
    report = json.loads((sample / "out/report/report.json").read_text())
    assert [row["stage"] for row in report["all"]["linux-arm64"]["stages"]] == [s for s in STAGES if s != "report"]

    again = kz("-C", sample, "all", "--emulate", **nobody)
    assert again.returncode == 0 and "$ cmake" not in again.stderr, "what is there is not made again"
    table = again.stdout[again.stdout.index("linux-arm64 of sample-0.1") :]
    assert [line.split()[0] for line in table.splitlines()[2:] if line[0] != " "] == list(STAGES)
    assert "EMULATED" in table and max(map(len, table.splitlines()[1:])) <= 80
    assert len(list((sample / "out/device/sample-0.1").iterdir())) == 1


# A runner by name of the model that it gets; braces would be kz's own.
RUNNER = r"""now=$(date +%s%3N); test -s "$1" || exit 9; echo "ran $1"
printf 'PyTorchObserver \173"prompt_tokens":1,"generated_tokens":2,"inference_start_ms":%d,"first_token_ms":%d,' $now $((now+5))
printf '"prompt_eval_end_ms":%d,"inference_end_ms":%d\175\n' $((now+5)) $((now+9))"""


@EMULATES
@pytest.mark.exports
def test_a_model_is_exported_and_run_on_the_device(
    project: Path, kz: Kz, nobody: dict[str, str], tmp_path: Path
) -> None:
    made = toy(tmp_path / "toy")
    (made.root / "model.pte").write_bytes(program([Method("forward")], {}))
    made.recipe("ok", line="sample-0.1", contract={"methods": ["forward"]})
    shutil.copytree(made.root / "recipes", project / "recipes")
    pins = (project / "pins.yaml").read_text()
    pins = pins.replace("\nsources:\n", "\nsources:\n  toy: {wheel: toyexport}\n", 1)
    (project / "pins.yaml").write_text(pins.replace("sample-0.1: {", 'sample-0.1: {toy: "1.0", ', 1))
    device = {"run": ["/bin/sh", "-c", RUNNER, "sh", "{model}"]}
    (project / "pins.local.yaml").write_text(json.dumps({"targets": {"linux-arm64": {"device": device}}}))
    env = {**nobody, **{key: value for key, value in made.env.items() if key != "KZ_CACHE"}}

    done = kz("-C", project, "all", "--emulate", "--recipe", "toy", "--json", **env)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = stages(done.stdout)
    assert [rows[name]["status"] for name in ("build", "export", "device")] == ["PASS"] * 3
    record = json.loads((project / rows["export"]["report"]).read_text())
    (report,) = json.loads(done.stdout)["device"]
    assert report["subject"] == "toy" and "toy.pte" in report["pushed"]["sent"]
    checks = {one["check"]: one for one in report["checks"]}
    assert checks["runner"]["evidence"] == "2 tokens after 1 of the prompt: ran toy.pte"
    assert checks["pte methods"]["status"] == "PASS" and record["stages"]["step1"]
    assert report["run"]["spreads"]["ttft_ms"]["median"] == 5

    again = kz("-C", project, "all", "--emulate", "--recipe", "toy", "--json", **env)
    assert again.returncode == 0 and stages(again.stdout)["export"]["status"] == "PASS"
    runs = project / "out/export/sample-0.1/toy/1.pte.runs"
    assert runs.read_text() == "x", "what was exported is not exported again"


@EMULATES
def test_told_to_end_it_leaves_nothing_running(
    project: Path, clean_env: dict[str, str], nobody: dict[str, str], tmp_path: Path
) -> None:
    """The emulated device, its folder and the adb server of its own go with it, as after Ctrl-C."""
    (tmp_path / "tmp").mkdir()
    argv = [sys.executable, "-m", "kz_build", "-C", str(project), "all", "--emulate"]
    env = {**clean_env, **nobody, "TMPDIR": str(tmp_path / "tmp")}
    with subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr and any(line == "== fetch\n" for line in running.stderr)
        running.terminate()
        assert "kz: exit 130 (interrupt)" in running.stderr.read()
    assert running.returncode == 130 and list((tmp_path / "tmp").glob("kz-*")) == []
    mine = str(tmp_path / "tmp").encode()
    left = []
    for found in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            left += [found] if mine in found.read_bytes() else []
    assert left == []


@EMULATES
def test_a_stage_that_fails_keeps_only_those_that_need_it(project: Path, kz: Kz, nobody: dict[str, str]) -> None:
    lock = project / "pins.lock"
    tree = json.loads(lock.read_text())["lines"]["sample-0.1"]["minirt"]["patched"]["tree"]
    lock.write_text(lock.read_text().replace(tree, "0" * 40))
    done = kz("-C", project, "all", "--emulate", "--json", **nobody)
    rows = stages(done.stdout)
    assert {name: row["status"] for name, row in rows.items()} == {
        "fetch": "PASS", "apply": "FAIL", "build": "SKIP", "audit": "SKIP", "package": "SKIP", "export": "SKIP",
        "device": "SKIP", "in-app": "SKIP", "report": "PASS",
    }  # fmt: skip
    assert done.returncode == rows["apply"]["exit_code"] == 3 and "kz: exit 3 (lock)" in done.stderr
    assert rows["device"]["report"] == "needs audit" and rows["build"]["report"] == "needs apply"


def test_no_device_is_said_first_and_skipped_unless_it_is_required(
    project: Path, kz: Kz, nobody: dict[str, str]
) -> None:
    done = kz("-C", project, "all", **nobody)
    assert done.returncode == 0, done.stderr
    assert done.stderr.index("an Android device: adb sees none") < done.stderr.index("== fetch")
    assert "device    SKIP          -  missing: an Android device" in done.stdout
    for argv in (["--require", "device"], ["--serial", "nobody"], ["--require", "package"], ["--require", "in-app"]):
        done = kz("-C", project, "all", *argv, **nobody)
        assert done.returncode == 6 and "nothing was started" in done.stderr and "== fetch" not in done.stderr, (
            done.stderr
        )


RECIPE = """about: too much for any machine
line: sample-0.1
command: [{name: export, inside: minirt, run: ["true"], makes: ["{out}/x.pte"]}]
needs: {memory: {gb: [1000, null], source: nobody}, disk: {}, tools: {kz-no-such-program: the wind}}
weights: {}
output: x.pte
contract: {}
"""


def test_a_recipe_that_this_machine_is_too_small_for_is_said_first(
    project: Path, kz: Kz, nobody: dict[str, str]
) -> None:
    (project / "recipes").mkdir()
    (project / "recipes/big.yaml").write_text(RECIPE)
    done = kz("-C", project, "all", "--emulate", "--recipe", "big", **nobody)
    assert done.returncode == 6 and "== fetch" not in done.stderr, done.stderr
    for what in ("memory", "at least 1000 needed", "kz-no-such-program", "nothing was started"):
        assert what in done.stderr, done.stderr


QNN_RECIPE = """about: a model for the NPU
line: sample-0.1
command: [{name: export, inside: minirt, run: ["true"], makes: ["{out}/x.pte"]}]
needs: {memory: {gb: [0, 0], source: nobody}, disk: {}}
weights: {}
device: {DEVICE}
output: x.pte
contract: {backends: [QnnBackend]}
"""


def test_a_machine_without_qemu_says_so_first_with_its_package(
    sample: Path, kz: Kz, nobody: dict[str, str], clean_env: dict[str, str], tmp_path: Path
) -> None:
    """The build would take a minute, and end in `Exec format error` on the device."""
    (tmp_path / "bin").mkdir()
    for folder in clean_env["PATH"].split(":"):
        for tool in Path(folder).glob("*"):
            if not tool.name.startswith("qemu") and not (tmp_path / "bin" / tool.name).exists():
                (tmp_path / "bin" / tool.name).symlink_to(tool)
    env = {**nobody, "PATH": str(tmp_path / "bin")}
    done = kz("-C", sample, "all", "--emulate", **env)
    assert done.returncode == 6 and "nothing was started" in done.stderr and "== fetch" not in done.stderr, done.stderr
    assert "qemu-aarch64-static" in done.stderr and "-> apt install qemu-user-static" in done.stderr
    argv = [sys.executable, "-m", "kz_build", "device", "emulate"]
    with subprocess.Popen(
        argv, env={**clean_env, **env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as it:
        assert it.stdout and it.stdout.readline().startswith("EMULATED SM8750")
        it.terminate()
        assert it.stderr and "-> apt install qemu-user-static" in it.stderr.read()


@EMULATES
def test_qualcomms_libraries_that_nothing_brings_are_said_first(
    project: Path, kz: Kz, nobody: dict[str, str], tmp_path: Path
) -> None:
    """A build without them and no SDK: the device stage would only say so after build and export."""
    (project / "recipes").mkdir()
    recipe = project / "recipes/npu.yaml"
    recipe.write_text(QNN_RECIPE.replace("{DEVICE}", "{}"))
    argv = ("-C", project, "all", "--emulate", "--soc", "SM8650", "--recipe", "npu")
    done = kz(*argv, **nobody)
    assert done.returncode == 6 and "nothing was started" in done.stderr and "== fetch" not in done.stderr, done.stderr
    for name in ("libQnnHtp.so", "libQnnHtpV75Stub.so", "libQnnHtpV75Skel.so", "libQnnHtpPrepare.so", "QNN_SDK_ROOT"):
        assert name in done.stderr, done.stderr
    names = ("Htp", "HtpV75Stub", "HtpV75Skel", "HtpPrepare", "System")
    files = {f"{{out}}/libQnn{name}.so": f"libQnn{name}.so" for name in names}
    recipe.write_text(QNN_RECIPE.replace("{DEVICE}", json.dumps(files)))
    lock = project / "pins.lock"
    tree = json.loads(lock.read_text())["lines"]["sample-0.1"]["minirt"]["patched"]["tree"]
    lock.write_text(lock.read_text().replace(tree, "0" * 40))  # `apply` fails: later stages are not asked about here
    assert "libQnn" not in kz(*argv, "--json", **nobody).stderr.partition("== fetch")[0], "its own are looked for later"


def test_all_that_is_missing_is_said_at_once_and_nothing_is_begun(
    sample: Path, kz: Kz, nobody: dict[str, str], tmp_path: Path
) -> None:
    cut = {"KZ_CACHE": str(tmp_path / "store"), "PIP_INDEX_URL": "http://127.0.0.1:9/simple"}
    done = kz("-C", sample, "all", "--serial", "nobody", "--require", "package", **cut, **nobody)
    assert done.returncode == 6
    for what in ("127.0.0.1:9", "device nobody", "no `package`"):
        assert what in done.stderr, done.stderr
    assert not (sample / "out").exists() and not list((tmp_path / "store").glob("sha256/*"))


@EMULATES
@pytest.mark.skipif(not shutil.which("unshare"), reason="needs unshare")
def test_two_at_once_do_not_disturb_each_other(
    project: Path, clean_env: dict[str, str], nobody: dict[str, str]
) -> None:
    argv = [sys.executable, "-m", "kz_build", "-C", str(project), "all", "--emulate", "--json"]
    running = [
        subprocess.Popen(argv, env={**clean_env, **nobody}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for one in running:
        stdout, stderr = one.communicate(timeout=patient(300))
        assert one.returncode == 0, stderr
        assert stages(stdout)["device"]["status"] == "PASS"
    assert os.path.exists(project / "out/report/report.json")

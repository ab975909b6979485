"""`kz doctor`: what this machine can do, in the words of the verbs that it speaks for."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from kz_build.core.errors import Missing
from kz_build.pipeline.capability import Capability, screen
from tests.conftest import ROOT, Kz, snapshot
from tests.deadline import patient

UNREACHABLE = "http://127.0.0.1:9"


@pytest.fixture
def cut_off(tmp_path: Path) -> dict[str, str]:
    """A machine without a network, with an empty store."""
    config = tmp_path / "gitconfig"
    hosts = ("github.com", "gitlab.com")
    config.write_text("".join(f'[url "{UNREACHABLE}/"]\n\tinsteadOf = https://{host}/\n' for host in hosts))
    return {"KZ_CACHE": str(tmp_path / "cache"), "GIT_CONFIG_GLOBAL": str(config), "PIP_INDEX_URL": UNREACHABLE,
            "https_proxy": UNREACHABLE, "HTTPS_PROXY": UNREACHABLE, "ANDROID_ADB_SERVER_PORT": "9", "DOCKER_HOST": ""}  # fmt: skip


def real(tmp_path: Path) -> Path:
    """This project's own pins, stacks and recipes."""
    project = tmp_path / "real"
    ignored = shutil.ignore_patterns("out", "dist")
    for name in ("patches", "recipes", "examples", "containers"):
        shutil.copytree(ROOT / name, project / name, ignore=ignored)
    for name in ("pins.yaml", "pins.lock"):
        shutil.copy(ROOT / name, project)
    return project


def rows(done: Any) -> dict[tuple[str, str, str], dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    return {(row["name"], row["subject"], row["line"]): row for row in json.loads(done.stdout)}


def test_it_says_what_the_verbs_say(sample: Path, kz: Kz, store: Path, cut_off: dict[str, str], tmp_path: Path) -> None:
    """With a full store, with an empty one and no network, and with a lock that is stale."""
    build = ("build", "linux-arm64", "sample-0.1")
    full = {**cut_off, "KZ_CACHE": str(store)}
    assert kz("-C", sample, "fetch", **full).returncode == 0
    assert rows(kz("-C", sample, "doctor", "--json", **full))[build]["able"]
    for change in ("", "lines: {sample-0.1: {cmake: 4.1.1}}\n"):
        (sample / "pins.local.yaml").write_text(change)
        said = kz("-C", sample, "fetch", **cut_off)
        answer = rows(kz("-C", sample, "doctor", "--json", **cut_off))[build]
        assert not answer["able"] and answer["missing"]
        for item in answer["missing"]:
            for part in (item["what"], *item["remedy"].splitlines()):
                assert part in said.stderr, (part, said.stderr)
        assert said.stderr.count("      -> ") == sum(len(item["remedy"].splitlines()) for item in answer["missing"])
        assert {item["exit_code"] for item in answer["missing"]} == {said.returncode}
    (sample / "pins.local.yaml").unlink()
    lock = sample / "pins.lock"
    lock.write_text(lock.read_text().replace('"4.1.2"', '"4.1.1"'))
    (item,) = rows(kz("-C", sample, "doctor", "--json", **full))[build]["missing"]
    said = kz("-C", sample, "fetch", **full)
    assert said.returncode == item["exit_code"] == 3 and item["what"] in said.stderr and item["remedy"] in said.stderr


def test_a_real_project_on_a_bare_machine_is_one_screen_and_nothing_is_written(
    kz: Kz, cut_off: dict[str, str], tmp_path: Path
) -> None:
    project = real(tmp_path)
    before = snapshot(project)
    started = time.monotonic()
    done = kz("-C", project, "doctor", **cut_off)
    assert time.monotonic() - started < patient(10)
    assert done.returncode == 0 and not done.stderr, done.stderr
    lines = done.stdout.splitlines()
    table, closes = lines[: lines.index("")], lines[lines.index("") + 2 :]
    assert len(lines) <= 40 and max(map(len, table)) <= 80, done.stdout
    for part in ("no   example   kz -C examples/sample build: gap", "no   build     android-arm64-qnn (et-1.2, et-1.3, et-1.4)", "no   device    over adb",
                 "no   export    llama3.2-1b-vulkan"):  # fmt: skip
        assert any(row.startswith(part) for row in table), done.stdout
    for command in (
        "apt install docker.io",
        "kz accept qnn-host",
        "export ANDROID_NDK_HOME=",
        "pins.local.yaml: sources: {fbjni:",
    ):
        assert any(command in row for row in closes), done.stdout
    assert snapshot(project) == before
    assert {path.name for path in (tmp_path / "cache").iterdir()} <= {"locks", "validated"}
    recipe = rows(kz("-C", project, "doctor", "--json", **cut_off))["export", "qwen3-4b-qnn-hybrid", ""]
    ready = json.loads(kz("-C", project, "export", "preflight", "qwen3-4b-qnn-hybrid", "--json", **cut_off).stdout)
    assert [item["what"] for item in recipe["missing"]] == [c["name"] for c in ready["checks"] if c["status"] == "FAIL"]


def test_a_server_that_says_nothing_takes_two_seconds(sample: Path, kz: Kz, cut_off: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        index = f"http://127.0.0.1:{silent.getsockname()[1]}/simple"
        started = time.monotonic()
        answers = rows(kz("-C", sample, "doctor", "--json", **{**cut_off, "PIP_INDEX_URL": index}))
        assert time.monotonic() - started < patient(10)
    (item,) = answers["build", "linux-arm64", "sample-0.1"]["missing"]
    assert item["what"].startswith(index.removesuffix("simple")) and item["remedy"].startswith("export PIP_INDEX_URL=")


def test_a_recipe_that_is_wrong_is_one_gap(sample: Path, kz: Kz, cut_off: dict[str, str]) -> None:
    (sample / "recipes").mkdir()
    (sample / "recipes/r.yaml").write_text("about: [\n")
    answers = rows(kz("-C", sample, "doctor", "--json", **cut_off))
    (item,) = answers["export", "r", ""]["missing"]
    assert item["exit_code"] == 2 and "recipes/r.yaml" in item["what"] + item["why"]
    assert len(answers) > 4


def test_a_key_to_sign_with(sample: Path, kz: Kz, cut_off: dict[str, str], tmp_path: Path) -> None:
    sign = ("sign", "release files", "")
    (item,) = rows(kz("-C", sample, "doctor", "--json", **cut_off))[sign]["missing"]
    assert ("KZ_MINISIGN_KEY" if shutil.which("minisign") else "apt install minisign") in item["remedy"]
    (item,) = rows(kz("-C", sample, "doctor", "--json", **cut_off, KZ_MINISIGN_KEY=str(tmp_path / "none")))[sign][
        "missing"
    ]
    assert "there is no key" in item["what"] or not shutil.which("minisign")


def test_the_gaps_of_exports_make_room() -> None:
    """Forty lines: what closes most comes first, and for the rest there is a command."""

    def export(recipe: str, *ways: str) -> Capability:
        return Capability("export", recipe, missing=tuple(Missing(way, "why", f"{way}\nor so") for way in ways))

    shared = [export(f"r{number}", f"get-{number}", "apt install x") for number in range(18)]
    text = screen([Capability("sign", "release files", evidence="KEY"), Capability("device", "d", missing=(Missing("m", "", "plug it in"),)), *shared])  # fmt: skip
    lines = text.splitlines()
    assert len(lines) == 40 and lines[0] == "yes  sign      release files: KEY"
    assert " 1 -> plug it in  # m" in lines and " 2 -> apt install x  # apt install x" in lines
    assert lines[-1] == "18-20 -> kz export preflight RECIPE lists them" and "or so" not in text
    assert lines[2] == "no   export    r0: gaps 2-3" and lines[4] == "no   export    r2: gaps 2 5"


OLD = """#!/bin/sh
case "$*" in
--version) echo "git version 2.30.2" ;;
*cherry-pick*) echo "fatal: unknown style 'zdiff3' given for 'merge.conflictstyle'" >&2; exit 128 ;;
*) exec GIT "$@" ;;
esac
"""


def test_a_git_that_is_too_old_is_said_so_where_it_fails_and_by_doctor(sample: Path, tmp_path: Path, kz: Kz) -> None:
    program = tmp_path / "old/git"
    program.parent.mkdir()
    program.write_text(OLD.replace("GIT", shutil.which("git") or "git"))
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    done = kz("-C", sample, "rebase", "--onto", "v0.2.0", PATH=path)
    assert done.returncode == 6 and "git 2.35 or newer" in done.stderr and "this one is 2.30.2" in done.stderr, (
        done.stderr
    )
    rows = json.loads(kz("-C", sample, "doctor", "--json", PATH=path).stdout)
    assert [m["what"] for row in rows if row["name"] == "git" for m in row["missing"]] == ["git 2.35 or newer"]
    assert "git" not in {row["name"] for row in json.loads(kz("-C", sample, "doctor", "--json").stdout)}

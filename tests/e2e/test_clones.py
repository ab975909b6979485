"""Partial clones of a real server side: what is asked for, how often, and what never comes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kz_build.core.locks import lock
from tests.conftest import ROOT, Kz
from tests.deadline import patient
from tests.stack.test_git_tools import sh


def repository(folder: Path, files: dict[str, str], submodules: dict[str, Path] | None = None) -> Path:
    """An upstream with one tag, which serves filters as forges do."""
    folder.mkdir(parents=True)
    sh("git", "init", "-q", "-b", "main", "--template=", cwd=folder)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for path, other in (submodules or {}).items():  # as many upstreams have them: beside the superproject
        with (folder / ".gitmodules").open("a") as modules:
            modules.write(f'[submodule "{path}"]\n\tpath = {path}\n\turl = ../{other.name}\n')
    sh("git", "add", "-A", cwd=folder)
    for path, other in (submodules or {}).items():  # `git submodule add` takes ten times as long, to clone it
        (folder / path).mkdir(parents=True)
        commit = sh("git", "rev-parse", "HEAD", cwd=other)
        sh("git", "update-index", "--add", "--cacheinfo", f"160000,{commit},{path}", cwd=folder)
    sh("git", "commit", "-q", "-m", "one", cwd=folder)
    sh("git", "tag", "v1", cwd=folder)
    for key in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
        sh("git", "config", key, "true", cwd=folder)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    deep = repository(tmp_path / "up/deep", {"deep.h": "deep\n"})
    inner = repository(
        tmp_path / "up/inner",
        {"inner.h": "inner\n", "doc/big.gif": "gif\n"},
        {"third_party/deep": deep, "third_party/unwanted": deep},
    )
    main = repository(tmp_path / "up/main", {**{f"src/{i}.c": f"{i}\n" for i in range(40)}, "doc/movie.gif": "gif!\n", "weights/w.bin": "w\n"},
                      {"libs/inner": inner, "libs/other": deep})  # fmt: skip
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pins.yaml").write_text(
        "version: 1\ndefault: l\nsources:\n"
        f"  main: {{git: 'file://{main}', submodules: [libs/inner], exclude: ['*.gif', weights/, libs/inner/third_party/unwanted/]}}\n"
        "lines: {l: {main: v1}}\n"
        "targets: {t: {platform: linux, abi: arm64, sources: [main], tools: {cmake: [c], ninja: [n], objcopy: [o]}, cmake: {}, outputs: {}}}\n"
    )
    return folder


def blobs(repository: Path) -> set[str]:
    """Content of every blob that a clone really holds."""
    ids = subprocess.run(
        ["git", f"--git-dir={repository}", "cat-file", "--batch-all-objects", "--batch-check"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    names = [row.split()[0] for row in ids.splitlines() if " blob " in row]
    return {
        subprocess.run(["git", f"--git-dir={repository}", "cat-file", "blob", n], capture_output=True, text=True).stdout
        for n in names
    }


def test_nested_submodules_are_locked_and_fetched_without_what_is_excluded(
    project: Path, kz: Kz, tmp_path: Path
) -> None:
    env = {"KZ_CACHE": str(tmp_path / "cache")}
    assert kz("-C", project, "lock", "--write", **env).returncode == 0
    entry = json.loads((project / "pins.lock").read_text())["lines"]["l"]["main"]
    assert set(entry["submodules"]) == {"libs/inner", "libs/inner/third_party/deep"}
    assert entry["submodules"]["libs/inner"]["url"] == f"file://{tmp_path / 'up/inner'}"
    assert entry["submodules"]["libs/inner"]["commit"] == sh("git", "rev-parse", "v1", cwd=tmp_path / "up/inner")
    done = kz("-C", project, "fetch", "--json", **env)
    assert done.returncode == 0, done.stderr
    assert [t["path"] for t in json.loads(done.stdout)[0]["trees"]] == ["", "libs/inner", "libs/inner/third_party/deep"]
    clone = next((tmp_path / "cache/git").glob("main-*.git"))
    held = blobs(clone)
    assert {f"{i}\n" for i in range(40)} <= held and not {"gif!\n", "w\n"} & held
    assert "gif\n" not in blobs(next((tmp_path / "cache/git").glob("inner-*.git")))


def test_what_the_lock_does_not_know_of_submodules_git_proves(project: Path, kz: Kz, tmp_path: Path) -> None:
    env = {"KZ_CACHE": str(tmp_path / "cache")}
    assert kz("-C", project, "lock", "--write", **env).returncode == 0
    known = json.loads(kz("-C", project, "fetch", "--json", **env).stdout)
    lock = json.loads((project / "pins.lock").read_text())
    submodules = lock["lines"]["l"]["main"]["submodules"]
    submodules["libs/inner"]["tree"] = None
    deep = submodules.pop("libs/inner/third_party/deep")
    (project / "pins.lock").write_text(json.dumps(lock))
    done = kz("-C", project, "fetch", "--json", KZ_CACHE=str(tmp_path / "other"))
    assert done.returncode == 0, done.stderr
    trees = [
        [(t["path"], t["commit"], t["tree"]) for t in json.loads(text)[0]["trees"]]
        for text in (done.stdout, json.dumps(known))
    ]
    assert trees[0] == trees[1]
    for key, wrong in (("commit", sh("git", "rev-parse", "v1", cwd=tmp_path / "up/inner")), ("tree", "5" * 40)):
        submodules["libs/inner/third_party/deep"] = {**deep, key: wrong}
        (project / "pins.lock").write_text(json.dumps(lock))
        done = kz("-C", project, "fetch", **env)
        assert done.returncode == 3 and "main/libs/inner/third_party/deep has" in done.stderr, done.stderr
        assert f"{key} {deep[key]}, pins.lock says {wrong}" in done.stderr


def test_a_target_without_outputs_cannot_be_built(project: Path, kz: Kz, tmp_path: Path) -> None:
    env = {"KZ_CACHE": str(tmp_path / "cache")}
    assert kz("-C", project, "lock", "--write", **env).returncode == 0
    done = kz("-C", project, "build", **env)
    assert done.returncode == 2 and "target t has no outputs: there is nothing to build" in done.stderr, done.stderr


def test_blobs_come_in_one_request(project: Path, kz: Kz, tmp_path: Path) -> None:
    env = {"KZ_CACHE": str(tmp_path / "cache")}
    assert kz("-C", project, "lock", "--write", **env).returncode == 0
    clone = next((tmp_path / "cache/git").glob("main-*.git"))
    assert not {f"{i}\n" for i in range(40)} & blobs(clone), "a lock needs no files"
    log = tmp_path / "requests"
    (tmp_path / "gitconfig").write_text(f"[trace2]\n\teventTarget = {log}\n\teventBrief = true\n")
    assert kz("-C", project, "fetch", GIT_CONFIG_GLOBAL=str(tmp_path / "gitconfig"), **env).returncode == 0
    started = [row["argv"] for row in map(json.loads, log.read_text().splitlines()) if row["event"] == "start"]
    fetches = [argv for argv in started if "fetch" in argv and str(clone) in str(argv)]
    assert len(fetches) == 1, fetches
    assert not [argv for argv in started if {"maintenance", "gc"} & {*argv}], (
        "kz store gc repacks, and only where it is asked to"
    )


def test_a_submodule_from_elsewhere(project: Path, kz: Kz, tmp_path: Path) -> None:
    env = {"KZ_CACHE": str(tmp_path / "cache")}
    assert kz("-C", project, "lock", "--write", **env).returncode == 0
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy/inner.h").write_text("mine\n")
    (project / "pins.local.yaml").write_text(f"sources: {{main/libs/inner: {{folder: {tmp_path}/copy}}}}\n")
    done = kz("-C", project, "fetch", "--json", **env)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)[0]
    assert found["note"] == "submodules overridden: libs/inner", found
    trees = {tree["path"]: tree["note"] for tree in found["trees"]}
    assert trees == {"": "", "libs/inner": "overridden in pins.local.yaml", "libs/inner/third_party/deep": ""}


def test_a_submodule_of_ones_own_commit_and_those_nested_in_it(project: Path, kz: Kz, tmp_path: Path) -> None:
    """Also on a version that the lock does not have."""
    env = {"KZ_CACHE": str(tmp_path / "cache")}
    assert kz("-C", project, "lock", "--write", **env).returncode == 0
    mine = tmp_path / "up/mine"
    sh("git", "clone", "-q", "--bare", str(tmp_path / "up/inner"), str(mine), cwd=tmp_path)
    (project / "pins.yaml").write_text(
        (project / "pins.yaml").read_text().replace("submodules: [", "submodules: [libs/other, ")
    )
    own = f"{{git: 'file://{mine}', commit: {sh('git', 'rev-parse', 'v1', cwd=mine)}}}"
    for line in ("", "lines: {l: {main: main}}\n"):
        (project / "pins.local.yaml").write_text(f"sources: {{main/libs/other: {own}, main/libs/inner: {own}}}\n{line}")
        done = kz("-C", project, "fetch", "--json", **env)
        assert done.returncode == 0, done.stderr
        paths = [tree["path"] for tree in json.loads(done.stdout)[0]["trees"]]
        assert "libs/other/third_party/deep" in paths and "libs/inner/third_party/deep" in paths, paths


def test_a_tag_that_moved_is_still_the_locked_commit_or_an_error(project: Path, kz: Kz, tmp_path: Path) -> None:
    assert kz("-C", project, "lock", "--write", KZ_CACHE=str(tmp_path / "cache")).returncode == 0
    up = tmp_path / "up/main"
    sh("git", "commit", "-q", "--amend", "-m", "other", cwd=up)
    sh("git", "tag", "-f", "v1", cwd=up)
    sh("git", "reflog", "expire", "--expire=now", "--all", cwd=up)
    sh("git", "gc", "-q", "--prune=now", cwd=up)
    done = kz("-C", project, "fetch", KZ_CACHE=str(tmp_path / "other"))
    assert done.returncode == 5 and "did the tag move?" in done.stderr, done.stderr


def test_a_fetch_says_how_far_it_is(project: Path, kz: Kz, tmp_path: Path) -> None:
    env = {"KZ_CACHE": str(tmp_path / "cache")}
    assert kz("-C", project, "lock", "--write", **env).returncode == 0
    done = kz("-C", project, "fetch", **env)
    assert done.returncode == 0 and "  main 1/" in done.stderr, done.stderr


def test_a_bar_on_a_terminal_goes_when_the_result_comes(
    project: Path, kz: Kz, clean_env: dict[str, str], tmp_path: Path
) -> None:
    cache = str(tmp_path / "cache")
    assert kz("-C", project, "lock", "--write", KZ_CACHE=cache).returncode == 0
    typed = f"{sys.executable} -m kz_build -C {project} fetch"
    env = {**clean_env, "KZ_CACHE": cache, "TERM": "xterm", "COLUMNS": "80"}
    done = subprocess.run(["script", "-qec", typed, "/dev/null"], cwd=ROOT, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0 and "━" in done.stdout, done.stdout
    shown = done.stdout.rpartition("\x1b[2K")[2]  # after the line of the bar was cleared for the last time
    assert "━" not in shown and "commit" in shown, done.stdout


def test_one_who_waits_for_another_is_told(project: Path, kz: Kz, clean_env: dict[str, str], tmp_path: Path) -> None:
    env = {"KZ_CACHE": str(tmp_path / "cache")}
    assert kz("-C", project, "lock", "--write", **env).returncode == 0
    clone = next((tmp_path / "cache/git").glob("main-*.git"))
    argv = [sys.executable, "-m", "kz_build", "-C", str(project), "fetch"]
    with lock(tmp_path / "cache", clone.name):
        waiting = subprocess.Popen(
            argv, cwd=ROOT, env={**clean_env, **env}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        assert waiting.stderr
        assert any(f"waiting: another kz uses {clone.name}" in line for line in waiting.stderr), "it ended"
        assert waiting.poll() is None
    said = waiting.communicate(timeout=patient(60))[1]
    assert waiting.returncode == 0, said

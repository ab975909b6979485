"""A project whose every name, subject, tag, key and log line is hostile: no verb shows any of it raw."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import tests.kz
from kz_build.cli.parser import GROUPS
from kz_build.core.escape import escaped
from kz_build.device import adb as adapter
from kz_build.emulator.device import EmulatedDevice, emulated_properties
from tests.conftest import Kz
from tests.formats.ptes import Method, program
from tests.nightly.github_server import TOKEN, GitHub, Thing, commit, make_github
from tests.stack.test_git_tools import sh
from tests.stack.upstreams import Project, project, put, started, text

__all__ = ["make_github"]
SEEN = "\u202egnp\u2066\u200b\u200f\x9b31m\x85\u2028\ufeff"
"""What git allows in the name of a tag: it refuses ASCII's control characters."""
HOSTILE = f"\x01\x1b]0;title\x07\x1b[2J\b\x7f\r{SEEN}\U000e0041"
MARK = "gnp"
OURS, THEIRS = put(text(), 10, f"ours {HOSTILE}"), put(text(), 10, f"theirs {HOSTILE}")
FILE = f"a{HOSTILE}.txt"


@pytest.fixture
def hostile(tmp_path: Path, kz: Kz, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Patches and an upstream of hostile text, and outputs as they are: without CR translated."""
    monkeypatch.setattr(tests.kz, "_text", lambda file: (file.seek(0), file.read().decode())[1])
    upstream = started(tmp_path, ("a.txt", FILE))
    patches = [(f"First {HOSTILE}", {"a.txt": OURS}), (f"Second {HOSTILE}", {FILE: OURS})]
    made = project(tmp_path, kz, upstream, patches)
    upstream.commit(f"Take a {HOSTILE} (#3)", {"a.txt": THEIRS}, tag=f"v2{SEEN}")
    upstream.commit(f"Drop {HOSTILE} (#4)", {FILE: None}, tag="v3")
    upstream.pull(11, {"a.txt": put(THEIRS, 3, HOSTILE)}, subject=f"Pull {HOSTILE}")
    upstream.pull(12, {"new.txt": HOSTILE}, subject=f"New {HOSTILE}")
    return made


def shown(done: object, *words: object) -> str:
    """Both outputs of a command, after a look at every character of them."""
    out, err = done.stdout, done.stderr  # type: ignore[attr-defined]
    for stream in (out, err):
        assert stream == escaped(stream), (words, [row for row in stream.splitlines() if row != escaped(row)])
        assert not stream.count("\r")
    assert "this is a bug of kz" not in err, (words, err)
    if "--json" in words and out:
        json.loads(out)
    return str(out + err)


def both(project: Project, *words: str, **env: str) -> str:
    """Run a verb as people and as programs do."""
    done = shown(project.kz(*words, **env), *words)
    shown(project.kz(*words, "--json", **env), *words, "--json")
    return done


def log_file(folder: Path) -> Path:
    path = folder / f"log{HOSTILE}.txt"
    path.write_bytes(
        f'E ExecuTorch: {HOSTILE} dlopen failed: library "libQnnHtp.so" not found {HOSTILE}\n'.encode()
        + b"\xff\xfe\x9b\n"
    )
    return path


def test_patches_and_upstream(hostile: Project, tmp_path: Path) -> None:
    for words in (
        ("lock",),
        ("fetch",),
        ("apply",),
        ("verify", "--tags", "*", "--onto", "main", "--fetch"),
        ("history", "--why"),
        ("history", "--onto", f"v2{SEEN}"),
        ("radar",),
        ("status", "--fetch"),
        ("health", "--fetch"),
        ("report",),
        ("matrix",),
        ("doctor",),
        ("store", "list"),
        ("store", "verify"),
        ("store", "gc"),
        ("rebase", "--onto", "main"),
        ("rebase", "status"),
        ("rebase", "abort"),
        ("edit", "up"),
        ("refresh", "up"),
        ("edit", "abort", "up"),
        ("import-pr", "12"),
        ("upstream", "2"),
    ):
        both(hostile, *words)
    for words in (("history",), ("radar",), ("status",), ("verify", "--tags", "*")):
        assert MARK in shown(hostile.kz(*words, GITHUB_ACTIONS="true"), *words), words


def test_a_new_project(hostile: Project, tmp_path: Path) -> None:
    new = replace(hostile, root=tmp_path / "new")
    (new.root / "debian/patches").mkdir(parents=True)
    (new.root / "debian/patches/series").write_text(f"{HOSTILE}.patch\n")
    shown(new.kz("init", str(hostile.upstream.folder), f"v2{SEEN}"), "init")


def test_what_files_say(hostile: Project, tmp_path: Path) -> None:
    log, pte, folder = log_file(tmp_path), tmp_path / f"m{HOSTILE}.pte", tmp_path / f"dist{HOSTILE}"
    pte.write_bytes(program([Method(f"forward{HOSTILE}")], {f"key{HOSTILE}": HOSTILE}))
    folder.mkdir()
    (folder / "SHA256SUMS").write_text(f"{'0' * 64}  {HOSTILE}\n")
    for words in (
        ("diagnose", str(log)),
        ("pte", str(pte)),
        ("check-apk", str(pte)),
        ("verify-release", str(folder)),
        ("attest", "--verify", str(folder)),
        ("fetch", "--target", HOSTILE),
        (f"verb{HOSTILE}",),
        ("verify", f"--{HOSTILE}"),
        ("schema",),
        ("schema", "recipes"),
        ("completion", "bash"),
        ("init", str(tmp_path / HOSTILE[3:])),
        ("accept",),
        ("accept", HOSTILE),
        *((verb, "--line", HOSTILE) for verb in ("build", "all", "audit", "package", "reproduce", "wheel", "refresh")),
    ):
        both(hostile, *words)
    (hostile.root / "recipes").mkdir()
    (hostile.root / "recipes" / f"r{HOSTILE}.yaml").write_text(json.dumps({f"key{HOSTILE}": HOSTILE}))
    for words in (("export", "list"), ("export", HOSTILE), ("env", f"r{HOSTILE}")):
        both(hostile, *words)


@pytest.mark.parametrize("name", ["pins.yaml", "pins.local.yaml", "pins.lock", "series", "checks.yaml", "patch"])
def test_what_is_wrong_in_a_file(hostile: Project, name: str) -> None:
    stack = hostile.root / "patches/l/up"
    folder = hostile.root if name.startswith("pins") else stack
    path = next(stack.glob("*.patch")) if name == "patch" else folder / name
    key = json.dumps(f"key{HOSTILE[:-1]}\nkz: exit 0 (done)")  # YAML has no surrogates
    old = path.read_text() if path.exists() else ""
    broken = {
        "series": f"{old}{SEEN.strip()}.patch -x{SEEN}\n",
        "patch": f"{old}--- a/{HOSTILE}\n+++ \x1b\n@@ {HOSTILE}\n",
    }
    if name == "pins.lock":
        broken[name] = old.replace('"up": {', f'{key}: {{"kind": {key}}}, "up": {{"version": {key},')
    path.write_text(broken.get(name, f"{{{key}: {{{key}: {key}}}}}"), encoding="utf-8")
    done = both(hostile, "verify")
    assert MARK in done and "\nkz: exit 0" not in done, done


def test_nightly_and_its_issue(hostile: Project, make_github: Callable[[Path], GitHub]) -> None:
    github = make_github(hostile.root)
    env = {"GITHUB_API_URL": github.url, "GITHUB_SERVER_URL": github.url, "GITHUB_TOKEN": TOKEN, "NO_PROXY": "*"}
    both(hostile, "nightly", **env, GITHUB_REPOSITORY=f"us/ours{SEEN}")
    env["GITHUB_REPOSITORY"] = "us/ours"
    github.refusals["GET", "/repos/us/ours/issues"] = 403, HOSTILE, {}
    assert MARK in both(hostile, "nightly", **env)
    github.refusals.clear()
    github.things.append(Thing(1, HOSTILE, HOSTILE))
    assert MARK in both(hostile, "nightly", "--dry-run", **env)
    both(hostile, "nightly", **env)
    sh("git", "checkout", "-q", "-b", "topic", cwd=hostile.root)
    (hostile.root / "patches/l/up" / HOSTILE.replace("/", "")).write_text("x")
    commit(hostile.root, HOSTILE)
    sh("git", "checkout", "-q", "main", cwd=hostile.root)
    assert MARK in both(hostile, "queue", "topic")
    assert MARK in github.things[1].body and escaped(github.things[1].body) == github.things[1].body


def test_devices(hostile: Project, device: EmulatedDevice, server: adapter.Server) -> None:
    name = HOSTILE.replace("\r", "")
    props = {
        **emulated_properties("SM8750", 4096),
        "ro.serialno": name,
        "ro.product.model": f"EMULATED {name}",
        "ro.soc.model": name,
    }
    device.root.furnish(props)
    env = {"ANDROID_ADB_SERVER_PORT": str(server.port)}
    for words in (("list",), ("info",), ("push", str(hostile.root)), ("check",), ("list", "--serial", HOSTILE)):
        shown(hostile.kz("device", *words, **env), "device", *words)
        shown(hostile.kz("device", *words, "--json", **env), *words, "--json")


def test_every_verb_is_here() -> None:
    """A new verb must be, too."""
    source = Path(__file__).read_text()
    verbs = {verb for group in GROUPS.values() for verb in group}
    assert {verb for verb in verbs if f'"{verb}"' in source} == verbs

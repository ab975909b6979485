"""`kz lock --write` on a network that reaches a part of the sources: the lock changes only where something was learned."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SAMPLE, Kz
from tests.e2e.test_clones import repository
from tests.kz import kz_in_process
from tests.stack.test_git_tools import sh

TREE = "^{tree}"
TARGET = "targets: {t: {platform: linux, abi: arm64, sources: [SOURCE], tools: {cmake: [c], ninja: [n], objcopy: [o]}, cmake: {}, outputs: {}}}\n"


@dataclass
class Place:
    """A project with a stack on `main`, which has libs/inner (and in it third_party/deep) and libs/other."""

    root: Path
    run: Kz
    store: str = "store"

    def lock(self, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
        env = {"KZ_CACHE": str(self.root.parent / self.store), **env}
        done = self.run("-C", self.root, "lock", "--write", *argv, **env)
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    @property
    def text(self) -> str:
        return (self.root / "pins.lock").read_text()

    @property
    def entry(self) -> Any:
        return json.loads(self.text)["lines"]["l"]["main"]

    def up(self, name: str) -> Path:
        return self.root.parent / "up" / name

    def gone(self, *names: str) -> None:
        """Take repositories off the network."""
        for name in names:
            self.up(name).rename(self.up(f"{name}-gone"))

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.root / name).read_text()
        assert old in text
        (self.root / name).write_text(text.replace(old, new))


@pytest.fixture(scope="module")
def saved_place(tmp_path_factory: pytest.TempPathFactory, clean_env: dict[str, str]) -> Path:
    """A copy of a folder in which everything was reached and locked once."""
    saved = tmp_path_factory.mktemp("place")
    here = saved.with_name("here")
    here.mkdir()
    deep = repository(here / "up/deep", {"deep.h": "deep\n"})
    inner = repository(here / "up/inner", {"inner.h": "inner\n"}, {"third_party/deep": deep})
    other = repository(here / "up/other", {"other.h": "other\n"})
    main = repository(here / "up/main", {"a.txt": "one\n", "b.txt": "b\n"}, {"libs/inner": inner, "libs/other": other})  # fmt: skip
    stack = here / "project/patches/l/main"
    stack.mkdir(parents=True)
    (main / "a.txt").write_text("two\n")
    sh("git", "commit", "-q", "-a", "-m", "Say two", cwd=main)
    sh("git", "format-patch", "-q", "--full-index", "-o", stack, "-1", cwd=main)
    sh("git", "reset", "-q", "--hard", "v1", cwd=main)
    (stack / "series").write_text("0001-Say-two.patch\n")
    (here / "project/pins.yaml").write_text(
        "version: 1\ndefault: l\nsources:\n"
        f"  main: {{git: 'file://{main}', submodules: [libs/inner, libs/other]}}\nlines: {{l: {{main: v1}}}}\n"
        + TARGET.replace("SOURCE", "main")
    )
    made = Place(here / "project", kz_in_process(clean_env))
    made.lock()
    subs = made.entry["submodules"]
    assert set(subs) == {"libs/inner", "libs/inner/third_party/deep", "libs/other"}
    assert all(sub["tree"] for sub in subs.values())
    subprocess.run(["cp", "-a", f"{here}/.", saved], check=True)
    return saved


@pytest.fixture
def place(saved_place: Path, kz: Kz) -> Place:
    """Everything reached and locked once; for each test in the same folder, whose addresses are in the lock."""
    here = saved_place.with_name("here")
    shutil.rmtree(here)
    subprocess.run(["cp", "-a", saved_place, here], check=True)
    return Place(here / "project", kz)


# ---- nothing changed, and a part is out of reach ----


ALL = ("main", "inner", "deep", "other")


@pytest.mark.parametrize(
    "at, gone", [("fresh", ("deep",)), ("fresh", ("inner", "deep")), ("store", ("main",)), ("fresh", ALL)], ids=str
)
def test_what_did_not_change_is_kept(place: Place, at: str, gone: tuple[str, ...]) -> None:
    was, place.store = place.text, at
    place.gone(*gone)
    done = place.lock()
    assert place.text == was and "0 changes in pins.lock" in done.stdout, done.stdout
    notes = [row for row in done.stdout.splitlines() if row.startswith("note: ")]
    if gone == ("inner", "deep"):
        commit = place.entry["submodules"]["libs/inner"]["commit"][:10]
        assert notes[0].startswith(f"note: main/libs/inner {commit} from file://{place.up('inner')}: ")
        assert notes[0].endswith("; what pins.lock knows of it is kept") and len(notes) == 1
    elif "main" in gone:
        assert notes[0].startswith(f"note: main v1 from file://{place.up('main')}: ")
        kept = ["its commit is as pins.lock has it"]
        if at == "fresh":
            kept = ["what pins.lock knows of it is kept", "the tree of the result is kept, and not proved"]
        assert [note.rpartition("; ")[2] for note in notes] == kept


def test_a_second_look_from_where_more_is_reached_fills_in_the_rest(place: Place) -> None:
    whole, place.store = place.text, "fresh"
    place.gone("deep")
    (place.root / "pins.lock").unlink()
    assert "its tree and nested submodules are left unknown" in place.lock().stdout
    part = json.loads(place.text)
    assert part["unknown"] == 1
    assert part["lines"]["l"]["main"]["submodules"]["libs/inner/third_party/deep"]["tree"] is None
    place.up("deep-gone").rename(place.up("deep"))
    place.lock()
    assert place.text == whole


# ---- something changed ----


def changed(old: str, new: str) -> set[str]:
    """Which keys of the entry changed, as dotted paths."""
    from kz_build.pins.lock_file import differences

    rows = differences(*(json.loads(text)["lines"]["l"]["main"] for text in (old, new)))
    return {row.partition(": ")[0] for row in rows}


def test_a_changed_patch_changes_its_own_lines_alone(place: Place) -> None:
    was = place.text
    place.gone(*ALL)
    place.edit("patches/l/main/0001-Say-two.patch", "+two", "+three")
    place.lock()
    assert changed(was, place.text) == {"patched.commit", "patched.tree"}


def test_what_another_stack_gave_is_not_kept(place: Place) -> None:
    """The file that the stack now changes was never fetched, and cannot be."""
    was = place.text
    place.gone("main")
    series = place.root / "patches/l/main"
    patch = (series / "0001-Say-two.patch").read_text()
    (series / "0001-Say-two.patch").write_text(patch.replace("a.txt", "b.txt").replace("-one", "-b"))
    done = place.lock()
    assert changed(was, place.text) == {"patched.commit", "patched.tree"} and "patched" not in place.entry
    assert "the stack of main" in done.stdout and "its result is left unknown" in done.stdout
    assert place.run("-C", place.root, "apply", KZ_CACHE=str(place.root.parent / "store")).returncode != 0


def test_a_stack_that_is_gone_leaves_no_tree(place: Place) -> None:
    place.gone(*ALL)
    place.store = "fresh"
    (place.root / "patches/l/main/series").unlink()
    (place.root / "patches/l/main/0001-Say-two.patch").unlink()
    place.lock()
    assert "patched" not in place.entry and place.entry["tree"]


def test_nothing_of_another_commit_is_kept(place: Place) -> None:
    """A new pin, with another libs/inner and the same libs/other, both out of reach."""
    was = place.entry["submodules"]
    inner, main = place.up("inner"), place.up("main")
    (inner / "more.h").write_text("more\n")
    sh("git", "add", "-A", cwd=inner)
    sh("git", "commit", "-q", "-m", "two", cwd=inner)
    link = sh("git", "rev-parse", "HEAD", cwd=inner)
    sh("git", "update-index", "--cacheinfo", f"160000,{link},libs/inner", cwd=main)
    sh("git", "commit", "-q", "-m", "two", cwd=main)
    sh("git", "tag", "v2", cwd=main)
    place.gone("inner", "deep", "other")
    place.store = "fresh"
    place.edit("pins.yaml", "main: v1", "main: v2")
    place.lock()
    now = place.entry["submodules"]
    assert set(now) == {"libs/inner", "libs/other"} and now["libs/other"] == was["libs/other"]
    assert now["libs/inner"] == {**was["libs/inner"], "commit": link, "tree": None}
    assert place.entry["commit"] == sh("git", "rev-parse", "v2", cwd=main)
    assert place.entry["tree"] == sh("git", "rev-parse", f"v2{TREE}", cwd=main)


@pytest.mark.parametrize(
    ("asked", "git", "why"),
    [
        ("ls-remote", "kill -9 $$", "was killed by signal 9"),
        ("fetch", "kill -9 $$", "was killed by signal 9"),
        ("fetch", "echo 'fatal: write error: Input/output error' >&2; exit 128", "main-"),
        ("fetch", "echo 'error: index-pack died of signal 9' >&2; exit 128", "index-pack died of signal 9"),
    ],
)
def test_a_git_that_could_not_ask_is_an_error_and_leaves_nothing_unknown(
    place: Place, tmp_path: Path, asked: str, git: str, why: str
) -> None:
    """Only a server that does not answer does so."""
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\ncase " $* " in *" {asked} "*) {git};; esac\nexec {shutil.which("git")} "$@"\n')
    program.chmod(0o755)
    (place.root / "pins.lock").unlink()
    without = "missing on this machine: 1\n  git\n      it is not on PATH"
    for path, codes, expected in (
        (f"{program.parent}:{os.environ['PATH']}", (5, 6), why),
        (str(tmp_path), (6,), without),
    ):
        done = place.run("-C", place.root, "lock", "--write", PATH=path, KZ_CACHE=str(tmp_path / "empty"))
        assert done.returncode in codes and expected in done.stderr, done.stdout + done.stderr
        assert not (place.root / "pins.lock").exists()


@pytest.mark.parametrize("change", ["another version", "another address"])
def test_nothing_of_another_pin_is_kept(place: Place, change: str) -> None:
    place.gone(*ALL)
    if change == "another version":
        place.edit("pins.yaml", "main: v1", "main: v2")
    else:
        place.edit("pins.yaml", "up/main'", "up/fork'")
    done = place.lock()
    assert "left unknown" in done.stdout
    assert place.entry["commit"] is None and place.entry["tree"] is None and not place.entry["submodules"]
    assert "patched" not in place.entry


def test_a_pin_that_names_the_same_commit_keeps_what_is_known_of_it(place: Place) -> None:
    was, place.store = place.text, "fresh"
    commit = place.entry["commit"]
    place.gone(*ALL)
    place.edit("pins.yaml", "main: v1", f"main: {commit}")
    place.edit("pins.yaml", "up/main'", "up/fork'")
    place.lock()
    assert changed(was, place.text) == {"version", "url"}


# ---- wheels and archives ----

UNREACHABLE = "unreachable://nowhere"
DIGEST = "0" * 64


@pytest.fixture
def files(tmp_path: Path, kz: Kz) -> Place:
    """A wheel with a stack and an archive, locked elsewhere; nothing of them is reached."""
    root = tmp_path / "project"
    stack = root / "patches/l/main"
    stack.mkdir(parents=True)
    patch = "From: a <a@b>\nDate: Thu, 1 Jan 2026 00:00:00 +0000\nSubject: [PATCH] x\n\n---\ndiff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+x\n"
    (stack / "0001-x.patch").write_text(patch)
    (stack / "series").write_text("0001-x.patch\n")
    (root / "pins.yaml").write_text(
        "version: 1\ndefault: l\nsources:\n  main: {wheel: main, tag: '*-none-any'}\n"
        f"  sdk: {{archive: '{UNREACHABLE}/{{version}}.zip'}}\nlines: {{l: {{main: '1', sdk: '2'}}}}\n"
        + TARGET.replace("SOURCE", "main")
    )
    made = Place(root, kz)
    ids = {"commit": "a" * 40, "tree": "b" * 40}
    wheel = {
        "kind": "wheel",
        "version": "1",
        "file": "main-1-py3-none-any.whl",
        "sha256": DIGEST,
        "size": 5,
        "origin": "index",
        **ids,
    }
    sdk = {
        "kind": "archive",
        "version": "2",
        "url": f"{UNREACHABLE}/2.zip",
        "sha256": DIGEST,
        "size": 7,
        "origin": "computed",
    }
    lines = {"l": {"main": {**wheel, "patched": {"commit": "c" * 40, "tree": "d" * 40}}, "sdk": sdk}}
    (root / "pins.lock").write_text(json.dumps({"version": 1, "unknown": 0, "lines": lines}, indent=1, sort_keys=True) + "\n")  # fmt: skip
    return made


def test_a_wheel_and_an_archive_out_of_reach_are_kept(files: Place) -> None:
    was = files.text
    done = files.lock(PIP_INDEX_URL=UNREACHABLE)
    assert files.text == was, done.stdout
    assert f"note: the stack of main: the package index {UNREACHABLE}/main/ does not answer" in done.stdout
    assert done.stdout.count("kept") == 1


def test_a_trusted_archive_out_of_reach_ends_the_command(files: Place) -> None:
    was = files.text
    done = files.run("-C", files.root, "lock", "--write", "--trust", "sdk", PIP_INDEX_URL=UNREACHABLE)
    assert done.returncode == 5 and f"{UNREACHABLE}/2.zip" in done.stderr
    assert files.text == was


def test_another_wheel_or_address_keeps_nothing(files: Place) -> None:
    files.edit("pins.yaml", "'*-none-any'", "'*-linux_x86_64'")
    files.edit("pins.yaml", "/{version}.zip", "/v{version}.zip")
    done = files.lock(PIP_INDEX_URL=UNREACHABLE)
    lock = json.loads(files.text)
    assert lock["lines"]["l"]["main"] == {"kind": "wheel", "version": "1", "sha256": None, "size": None}
    assert lock["lines"]["l"]["sdk"] == {"kind": "archive", "version": "2", "url": f"{UNREACHABLE}/v2.zip", "sha256": None, "size": None}  # fmt: skip
    assert done.stdout.count("; left unknown") == done.stdout.count("its digest is left unknown") == 1


def test_an_annotated_tag_of_a_bundle_is_locked_by_its_commit(kz: Kz, tmp_path: Path) -> None:
    """`git ls-remote` of a bundle says of such a tag its own object alone."""
    assert kz("-C", tmp_path, "init", SAMPLE / "upstream.bundle", "v0.3.0").returncode == 0
    done = kz("-C", tmp_path, "lock", "--write")
    assert done.returncode == 0, done.stderr
    (entry,) = json.loads((tmp_path / "pins.lock").read_text())["lines"]["upstream-0.3"].values()
    assert entry["commit"] == entry["patched"]["commit"] == "f4b83123b9d1530d12085189a558693d95bfcde6"

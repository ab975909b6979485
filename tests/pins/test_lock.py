"""What pins.lock may hold: every fault at once, with its line and key, before anything of it is used."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kz_build.core.errors import ConfigError, LockError
from kz_build.pins.load import load_project
from kz_build.pins.lock_file import Lock, parse_lock
from tests.conftest import ROOT, SAMPLE

A, B = "a" * 40, "b" * 64
SUBMODULE = {"url": "https://h/deep", "commit": A, "tree": None}
GOOD: dict[str, Any] = {
    "git": {"kind": "git", "version": "v1", "commit": A, "tree": A, "url": "https://h/up", "submodules": {"libs/deep": SUBMODULE}, "patched": {"commit": A, "tree": A}},
    "wheel": {"kind": "wheel", "version": "1.0+cpu", "file": "x-1.0+cpu-py3-none-any.whl", "sha256": B, "size": 1, "licence": None, "origin": "published", "sources": 2},
    "archive": {"kind": "archive", "version": "r28c", "url": "https://h/r28c.zip", "sha256": None, "size": None},
    "image": {"kind": "image", "version": "bookworm", "digest": f"sha256:{B}", "origin": "index"},
}  # fmt: skip


def written(entries: dict[str, Any]) -> str:
    """A lock with these sources on line `l`, as kz writes it."""
    return Lock({"l": entries}).text()


def said(text: str) -> list[str]:
    """What is said of a lock, line by line."""
    with pytest.raises(LockError) as error:
        parse_lock(text.encode(), "pins.lock")
    assert error.value.exit_code == 3 and "remove it" in error.value.hint
    return str(error.value).splitlines()


def test_what_kz_writes_is_read() -> None:
    text = written(GOOD)
    assert parse_lock(text.encode(), "pins.lock").text() == text
    for root in (ROOT, SAMPLE):
        shipped = (root / "pins.lock").read_text()
        assert parse_lock(shipped.encode(), "pins.lock").text() == shipped


HEX40 = "must be 40 or 64 hexadecimal digits in lower case"
HEX64 = "must be 64 hexadecimal digits in lower case"
INJECTED = "--upload-pack=touch ./pwned;x"
# (kind, key path below the entry, value, what is said of it)
FAULTS: list[tuple[str, tuple[str, ...], Any, str]] = [
    ("git", ("commit",), INJECTED, f"{HEX40} (it is '{INJECTED}')"),
    ("git", ("commit",), A[:-1], HEX40),
    ("git", ("commit",), f"{A}\n", HEX40),
    ("git", ("commit",), A.upper(), HEX40),
    ("git", ("commit",), 5, "must be text (it is 5)"),
    ("git", ("commit",), ["--x"], "must be text (it is a list)"),
    ("git", ("tree",), "HEAD", HEX40),
    ("git", ("url",), "ext::sh -c touch% pwned", "`NAME::` names a program for git to run"),
    ("git", ("url",), "-oProxyCommand=x", "must not begin with `-`"),
    ("git", ("url",), "https://h/\x1b[2J", r"must not have control characters (it is 'https://h/\x1b[2J')"),
    ("git", ("url",), "https://[h/x", "is no address: Invalid IPv6 URL"),
    ("git", ("version",), "--output=x", "must not begin with `-`"),
    ("git", ("version",), "a..b", "must not have"),
    ("git", ("version",), 1.2, "must be text (it is 1.2)"),
    ("git", ("version",), "", "must not be empty"),
    ("git", ("kind",), "svn", "must be one of: git, wheel, archive, image"),
    ("git", ("kind",), ["git"], "must be one of: git, wheel, archive, image"),
    ("git", ("patched",), None, "must be a mapping (it is null)"),
    ("git", ("patched", "tree"), None, "must be text (it is null)"),
    ("git", ("patched", "commit"), "--x", HEX40),
    ("git", ("submodules",), [], "must be a mapping (it is a list)"),
    ("git", ("submodules", "libs/deep"), "x", "must be a mapping (it is 'x')"),
    ("git", ("submodules", "libs/deep", "commit"), INJECTED, HEX40),
    ("git", ("submodules", "libs/deep", "commit"), None, "must be text (it is null)"),
    ("git", ("submodules", "libs/deep", "url"), "fd::17", "`NAME::` names a program for git to run"),
    ("git", ("submodules", "../deep"), SUBMODULE, "as a key, it climbs out of its folder"),
    ("git", ("submodules", "/etc"), SUBMODULE, "as a key, it is not a relative path"),
    ("git", ("submodules", "libs/.git"), SUBMODULE, "as a key, it reaches into .git"),
    ("git", ("submodules", "-x"), SUBMODULE, "as a key, it must not begin with `-`"),
    ("git", ("comit",), A, "unknown key"),
    ("wheel", ("sha256",), "../../../etc/passwd", HEX64),
    ("wheel", ("sha256",), A, HEX64),
    ("wheel", ("size",), "1", "must be a whole number, 0 or more (it is '1')"),
    ("wheel", ("file",), "../x.whl", "must be a file name without a folder"),
    ("wheel", ("file",), "..", "must be a file name without a folder"),
    ("wheel", ("file",), "", "must not be empty"),
    ("wheel", ("file",), "-r.whl", "must not begin with `-`"),
    ("wheel", ("file",), "a\x00b", "must not have control characters"),
    ("wheel", ("file",), None, "must be text (it is null)"),
    ("wheel", ("licence",), "x", HEX64),
    ("wheel", ("index",), "--x", "must not begin with `-`"),
    ("archive", ("url",), "https://h/a b", "must not have spaces"),
    ("archive", ("url",), {}, "must be text (it is a mapping)"),
    ("image", ("digest",), "latest", "must be `sha256:` and 64 hexadecimal digits"),
    ("image", ("digest",), "sha256:../x", HEX64),
]  # fmt: skip


@pytest.mark.parametrize("kind, keys, value, wrong", FAULTS, ids=[f"{f[0]}.{'.'.join(f[1])}={f[2]!r}" for f in FAULTS])
def test_a_fault_is_named_with_its_line_and_key(kind: str, keys: tuple[str, ...], value: Any, wrong: str) -> None:
    lock = json.loads(written(GOOD))
    entry = lock["lines"]["l"][kind]
    for key in keys[:-1]:
        entry = entry[key]
    entry[keys[-1]] = value
    text = json.dumps(lock, indent=1)
    first, *rest = said(text)
    assert first == "pins.lock is wrong:" and len(rest) == 1, rest
    # Each level of keys stands one column further to the right.
    rows, line = text.splitlines(), 0
    for column, key in enumerate(("l", kind, *keys), 2):
        line = next(i for i in range(line, len(rows)) if rows[i].startswith(f"{' ' * column}{json.dumps(key)}:"))
    assert rest[0].startswith(f"  pins.lock:{line + 1}: lines.l.{kind}.{'.'.join(keys)}: "), rest
    assert wrong in rest[0] and rest[0].isprintable()


DAMAGED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "no commit": (lambda e: e["git"].pop("commit"), "lines.l.git: `commit` is missing"),
    "no submodules": (lambda e: e["git"].pop("submodules"), "lines.l.git: `submodules` is missing"),
    "no tree of a commit": (lambda e: e["git"].update(tree=None), "lines.l.git: `tree` must be known where `commit` is"),
    "no file of a digest": (lambda e: e["wheel"].pop("file"), "lines.l.wheel: `file` must be known where `sha256` is"),
    "no mapping": (lambda e: e.update(git=[1]), "lines.l.git: must be a mapping (it is a list)"),
    "null": (lambda e: e.update(git=None), "lines.l.git: must be a mapping (it is null)"),
    "an odd name": (lambda e: e.update({"\x1b[2J": e["git"]}), r"lines.l.\u001b[2J: as a key, it must be letters"),
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGED)
def test_an_entry_that_is_not_whole(case: str) -> None:
    damage, wrong = DAMAGED[case]
    lock = json.loads(written(GOOD))
    damage(lock["lines"]["l"])
    (row,) = said(json.dumps(lock, indent=1))[1:]
    assert wrong in row and row.startswith("  pins.lock:") and row.isprintable(), row


def test_all_faults_come_at_once_in_the_order_of_the_file() -> None:
    lock = json.loads(written(GOOD))
    for entry in lock["lines"]["l"].values():
        entry["version"] = "-x"
    lock["lines"]["m"] = "x"
    text = json.dumps(lock, indent=1).replace('"size": 1', '"size": 1,\n    "size": 1')
    rows = said(text)[1:]
    lines = [int(row.split(":")[1]) for row in rows]
    assert len(rows) == 6 and lines == sorted(lines), rows
    assert any(row.endswith("lines.l.wheel.size: appears here a second time") for row in rows)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"version": 1}', '{"version": 1, "lines": []}', '{"version": 1, "lines": {"l": 3}}',
     '{"version": 1, "lines": {"l": {"s": NaN}}}', "[" * 100000, '{"a":' * 100000, "1" * 5000],
    ids=range(11),
)  # fmt: skip
def test_what_is_no_lock_at_all(text: str) -> None:
    assert said(text)


def test_a_lock_that_git_could_not_merge() -> None:
    with pytest.raises(LockError, match="conflict markers") as error:
        parse_lock(b'{\n<<<<<<< HEAD\n "version": 1,\n=======\n "version": 1\n>>>>>>> topic\n}\n', "pins.lock")
    assert "git checkout --ours pins.lock, and kz lock --write" in error.value.hint


def test_a_lock_that_is_no_text() -> None:
    with pytest.raises(LockError, match="not JSON"):
        parse_lock(b"\xff\xfe{", "pins.lock")


PINS = {
    "git: upstream.bundle": ("git: 'ext::sh -c touch% pwned'", "`NAME::` names a program for git to run"),
    "minirt: v0.1.0": ("minirt: '--upload-pack=x'", "must not begin with `-`"),
    "ninja: 1.13.0": ("ninja: 'a b'", "must not have spaces"),
    "wheel: ninja,": ("wheel: ninja, index: '--x',", "must not begin with `-`"),
}


@pytest.mark.parametrize("old", PINS)
def test_pins_are_held_to_the_same_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str) -> None:
    monkeypatch.setenv("KZ_CACHE", str(tmp_path / "cache"))
    new, wrong = PINS[old]
    text = (SAMPLE / "pins.yaml").read_text()
    assert old in text
    (tmp_path / "pins.yaml").write_text(text.replace(old, new, 1))
    with pytest.raises(ConfigError, match="the pins are wrong") as error:
        load_project(tmp_path)
    (problem,) = error.value.problems
    assert wrong in problem.text and problem.line == 1 + text[: text.index(old)].count("\n"), problem


def test_overrides_of_submodules_are_held_to_the_same_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KZ_CACHE", str(tmp_path / "cache"))
    (tmp_path / "pins.yaml").write_text((SAMPLE / "pins.yaml").read_text())
    local = f"sources: {{minirt/libs/x: {{git: 'ext::x', commit: '{INJECTED}'}}}}\n"
    (tmp_path / "pins.local.yaml").write_text(local)
    with pytest.raises(ConfigError) as error:
        load_project(tmp_path)
    texts = sorted(str(problem) for problem in error.value.problems)
    assert [text.split(":")[0] for text in texts] == ["pins.local.yaml"] * 2
    assert "commit: must be 40 or 64" in texts[0] and "git: must be a URL or a path" in texts[1], texts


def test_a_source_that_became_another_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KZ_CACHE", str(tmp_path / "cache"))
    (tmp_path / "pins.yaml").write_text((SAMPLE / "pins.yaml").read_text())
    lock = json.loads((SAMPLE / "pins.lock").read_text())
    lock["lines"]["sample-0.1"]["minirt"] = {
        "kind": "archive",
        "version": "v0.1.0",
        "url": "x",
        "sha256": B,
        "size": 1,
        "origin": "computed",
    }
    (tmp_path / "pins.lock").write_text(json.dumps(lock))
    with pytest.raises(LockError, match="has minirt as archive, pins.yaml as git"):
        load_project(tmp_path).locked("sample-0.1", "minirt")


def test_a_key_that_stands_twice_is_a_fault_by_itself() -> None:
    text = written(GOOD).replace('"size": 1', '"size": 2,\n    "size": 1')
    line = text.splitlines().index('    "size": 1,') + 1
    assert said(text)[1:] == [f"  pins.lock:{line}: lines.l.wheel.size: appears here a second time"]


def test_what_is_said_of_a_wrong_lock_helps() -> None:
    with pytest.raises(LockError) as caught:
        parse_lock(written({"up": {**GOOD["git"], "kind": "svn"}}).encode(), "pins.lock")
    assert str(caught.value).endswith("lines.l.up.kind: must be one of: git, wheel, archive, image (it is 'svn')")
    assert (
        caught.value.hint
        == "nothing of it was used: restore it from version control, or remove it and make a new one: kz lock --write"
    )

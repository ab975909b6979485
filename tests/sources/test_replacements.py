"""Parts of one's own: each kind of source in each form that pins.local.yaml takes, with and without a lock that knows it.

What pins.yaml names is nowhere to be had: only the replacement can give the bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
import tracemalloc
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from kz_build.build.build import sources_facts
from kz_build.core import hash_cache
from kz_build.core.errors import ConfigError, KzError, MissingError
from kz_build.core.stage_record import StageRecord, load
from kz_build.git import repository as git
from kz_build.pins.load import load_project
from kz_build.pins.project import Project
from kz_build.release.components import components
from kz_build.release.sbom import Licensed, problem, sbom
from kz_build.release.statement import provenance_statement
from kz_build.sources import folder_tree
from kz_build.sources.clones import import_folder
from kz_build.sources.fetch import fetch
from kz_build.sources.fetched import Fetched
from kz_build.sources.overrides import overrides
from kz_build.sources.request import Request
from kz_build.sources.store_admin import entries
from tests.e2e.test_clones import repository
from tests.stack.test_git_tools import sh

NOBODY = "http://127.0.0.1:1"
PINS = f"""\
version: 1
default: l
sources:
  main: {{git: "file:///nowhere/main", submodules: [libs/inner], exclude: ["*.gif"]}}
  pkg: {{wheel: pkg, index: "{NOBODY}/simple", tag: py3-none-any}}
  tool: {{archive: "{NOBODY}/tool-{{version}}.zip", root: "tool-{{version}}"}}
  sdk: {{archive: "{NOBODY}/sdk-{{version}}.zip", installed: {{env: [KZ_TEST_SDK], identity: source.properties}}}}
  base: {{image: debian}}
lines: {{l: {{main: v1, pkg: '1.0', tool: '1.0', sdk: r1, base: tag}}}}
targets: {{}}
"""
NOTE = "overridden in pins.local.yaml"


def zipped(path: Path, files: Mapping[str, str]) -> str:
    """Write a zip; return its sha256."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    path.write_bytes(data.getvalue())
    return hashlib.sha256(data.getvalue()).hexdigest()


class Parts(NamedTuple):
    """What a user has, and what stands for each part of it in the rows below."""

    folder: Path
    names: Mapping[str, str]
    lock: Mapping[str, object]


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Parts:
    """Small upstreams, copies of them, other versions of each, and the lock of the right ones."""
    top = tmp_path_factory.mktemp("own parts")
    deep = repository(top / "up/deep", {"deep.h": "deep\n"})
    inner = repository(top / "up/inner", {"part": "pinned\n"}, {"deep": deep})
    main = repository(top / "up/main", {"part": "pinned\n", "big.gif": "gif"}, {"libs/inner": inner})
    pinned = {path.name: sh("git", "rev-parse", "v1", cwd=path) for path in (deep, inner, main)}
    trees = {path.name: sh("git", "rev-parse", "v1^{tree}", cwd=path) for path in (deep, inner, main)}
    names = {"top": str(top)}
    for path in (inner, main):
        (path / "part").write_text("other\n")
        sh("git", "commit", "-q", "-am", "two", cwd=path)
        names |= {path.name: str(path), f"{path.name}_commit": pinned[path.name]}
        names[f"{path.name}_tree"] = trees[path.name]
        names[f"{path.name}_other"] = sh("git", "rev-parse", "HEAD", cwd=path)
    (top / "folder").mkdir()
    for name in ("part", "big.gif"):
        (top / "folder" / name).write_text("folder\n")
    with tarfile.open(top / "sources.tar.gz", "w:gz") as tar:
        tar.add(top / "folder", "project-1.0")
    sh("git", "bundle", "create", "-q", str(top / "up/inner.bundle"), "v1", cwd=inner)
    package = {"part": "pinned\n", "pkg-1.0.dist-info/METADATA": "Name: pkg\n"}
    names["pkg_sha"] = zipped(top / "simple/pkg/pkg-1.0-py3-none-any.whl", package)
    shutil.copytree(top / "simple/pkg", top / "wheels")
    names["pkg_other"] = zipped(top / "other/pkg-1.0-py3-none-any.whl", {**package, "part": "other\n"})
    names["tool_sha"] = zipped(top / "downloads/tool-1.0.zip", {"tool-1.0/part": "pinned\n"})
    names["tool_other"] = zipped(top / "other/tool-1.0.zip", {"tool-1.0/part": "other\n"})
    for revision in ("r1", "r2"):
        (top / f"sdk-{revision}").mkdir()
        (top / f"sdk-{revision}/source.properties").write_text(f"Pkg.Revision = {revision}\n")
        (top / f"sdk-{revision}/part").write_text(f"sdk {revision}\n")
    submodule = {"url": "file:///nowhere/inner", "commit": pinned["inner"], "tree": trees["inner"]}
    nested = {"url": "file:///nowhere/deep", "commit": pinned["deep"], "tree": trees["deep"]}
    lock = {
        "main": {"kind": "git", "version": "v1", "url": "file:///nowhere/main", "commit": pinned["main"], "tree": trees["main"],
                 "submodules": {"libs/inner": submodule, "libs/inner/deep": nested}},
        "pkg": {"kind": "wheel", "version": "1.0", "file": "pkg-1.0-py3-none-any.whl", "sha256": names["pkg_sha"], "size": None,
                "index": f"{NOBODY}/simple", "origin": "computed"},
        "tool": {"kind": "archive", "version": "1.0", "url": f"{NOBODY}/tool-1.0.zip", "sha256": names["tool_sha"], "size": None,
                 "origin": "computed"},
        "sdk": {"kind": "archive", "version": "r1", "url": f"{NOBODY}/sdk-r1.zip", "sha256": "0" * 64, "size": None, "origin": "computed"},
    }  # fmt: skip
    return Parts(top, names, lock)


def without_facts(entry: Mapping[str, object]) -> dict[str, object]:
    """An entry of a lock that was written where nothing could be reached."""
    empty: dict[str, object] = {"commit": None, "tree": None, "submodules": {}, "sha256": None}
    left = {key: empty.get(key, value) for key, value in entry.items()}
    return {key: value for key, value in left.items() if key != "origin" and not (key == "file" and "sha256" in entry)}


@pytest.fixture(scope="module")
def clones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The clones of all tests here, each named after its address: what the same address gives is fetched once."""
    return tmp_path_factory.mktemp("clones")


@pytest.fixture
def project(parts: Parts, clones: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KZ_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/git").symlink_to(clones)
    monkeypatch.setenv("HOME", str(parts.folder))
    monkeypatch.delenv("KZ_TEST_SDK", raising=False)
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pins.yaml").write_text(PINS)
    return folder


def locked(project: Path, parts: Parts, known: str) -> None:
    lock = {name: entry if known == "known" else without_facts(entry) for name, entry in parts.lock.items()}  # type: ignore[arg-type]
    if known != "absent":
        (project / "pins.lock").write_text(json.dumps({"version": 1, "lines": {"l": lock}}))


def local(project: Path, parts: Parts, sources: str) -> Project:
    """Write pins.local.yaml, with the parts' names in it, and load the project."""
    for name, value in {**parts.names, "relative": os.path.relpath(parts.folder, project)}.items():
        sources = sources.replace(f"<{name}>", value)
    (project / "pins.local.yaml").write_text(f"sources:\n  {sources}\n")
    return load_project(project)


def fetched(project: Project, name: str, *, allow: tuple[str, ...] = ()) -> Fetched:
    return fetch(project, Request("l", (name,), allow))[0]


def text(source: Fetched, path: str = "") -> str:
    """The content of the file `part` of a source, or of its submodule."""
    if source.folder and not source.trees:
        return (source.folder / "part").read_text()
    at = next(at for at in source.trees if at.path == path)
    return git.Repository(at.repository).git("cat-file", "blob", f"{at.tree}:part").decode()


MIRROR = "main: {git: <main>}\n  "
ROWS = [
    # source, replacement, its content, and whether the note names it where the lock knows the pin, and where it does not
    ("main", "main: {git: <main>}", "pinned", False, True),
    ("main", "main: {git: 'file://<main>'}", "pinned", False, True),
    ("main", "main: {git: <relative>/up/main}", "pinned", False, True),
    ("main", "main: {git: ~/up/main}", "pinned", False, True),
    ("main", "main: {git: <main>, commit: <main_commit>}", "pinned", False, True),
    ("main", "main: {git: <main>, commit: <main_other>}", "other", True, True),
    ("main", "main: {folder: <top>/folder}\n  main/libs/inner: {folder: ~/folder}\n  main/libs/inner/deep: {folder: ~/folder}", "folder", True, True),
    ("main", "main: {file: ~/sources.tar.gz}\n  main/libs/inner: {folder: ~/folder}\n  main/libs/inner/deep: {folder: ~/folder}", "folder", True, True),
    ("main/libs/inner", MIRROR + "main/libs/inner: {git: <inner>}", "pinned", False, False),
    ("main/libs/inner", MIRROR + "main/libs/inner: {git: <top>/up/inner.bundle}", "pinned", False, False),
    ("main/libs/inner", MIRROR + "main/libs/inner: {git: 'file://<inner>', commit: <inner_commit>}", "pinned", False, True),
    ("main/libs/inner", MIRROR + "main/libs/inner: {git: <inner>, commit: <inner_other>}", "other", True, True),
    ("main/libs/inner", MIRROR + "main/libs/inner: {folder: <top>/folder}\n  main/libs/inner/deep: {folder: ~/folder}", "folder", True, True),
    ("main/libs/inner", MIRROR + "main/libs/inner: {file: ~/sources.tar.gz}\n  main/libs/inner/deep: {folder: ~/folder}", "folder", True, True),
    ("pkg", "pkg: {file: ~/simple/pkg/pkg-1.0-py3-none-any.whl}", "pinned", False, True),
    ("pkg", "pkg: {file: 'file://<top>/wheels/pkg-{version}-py3-none-any.whl'}", "pinned", False, True),
    ("pkg", "pkg: {file: <top>/other/pkg-1.0-py3-none-any.whl, sha256: <pkg_other>}", "other", True, True),
    ("pkg", "pkg: {folder: <top>/wheels}", "pinned", True, True),
    ("pkg", "pkg: {folder: ~/folder}", "folder", True, True),
    ("pkg", "pkg: {index: <top>/simple}", "pinned", False, True),
    ("pkg", "pkg: {index: 'file://<top>/simple'}", "pinned", False, True),
    ("pkg", "pkg: {index: ~/wheels}", "pinned", False, True),
    ("pkg", "pkg: {index: ~/other, sha256: <pkg_other>}", "other", True, True),
    ("pkg", "pkg: {git: <inner>, commit: <inner_other>}", "other", True, True),
    ("tool", "tool: {file: '~/downloads/tool-{version}.zip'}", "pinned", False, True),
    ("tool", "tool: {file: 'file://<top>/downloads/tool-1.0.zip'}", "pinned", False, True),
    ("tool", "tool: {file: <top>/other/tool-1.0.zip, sha256: <tool_other>}", "other", True, True),
    ("tool", "tool: {folder: ~/downloads}", "pinned", True, True),
    ("tool", "tool: {folder: ~/folder}", "folder", True, True),
    ("tool", "tool: {git: <inner>, commit: <inner_other>}", "other", True, True),
    ("sdk", "sdk: {folder: ~/sdk-r1}", "sdk r1", False, False),
    ("sdk", "sdk: {folder: '~/sdk-{version}'}", "sdk r1", False, False),
]  # fmt: skip


FIRST = {row[0]: row for row in reversed(ROWS)}.values()
"""The first row of each source. Where there is no lock, its entries are read as those of a lock that knows nothing."""


@pytest.mark.parametrize(
    ("row", "lock"),
    [(row, lock) for lock, rows in (("known", ROWS), ("null", ROWS), ("absent", FIRST)) for row in rows],
    ids=lambda value: (
        value if isinstance(value, str) else value[1].replace("\n  ", "; ").replace("<top>/", "").replace("/", "|")
    ),
)
def test_each_form_gives_its_bytes_and_the_note_names_what_the_lock_does_not_prove(
    parts: Parts, project: Path, row: tuple[str, str, str, bool, bool], lock: str
) -> None:
    name, replacement, content, known, unknown = row
    locked(project, parts, lock)
    loaded = local(project, parts, replacement)
    source, _, path = name.partition("/")
    result = fetched(loaded, source)
    assert text(result, path) == f"{content}\n"
    noted = known if lock == "known" else unknown
    at = next((at for at in result.trees if at.path == path), result)
    assert at.note == (NOTE if noted else ""), result
    assert any(o.where.startswith(f"sources.{name}.") for o in overrides(loaded, "l")) == (
        noted or name == "sdk" and lock != "known"
    )


WRONG = {
    # replacement: exit code, and what the message says
    "tool: {folder: /not/there}": (2, "sources.tool: the folder /not/there is not there"),
    "tool: {folder: 'https://h/x'}": (2, "the folder https://h/x is no path of this machine"),
    "tool: {folder: <top>/sources.tar.gz}": (2, "is a file: write `file`, not `folder`"),
    "tool: {folder: <top>/wheels, sha256: <tool_sha>}": (2, "`sha256` is of a `file`, or of a wheel of an `index`"),
    "tool: {file: nowhere.zip}": (2, "project/nowhere.zip is not there"),
    "tool: {file: ~/downloads}": (2, "is a folder: write `folder`, not `file`"),
    "tool: {file: ''}": (2, "needs one of: folder, file, git, index"),
    "tool: {file: -x}": (2, "must not begin with `-`"),
    "tool: {file: x, folder: y}": (2, "needs one of: folder, file, git, index"),
    "tool: {file: <top>/downloads/tool-1.0.zip, sha256: AB}": (2, "must be 64 hexadecimal digits"),
    "tool: {file: <top>/downloads/tool-1.0.zip, sha: AB}": (2, "pins.local.yaml:2: sources.tool.sha: unknown key"),
    "tool: {file: <top>/other/tool-1.0.zip}": (3, "other/tool-1.0.zip has sha256 <tool_other>, pins.lock says <tool_sha>"),
    "tool: {file: <top>/downloads/tool-1.0.zip, sha256: <tool_other>}": (3, "has sha256 <tool_sha>, pins.local.yaml says <tool_other>"),
    "tool: {file: 'http://u:secret@127.0.0.1:1/x.zip'}": (6, "http://127.0.0.1:1/ (Connection refused)"),
    "tool: {git: <inner>}": (2, "tool from git needs `commit` too"),
    "tool: {index: <top>/simple}": (2, "an index is for wheels, and this is of kind archive"),
    "tool: {wheel: tool}": (2, "pins.local.yaml:2: sources.tool.wheel: pins.yaml has tool as another kind"),
    "tool/x: {folder: <top>/folder}": (2, "there is no git source 'tool', so no submodule of it"),
    "base: {folder: <top>/folder}": (2, "an image has no place in pins.local.yaml: BASE_IMAGE=NAME"),
    "tol: {folder: <top>/folder}": (2, "a source needs one of: git, wheel, archive, image"),
    "pkg: {folder: <top>/other, index: x}": (2, "needs one of: folder, file, git, index"),
    "pkg: {index: <top>/nothing}": (2, "the index <top>/nothing is not there"),
    "pkg: {index: <top>/folder}": (2, "pkg has no wheel of version 1.0"),
    "pkg: {index: 'http://127.0.0.1:1/x'}": (6, "http://127.0.0.1:1/ (Connection refused)"),
    "main: {git: -x}": (2, "must not begin with `-`"),
    "main: {git: 'ext::sh -c x'}": (2, "`NAME::` names a program for git to run"),
    "main: {git: <top>/nowhere.git}": (2, "the git <top>/nowhere.git is not there"),
    "main: {git: <top>/folder}": (2, "<top>/folder has no commit <main_commit>, which is wanted of main"),
    "main: {git: <inner>}": (2, "<inner> has no commit <main_commit>, which is wanted of main"),
    "main: {git: <main>, commit: <inner_other>}": (2, "<main> has no commit <inner_other>, which is wanted of main"),
    "main: {git: <main>, commit: <main_tree>}": (2, "<main_tree> is the id of a tree, not of a commit"),
    MIRROR + "main/libs/inner: {git: <inner>, commit: <inner_tree>}": (2, "<inner_tree> is the id of a tree, not of a commit"),
    "main: {commit: <main_other>}": (2, "needs one of: folder, file, git, index"),
    "main: {folder: <main>/.git}": (2, "is a git repository without files: write `git`, not `folder`"),
    "main: {index: <top>/simple}": (2, "an index is for wheels, and this is of kind git"),
    "main/libs/inr: {folder: <top>/folder}": (2, "main takes no submodule libs/inr"),
    "main/libs/inner: {index: <top>/simple}": (2, "an index is for wheels, and this is a submodule"),
    "main/libs/inner/../x: {folder: <top>/folder}": (2, "climbs out of its folder"),
    MIRROR + "main/libs/inner/none: {folder: <top>/folder}": (2, "this version of main has no submodule there"),
    MIRROR + "main/libs/inner: {git: <main>}": (2, "<main> has no commit <inner_commit>, which is wanted of main/libs/inner"),
    "sdk: {folder: ~/sdk-r2}": (3, "--allow-unpinned sdk"),
    "sdk: {folder: ~/folder}": (3, "has no source.properties that says which version it is"),
}  # fmt: skip


@pytest.mark.parametrize("replacement", WRONG, ids=lambda text: text.replace("/", "|"))
def test_what_cannot_be_says_so_in_a_sentence(parts: Parts, project: Path, replacement: str) -> None:
    locked(project, parts, "known")
    code, said = WRONG[replacement]
    for name, value in parts.names.items():
        said = said.replace(f"<{name}>", value)
    name = replacement.removeprefix(MIRROR).partition(":")[0].partition("/")[0]
    with pytest.raises(KzError) as raised:
        fetched(local(project, parts, replacement), name)
    text = " ".join(f"{raised.value} {raised.value.hint}".split())
    assert raised.value.exit_code == code and said in text and "secret" not in text, text
    assert "kz lock" not in text, "a lock knows nothing of pins.local.yaml"


def test_another_file_than_the_pinned_one_comes_with_the_line_that_accepts_it(parts: Parts, project: Path) -> None:
    locked(project, parts, "known")
    loaded = local(project, parts, "tool: {file: ~/other/tool-1.0.zip}\n  pkg: {folder: ~/other}")
    with pytest.raises(MissingError) as raised:
        fetch(loaded, Request("l", ("tool", "pkg")))
    ways = [item.remedy.splitlines()[1] for item in raised.value.missing]
    wheel = f"{parts.folder}/other/pkg-1.0-py3-none-any.whl"
    assert ways == [
        f"pins.local.yaml: sources: {{tool: {{file: ~/other/tool-1.0.zip, sha256: {parts.names['tool_other']}}}}}, if you mean this one",
        f"pins.local.yaml: sources: {{pkg: {{file: {wheel}, sha256: {parts.names['pkg_other']}}}}}, if you mean this one",
    ]


def test_the_id_of_an_annotated_tag_means_its_commit(parts: Parts, project: Path, tmp_path: Path) -> None:
    """A bundle says of such a tag its own object alone."""
    locked(project, parts, "known")
    tags = {}
    for name in ("main", "inner"):
        up, bundle = parts.folder / "up" / name, tmp_path / f"{name}.bundle"
        sh("git", "tag", "-f", "-a", "-m", "noted", "noted", parts.names[f"{name}_other"], cwd=up)
        sh("git", "bundle", "create", "-q", str(bundle), "noted", cwd=up)
        tags[name] = sh("git", "rev-parse", "noted", cwd=up)
        sh("git", "tag", "-d", "noted", cwd=up)
    deep = "main/libs/inner/deep: {folder: ~/folder}"
    inner = f"main/libs/inner: {{git: {tmp_path}/inner.bundle, commit: {tags['inner']}}}\n  {deep}"
    for commit in (f"commit: {tags['main']}", ""):
        sources = f"main: {{git: {tmp_path}/main.bundle, {commit}}}\n  {inner}"
        if not commit:
            sources += "\nlines: {l: {main: noted}}"
        trees = {at.path: at.commit for at in fetched(local(project, parts, sources), "main").trees}
        assert (trees[""], trees["libs/inner"]) == (parts.names["main_other"], parts.names["inner_other"])


def test_a_folder_with_another_version_of_the_file_is_no_content(parts: Parts, project: Path) -> None:
    locked(project, parts, "null")
    (project / "old").mkdir()
    (project / "old/tool-0.9.zip").write_bytes(b"")
    (project / "old/pkg-0.9-py3-none-any.whl").write_bytes(b"")
    for name, wanted in (
        ("tool", "tool-1.0.zip; it has tool-0.9.zip"),
        ("pkg", "wheel of pkg 1.0 for py3-none-any; it has pkg-0.9"),
    ):
        with pytest.raises(KzError, match=wanted):
            fetched(local(project, parts, f"{name}: {{folder: old}}"), name)


def test_an_installed_sdk_of_another_version_is_accepted_by_name_and_noted(parts: Parts, project: Path) -> None:
    locked(project, parts, "null")
    loaded = local(project, parts, "sdk: {folder: ~/sdk-r2}")
    sdk = fetched(loaded, "sdk", allow=("sdk",))
    assert (
        sdk.folder == parts.folder / "sdk-r2"
        and sdk.unpinned
        and sdk.note == "not the pinned version: it says it is r2; the pin is r1"
    )


def test_an_installed_sdk_is_what_its_files_are_and_what_did_not_change_is_not_read_again(
    parts: Parts, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two folders that state one version shared a build: their key was that version."""
    locked(project, parts, "null")
    monkeypatch.setattr(hash_cache, "SETTLED_SECONDS", -1)
    sdk, outside = tmp_path / "sdk", tmp_path / "libc.so"
    shutil.copytree(parts.folder / "sdk-r1", sdk)
    outside.write_text("one")
    (sdk / "libc.so").symlink_to(outside)
    loaded = local(project, parts, f"sdk: {{folder: {sdk}}}")

    def key() -> object:
        return fetched(loaded, "sdk").key()

    def swap(file: Path, other: str) -> None:
        then = file.stat().st_mtime_ns
        file.write_text(other)
        os.utime(file, ns=(then, then))

    first = key()
    with monkeypatch.context() as patched:
        patched.delattr(folder_tree, "_read")
        assert key() == first
    swap(sdk / "part", "sdk R1\n")
    second = key()
    swap(outside, "two")
    third = key()
    (sdk / "part").chmod(0o755)
    assert len({str(one) for one in (first, second, third, key())}) == 4
    swap(outside, "one")
    swap(sdk / "part", "sdk r1\n")
    (sdk / "part").chmod(0o644)
    assert key() == first, "the same files are the same SDK"


def test_an_sdk_of_another_version_is_offered_by_name_only_to_verbs_that_can_take_it(
    parts: Parts, project: Path
) -> None:
    locked(project, parts, "known")
    with pytest.raises(MissingError) as raised:
        fetch(local(project, parts, "sdk: {folder: ~/sdk-r2}"), Request("l", ("sdk",)))
    assert [item.remedy for item in raised.value.missing] == ["take it out of pins.local.yaml, so that kz downloads it"]


def test_an_sdk_that_a_variable_names_gives_way_to_pins_local_yaml(
    parts: Parts, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked(project, parts, "known")
    monkeypatch.setenv("KZ_TEST_SDK", str(parts.folder / "sdk-r2"))
    assert text(fetched(local(project, parts, "sdk: {folder: ~/sdk-r1}"), "sdk")) == "sdk r1\n"


def test_what_a_folder_lacks_the_lock_gives_or_a_sentence_asks_for(parts: Parts, project: Path) -> None:
    locked(project, parts, "null")
    with pytest.raises(KzError, match="have no libs/inner, and pins.lock does not know its commit") as raised:
        fetched(local(project, parts, "main: {folder: ~/folder}"), "main")
    assert (
        raised.value.hint
        == "write {git: ADDRESS, commit: ID}, or a folder, for main/libs/inner under `sources` in pins.local.yaml"
    )
    own = "main: {folder: ~/folder}\n  main/libs/inner: {git: <inner>}"
    with pytest.raises(KzError) as raised:
        fetched(local(project, parts, own), "main")
    assert "write `commit` for main/libs/inner" in raised.value.hint
    locked(project, parts, "known")
    result = fetched(local(project, parts, own), "main")
    assert text(result, "libs/inner") == "pinned\n" and [(at.path, at.note) for at in result.trees] == [
        ("", NOTE), ("libs/inner", ""), ("libs/inner/deep", "")
    ]  # fmt: skip


def test_what_is_omitted_is_neither_fetched_nor_named(parts: Parts, project: Path) -> None:
    locked(project, parts, "known")
    target = "{platform: linux, abi: x, sources: [main], omit: [main/libs/inner], tools: {cmake: [c]}, cmake: {}, outputs: {}}"
    (project / "pins.yaml").write_text(PINS.replace("targets: {}", f"targets: {{t: {target}}}"))
    loaded = local(project, parts, MIRROR + "main/libs/inner: {folder: /not/there}\n  pkg: {folder: ~/folder}")
    result = fetch(loaded, Request("l", ("main",), omit=("main/libs/inner/",)))[0]
    assert [at.path for at in result.trees] == [""] and result.note == ""
    assert overrides(loaded, "l", "t") == ()
    assert {o.where for o in overrides(loaded, "l")} == {"sources.main/libs/inner.folder", "sources.pkg.folder"}


def test_a_source_whose_name_begins_another_name_is_not_overridden_with_it(parts: Parts, project: Path) -> None:
    (project / "pins.yaml").write_text(PINS.replace("  pkg: {", "  pkg.x: {wheel: x}\n  pkg: {"))
    loaded = local(project, parts, "pkg.x: {only: [a]}")
    assert loaded.pins.changed("l", "pkg.x") and not loaded.pins.changed("l", "pkg")


def test_a_file_of_ones_own_stays_in_the_store_while_it_is_named(parts: Parts, project: Path) -> None:
    locked(project, parts, "known")
    loaded = local(project, parts, "tool: {file: ~/other/tool-1.0.zip, sha256: <tool_other>}")
    fetched(loaded, "tool")
    needed = {entry.name: entry.needed_by for entry in entries([loaded]) if entry.kind == "sha256"}
    assert needed[parts.names["tool_other"]] == ("l/tool",)


def test_an_unpacked_wheel_is_laid_out_as_its_file_is(parts: Parts, project: Path) -> None:
    (project / "pins.yaml").write_text(PINS.replace("tag: py3-none-any}", "tag: py3-none-any, lay: {lib/x: part}}"))
    pkg = fetched(local(project, parts, "pkg: {folder: ~/folder}"), "pkg")
    assert pkg.laid and (pkg.laid / "lib/x").read_text() == "folder\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_repository_of_another_user_comes_with_gits_way_to_trust_it(
    parts: Parts, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)  # it may trust all folders
    locked(project, parts, "known")
    given = project / "given"
    shutil.copytree(parts.folder / "up/main", given)
    for path in (given, given / ".git"):
        os.chown(path, 65534, 65534)
    loaded = local(project, parts, "main: {git: given}")
    with pytest.raises(ConfigError, match="given belongs to another user") as raised:
        fetched(loaded, "main")
    assert raised.value.hint.endswith(f"if you trust them: git config --global --add safe.directory {given}/.git")


def test_a_folder_is_imported_with_one_file_at_a_time_in_memory(tmp_path: Path) -> None:
    """A checkout of ExecuTorch took three times its size."""
    (tmp_path / "folder").mkdir()
    for number in range(8):
        (tmp_path / f"folder/{number}").write_bytes(b"%d" % number * (2 << 20))
    tracemalloc.start()
    try:
        at = import_folder(tmp_path / "store", "", tmp_path / "folder", ("7",), ())
        assert tracemalloc.get_traced_memory()[1] < 6 << 20
    finally:
        tracemalloc.stop()
    names = sh("git", "ls-tree", "--name-only", at.tree, cwd=at.repository)
    assert names.split() == list("0123456")


USED = [
    # replacement, version, address, digest, and what of it the papers must not name: the pin's version and address
    ("sdk: {folder: ~/sdk-r2}", "r2", "", "gitTree", "not the pinned version: it says it is r2; the pin is r1"),
    ("sdk: {folder: ~/sdk-r1}", "r1", "", "gitTree", ""),
    ("pkg: {file: <top>/other/pkg-1.1.whl, sha256: <pkg_newer>}", "1.1", "", "sha256", NOTE),
    ("pkg: {index: ~/other, sha256: <pkg_other>}", "1.0", "pkg:pypi/pkg@1.0", "sha256", NOTE),
    ("tool: {file: <top>/other/tool-1.0.zip, sha256: <tool_other>}", "sha256 ", "", "sha256", NOTE),
    ("tool: {file: '~/downloads/tool-{version}.zip'}", "1.0", f"{NOBODY}/tool-1.0.zip", "sha256", ""),
    ("tool: {folder: ~/folder}", "tree ", "", "gitTree", NOTE),
    ("main: {folder: ~/folder}\n  main/libs/inner: {folder: ~/folder}\n  main/libs/inner/deep: {folder: ~/folder}", "tree ", "", "gitTree", NOTE),
]  # fmt: skip


@pytest.mark.parametrize("row", USED, ids=lambda row: row[0].split("\n")[0].replace("/", "|"))
def test_the_papers_name_what_was_used_and_not_what_was_pinned(
    parts: Parts, project: Path, row: tuple[str, str, str, str, str]
) -> None:
    replacement, version, address, digest, overridden = row
    name = replacement.split(":")[0]
    newer = {"part": "newer\n", "pkg-1.1.dist-info/METADATA": "Name: pkg\n"}
    names = {**parts.names, "pkg_newer": zipped(parts.folder / "other/pkg-1.1.whl", newer)}
    target = (
        f"targets: {{t: {{platform: linux, abi: arm64, sources: [{name}], tools: {{}}, cmake: {{}}, outputs: {{}}}}}}\n"
    )
    (project / "pins.yaml").write_text(PINS.replace("targets: {}\n", target))
    locked(project, parts, "known")
    loaded = local(project, parts._replace(names=names), replacement)
    sources = (fetched(loaded, name, allow=(name,)),)
    record = StageRecord(project / "record.json", "key", sources_facts(loaded, "l", sources, (), ()))
    record.save()
    read = load(record.path, "key")
    assert read
    component = next(iter(components(loaded, "l", "t", read, sources, ())))
    assert (
        component.version.startswith(version)
        and component.uri.startswith(address)
        and bool(component.uri) == bool(address)
    )
    assert digest in component.digests and component.overridden == overridden
    if digest == "gitTree":
        at = import_folder(
            loaded.store,
            "",
            sources[0].folder or parts.folder / "folder",
            ("*.gif",) if name == "main" else (),
            (),
        )
        assert component.digests["gitTree"] == at.tree, "git itself computes the same"
    resolved = provenance_statement({}, [component], {}, {}, None, "1")["predicate"]["buildDefinition"]  # type: ignore[index]
    bill = sbom("t", "l", {}, [Licensed(component, {}, {})], "1", "seed").decode()
    assert not problem(bill)
    for paper in (json.dumps(resolved), bill):
        assert (NOBODY in paper) == (NOBODY in address) and ("overridden" in paper) == bool(overridden), paper

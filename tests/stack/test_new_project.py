"""kz init: from an address, or a Debian package, to a project that the other verbs work on."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kz_build.core.files import remove
from kz_build.stack.new_project import _line, _scalar
from tests.conftest import ROOT, Kz
from tests.stack.test_edit import git
from tests.stack.test_quilt import diff
from tests.stack.upstreams import URL, Project, before, put, started, text


@pytest.fixture
def empty(tmp_path: Path, kz: Kz) -> Project:
    upstream = started(tmp_path)
    for tag in ("v1.9", "v1.10", "v1.11-rc1", "ciflow/v3"):
        upstream.git("tag", tag)
    (tmp_path / "project").mkdir()
    return Project(tmp_path / "project", upstream, kz)


def test_ten_patches_become_a_stack_by_the_three_commands_that_it_names(empty: Project, tmp_path: Path) -> None:
    up = empty.upstream
    up.git("checkout", "-q", "--detach", "v1")
    for number in range(1, 11):
        up.commit(f"Change {number}", {"a.txt": put((up.folder / "a.txt").read_text(), number, f"ours {number}")})
    up.git("format-patch", "-q", "-o", str(tmp_path / "mails"), "v1..HEAD")
    up.git("checkout", "-q", "main")
    done = empty.kz("init", URL)
    assert done.returncode == 0, done.stderr
    assert (empty.root / "pins.yaml").read_text() == (
        f"version: 1\ndefault: stream-1.10\nsources:\n  stream:\n    git: {URL}\nlines:\n  stream-1.10:\n    stream: v1.10\n"
    )
    assert (empty.root / ".gitignore").read_text() == "out/\ndist/\npins.local.yaml\n"
    words = [line.split("(")[0].split()[1:] for line in done.stdout.splitlines() if line.startswith("  kz ")]
    assert words == [["lock", "--write"], ["edit", "stream"], ["refresh", "stream"]]
    for one in words:
        step = empty.kz(*one)
        assert step.returncode == 0, step.stderr
        if one[0] == "edit":
            git(
                empty.root / "out/edit/stream-1.10/stream/tree",
                "am",
                "-q",
                *map(str, sorted((tmp_path / "mails").iterdir())),
            )
    assert len((empty.root / "patches/stream-1.10/stream/series").read_text().splitlines()) == 10
    (judged,) = empty.json("verify")
    assert {j["verdict"] for j in judged["rows"][0]} == {"clean"}
    assert empty.json("matrix") == []
    build = empty.kz("build")
    assert build.returncode == 2 and "pins.yaml has no targets, so there is nothing to build" in build.stderr


def test_a_stack_without_patches_applies_to_what_upstream_is(empty: Project) -> None:
    for words in (("init", URL, "v1"), ("lock", "--write"), ("apply",), ("verify",), ("verify", "--onto", "v1.9")):
        done = empty.kz(*words)
        assert done.returncode == 0, done.stderr
    (tree,) = empty.json("apply")["v1"]
    assert tree["tree"] == empty.upstream.git("rev-parse", "v1^{tree}") and tree["patches"] == []


def test_a_stack_without_patches_stays_one(empty: Project) -> None:
    """Somebody whose `git am` failed runs `kz refresh`, or moves the stack before its first patch."""
    for words in (("init", URL, "v1"), ("lock", "--write"), ("edit",), ("refresh",), ("edit", "abort")):
        done = empty.kz(*words)
        assert done.returncode == 0, done.stderr
        if words == ("refresh",):
            assert "nothing changed" in done.stdout, done.stdout
    assert empty.kz("rebase", "--onto", "v1.10", "--as", "next").returncode == 0
    for line in ("v1", "next"):
        assert (empty.root / f"patches/{line}/stream/series").read_bytes() == b""
    assert empty.kz("verify", "--all-lines", "--onto", "v1.9").returncode == 0


def test_an_upstream_that_moved_away_is_asked_for_and_not_its_commit(empty: Project, tmp_path: Path) -> None:
    for words in (("init", str(empty.upstream.folder), "v1"), ("lock", "--write")):
        assert empty.kz(*words).returncode == 0
    empty.upstream.folder.rename(tmp_path / "away")
    remove(tmp_path / "store")
    done = empty.kz("verify")
    assert done.returncode == 5 and f"is {empty.upstream.folder} still its address" in done.stderr, done.stderr


def test_a_debian_package_keeps_its_stack(empty: Project, tmp_path: Path) -> None:
    folder = empty.root / "debian"
    (folder / "patches").mkdir(parents=True)
    (folder / "upstream").mkdir()
    bare = empty.kz("init")
    assert bare.returncode == 2 and "-> kz init ADDRESS [VERSION]" in bare.stderr
    assert [p.name for p in empty.root.iterdir()] == ["debian"]
    (folder / "patches" / "series").write_text("fix\n")
    (folder / "patches" / "fix").write_bytes(
        diff(tmp_path, text().encode(), before(text(), 3, "x").encode(), "a/a.txt")
    )
    (folder / "upstream" / "metadata").write_text(f"Bug-Database: x\nRepository: {URL}\n")
    (empty.root / ".gitignore").write_text("*.o\nout/\n")
    done = empty.kz("init")
    assert done.returncode == 0 and "your .gitignore is as it was; it should have dist/" in done.stdout, done.stderr
    assert "    patches: debian/patches\n" in (empty.root / "pins.yaml").read_text()
    assert (empty.root / ".gitignore").read_text() == "*.o\nout/\n" and not (empty.root / "patches").exists()
    assert [line for line in done.stdout.splitlines() if line.startswith("  kz ")][1:] == [
        "  kz apply",
        "  kz verify --onto HEAD",
    ]
    for words in (("lock", "--write"), ("apply",), ("verify", "--onto", "HEAD")):
        assert empty.kz(*words).returncode == 0


def test_nothing_that_is_there_is_changed(empty: Project) -> None:
    series = empty.root / "patches/v1/stream/series"
    series.parent.mkdir(parents=True)
    series.write_text("# mine\n")
    made = empty.json("init", URL, "v1")
    assert made["written"] == [".gitignore", "pins.yaml"] and series.read_text() == "# mine\n"
    was = (empty.root / "pins.yaml").read_text()
    again = empty.kz("init", URL)
    assert again.returncode == 2 and "pins.yaml is there already: kz init changes no file" in again.stderr
    assert (empty.root / "pins.yaml").read_text() == was


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((URL, "v9"), 2, "has no tag or branch 'v9'"),
        (("ext::sh -c x",), 2, "the address 'ext::sh -c x' must be a URL or a path"),
        (("./nothing",), 2, "there is no folder or file ./nothing"),
        (("http://127.0.0.1:1/up",), 5, "127.0.0.1"),
        ((URL, "zzz"), 2, "it has: main, ciflow/v3, v1, v1.10, v1.11-rc1, v1.9"),
    ],
)
def test_a_project_that_cannot_begin_gets_no_file(empty: Project, words: tuple[str, ...], code: int, said: str) -> None:
    done = empty.kz("init", *words)
    assert done.returncode == code and said in done.stderr
    assert list(empty.root.iterdir()) == []


def test_a_bundle_gives_its_source_its_name_without_the_suffix(empty: Project, tmp_path: Path) -> None:
    empty.upstream.git("bundle", "create", "-q", str(tmp_path / "widget.bundle"), "--all")
    made = empty.json("init", str(tmp_path / "widget.bundle"), "v1")
    assert (made["source"], made["stack"]) == ("widget", "patches/v1/widget")
    assert "git: ../widget.bundle\n" in (empty.root / "pins.yaml").read_text()


def test_a_path_without_tags_is_pinned_at_its_commit(empty: Project, tmp_path: Path) -> None:
    place = tmp_path / "other.git"
    subprocess.run(["git", "clone", "-q", "--bare", "--no-tags", str(empty.upstream.folder), str(place)], check=True)
    subprocess.run("git tag | xargs git tag -d", cwd=place, shell=True, check=True, capture_output=True)
    head = empty.upstream.commits[-1]
    made = empty.json("init", str(place))
    assert (made["line"], made["source"], made["version"]) == (head[:12], "other", head)
    assert "git: ../other.git\n" in (empty.root / "pins.yaml").read_text()
    assert empty.kz("lock", "--write").returncode == 0


@pytest.mark.parametrize(
    ("version", "line"),
    [("v1.2.0", "up-1.2"), ("upstream/1.10.3", "up-1.10"), ("release/1.4", "up-1.4"), ("v7", "v7"), ("main", "main"),
     ("0" * 40, "0" * 12), ("feature/x", "feature-x"), ("/", "main")],
)  # fmt: skip
def test_a_line_is_named_after_its_release_so_that_the_next_patch_release_fits(version: str, line: str) -> None:
    assert _line("up", version) == line


@pytest.mark.parametrize(
    ("text", "yaml"),
    [("v1.2", "v1.2"), ("1.10", '"1.10"'), ("no", '"no"'), ("Null", '"Null"'), ("a b", '"a b"'), ("x:", '"x:"'), ("../up", "../up"), ("h://x/y", "h://x/y")],
)  # fmt: skip
def test_what_yaml_reads_as_something_else_is_quoted(text: str, yaml: str) -> None:
    assert _scalar(text) == yaml


def test_a_debian_stack_among_git_mails_is_told_where_it_belongs(empty: Project, tmp_path: Path) -> None:
    assert empty.kz("init", URL, "v1").returncode == 0
    stack = empty.root / "patches/v1/stream"
    (stack / "fix.patch").write_bytes(
        b"Description: x\n\n" + diff(tmp_path, text().encode(), b"x\n", "a/a.txt", "b/a.txt")
    )
    hint = "name it as `patches:` of stream in pins.yaml"
    for series, code in (("fix.patch\n", 2), ("fix.patch -p1\n", 2), ("sub/fix.patch # why\n", 2)):
        (stack / "series").write_text(series)
        done = empty.kz("lock", "--write")
        assert done.returncode == code and done.stderr.count("-> ") == 1 and hint in done.stderr, done.stderr


def test_patches_without_a_series_are_not_left_out_unsaid(empty: Project) -> None:
    assert empty.kz("init", URL, "v1").returncode == 0
    stack = empty.root / "patches/v1/stream"
    (stack / "series").unlink()
    assert empty.kz("lock", "--write").returncode == 0, "a project may have no patches"
    (stack / "0001-a.patch").write_text("x")
    for verb in (("lock", "--write"), ("apply",), ("verify",), ("edit",)):
        done = empty.kz(*verb)
        assert done.returncode == 2 and "patches/v1/stream has patches, and no file `series`" in done.stderr, verb
    (command,) = [row.split(": ")[1] for row in done.stderr.splitlines() if row.startswith("  -> ")]
    subprocess.run(command, shell=True, cwd=stack, check=True)
    assert (stack / "series").read_text() == "0001-a.patch\n"


def test_a_stack_on_a_source_that_the_line_does_not_pin_is_told_the_one_it_means(empty: Project) -> None:
    assert empty.kz("init", URL, "v1").returncode == 0 and empty.kz("lock", "--write").returncode == 0
    shutil.copytree(empty.root / "patches/v1/stream", empty.root / "patches/v1/strean")
    for verb in ("apply", "verify"):
        said = empty.kz(verb).stderr
        assert "pins no source strean, and there is a folder patches/v1/strean; did you mean stream?" in said, said


def test_a_diff_that_is_no_mail_becomes_a_patch_by_the_commands_that_are_named(empty: Project, tmp_path: Path) -> None:
    assert empty.kz("init", URL, "v1").returncode == 0 and empty.kz("lock", "--write").returncode == 0
    stack = empty.root / "patches/v1/stream"
    by_hand = diff(tmp_path, text().encode(), put(text(), 3, "ours").encode(), "a/a.txt", "b/a.txt")
    (stack / "my.patch").write_bytes(by_hand.replace(b"+ours\n", b"+ours\n+one more line than the hunk counts\n"))
    (stack / "series").write_text("my.patch\n")
    done = empty.kz("verify")
    assert done.returncode == 2 and "move such a file out of the folder and of series" in done.stderr, done.stderr
    (stack / "my.patch").rename(tmp_path / "my.patch")
    (stack / "series").write_text("")
    words = "stream --line v1"
    flat = " ".join(done.stderr.split())
    assert f"kz edit {words}, there `git apply --recount FILE` and git commit, then kz refresh {words}" in flat, flat
    assert empty.kz("edit", *words.split()).returncode == 0
    tree = empty.root / "out/edit/v1/stream/tree"
    git(tree, "apply", "--recount", str(tmp_path / "my.patch"))
    git(tree, "commit", "-q", "-a", "-m", "Ours")
    done = empty.kz("refresh", *words.split())
    assert done.returncode == 0 and (stack / "series").read_text() == "0001-Ours.patch\n", done.stderr
    mail = stack / "0001-Ours.patch"
    mail.write_text(mail.read_text().replace("\n ", "\n edited "))
    done = empty.kz("verify")
    assert done.returncode == 4 and "for this is their own version" in done.stderr, done.stderr
    assert "kz history" in empty.kz("verify", "--onto", "v1.9").stderr


def test_a_password_does_not_get_into_pins_yaml(empty: Project) -> None:
    done = empty.kz("init", "https://me:s3cret@127.0.0.1:1/up.git", "v1")
    assert done.returncode == 2 and "the address has a password" in done.stderr, done.stderr
    assert "s3cret" not in done.stderr and not (empty.root / "pins.yaml").exists()


def test_executorch_is_a_project_of_ones_own_at_once(kz: Kz, tmp_path: Path) -> None:
    (tmp_path / "containers").mkdir()
    (tmp_path / "containers" / "snapshot.sh").write_text("mine\n")
    refused = kz("-C", str(tmp_path), "init", "--executorch")
    assert refused.returncode == 2 and "containers/snapshot.sh: differs" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["containers"]

    (tmp_path / "containers" / "snapshot.sh").unlink()
    (tmp_path / "pins.lock").write_bytes((ROOT / "pins.lock").read_bytes())  # as a killed command leaves it
    for _ in range(2):
        done = kz("-C", str(tmp_path), "init", "--executorch")
        assert done.returncode == 0 and "  patches/ (" in done.stdout, done.stderr
    assert (tmp_path / ".gitignore").read_text() == "out/\ndist/\npins.local.yaml\n"
    for name in ("pins.yaml", "patches/et-1.2/executorch/series", "recipes/requirements/et-1.2-llm.txt"):
        assert (tmp_path / name).read_bytes() == (ROOT / name).read_bytes()
    assert (tmp_path / "containers" / "snapshot.sh").stat().st_mode & 0o100
    ours, theirs = (kz("-C", str(root), "matrix", "--json") for root in (ROOT, tmp_path))
    assert theirs.returncode == 0 and theirs.stdout == ours.stdout


@pytest.mark.parametrize("version", ["", "v1"])
def test_an_upstream_with_sha256_ids_is_refused_at_once(empty: Project, tmp_path: Path, version: str) -> None:
    other = tmp_path / "other"
    for words in (
        ["init", "-q", "--object-format=sha256", str(other)],
        ["commit", "-q", "--allow-empty", "-m", "one"],
        ["tag", "v1"],
    ):
        git(other if words[0] != "init" else tmp_path, *words)
    done = empty.kz("init", f"file://{other}", *([version] if version else []))
    if version and done.returncode == 0:
        done = empty.kz("lock", "--write")
    assert done.returncode == 2 and "is a repository with SHA-256 ids" in done.stderr, done.stderr
    assert not (empty.root / "pins.lock").exists()


def test_an_upstream_that_is_a_shallow_clone_and_gets_new_tags(empty: Project, tmp_path: Path) -> None:
    up, shallow = empty.upstream, tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth=1", "--branch=v1", f"file://{up.folder}", str(shallow))
    assert empty.kz("init", f"file://{shallow}", "v1").returncode == 0
    assert empty.kz("lock", "--write").returncode == 0
    up.commit("Second", {"a.txt": put(text(), 5, "changed")}, tag="v2")
    git(shallow, "fetch", "-q", "--depth=1", "origin", "tag", "v2")
    done = empty.kz("verify", "--onto", "v2")
    assert done.returncode == 0, done.stderr
    done = empty.kz("history", "--onto", "v2")
    assert done.returncode == 2 and "no common history" in done.stderr and "git fetch --unshallow" in done.stderr

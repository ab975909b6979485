"""The store: nothing in it is used that was tampered with; what no project needs can go, and nothing else."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from kz_build.core import files, locks
from kz_build.core.errors import LockError
from kz_build.core.hash_cache import read_cached, write_cached
from kz_build.sources import integrity
from kz_build.sources import store_admin as stage
from tests.conftest import ROOT, Kz, snapshot

LOCK = json.loads((ROOT / "examples/sample/pins.lock").read_text())["lines"]["sample-0.1"]
NINJA = LOCK["ninja"]["sha256"]
OWN = "minirt-test.git"


def stamp(path: Path) -> list[int]:
    """What a seal says of a file."""
    facts = path.lstat()
    return [facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino, facts.st_mode]


@pytest.fixture
def cache(built: Path, tmp_path: Path, clean_env: dict[str, str]) -> Path:
    """A store that a test may change: the big files and folders are the warm store's own, proved there; the small ones copies."""
    warm, made = Path(clean_env["KZ_CACHE"]), tmp_path / "cache"
    shutil.copytree(warm / "seals", made / "seals")
    for kind in ("sha256", "unpacked"):
        (made / kind).mkdir()
        for name in (e["sha256"] for e in LOCK.values() if "sha256" in e):
            for path in (warm / kind).glob(f"{name}*"):
                if name != NINJA:
                    link = made / kind / path.name
                    link.symlink_to(path)
                    if kind == "sha256":  # else each test reads compilers for their digest
                        write_cached(made / f"seals/{kind}-{name}.json", {"": stamp(link)})
                elif path.is_dir():
                    shutil.copytree(path, made / kind / path.name)
                else:
                    shutil.copy(path, made / kind / path.name)
    return made


@pytest.fixture
def fetched(cache: Path, sample: Path, kz: Kz) -> Path:
    """The sample, its own repository in the store too."""
    assert kz("-C", sample, "apply", KZ_CACHE=str(cache)).returncode == 0
    done = kz("-C", sample, "fetch", KZ_CACHE=str(cache))
    assert done.returncode == 0, done.stderr
    return sample


def repository(cache: Path) -> Path:
    return next((cache / "git").glob("minirt-*.git"))


def touched_back(path: Path, change: Callable[[Path], object]) -> None:
    """Change a file and put its times back, as one does who does not want to be seen."""
    before, mode = path.stat(), path.stat().st_mode
    path.chmod(0o644)
    change(path)
    path.chmod(mode)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def one_byte(path: Path) -> None:
    data = path.read_bytes()
    middle = len(data) // 2
    path.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])


def ninja(cache: Path) -> Path:
    unpacked = cache / "unpacked" / str(NINJA)
    return next(unpacked.rglob("scripts/ninja"))


def swapped(path: Path) -> None:
    path.unlink()
    path.symlink_to("/bin/true")


def small(cache: Path) -> None:
    """Without what takes seconds to prove again."""
    for kind in ("sha256", "unpacked"):
        for path in (cache / kind).iterdir():
            if path.is_symlink():
                path.unlink()


def packed(cache: Path) -> None:
    git = ["git", f"--git-dir={repository(cache)}"]
    subprocess.run([*git, "repack", "-adfq"], check=True, capture_output=True)
    subprocess.run([*git, "prune-packed", "-q"], check=True, capture_output=True)
    touched_back(next(repository(cache).glob("objects/pack/*.pack")), one_byte)


def another_object(cache: Path) -> None:
    """A patched file's blob is another one, well formed and in the right place."""
    git = ["git", f"--git-dir={repository(cache)}"]
    tree = LOCK["minirt"]["patched"]["tree"]
    listed = subprocess.run([*git, "ls-tree", "-r", tree], check=True, capture_output=True, text=True).stdout
    ids = [row.split()[2] for row in listed.splitlines()]
    loose = [p for i in ids if (p := repository(cache) / "objects" / i[:2] / i[2:]).is_file()]
    evil = b"int evil;\n"
    touched_back(loose[0], lambda p: p.write_bytes(zlib.compress(b"blob %d\0" % len(evil) + evil)))


TAMPERED: dict[str, tuple[Callable[[Path], object], str]] = {
    "tool": (lambda c: touched_back(ninja(c), one_byte), "scripts/ninja"),
    "mode": (lambda c: ninja(c).chmod(0o644), "scripts/ninja"),
    "more": (lambda c: (ninja(c).parent / "libc.so.6").write_bytes(b"x"), "libc.so.6"),
    "less": (lambda c: ninja(c).unlink(), "scripts/ninja"),
    "link": (lambda c: swapped(ninja(c)), "scripts/ninja"),
    "archive": (lambda c: touched_back(c / "sha256" / NINJA, one_byte), f"sha256/{NINJA[:16]}"),
    "object": (another_object, "git/minirt-"),
    "pack": (packed, "git/minirt-"),
    "borrowed": (lambda c: (repository(c) / "objects/info/alternates").write_text("/tmp\n"), "git/minirt-"),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_what_was_tampered_with_is_named_and_not_used(fetched: Path, cache: Path, kz: Kz, what: str) -> None:
    change, named = TAMPERED[what]
    change(cache)
    done = kz("-C", fetched, "build", KZ_CACHE=str(cache))
    assert done.returncode == 3 and "kz: exit 3 (lock)" in done.stderr, done.stdout + done.stderr
    assert named in done.stderr and "rm -rf" in done.stderr
    assert not (fetched / "dist").exists() and not (fetched / "out/tree").exists(), "something was built of it"
    small(cache)
    done = kz("-C", fetched, "store", "verify", KZ_CACHE=str(cache))
    assert done.returncode == 3 and named in done.stdout, done.stdout


def test_what_is_removed_comes_back(fetched: Path, cache: Path, kz: Kz) -> None:
    touched_back(ninja(cache), one_byte)
    shutil.rmtree(cache / "unpacked" / NINJA)
    assert kz("-C", fetched, "fetch", KZ_CACHE=str(cache)).returncode == 0
    small(cache)
    done = kz("-C", fetched, "store", "verify", "--json", KZ_CACHE=str(cache))
    assert done.returncode == 0, done.stdout
    assert {c["status"] for c in json.loads(done.stdout)} == {"PASS"}


def test_damage_that_changes_no_time_is_found_by_verify(fetched: Path, cache: Path, kz: Kz) -> None:
    """As of a disk: the seal is made to fit what is there."""
    small(cache)
    integrity.prove_unpacked(cache, cache / "unpacked" / NINJA, "", ())
    seal = cache / f"seals/unpacked-{NINJA}.json"
    stamps = read_cached(seal)
    path = next((cache / "unpacked" / NINJA).rglob("METADATA"))
    touched_back(path, one_byte)
    stamps[path.relative_to(cache / "unpacked" / NINJA).as_posix()] = stamp(path)
    write_cached(seal, stamps)
    integrity.prove_unpacked(cache, cache / "unpacked" / NINJA, "", ())
    done = kz("-C", fetched, "store", "verify", KZ_CACHE=str(cache))
    assert done.returncode == 3 and f"unpacked/{NINJA}" in done.stderr and "METADATA" in done.stdout


def test_an_emptied_folder_without_a_seal_is_not_proved(cache: Path) -> None:
    small(cache)
    folder = cache / "unpacked" / NINJA
    shutil.rmtree(folder)
    folder.mkdir()
    (cache / f"seals/unpacked-{NINJA}.json").unlink(missing_ok=True)
    with pytest.raises(LockError, match="is not as in its archive"):
        integrity.prove_unpacked(cache, folder, "", ())


def test_a_list_says_who_needs_what(fetched: Path, cache: Path, kz: Kz) -> None:
    found = json.loads(kz("-C", fetched, "store", "list", "--json", KZ_CACHE=str(cache)).stdout)
    needed = {(e["kind"], e["name"][:64]): e["needed_by"] for e in found}
    assert needed["sha256", NINJA] == ["sample-0.1/ninja"] == needed["unpacked", NINJA]
    assert next(e for e in found if e["kind"] == "git")["needed_by"] == ["sample-0.1/minirt"]
    assert next(e for e in found if e["name"] == NINJA and e["kind"] == "sha256")["size"] == LOCK["ninja"]["size"]


def test_what_goes_while_the_store_is_listed_has_no_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stays").write_text("four")
    (tmp_path / "link").symlink_to("stays")
    monkeypatch.setattr(os, "walk", lambda folder: [(folder, ["gone.git"], ["stays", "link", "multi-pack-index.lock"])])
    assert stage._size(tmp_path) == len("four") + len("stays")


def aged(path: Path, days: float = 40) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir() if path.suffix == ".git" else path.write_text("x")
    then = time.time() - days * 86400
    os.utime(path, (then, then))
    return path


def test_gc_takes_what_nobody_needs_or_used(fetched: Path, cache: Path, kz: Kz) -> None:
    old = [
        aged(cache / "git/old-0123456789ab.git"),
        aged(cache / f"sha256/{'a' * 64}"),
        aged(cache / "verdicts/x.json"),
    ]
    young = aged(cache / f"sha256/{'b' * 64}", 2)
    for path in (cache / "sha256" / NINJA, cache / "unpacked" / NINJA):  # needed, however old
        os.utime(path, (0, 0))
        seal = cache / f"seals/{path.parent.name}-{NINJA}.json"
        os.utime(seal, (0, 0))
    before = snapshot(cache)
    listed = kz("-C", fetched, "store", "gc", KZ_CACHE=str(cache))
    assert listed.returncode == 0 and "3 entries would be removed" in listed.stdout, listed.stdout
    assert snapshot(cache).keys() - {"locks/store.lock"} == before.keys() - {"locks/store.lock"}
    done = kz("-C", fetched, "store", "gc", "--delete", KZ_CACHE=str(cache))
    assert done.returncode == 0 and "3 entries removed" in done.stdout, done.stdout + done.stderr
    assert not [p for p in old if p.exists()] and young.exists()
    assert not list(cache.glob(".gone-*"))
    assert kz("-C", fetched, "fetch", KZ_CACHE=str(cache)).returncode == 0
    small(cache)
    assert kz("-C", fetched, "store", "verify", KZ_CACHE=str(cache)).returncode == 3, "bbb… is no digest of it"
    young.unlink()
    assert kz("-C", fetched, "store", "verify", KZ_CACHE=str(cache)).returncode == 0


def test_gc_takes_what_killed_runs_left(fetched: Path, cache: Path, kz: Kz) -> None:
    """Also what git left in a clone; what is new may be another git's."""
    clone = repository(cache)
    left = [
        aged(cache / "seals" / ".x.json.part", 1),
        aged(cache / "verdicts" / ".x.json.part", 1),
        aged(cache / "unpacked" / ".proof-x", 1),
        aged(clone / "objects" / "pack" / "tmp_pack_x", 1),
        aged(clone / "config.lock", 1),
        aged(clone / "fast_import_crash_4242", 1),
    ]
    young = aged(clone / "HEAD.lock", 0)
    before = snapshot(clone).keys() - {p.relative_to(clone).as_posix() for p in left if p.is_relative_to(clone)}
    assert kz("-C", fetched, "store", "gc", "--delete", KZ_CACHE=str(cache)).returncode == 0
    assert not [p for p in left if p.exists()] and young.exists() and snapshot(clone).keys() == before


def test_gc_heeds_the_other_projects_named(fetched: Path, cache: Path, kz: Kz, tmp_path: Path) -> None:
    """This checkout pins another cmake than the sample does."""
    alone = json.loads(kz("store", "gc", "--older", "0", "--json", KZ_CACHE=str(cache)).stdout)
    both = json.loads(kz("store", "gc", "--older", "0", "--json", "--project", fetched, KZ_CACHE=str(cache)).stdout)
    assert LOCK["cmake"]["sha256"] in {e["name"] for e in alone}
    assert not {e["name"] for e in both} & {e["sha256"] for e in LOCK.values() if "sha256" in e}


def test_gc_waits_for_nobody_and_takes_nothing_from_one_at_work(fetched: Path, cache: Path, kz: Kz) -> None:
    old = aged(cache / f"sha256/{'a' * 64}")
    code = "import sys, pathlib; from kz_build.core.locks import share; share(pathlib.Path(sys.argv[1])); print(1, flush=True); sys.stdin.read()"  # fmt: skip
    at_work = subprocess.Popen(
        [sys.executable, "-c", code, cache], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert at_work.stdout and at_work.stdout.readline()
        done = kz("-C", fetched, "store", "gc", "--delete", KZ_CACHE=str(cache))
        assert done.returncode == 6 and "another kz is using" in done.stderr and old.exists()
        assert kz("-C", fetched, "fetch", KZ_CACHE=str(cache)).returncode == 0, "others go on"
    finally:
        at_work.kill()
        at_work.communicate()
    assert kz("-C", fetched, "store", "gc", "--delete", KZ_CACHE=str(cache)).returncode == 0
    assert not old.exists()


def test_who_waits_for_gc_or_for_a_lock_says_for_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def in_a_while(release: Callable[[], None]) -> threading.Timer:
        timer = threading.Timer(files.PATIENCE + 0.3, release)
        timer.start()
        return timer

    with contextlib.ExitStack() as gc:
        gc.enter_context(locks.exclusive(tmp_path))
        timer = in_a_while(gc.pop_all().close)
        locks.share(tmp_path)
        timer.join()
    locks.release()
    assert f"kz: waiting: kz store gc uses {tmp_path}" in capsys.readouterr().err
    with contextlib.ExitStack() as other:
        other.enter_context(locks.lock(tmp_path, "unpack-x"))
        timer = in_a_while(other.pop_all().close)
        with locks.lock(tmp_path, "unpack-x"):
            timer.join()
    assert "kz: waiting: another kz uses unpack-x" in capsys.readouterr().err


def test_gc_joins_the_packs_that_many_fetches_left(
    fetched: Path, cache: Path, kz: Kz, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "PACKS", 8)  # fifty take a quarter of a minute to make
    clone = repository(cache)

    def git(*words: str, stdin: bytes = b"") -> bytes:
        return subprocess.run(
            ["git", f"--git-dir={clone}", *words], input=stdin, capture_output=True, check=True
        ).stdout

    def objects() -> list[bytes]:
        return sorted(git("cat-file", "--batch-check", "--batch-all-objects", "--unordered").splitlines())

    for number in range(10):
        # Nothing refers to these, as nothing refers to the commits of a tree with its stack applied.
        blob = git("hash-object", "-w", "--stdin", stdin=b"%d" % number)
        git("pack-objects", "-q", str(clone / "objects/pack/pack"), stdin=blob)
        if number % 2:  # as a fetch leaves them: upstream promises these
            next(p for p in clone.glob("objects/pack/*.pack") if not p.with_suffix(".promisor").exists()).with_suffix(
                ".promisor"
            ).touch()
    git("prune-packed")
    before, applied = objects(), kz("-C", fetched, "apply", KZ_CACHE=str(cache)).stdout
    done = kz("-C", fetched, "store", "gc", "--delete", KZ_CACHE=str(cache))
    assert done.returncode == 0, done.stderr
    assert len(list(clone.glob("objects/pack/*.pack"))) <= 2 and objects() == before
    for kind in ("sha256", "unpacked"):  # to prove a compiler takes long, and this is about the clone
        (cache / kind).rename(cache / f"{kind} aside")
        (cache / kind).mkdir()
    assert kz("-C", fetched, "store", "verify", KZ_CACHE=str(cache)).returncode == 0
    assert kz("-C", fetched, "apply", KZ_CACHE=str(cache)).stdout == applied

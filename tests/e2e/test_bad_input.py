"""What goes wrong at 6 pm: a clear message, the documented exit code, and store and outputs as they were."""

from __future__ import annotations

import http.server
import io
import json
import shutil
import stat
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT, Kz, snapshot

UNREACHABLE = "http://127.0.0.1:9"


def last(done: subprocess.CompletedProcess[str]) -> str:
    return done.stderr.strip().splitlines()[-1]


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A project of our own with one archive, one git source and no build."""
    folder = tmp_path / "small"
    folder.mkdir()
    shutil.copy(ROOT / "examples/sample/upstream.bundle", folder)
    return folder


def pins(folder: Path, archive: str, *, version: str = "1", more: str = "", git: str = "v0.1.0") -> None:
    (folder / "pins.yaml").write_text(
        f"version: 1\ndefault: l\nsources:\n  minirt: {{git: upstream.bundle}}\n  sdk: {{archive: '{archive}'{more}}}\n"
        f"lines:\n  l: {{minirt: {git}, sdk: '{version}'}}\n"
        "targets:\n  t: {platform: linux, abi: arm64, sources: [sdk, minirt], tools: {cmake: [c], ninja: [n], objcopy: [o]}, cmake: {}, outputs: {}}\n"
    )


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path, list[str]]]:
    """A loopback web server with ranges that may cut a connection: (address, its folder, requests seen)."""
    folder = tmp_path / "www"
    folder.mkdir()
    seen: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = folder / self.path.strip("/")
            ranged = self.headers.get("Range", "")
            seen.append(f"{self.path} {ranged}".strip())
            if not path.is_file():
                self.send_error(404)
                return
            data = path.read_bytes()
            start = int(ranged.removeprefix("bytes=").rstrip("-")) if ranged else 0
            self.send_response(206 if ranged else 200)
            self.send_header("Content-Length", str(len(data) - start))
            self.send_header("ETag", '"same"')
            self.end_headers()
            cut = folder / "cut"
            if cut.exists():
                size = int(cut.read_text())
                cut.unlink()
                self.wfile.write(data[start : start + size])
                self.wfile.flush()
                self.connection.close()
                return
            self.wfile.write(data[start:])

        def log_message(self, format: str, *args: object) -> None:
            pass

    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{web.server_address[1]}", folder, seen
    web.shutdown()
    web.server_close()


def make_zip(path: Path, *members: tuple[str, bytes, int]) -> None:
    with zipfile.ZipFile(path, "w") as zipped:
        for name, data, mode in members:
            info = zipfile.ZipInfo(name)
            info.create_system = 3
            info.external_attr = mode << 16
            zipped.writestr(info, data)


FILE = stat.S_IFREG | 0o644
LINK = stat.S_IFLNK | 0o777


def test_an_unknown_key(sample: Path, kz: Kz) -> None:
    edit(sample / "pins.yaml", "preset:", "presset:")
    before = snapshot(sample)
    done = kz("-C", sample, "build")
    assert done.returncode == 2 and last(done) == "kz: exit 2 (config)"
    assert "unknown key; did you mean preset?" in done.stderr
    assert snapshot(sample) == before


@pytest.mark.parametrize(
    "argv", [["bild"], ["build", "--nope"], ["wheel"], ["build", "--line", "nope"], ["build", "--target", "nope"]]
)
def test_a_wrong_command_line(sample: Path, kz: Kz, argv: list[str]) -> None:
    done = kz("-C", sample, *argv)
    assert done.returncode == 2 and last(done) == "kz: exit 2 (config)", done.stderr


def test_no_project_here(tmp_path: Path, kz: Kz) -> None:
    done = kz("-C", tmp_path, "build")
    assert done.returncode == 2 and "has no pins.yaml" in done.stderr and "-C FOLDER" in done.stderr


def test_a_tag_that_does_not_exist(sample: Path, kz: Kz) -> None:
    edit(sample / "pins.yaml", "minirt: v0.1.0", "minirt: v0.1.9")
    before = snapshot(sample)
    stale = kz("-C", sample, "apply")
    assert stale.returncode == 3 and "pins.lock has minirt v0.1.0, pins.yaml asks for v0.1.9" in stale.stderr
    assert "kz lock --write" in stale.stderr
    done = kz("-C", sample, "lock", "--write")
    assert done.returncode == 2 and "no tag or branch 'v0.1.9'" in done.stderr and "near ones: v0.1.0" in done.stderr
    assert snapshot(sample) == before


def test_a_wrong_digest(small: Path, kz: Kz, server: tuple[str, Path, list[str]], tmp_path: Path) -> None:
    url, www, _ = server
    make_zip(www / "sdk-1.zip", ("a/x", b"1", FILE))
    pins(small, url + "/sdk-{version}.zip")
    cache = str(tmp_path / "cache")
    assert kz("-C", small, "lock", "--write", "--trust", "sdk", KZ_CACHE=cache).returncode == 0
    make_zip(www / "sdk-1.zip", ("a/x", b"2", FILE))
    other = str(tmp_path / "other")
    done = kz("-C", small, "fetch", KZ_CACHE=other)
    assert (
        done.returncode == 3
        and "sdk has sha256" in done.stderr
        and "kz lock --write --line l --trust sdk" in done.stderr
    )
    assert not list(Path(other).glob("sha256/*")) and not list(Path(other).glob("partial/*"))
    assert kz("-C", small, "fetch", KZ_CACHE=cache).returncode == 0, "the store that has the right one needs nothing"


def test_a_digest_that_nobody_has_computed(
    small: Path, kz: Kz, server: tuple[str, Path, list[str]], tmp_path: Path
) -> None:
    url, www, seen = server
    make_zip(www / "sdk-1.zip", ("a/x", b"1", FILE))
    pins(small, url + "/sdk-{version}.zip")
    env = {"KZ_CACHE": str(tmp_path / "cache")}
    assert kz("-C", small, "lock", "--write", **env).returncode == 0
    lock = json.loads((small / "pins.lock").read_text())
    assert lock["unknown"] == 2 and lock["lines"]["l"]["sdk"]["sha256"] is None
    done = kz("-C", small, "fetch", **env)
    assert done.returncode == 3 and "kz lock --write --line l --trust sdk" in done.stderr
    assert "the digest of sdk 1" in done.stderr and not list((tmp_path / "cache").glob("partial/*"))


def test_the_command_for_a_digest_asks_for_one_line_and_leaves_the_others(
    small: Path, kz: Kz, server: tuple[str, Path, list[str]], tmp_path: Path
) -> None:
    url, www, seen = server
    make_zip(www / "sdk-1.zip", ("a/x", b"1", FILE))
    pins(small, url + "/sdk-{version}.zip")
    edit(small / "pins.yaml", "lines:\n", "lines:\n  m: {minirt: v0.2.0, sdk: '1'}\n")
    env = {"KZ_CACHE": str(tmp_path / "cache")}
    assert kz("-C", small, "lock", "--write", **env).returncode == 0
    was = json.loads((small / "pins.lock").read_text())["lines"]
    done = kz("-C", small, "fetch", "--line", "l", **env)
    (command,) = (row.split("kz ")[1].split() for row in done.stderr.splitlines() if "--trust" in row)
    seen.clear()
    assert kz("-C", small, *command, **env).returncode == 0
    now = json.loads((small / "pins.lock").read_text())["lines"]
    assert now["l"]["sdk"]["sha256"] and now["m"] == was["m"] and seen == ["/sdk-1.zip"]
    assert kz("-C", small, "fetch", "--line", "l", **env).returncode == 0


def test_what_upstream_publishes_is_checked_at_first_use(
    small: Path, kz: Kz, server: tuple[str, Path, list[str]], tmp_path: Path
) -> None:
    url, www, _ = server
    make_zip(www / "sdk-1.zip", ("a/x", b"1", FILE))
    for published in ("sha1: " + "a" * 40, "sha256: " + "a" * 64 + ", sources: [a/b uv.lock]"):
        pins(small, url + "/sdk-{version}.zip", more=f", published: {{'1': {{{published}}}}}")
        done = kz("-C", small, "lock", "--write", "--trust", "sdk", KZ_CACHE=str(tmp_path / "cache"))
        assert done.returncode == 3 and published.split()[1].rstrip(",") in done.stderr, done.stderr
        assert not (small / "pins.lock").exists()


def test_a_download_goes_on_where_it_was_cut(
    small: Path, kz: Kz, server: tuple[str, Path, list[str]], tmp_path: Path
) -> None:
    url, www, seen = server
    make_zip(www / "sdk-1.zip", ("a/x", bytes(range(256)) * 4000, FILE))
    (www / "cut").write_text("500000")
    pins(small, url + "/sdk-{version}.zip")
    done = kz("-C", small, "lock", "--write", "--trust", "sdk", KZ_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    assert [s for s in seen if "bytes=" in s], f"no request asked for the rest: {seen}"
    digest = json.loads((small / "pins.lock").read_text())["lines"]["l"]["sdk"]["sha256"]
    assert (tmp_path / "cache/sha256" / digest).read_bytes() == (www / "sdk-1.zip").read_bytes()


EVIL = {
    "up": ("../../evil", b"x", FILE),
    "absolute": ("/tmp/kz-evil", b"x", FILE),
    "link out": ("a/link", b"../../..", LINK),
    "absolute link": ("a/link", b"/etc", LINK),
    "link through a link": ("a/link", b"good/../../..", LINK),
}


@pytest.mark.parametrize("case", EVIL)
def test_an_archive_that_climbs_out(
    small: Path, kz: Kz, server: tuple[str, Path, list[str]], tmp_path: Path, case: str
) -> None:
    url, www, _ = server
    make_zip(www / "sdk-1.zip", ("a/good", b"1", FILE), EVIL[case], ("a/link/through", b"x", FILE))
    refused_when_unpacked(small, kz, url + "/sdk-{version}.zip", tmp_path)


@pytest.mark.parametrize("case", EVIL)
def test_a_tar_that_climbs_out(
    small: Path, kz: Kz, server: tuple[str, Path, list[str]], tmp_path: Path, case: str
) -> None:
    url, www, _ = server
    name, data, mode = EVIL[case]
    with tarfile.open(www / "sdk-1.tar.gz", "w:gz") as tar:
        info = tarfile.TarInfo(name)
        if mode == LINK:
            info.type, info.linkname = tarfile.SYMTYPE, data.decode()
            tar.addfile(info)
        else:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    refused_when_unpacked(small, kz, url + "/sdk-{version}.tar.gz", tmp_path)


def refused_when_unpacked(small: Path, kz: Kz, url: str, tmp_path: Path) -> None:
    pins(small, url)
    env = {"KZ_CACHE": str(tmp_path / "cache" / "deep")}
    assert kz("-C", small, "lock", "--write", "--trust", "sdk", **env).returncode == 0
    before = snapshot(tmp_path / "cache")
    done = kz("-C", small, "fetch", **env)
    assert done.returncode == 3 and last(done) == "kz: exit 3 (lock)", done.stderr
    after = snapshot(tmp_path / "cache")
    assert {n for n in after if not n.startswith(("deep/locks", "deep/git", "deep/seals"))} == {
        n for n in before if not n.startswith(("deep/locks", "deep/git", "deep/seals"))
    }
    assert not Path("/tmp/kz-evil").exists() and not list((tmp_path / "cache").rglob("evil"))


def test_a_member_that_goes_through_a_link(
    small: Path, kz: Kz, server: tuple[str, Path, list[str]], tmp_path: Path
) -> None:
    """Each link stays inside when read by itself; the second, read through the first, would not."""
    url, www, _ = server
    make_zip(www / "sdk-1.zip", ("d/up", b"..", LINK), ("d/up/out", b"../..", LINK), ("d/up/out/evil", b"x", FILE))
    refused_when_unpacked(small, kz, url + "/sdk-{version}.zip", tmp_path)


def test_an_error_page_in_the_place_of_an_archive(
    small: Path, kz: Kz, server: tuple[str, Path, list[str]], tmp_path: Path
) -> None:
    url, www, _ = server
    (www / "sdk-1.zip").write_text("<html>sorry</html>")
    pins(small, url + "/sdk-{version}.zip")
    env = {"KZ_CACHE": str(tmp_path / "cache")}
    kz("-C", small, "lock", "--write", "--trust", "sdk", **env)
    done = kz("-C", small, "fetch", **env)
    assert done.returncode == 3 and "neither zip nor tar" in done.stderr


def test_an_sdk_of_another_version(small: Path, kz: Kz, tmp_path: Path) -> None:
    ndk = tmp_path / "ndk"
    ndk.mkdir()
    (ndk / "source.properties").write_text("Pkg.Desc = Android NDK\nPkg.Revision = 27.0.1\n")
    pins(small, UNREACHABLE + "/{version}.zip", version="r28c",
         more=", installed: {env: [MY_NDK], identity: source.properties}, published: {r28c: {revision: 28.2.13676358}}")  # fmt: skip
    env = {"KZ_CACHE": str(tmp_path / "cache"), "MY_NDK": str(ndk)}
    assert kz("-C", small, "lock", "--write", **env).returncode == 0
    done = kz("-C", small, "fetch", **env)
    assert done.returncode == 3 and "says it is 27.0.1; the pin is r28c (28.2.13676358)" in done.stderr
    assert "--allow-unpinned sdk" in done.stderr
    taken = kz("-C", small, "fetch", "--allow-unpinned", "sdk", **env)
    assert taken.returncode == 0 and "not the pinned version" in taken.stdout
    (ndk / "source.properties").write_text("Pkg.Revision = 28.2.13676358\n")
    assert kz("-C", small, "fetch", **env).returncode == 0
    (ndk / "source.properties").unlink()
    assert "has no source.properties" in kz("-C", small, "fetch", **env).stderr


def test_qualcomms_identity_file(tmp_path: Path) -> None:
    from kz_build.sources.installed_sdk import revision

    (tmp_path / "sdk.yaml").write_text("name: qairt\nversion: 2.42.0\nbuild_id: '251225125753'\n")
    assert revision(tmp_path, "sdk.yaml") == "2.42.0.251225"


def test_all_that_is_missing_comes_at_once_before_any_download(
    kz: Kz, tmp_path: Path, server: tuple[str, Path, list[str]]
) -> None:
    """The shipped pins on a machine without GitHub, NDK, SDK and index."""
    config = tmp_path / "gitconfig"
    config.write_text(
        "".join(f'[url "{UNREACHABLE}/"]\n\tinsteadOf = https://{host}/\n' for host in ("github.com", "gitlab.com"))
    )
    env = {"KZ_CACHE": str(tmp_path / "cache"), "GIT_CONFIG_GLOBAL": str(config), "PIP_INDEX_URL": UNREACHABLE,
           "https_proxy": UNREACHABLE, "HTTPS_PROXY": UNREACHABLE}  # fmt: skip
    project = tmp_path / "project"
    shutil.copytree(ROOT / "patches", project / "patches")
    for name in ("pins.yaml", "pins.lock"):
        shutil.copy(ROOT / name, project)
    done = kz("-C", project, "build", **env)
    assert done.returncode == 6 and last(done) == "kz: exit 6 (missing)", done.stderr
    for part in ("executorch", "extension/llm/tokenizers", "android-ndk r28c", "ANDROID_NDK_HOME", "qnn-sdk 2.42.0.251225", "QNN_SDK_ROOT",
                 "fbjni", "kernels/optimized/third-party/eigen", "PIP_INDEX_URL", "insteadOf", "cmake 3.31.10"):  # fmt: skip
        assert part in done.stderr, part
    assert not list((tmp_path / "cache").glob("partial/*"))


def test_a_wrong_sdk_a_null_and_a_silent_server_are_one_list(small: Path, kz: Kz, tmp_path: Path) -> None:
    """Each with the command or the line of pins.local.yaml that closes it; and such a line does close it."""
    pins(small, UNREACHABLE + "/{version}.zip")
    text = (small / "pins.yaml").read_text().replace("  minirt:", f"  ndk: {{archive: '{UNREACHABLE}/n-{{version}}.zip', "
        "installed: {env: [MY_NDK], identity: source.properties}}\n  minirt:").replace("minirt: v0.1.0,", "minirt: v0.1.0, ndk: r2,")  # fmt: skip
    (small / "pins.yaml").write_text(
        text.replace("[sdk,", "[sdk, ndk,").replace("tools:", "needs: {no-such: apt install it}, tools:")
    )
    sdk = tmp_path / "sdk"
    sdk.mkdir()
    (sdk / "source.properties").write_text("Pkg.Revision = r1\n")
    env = {"KZ_CACHE": str(tmp_path / "cache"), "MY_NDK": str(sdk)}
    assert kz("-C", small, "lock", "--write", **env).returncode == 0
    for verb in ("fetch", "build", "all"):
        done = kz("-C", small, verb, **env)
        assert done.returncode == 3 and last(done) == "kz: exit 3 (lock)", done.stderr
        assert (
            "missing on this machine: 4" in done.stderr
            and ("nothing was started" if verb == "all" else "kz doctor") in done.stderr
        )
        for part in ("the digest of sdk 1 in pins.lock", "-> kz lock --write --line l --trust sdk", f"MY_NDK={sdk} says it is r1; the pin is r2",
                     "-> --allow-unpinned ndk", UNREACHABLE, "-> pins.local.yaml: sources: {sdk: {file: PATH}}", "-> apt install it"):  # fmt: skip
            assert part in " ".join(done.stderr.split()), (part, done.stderr)
    (small / "pins.local.yaml").write_text(f"lines: {{l: {{ndk: r1}}}}\nsources: {{sdk: {{folder: {sdk}}}}}\n")
    edit(small / "pins.yaml", "needs: {no-such: apt install it}, ", "")
    fetched = kz("-C", small, "fetch", **env)
    assert fetched.returncode == 0, fetched.stderr


def test_a_patch_that_does_not_apply(sample: Path, kz: Kz) -> None:
    """The stack of v0.1.0 on v0.3.0: every patch that fails is named, the upstreamed one as such."""
    edit(sample / "pins.yaml", "minirt: v0.1.0", "minirt: v0.3.0")
    before = snapshot(sample)
    done = kz("-C", sample, "lock", "--write")
    assert done.returncode == 4 and last(done) == "kz: exit 4 (conflict)"
    for part in (
        "0002-python",
        "the file is not there",
        "0003-jni",
        "0004-bindings",
        "its lines are not there",
        "0005-program",
        "drop the patch",
    ):
        assert part in done.stderr, done.stderr
    assert "0001-decoders" not in done.stderr
    assert snapshot(sample) == before


def test_a_stack_that_changed(sample: Path, kz: Kz) -> None:
    patch = sample / "patches/sample-0.1/minirt/0003-jni-take-the-KV-width-from-the-program.patch"
    text = patch.read_text()
    patch.write_text(text.replace('get_kv_io_bit_width", 16', 'get_kv_io_bit_width", 32'))
    done = kz("-C", sample, "apply")
    assert done.returncode == 4 and "jni-take-the-KV-width-from-the-program: contains" in done.stderr, done.stderr


def test_a_tree_that_the_lock_does_not_know(sample: Path, kz: Kz) -> None:
    lock = json.loads((sample / "pins.lock").read_text())
    lock["lines"]["sample-0.1"]["minirt"]["patched"]["tree"] = "0" * 40
    (sample / "pins.lock").write_text(json.dumps(lock))
    done = kz("-C", sample, "apply")
    assert done.returncode == 3 and "pins.lock says 0000" in done.stderr and "kz lock --write" in done.stderr


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 99, "lines": {}}', "<<<<<<< HEAD\n"])
def test_a_lock_that_is_none(sample: Path, kz: Kz, text: str) -> None:
    (sample / "pins.lock").write_text(text)
    done = kz("-C", sample, "apply")
    assert done.returncode == 3 and last(done) == "kz: exit 3 (lock)"


def test_a_patch_that_climbs_out(sample: Path, kz: Kz) -> None:
    patch = sample / "patches/sample-0.1/minirt/0005-program-refuse-unknown-operations.patch"
    patch.write_text(patch.read_text().replace("runtime/program.cpp", "../../program.cpp"))
    before = snapshot(sample)
    done = kz("-C", sample, "apply")
    assert done.returncode == 2 and "climbs out of its folder" in done.stderr and patch.name in done.stderr
    assert snapshot(sample) == before


@pytest.mark.skipif(not shutil.which("unshare"), reason="needs unshare to mount a small disk")
def test_a_full_disk(sample: Path, clean_env: dict[str, str], tmp_path: Path) -> None:
    """A store on a disk of 1 MB: said before anything is downloaded; where no size is known, when it is full."""
    disk = tmp_path / "disk"
    disk.mkdir()
    fetch = (
        f"'{sys.executable}' -m kz_build -C '{sample}' fetch; echo code $?; ls -A '{disk}/sha256' 2>/dev/null | wc -l"
    )
    script = (
        f"mount -t tmpfs -o size=1m tmpfs '{disk}' || exit 77\n"
        f"{fetch}\nsed -i 's/\"size\": [0-9]*/\"size\": null/' '{sample}/pins.lock'\n{fetch}\n"
    )
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script],
        cwd=ROOT,
        env={**clean_env, "KZ_CACHE": str(disk)},
        capture_output=True,
        text=True,
    )
    if done.returncode == 77:
        pytest.skip("this kernel mounts no tmpfs in a namespace")
    assert done.stdout.split() == ["code", "6", "0"] * 2, done.stdout + done.stderr
    before, when = done.stderr.split("kz: exit 6 (missing)\n")[:2]
    assert f"113 MB on {disk}" in before and "-> export KZ_CACHE=" in before
    assert "is full" in when and "KZ_CACHE" in when, when
    assert last(done) == "kz: exit 6 (missing)"


def test_two_at_once_share_one_store(sample: Path, clean_env: dict[str, str], tmp_path: Path) -> None:
    other = shutil.copytree(sample, tmp_path / "other")
    env = {**clean_env, "KZ_CACHE": str(tmp_path / "cache")}
    both = [
        subprocess.Popen(
            [sys.executable, "-m", "kz_build", "-C", p, "apply"],
            cwd=ROOT,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for p in (sample, other) * 2
    ]
    for process in both:
        out, err = process.communicate()
        assert process.returncode == 0, err.decode()


def test_a_digest_of_another_index_is_not_kept(tmp_path: Path, kz: Kz) -> None:
    entry = {
        "kind": "wheel",
        "version": "1",
        "file": "x-1-py3-none-any.whl",
        "sha256": "0" * 64,
        "size": 1,
        "origin": "index",
    }
    (tmp_path / "pins.lock").write_text(json.dumps({"version": 1, "unknown": 0, "lines": {"l": {"x": entry}}}))
    (tmp_path / "pins.yaml").write_text(
        "version: 1\ndefault: l\nsources:\n  x: {wheel: x, index: 'http://127.0.0.1:1'}\nlines: {l: {x: '1'}}\n"
        "targets:\n  t: {platform: linux, abi: arm64, sources: [x], tools: {cmake: [c], ninja: [n], objcopy: [o]}, cmake: {}, outputs: {}}\n"
    )
    done = kz("-C", tmp_path, "lock", "--json")
    assert done.returncode == 0, done.stderr
    assert any("sha256" in change and "0000" in change for change in json.loads(done.stdout)["changes"])


@pytest.mark.parametrize("argv", [("--timeout", "nan"), ("--timeout", "-1"), ("--jobs", "-3")])
def test_a_number_that_means_nothing(sample: Path, kz: Kz, argv: tuple[str, ...]) -> None:
    done = kz("-C", sample, "build", *argv)
    assert done.returncode == 2 and f"argument {argv[0]}: invalid" in done.stderr
    assert not (sample / "out").exists()


def test_an_output_on_a_full_disk_is_no_bug(sample: Path, clean_env: dict[str, str]) -> None:
    with open("/dev/full", "w") as full:
        argv = [sys.executable, "-m", "kz_build", "-C", str(sample), "schema"]
        done = subprocess.run(argv, env=clean_env, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 5, done.stderr
    assert done.stderr == "kz: cannot write its output: No space left on device\nkz: exit 5 (command)\n"


def test_errors_that_nobody_can_read_keep_the_exit_code(sample: Path, clean_env: dict[str, str]) -> None:
    with open("/dev/full", "w") as full:
        argv = [sys.executable, "-m", "kz_build", "-C", str(sample), "build", "--nope"]
        assert subprocess.run(argv, env=clean_env, stdout=subprocess.PIPE, stderr=full).returncode == 2

"""A licence in a wheel: shown, refused, given, changed; and nothing of that wheel is used before."""

from __future__ import annotations

import functools
import hashlib
import http.server
import io
import json
import os
import pty
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kz_build.core.errors import ConfigError, MissingError
from kz_build.pins.load import load_project
from kz_build.sources import licence
from kz_build.sources.fetch import fetch
from kz_build.sources.request import Request
from tests.conftest import ROOT, Kz
from tests.deadline import patient

TERMS = "TERMS AND CONDITIONS\n" + "you may use this to develop your own applications and nothing else " * 4
PINS = """\
version: 1
default: a
sources:
  tool:
    wheel: tool
    index: {url}/simple
    tag: py3-none-any
    licence: tool/TERMS.txt
    lay: {{lib/host/libtool.so: tool/libtool.so, lib/tool.libs: tool.libs}}
  plain: {{wheel: plain, index: "{url}/simple"}}
lines: {{a: {{tool: '1.0'}}}}
targets: {{}}
"""


def wheel(folder: Path, version: str, terms: str | bytes) -> None:
    """Put a wheel on the index: a library, what it is linked with, and its terms."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as zipped:
        for name, data in {
            "tool/libtool.so": f"library {version}",
            "tool.libs/libc++.so.1": "of llvm",
            "tool/TERMS.txt": terms,
            f"tool-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: tool\nVersion: {version}\n",
        }.items():
            zipped.writestr(name, data)
    page = folder / "simple" / "tool"
    page.mkdir(parents=True, exist_ok=True)
    (page / f"tool-{version}-py3-none-any.whl").write_bytes(made.getvalue())
    links = [
        f'<a href="{p.name}#sha256={hashlib.sha256(p.read_bytes()).hexdigest()}">{p.name}</a>'
        for p in page.glob("*.whl")
    ]
    (page / "index.html").write_text("\n".join(links))


class Place:
    """A project whose one source has a licence, its index, its store, and a user."""

    def __init__(self, folder: Path, url: str, www: Path, kz: Kz) -> None:
        self.folder, self.www = folder, www
        self.variables = {"KZ_CACHE": str(folder / "store"), "KZ_CONFIG": str(folder / "config")}
        self.record = folder / "config" / "accepted.json"
        self.kz = functools.partial(kz, "-C", folder, **self.variables)
        (folder / "pins.yaml").write_text(PINS.format(url=url))

    def lock(self) -> None:
        done = self.kz("lock", "--write", "--trust", "tool")
        assert done.returncode == 0, done.stderr

    def typed(self, answer: str) -> tuple[int, str]:
        """`kz accept tool` on a terminal, and what somebody types."""
        me, theirs = pty.openpty()
        env = {
            **os.environ,
            **self.variables,
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "PAGER": "cat",
            "TERM": "dumb",
        }
        argv = [sys.executable, "-m", "kz_build", "-C", str(self.folder), "accept", "tool"]
        process = subprocess.Popen(argv, env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
        os.close(theirs)
        os.write(me, f"{answer}\n".encode())
        said = b""
        while True:
            try:
                piece = os.read(me, 4096)
            except OSError:  # Linux's word for the end of a terminal
                break
            if not piece:
                break
            said += piece
        os.close(me)
        return process.wait(patient(30)), said.decode().replace("\r\n", "\n")


@pytest.fixture
def place(tmp_path: Path, kz: Kz, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    www = tmp_path / "www"
    wheel(www, "1.0", TERMS)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=www))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    folder = tmp_path / "project"
    folder.mkdir()
    found = Place(folder, f"http://127.0.0.1:{server.server_address[1]}", www, kz)
    for name, value in found.variables.items():
        monkeypatch.setenv(name, value)
    yield found
    server.shutdown()
    server.server_close()


def brought(place: Place) -> Path:
    (found,) = fetch(load_project(place.folder), Request("a", ("tool",)))
    assert found.laid
    return found.laid


def test_without_a_word_nothing_is_brought(place: Place) -> None:
    place.lock()
    (wheel_in_store,) = (place.folder / "store" / "sha256").iterdir()
    wheel_in_store.unlink()
    with pytest.raises(MissingError) as raised:
        brought(place)
    assert raised.value.exit_code == 6 and "kz accept tool" in str(raised.value)
    assert not wheel_in_store.exists() and not (place.folder / "store" / "laid").exists()
    listed = place.kz("accept")
    assert listed.returncode == 0 and "tool 1.0 (a): not accepted: kz accept tool" in listed.stdout


def test_nobody_accepts_by_accident(place: Place) -> None:
    """A script without --yes, an answer that is not yes, and an end of input all leave nothing."""
    place.lock()
    done = place.kz("accept", "tool")
    assert done.returncode == 2 and "--yes" in done.stderr and not place.record.exists()
    for answer in ("no", "", "y", "\x04"):
        code, said = place.typed(answer)
        assert code == 6 and "not accepted: nothing was recorded" in said, (answer, said)
        assert not place.record.exists()
    with pytest.raises(MissingError):
        brought(place)


def test_it_is_shown_and_accepted_once(place: Place) -> None:
    place.lock()
    code, said = place.typed("yes")
    assert code == 0, said
    assert "TERMS AND CONDITIONS" in said and "nothing else" in said and "tool/TERMS.txt" in said
    assert hashlib.sha256(TERMS.encode()).hexdigest() in said and "tool-1.0-py3-none-any.whl" in said
    (one,) = json.loads(place.record.read_bytes())["accepted"]
    assert (one["source"], one["version"], one["how"]) == ("tool", "1.0", "asked")
    assert one["sha256"] == hashlib.sha256(TERMS.encode()).hexdigest()
    again = place.kz("accept", "tool")
    assert again.returncode == 0 and "accepted on" in again.stdout
    assert len(json.loads(place.record.read_bytes())["accepted"]) == 1
    assert "accepted on" in place.kz("accept").stdout


def test_what_is_laid_is_links_and_nothing_lies_in_the_project(place: Place) -> None:
    place.lock()
    assert place.kz("accept", "tool", "--yes").returncode == 0
    laid = brought(place)
    files = sorted(p.relative_to(laid).as_posix() for p in laid.rglob("*") if not p.is_dir() or p.is_symlink())
    assert files == ["lib/host/libtool.so", "lib/tool.libs"]
    assert all((laid / name).is_symlink() and not os.readlink(laid / name).startswith("/") for name in files)
    assert (laid / "lib/host/libtool.so").read_text() == "library 1.0"
    assert (laid / "lib/host/../tool.libs/libc++.so.1").read_text() == "of llvm"
    assert {p.name for p in place.folder.iterdir()} == {"pins.yaml", "pins.lock", "store", "config"}
    (laid / "lib/host/libtool.so").unlink()
    assert brought(place) == laid and (laid / "lib/host/libtool.so").exists(), "a link that went comes again"
    assert "laid" in place.kz("store", "list").stdout
    assert place.kz("store", "gc", "--older", "0", "--delete").returncode == 0
    assert not laid.exists() and brought(place) == laid


def test_another_licence_is_asked_for_and_the_same_is_not(place: Place) -> None:
    place.lock()
    assert place.kz("accept", "tool", "--yes").returncode == 0
    wheel(place.www, "1.1", TERMS)
    wheel(place.www, "2.0", TERMS + "\nand your firstborn")
    pins = (place.folder / "pins.yaml").read_text()

    (place.folder / "pins.yaml").write_text(pins.replace("'1.0'", "'1.1'"))
    place.lock()
    assert (brought(place) / "lib/host/libtool.so").read_text() == "library 1.1", "the same bytes: one word is enough"
    assert "the same bytes as of 1.0" in place.kz("accept", "tool").stdout

    (place.folder / "pins.yaml").write_text(pins.replace("'1.0'", "'2.0'"))
    place.lock()
    with pytest.raises(MissingError, match="you accepted that of 1.1 on .*this one may differ"):
        brought(place)
    code, said = place.typed("yes")
    assert code == 0 and "firstborn" in said
    assert (brought(place) / "lib/host/libtool.so").read_text() == "library 2.0"


def test_a_version_of_this_machine_alone_needs_a_word_too(place: Place) -> None:
    """pins.local.yaml: no lock knows that licence, so the word is for the version, and the bytes are looked at."""
    place.lock()
    assert place.kz("accept", "tool", "--yes").returncode == 0
    wheel(place.www, "2.0", "other terms")
    (place.folder / "pins.local.yaml").write_text("lines: {a: {tool: '2.0'}}\n")
    with pytest.raises(MissingError, match="you accepted that of 1.0"):
        brought(place)
    assert place.kz("accept", "tool", "--yes").returncode == 0
    assert (brought(place) / "lib/host/libtool.so").read_text() == "library 2.0"


def test_a_lock_that_does_not_know_the_licence_says_so(place: Place) -> None:
    done = place.kz("lock", "--write")
    assert done.returncode == 0
    assert json.loads((place.folder / "pins.lock").read_bytes())["lines"]["a"]["tool"]["licence"] is None
    with pytest.raises(MissingError, match="licence's digest of tool 1.0") as raised:
        brought(place)
    assert raised.value.exit_code == 3 and "-> kz lock --write --line a --trust tool\n" in str(raised.value)


@pytest.mark.parametrize(
    ("break_it", "code", "said"),
    [
        (lambda p: p.kz("accept", "plain"), 2, "plain has no licence that must be accepted"),
        (lambda p: p.kz("accept", "tol"), 2, "did you mean tool?"),
        (
            lambda p: (p.record.parent.mkdir(), p.record.write_text("{"), p.kz("accept", "tool"))[-1],
            2,
            "not a record of",
        ),
        (
            lambda p: (
                (p.folder / "pins.yaml").write_text(
                    (p.folder / "pins.yaml").read_text().replace("TERMS.txt", "LICENCE")
                ),
                p.kz("accept", "tool"),
            )[-1],
            2,
            "there is no tool/LICENCE in that wheel",
        ),
        (
            lambda p: (
                (p.folder / "pins.lock").write_text(
                    (p.folder / "pins.lock").read_text().replace(hashlib.sha256(TERMS.encode()).hexdigest(), "0" * 64)
                ),
                p.kz("accept", "tool"),
            )[-1],
            3,
            "pins.lock says 0000",
        ),
    ],
)
def test_what_is_wrong_is_said(
    place: Place, break_it: Callable[[Place], subprocess.CompletedProcess[str]], code: int, said: str
) -> None:
    place.lock()
    done = break_it(place)
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr


@pytest.mark.parametrize(
    "pdf", [b"%PDF-1.4 cut off", b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 1 0 R>>endobj\ntrailer<</Root 1 0 R>>"]
)
def test_a_damaged_pdf_is_no_bug_of_kz(pdf: bytes) -> None:
    with pytest.raises(ConfigError, match="cannot read the licence, a PDF"):
        licence.text(pdf)


def test_the_text_of_a_pdf_is_shown(place: Place) -> None:
    stream = b"BT /F1 12 Tf 72 720 Td (AI STACK LICENSE) Tj ET"
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(stream), stream),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    pdf, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(pdf))
        pdf += b"%d 0 obj%s endobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % at for at in places)
    pdf += b"xref\n0 6\n0000000000 65535 f \n%strailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (
        table,
        len(pdf),
    )
    wheel(place.www, "1.0", pdf)
    place.lock()
    code, said = place.typed("yes")
    assert code == 0 and "AI STACK LICENSE" in said


def test_the_shipped_recipes_stop_without_a_word(kz: Kz, tmp_path: Path) -> None:
    """All that is missing at once, with the command that mends it; nothing was downloaded for it."""
    empty = {"KZ_CONFIG": str(tmp_path / "config"), "KZ_CACHE": str(tmp_path / "store")}
    done = kz("env", "tiny-llama-qnn-hybrid", **empty)
    assert done.returncode == 6 and "kz accept qnn-host" in done.stderr, done.stderr
    ready = kz("export", "preflight", "tiny-llama-qnn-hybrid", **empty)
    assert ready.returncode == 6 and "sdk qnn-host" in ready.stderr and "-> kz accept qnn-host" in ready.stdout
    assert not (tmp_path / "store" / "sha256").exists()


def test_all_that_a_machine_lacks_is_said_at_once(kz: Kz, tmp_path: Path) -> None:
    """C library, a library that the linker wants, a Python and the licence, before anything is downloaded."""
    for name in ("recipes", "patches"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("pins.yaml", "pins.lock"):
        shutil.copy(ROOT / name, tmp_path)
    recipe = tmp_path / "recipes" / "tiny-llama-qnn-kv.yaml"
    text = recipe.read_text().replace('glibc: "2.35"', 'glibc: "9.35"').replace("libatomic.so.1", "libnowhere.so.1")
    recipe.write_text(text.replace(">=3.11,<3.12", ">=3.99"))
    empty = {"KZ_CONFIG": str(tmp_path / "config"), "KZ_CACHE": str(tmp_path / "store")}
    done = kz("-C", tmp_path, "env", "tiny-llama-qnn-kv", **empty)
    assert done.returncode == 6, done.stderr
    for words in ("glibc", "library libnowhere.so.1", "apt install libatomic1", "kz accept qnn-host", "Python 3.11"):
        assert words in done.stderr, (words, done.stderr)
    assert not (tmp_path / "store" / "sha256").exists()

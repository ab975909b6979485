"""The package index, as wheels' file names are in it: versions and tags as PEP 440 and 425 read them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kz_build.core.errors import ConfigError, UnreachableError
from kz_build.sources.package_index import find_wheel, is_wheel_of

FILES = (
    "not_a_wheel.whl",
    "some_tool-1.9.0-py3-none-any.whl",
    "some_tool-1.10.0-py3-none-any.whl",
    "some_tool-1.10.0.tar.gz",
    "some_tool-2.0.0%2Bcpu-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
    "some_tool-2.0.0%2Bcpu-cp312-cp312-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
    "some_tool-2.0.0%2Bcu130-cp311-cp311-manylinux2014_x86_64.whl",
)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None: ...

    page = tmp_path / "some-tool" / "index.html"
    page.parent.mkdir()
    page.write_text("".join(f'<a href="/files/{name}#sha256={"0" * 64}">{name}</a>\n' for name in FILES))
    with ThreadingHTTPServer(("127.0.0.1", 0), lambda *a: Quiet(*a, directory=str(tmp_path))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("version", "tag", "name"),
    [
        ("1.9", "*-none-any", FILES[1]),
        ("1.10.0", "*-none-any", FILES[2]),
        ("2.0.0", "cp311-cp311-manylinux_2_17_x86_64", FILES[4].replace("%2B", "+")),
        ("2.0.0+cu130", "*", FILES[6].replace("%2B", "+")),
    ],
)
def test_a_wheel_is_found_by_its_version_and_any_of_its_tags(index: str, version: str, tag: str, name: str) -> None:
    assert find_wheel(index, "Some_Tool", version, tag).name == name


@pytest.mark.parametrize(
    ("version", "tag", "said"),
    [
        ("1.11", "*", "no wheel of version 1.11"),
        ("main", "*", "no wheel of version main"),
        ("2.0.0", "*x86_64", "2 wheels of some.tool 2.0.0 match"),
        ("2.0.0", "*aarch64", "0 wheels of some.tool 2.0.0 match"),
    ],
)
def test_what_is_no_single_wheel_is_refused(index: str, version: str, tag: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as error:
        find_wheel(index, "some.tool", version, tag)
    if "no wheel" in said:
        assert error.value.hint == "the index has 1.9.0, 1.10.0, 2.0.0+cpu, 2.0.0+cu130"


def test_a_digest_that_leads_out_of_the_store_is_refused(index: str, tmp_path: Path) -> None:
    page = tmp_path / "some-tool" / "index.html"
    page.write_text(page.read_text().replace("0" * 64, "../../../../etc/passwd"))
    with pytest.raises(UnreachableError, match="did not answer like a package index: .*64 hexadecimal digits"):
        find_wheel(index, "Some_Tool", "1.9", "*")


def test_a_wheel_is_of_a_project_and_a_tag() -> None:
    name = "some_tool-1-py2.py3-none-any.whl"
    assert is_wheel_of(name, "Some.Tool", "py3-none-any") and not is_wheel_of("tool.zip", "tool", "*")
    assert not is_wheel_of(name, "tool", "*") and not is_wheel_of(name, "some-tool", "cp311-*")

"""The pure part of release files: names, addresses, sums."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kz_build.build.steps import ASSEMBLE, Checkout, Command
from kz_build.release.statement import (
    artifacts_by_component,
    is_notice,
    is_own_notice,
    nearest,
    notice_name,
    parse_sums,
    plain_step,
    provenance_statement,
    public_url,
    replace_folders,
    sums_text,
)


@pytest.mark.parametrize(
    "path",
    [
        "LICENSE", "LICENCE.md", "license.txt", "LICENSE-APACHE", "LICENSE.MIT", "COPYING", "COPYING.MPL2", "NOTICE", "NOTICE.toolchain",
        "COPYRIGHT", "UNLICENSE", "PATENTS", "ThirdPartyNotices.txt", "third-party-licenses", "LICENSES/BSD-3-Clause.txt",
        "external/grisu3/LICENSE", "third-party/FFHT/LICENSE.md", "backends/nxp/lib/LICENSE_APACHE_2.0",
    ],
)  # fmt: skip
def test_these_hold_licences(path: str) -> None:
    assert is_notice(path)


@pytest.mark.parametrize(
    "path", ["README.md", "licensing/main.c", "tools/license.py", "licenses.bzl", "noticeboard", "src/copying_gc.cpp", "LICENSES/x.py"]
)  # fmt: skip
def test_these_do_not(path: str) -> None:
    assert not is_notice(path)


def test_of_a_wheel_only_its_own_count() -> None:
    own = ["x-1.dist-info/LICENSE", "x-1.dist-info/licenses/x/lib/LICENSE.TXT", "LICENSE"]
    assert all(is_own_notice(path) for path in own)
    assert not any(is_own_notice(path) for path in ("x/vendor/LICENSE", "x-1.dist-info/METADATA", "x-1.dist-info/sub/LICENSE"))  # fmt: skip
    assert [notice_name(path) for path in own] == ["LICENSE", "x/lib/LICENSE.TXT", "LICENSE"]


def test_a_licence_of_vendored_code_is_not_the_components() -> None:
    assert nearest(["N/a/LICENSE", "N/a/NOTICE", "N/a/third-party/b/LICENSE"]) == ["N/a/LICENSE", "N/a/NOTICE"]
    assert nearest([]) == []


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("https://me:secret@host:8443/x.git", "https://host:8443/x.git"),
        ("https://host/x", "https://host/x"),
        ("ssh://git@host/x", "ssh://host/x"),
        ("file:///home/me/x", ""),
        ("/home/me/x", ""),
        ("upstream.bundle", ""),
    ],
)
def test_no_password_and_no_folder_is_printed(given: str, shown: str) -> None:
    assert public_url(given) == shown


def test_folders_are_renamed_whole_and_longest_first() -> None:
    names = [("/w/p", "/kz/project"), ("/w/p/out/tree/l/t", "/kz"), ("/w/p/out/build/l/t", "/kz/out")]
    assert replace_folders("/w/p/out/tree/l/t/et:/w/p/out/build/l/t/x:/w/p:/w/p2:/w/p.old", names) == "/kz/et:/kz/out/x:/kz/project:/w/p2:/w/p.old"  # fmt: skip


def test_a_step_is_the_same_on_any_machine() -> None:
    def made(home: str, jobs: str, cache: tuple[tuple[str, str], ...]) -> dict[str, object]:
        names = [(f"{home}/tree", "/kz"), (f"{home}/build", "/kz/out"), (f"{home}/zig", "/kz/a"), ("/opt/n", "/kz/ndk")]
        path = ("PATH", ":".join([*sorted([f"{home}/zig/bin", "/opt/n/bin"]), "/usr/bin", "/bin"]))
        argv = ("cmake", "--build", f"{home}/build", "--parallel", jobs)
        step = Command("b", argv, Path(f"{home}/tree/x"), (("HOME", f"{home}/build/home"), path, *cache))
        checkout = Checkout(Path(f"{home}/cache/x.git"), "a" * 40, ("*.gif",), Path(f"{home}/tree/x"))
        return {"command": plain_step(step, names), "checkout": plain_step(checkout, names)}

    ccache = (("CCACHE_DIR", "/x"), ("CMAKE_C_COMPILER_LAUNCHER", "/usr/bin/ccache"))
    plain = made("/home/a", "4", ())
    assert plain == made("/srv/b", "64", (("CCACHE_DISABLE", "1"),)) == made("/srv/b", "1", ccache)
    assert plain["checkout"] == {"checkout": "/kz/x", "gitTree": "a" * 40, "exclude": ["*.gif"]}


def test_a_cache_before_the_assembler_is_no_part_of_a_step() -> None:
    step = Command("c", ("cmake", "-DA=1", f"-DCMAKE_ASM_COMPILE_OBJECT=ccache {ASSEMBLE}", "-DB=2"), Path("/x"), ())
    assert plain_step(step, [])["argv"] == ["cmake", "-DA=1", "-DB=2"]


def test_what_was_compiled_in_is_told_by_the_paths_that_an_artifact_names() -> None:
    notices = {
        "et": ["LICENSE", "extra/FFHT/LICENSE.md", "examples/LICENSE"],
        "et/third-party/sp": ["LICENSE", "third_party/absl/LICENSE", "LICENSES/MIT.txt"],
        "headers": ["LICENSE"],
        "cmake": ["LICENSE"],
    }
    named = {
        "lib/a.so": ["/kz/et/third-party/sp/third_party/absl/flag.cc", "/kz/et/extra/FFHT/fht.c", "/kz/out/x.cc", "/kz/et2/y.c"],
        "lib/b.so": ["/kz/headers/v.h:85:7), 0>", "/kz/et/third-party/sp/a.cc"],
    }  # fmt: skip
    assert artifacts_by_component(notices, named, "/kz") == {
        "et": {"": {"lib/a.so"}, "extra/FFHT": {"lib/a.so"}},
        "et/third-party/sp": {"": {"lib/a.so", "lib/b.so"}, "third_party/absl": {"lib/a.so"}},
        "headers": {"": {"lib/b.so"}},
    }


def test_sums_are_read_as_they_are_written() -> None:
    files = {"lib/a b.so": "0" * 64, "bin/x": "f" * 64}
    assert parse_sums(sums_text(files)) == files


@pytest.mark.parametrize(
    "text", ["x", f"{'0' * 64} one space", f"{'0' * 64}  /etc/passwd", f"{'0' * 64}  a/../../b", f"{'0' * 63}g  a", f"{'0' * 64}  a\n" * 2]
)  # fmt: skip
def test_sums_that_no_build_writes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="line"):
        parse_sums(text)


def test_an_image_is_something_that_went_in() -> None:
    image = {"name": "kz/android", "digest": "sha256:" + "e" * 64}
    said: Any = provenance_statement({"lib/x.so": "0" * 64}, (), {"line": "l"}, {"engine": "docker"}, image, "1")
    found = said["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert found == [{"name": "kz/android", "digest": {"sha256": "e" * 64}, "annotations": {"kind": "image"}}]

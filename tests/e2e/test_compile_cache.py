"""Compile caches: they spare the compiler, change no byte, and are not believed blindly."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Kz, snapshot
from tests.e2e.test_reproduce import COMPILED, Tiny
from tests.e2e.test_reproduce import tiny as tiny  # a fixture

pytestmark = pytest.mark.reproduce
CODE = "#ifdef LIE\nint answer(void) { return 41; }\n#else\nint answer(void) { return 42; }\n#endif\n"


def record(project: Path) -> dict[str, Any]:
    (path,) = project.glob("out/build/*/*/manifest.json")
    return dict(json.loads(path.read_text()))


def test_an_object_that_the_compiler_does_not_make_is_found(tiny: Tiny, kz: Kz, tmp_path: Path) -> None:
    """A cache, or a worker, that answers with another object of the right form."""
    project, tools = tiny(CODE, COMPILED), tmp_path / "tools"
    tools.mkdir()
    cache = tools / "ccache"
    path = f"{tools}:{os.environ['PATH']}"
    for words in ('"$@"', '"$@" -DLIE'):
        cache.write_text(f"#!/bin/sh\nexec {words}\n")
        cache.chmod(0o755)
        shutil.rmtree(project / "out", ignore_errors=True)
        done = kz("-C", project, "build", "--distrust", "9", PATH=path)
        if "LIE" not in words:
            assert done.returncode == 0, done.stdout + done.stderr
            assert record(project)["distrust"] == {"compared": 2, "of": 2}
            assert "nothing to do" in kz("-C", project, "build", "--distrust", "2", PATH=path).stdout
            honest = snapshot(project / "dist")
    assert done.returncode == 7, done.stdout + done.stderr
    assert "1 of 2 objects compiled again are not those of the build" in done.stderr
    assert "  library/CMakeFiles/objects.dir/case.cmake.o\n" in done.stderr
    assert snapshot(project / "dist") == honest, "dist stays as it was"

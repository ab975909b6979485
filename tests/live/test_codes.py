"""The names of ExecuTorch's error codes against the trees that the lines pin: needs a network that reaches GitHub."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from kz_build.diagnose.codes import EXECUTORCH
from tests.conftest import ROOT, Kz

pytestmark = pytest.mark.upstream
LINES = sorted(p.parent.name for p in (ROOT / "patches").glob("*/executorch"))


@pytest.mark.parametrize("line", LINES)
def test_the_codes_are_those_of_error_h(line: str, kz: Kz) -> None:
    done = kz("apply", "--line", line, "--json")
    assert done.returncode == 0, done.stderr
    tree = next(t for t in json.loads(done.stdout)[line] if t["source"] == "executorch")
    git = ["git", f"--git-dir={tree['repository']}", "cat-file", "blob", f"{tree['base']}:runtime/core/error.h"]
    header = subprocess.run(git, check=True, capture_output=True, text=True).stdout
    codes = re.findall(r"^  (\w+) = (0x[0-9a-fA-F]+),$", header, re.MULTILINE)
    assert {int(number, 16): name for name, number in codes} == EXECUTORCH

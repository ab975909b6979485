"""kz_build as a library, as docs/guides/library.md shows it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT, Kz


def test_the_example_in_library_md_builds_and_reads_the_checks(built: Path, kz: Kz, clean_env: dict[str, str]) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/guides/library.md").read_text(), re.M | re.S)
    project = 'Path("examples/sample")'
    assert code.count(project) == 1
    code = code.replace(project, f"Path({str(built)!r})")
    done = subprocess.run([sys.executable, "-c", code], env=clean_env, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    checks = json.loads(kz("-C", built, "audit", "--json").stdout)
    assert done.stdout.splitlines() == [f"{c['file']} {c['check']} {c['status']} {c['evidence']}" for c in checks]
    assert len(checks) > 10

"""Bytes of code by source file, from the debug information that real compilers write."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kz_build.core.errors import AuditError
from kz_build.formats.elf import section_sizes
from kz_build.formats.elf_units import code_by_source

CODE = """
static int twice(int a) { return a * 2; }
int used(int a) { return twice(a) + 40; }
int removed(int a) { return a * 77 + 1; }
"""
TEXT = {"one.c": CODE, "deep/two.c": "int used(int); int more(int a) { return used(a) ^ 3; }"}
REMOVE = ["-ffunction-sections", "-Wl,--gc-sections", "-fvisibility=hidden", "-Wl,--entry=more", "-nostdlib", "-O1"]


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.parametrize("version", ["4", "5"])
def test_code_that_is_there_counts_for_the_file_it_was_compiled_from(tmp_path: Path, version: str) -> None:
    for name, code in TEXT.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(code)
    library = tmp_path / "a"
    debug = [f"-gdwarf-{version}", "-static", "-fno-asynchronous-unwind-tables"]
    subprocess.run(["gcc", *REMOVE, *debug, "-o", library, *TEXT], cwd=tmp_path, check=True)
    sizes = code_by_source(library)
    assert sizes.keys() == {str(tmp_path / name) for name in TEXT}
    padding = section_sizes(library)[".text"] - sum(sizes.values())
    assert 0 <= padding < 16 * len(TEXT), "what the linker removed does not count"

    whole = library.read_bytes()
    (tmp_path / "cut").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(AuditError):
        code_by_source(tmp_path / "cut")
    subprocess.run(["strip", library], check=True)
    assert code_by_source(library) == {}

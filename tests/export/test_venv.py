"""What kz asks of an environment that it made."""

from __future__ import annotations

from pathlib import Path

import pytest

from kz_build.core.errors import CommandError
from kz_build.export import venv


def python(folder: Path, text: str) -> Path:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_set_is_complete_only_if_pip_says_so(tmp_path: Path) -> None:
    assert venv.complete(python(tmp_path, "echo No broken requirements found.")) == ""
    wrong = "torch 2.9 requires sympy, which is not installed."
    assert venv.complete(python(tmp_path, f"echo {wrong}; exit 1")) == wrong


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kill -9 $$", "killed by signal 9"),
        ("echo half; kill -9 $$", "killed by signal 9"),
        ("echo No module named pip >&2; exit 1", "ended with 1\nNo module named pip"),
    ],
)
def test_a_pip_that_says_nothing_has_not_found_it_complete(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(CommandError, match=said):
        venv.complete(python(tmp_path, text))

"""The project that kz is released with: our pins, stacks and recipes for ExecuTorch, to begin one's own with."""

from __future__ import annotations

from pathlib import Path

from kz_build.core.errors import ConfigError, Problem
from kz_build.core.files import write_atomic
from kz_build.core.paths import files_below

NAMES = (
    "baselines",
    "containers",
    "patches",
    "recipes",
    "pins.schema.json",
    "recipes.schema.json",
    "pins.lock",
    "pins.yaml",
)
"""Its files and folders. pins.yaml comes last, for it makes a folder a project: an interrupted copy is begun again."""
_PACKAGE = Path(__file__).parents[1]


def folder() -> Path:
    """Return where the template lies: in the installed package, or this checkout itself."""
    installed = _PACKAGE / "template"
    return installed if installed.is_dir() else _PACKAGE.parent


def copy_to(root: Path) -> tuple[str, ...]:
    """Copy the template into a folder, and return the names of the files. Raises ConfigError, before it writes anything, if one of them is
    there with other bytes."""
    source = folder()
    files = [
        path
        for name in NAMES
        for path in (files_below(source / name) if (source / name).is_dir() else [source / name])
        if not path.name.startswith(".")
    ]
    contents = {str(path.relative_to(source)): (path.read_bytes(), path.stat().st_mode & 0o777) for path in files}
    others = [name for name, (data, _) in contents.items() if _has_other(root / name, data)]
    if others:
        raise ConfigError(
            "these files are there already, and kz init changes no file:",
            tuple(Problem(name, 0, "differs") for name in others),
            hint="begin in an empty folder: mkdir DIR && kz -C DIR init --executorch",
        )
    for name, (data, mode) in contents.items():
        write_atomic(root / name, data, mode=mode)
    return tuple(contents)


def _has_other(path: Path, data: bytes) -> bool:
    """Tell whether something else than a file of these bytes is at a path."""
    if not path.exists() and not path.is_symlink():
        return False
    return path.is_symlink() or not path.is_file() or path.read_bytes() != data

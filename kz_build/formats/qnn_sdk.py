"""Qualcomm's QNN libraries for devices: in an SDK, in its published runtime AAR, or in any folder."""

from __future__ import annotations

from pathlib import Path

from kz_build.core.errors import ConfigError
from kz_build.core.files import new_folder, sha256_file
from kz_build.formats import zip as zips

_ANDROID, _DSPS = "lib/aarch64-android", "lib/hexagon-v*/unsigned"
_IN_AAR = "jni/arm64-v8a/"
_MOST = 1 << 30


def qnn_runtime(path: Path, store: Path) -> dict[str, Path]:
    """Return name -> file of an SDK's folder, of another folder with libQnn*.so, or of an AAR, unpacked into the store once.

    Raises ConfigError for a path that has none, AuditError for an AAR that is damaged.
    """
    if path.is_file():
        folders = [_unpacked(path, store)]
    else:
        folders = [path / _ANDROID, *sorted(path.glob(_DSPS))] if (path / "lib").is_dir() else [path]
    libraries = {file.name: file for folder in folders for file in sorted(folder.glob("libQnn*.so"))}
    if not libraries:
        raise ConfigError(
            f"{path} has no libQnn*.so for a device",
            hint=f"use one of Qualcomm's SDKs (with {_ANDROID}/), or its AAR com.qualcomm.qti:qnn-runtime",
        )
    return libraries


def _unpacked(aar: Path, store: Path) -> Path:
    folder = store / "qnn-runtime" / sha256_file(aar)
    if not folder.is_dir():
        with aar.open("rb") as file, zips.opened(aar.name, file) as archive, new_folder(folder) as target:
            for entry in archive.entries:
                if entry.name.startswith(_IN_AAR) and entry.name.endswith(".so"):
                    with (target / entry.name.rpartition("/")[2]).open("wb") as to:
                        for piece in archive.pieces(entry, _MOST):
                            to.write(piece)
    return folder

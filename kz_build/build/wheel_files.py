"""Zip files that are the same bytes anywhere."""

from __future__ import annotations

import io
import zipfile

from kz_build.git.object_types import Blob


def zip_bytes(members: tuple[tuple[str, Blob], ...]) -> bytes:
    """Return a zip of members in the given order: stored, with a fixed time and git's modes, independent of machine and Python."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as zipped:
        for path, blob in members:
            info = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            info.create_system = 3  # Unix: the modes below mean something
            info.external_attr = (0o100755 if blob.mode == "100755" else 0o100644) << 16
            zipped.writestr(info, blob.data)
    return buffer.getvalue()

"""Writing wheels that are the same bytes anywhere."""

from __future__ import annotations

import io
import zipfile

from kz_build.git.object_types import Blob


def packed(members: tuple[tuple[str, Blob], ...]) -> bytes:
    """A zip of members in the given order: stored, one fixed time, modes from git, no trace of this machine or Python."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as zipped:
        for path, blob in members:
            info = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            info.create_system = 3  # Unix: the modes below mean something
            info.external_attr = (0o100755 if blob.mode == "100755" else 0o100644) << 16
            zipped.writestr(info, blob.data)
    return out.getvalue()

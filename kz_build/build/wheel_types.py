"""A patched wheel's names and metadata, and its bytes. Pure: reads and writes no files."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kz_build.core.errors import ConfigError
from kz_build.git.object_types import Blob

_NAME, _VERSION = re.compile(r"[A-Za-z0-9._]+"), re.compile(r"[A-Za-z0-9.!+_]+")
"""What PyPA allows in these parts of a wheel's names: they go into METADATA and a file name."""


@dataclass(frozen=True)
class Wheel:
    """A wheel that kz wrote: `version` is upstream's with `+kz.g<tree>`, `tree` its patched tree."""

    path: Path
    version: str
    sha256: str
    tree: str


def local_version(version: str, tree: str) -> str:
    """Return upstream's version with the tree's first eight digits as a local version: `0.6.1+kz.g1d1a03cf`."""
    # Not `packaging`: an AAR's version is Maven's, and upstream's spelling stays.
    public, _, local = version.partition("+")
    return f"{public}+{local + '.' if local else ''}kz.g{tree[:8]}"


def repack(files: Mapping[str, Blob], tree: str) -> tuple[str, str, tuple[tuple[str, Blob], ...]]:
    """Return (file name, version, members in order, RECORD last) of a patched wheel's files.

    The dist-info folder, METADATA's Version and the file name have the new version; RECORD is written again
    (PyPA, "Recording installed projects": path, sha256 in URL-safe base64 without padding, size).
    """
    infos = sorted({path.split("/")[0] for path in files if re.fullmatch(r"[^/]+\.dist-info/METADATA", path)})
    if len(infos) != 1:
        raise ConfigError(
            f"a wheel has one .dist-info folder with METADATA, this one has {len(infos)}",
            hint="does a patch move or delete it?",
        )
    old = infos[0]
    name, _, upstream = old.removesuffix(".dist-info").partition("-")
    if not _NAME.fullmatch(name) or not _VERSION.fullmatch(upstream):
        raise ConfigError(f"the wheel's folder {old!r} does not name a package and its version")
    version = local_version(upstream, tree)
    new = f"{name}-{version}.dist-info"
    members: list[tuple[str, Blob]] = []
    for path in sorted(files):
        blob = files[path]
        if blob.mode not in ("100644", "100755") or any("\ud800" <= c <= "\udfff" for c in path):
            raise ConfigError(
                f"a wheel has only files, with names in UTF-8, and a patch adds {path!r}", hint="change that patch"
            )
        if path == f"{old}/METADATA":
            blob = Blob(
                blob.mode, re.sub(rb"(?m)^Version:[^\r\n]*", b"Version: " + version.encode(), blob.data, count=1)
            )
        members.append((_new_path(path, name, upstream, version, old, new), blob))
    rows = [f"{_csv(path)},sha256={_digest(blob.data)},{len(blob.data)}" for path, blob in members]
    record = "\n".join([*rows, f"{_csv(new + '/RECORD')},,", ""]).encode()
    tags = _tags(files[f"{old}/WHEEL"].data if f"{old}/WHEEL" in files else b"")
    return f"{name}-{version}-{tags}.whl", version, (*members, (f"{new}/RECORD", Blob("100644", record)))


def _new_path(path: str, name: str, upstream: str, version: str, old: str, new: str) -> str:
    top, _, rest = path.partition("/")
    if top == old:
        return f"{new}/{rest}"
    return f"{name}-{version}.data/{rest}" if top == f"{name}-{upstream}.data" else path


def _tags(wheel: bytes) -> str:
    """Return the python-abi-platform of a WHEEL file, several tags compressed as in a file name."""
    tags = [m.decode("ascii", "replace").split("-") for m in re.findall(rb"(?m)^Tag:\s*(\S+)", wheel)]
    if not tags or any(len(tag) != 3 or not all(map(_NAME.fullmatch, tag)) for tag in tags):
        raise ConfigError("the wheel's WHEEL file names no tag, or one that is not python-abi-platform")
    return "-".join(".".join(dict.fromkeys(tag[i] for tag in tags)) for i in range(3))


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _csv(path: str) -> str:
    return '"' + path.replace('"', '""') + '"' if any(c in path for c in ',"\n\r') else path


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

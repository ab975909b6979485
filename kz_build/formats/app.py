"""A reader of apps: an APK, an app bundle, an AAR, several of them, or a folder with parts of an app (also libraries, models).

Only one piece of a file is in memory, and only one library unpacked, at a time.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from kz_build.core.errors import AuditError
from kz_build.core.locks import scratch_folder
from kz_build.core.paths import refuse
from kz_build.formats import zip as zips
from kz_build.formats.android_manifest import DamagedError, Manifest, manifest_of, read_text
from kz_build.formats.app_types import App, Library, Model
from kz_build.formats.axml import read_axml
from kz_build.formats.elf import read_elf
from kz_build.formats.elf_types import MACHINES
from kz_build.formats.qnn_blob import qnn_versions

PARTS = (".apk", ".aab", ".aar")
MODELS = (".pte", ".onnx", ".ort", ".bin")
_MOST_LIBRARY = 1 << 30
_MOST_MODEL = 1 << 33
_MOST_MANIFEST = 2 << 20
_LAYOUTS = {
    "apk": re.compile(r"lib/([^/]+)/[^/]+\.so"),
    "aar": re.compile(r"jni/([^/]+)/[^/]+\.so"),
    "aab": re.compile(r"[^/]+/lib/([^/]+)/[^/]+\.so"),
}
_MANIFESTS = {"apk": "AndroidManifest.xml", "aar": "AndroidManifest.xml", "aab": "base/manifest/AndroidManifest.xml"}
_ADSP = b"ADSP_LIBRARY_PATH"
_OVERLAP = 64


@dataclass
class _AppFacts:
    """The facts that were read so far."""

    libraries: list[Library] = field(default_factory=list)
    models: list[Model] = field(default_factory=list)
    manifests: list[tuple[str, Manifest]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    declared: set[str] = field(default_factory=set)
    adsp: list[bool] = field(default_factory=list)

    def app(self, kind: str) -> App:
        own = [m for _, m in self.manifests if not m.split] or [m for _, m in self.manifests]
        for manifest in own[:1]:
            self.declared.update(manifest.libraries)
        return App(
            kind, tuple(self.libraries), tuple(self.models), own[0] if own else None, "; ".join(self.problems),
            frozenset(self.declared), any(self.adsp) if self.adsp else None,
        )  # fmt: skip


def read_app(*paths: Path) -> App:
    """Read an APK, an app bundle or an AAR; several are parts of one app. Raises AuditError for anything else, or what Android
    would not install."""
    facts, kinds = _AppFacts(), set[str]()
    for path in paths:
        with _file(path) as file, zips.opened(path.name, file) as archive:
            kind = _kind(path, {e.name for e in archive.entries})
            kinds.add(kind)
            _read_zip(archive, kind, f"{path}!" if len(paths) > 1 else "", facts)
    return facts.app(next(kind for kind in ("apk", "aab", "aar") if kind in kinds))


def _kind(path: Path, names: set[str]) -> str:
    if _MANIFESTS["aab"] in names:
        return "aab"
    if _MANIFESTS["apk"] in names:
        return "aar" if "classes.jar" in names or path.suffix == ".aar" else "apk"
    raise AuditError(
        f"{path.name} is no APK, app bundle or AAR: it has no AndroidManifest.xml",
        hint="for loose libraries: kz check-apk --bundle FOLDER",
    )


def read_folder(folder: Path) -> App:
    """Read all libraries, models, AARs and APKs below a folder. Raises AuditError if there are none."""
    if not folder.is_dir():
        raise AuditError(f"{folder} is not a folder")
    facts = _AppFacts()
    for path in _files(folder):
        place = path.relative_to(folder).as_posix()
        if path.suffix in (".aar", ".apk"):
            with _file(path) as file, zips.opened(place, file) as archive:
                _read_zip(archive, path.suffix[1:], f"{place}!", facts)
        elif path.suffix == ".so":
            abi = path.parent.name if path.parent.name in MACHINES else ""
            sha256, versions = _scan(_pieces(path))
            facts.libraries.append(_library(Library(place, abi, sha256, None, qnn=versions), path))
        elif path.suffix in MODELS:
            _model(place, _pieces(path), facts)
        elif path.name == "AndroidManifest.xml":
            data = path.read_bytes() if path.stat().st_size <= _MOST_MANIFEST else b""
            _manifest(place, data, "", facts)
        elif path.suffix == ".dex":
            facts.adsp.append(_holds(_pieces(path), _ADSP))
    if not (facts.libraries or facts.models):
        raise AuditError(f"{folder} has no library, AAR, APK or .pte file")
    # The app's own manifest is the topmost; an APK's is final, one that people wrote is not.
    facts.manifests.sort(key=lambda m: ("!" not in m[0], m[0].count("/"), m[0]))
    return facts.app("folder")


def with_models(app: App, paths: Iterable[Path]) -> App:
    """Add models that the app gets from elsewhere, such as downloads at its first start."""
    facts = _AppFacts()
    for path in paths:
        if not path.is_file():
            raise AuditError(f"{path} is not a file")
        _model(path.name, _pieces(path), facts, named=True)
    return replace(app, models=(*app.models, *facts.models))


def _files(folder: Path) -> Iterator[Path]:
    for base, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = sorted(f for f in folders if f != ".git")
        yield from (p for name in sorted(names) if (p := Path(base, name)).is_file())


def _read_zip(archive: zips.Archive, kind: str, prefix: str, facts: _AppFacts) -> None:
    with scratch_folder() as scratch:
        for entry in archive.entries:
            place = prefix + entry.name
            if entry.name.endswith(".so"):
                # Its end: a name in a zip may be longer than one of a file.
                path = Path(scratch, "library", entry.name.rsplit("/", 1)[-1][-60:])
                path.parent.mkdir(exist_ok=True)
                with path.open("wb") as to:
                    sha256, versions = _scan(archive.pieces(entry, _MOST_LIBRARY), to)
                abi = match[1] if (match := _LAYOUTS[kind].fullmatch(entry.name)) else ""
                stored = entry.stored if kind == "apk" else None
                library = Library(place, abi, sha256, None, qnn=versions, stored=stored, offset=entry.offset)
                facts.libraries.append(_library(library, path))
                path.unlink()
            elif entry.name.endswith(MODELS):
                _model(place, archive.pieces(entry, _MOST_MODEL), facts)
            elif entry.name == _MANIFESTS[kind]:
                _manifest(place, archive.read(entry, _MOST_MANIFEST), kind, facts)
            elif entry.name.endswith(".dex"):
                facts.adsp.append(_holds(archive.pieces(entry, _MOST_LIBRARY), _ADSP))


def _library(library: Library, path: Path) -> Library:
    try:
        return replace(library, elf=read_elf(path, exports=False))
    except AuditError as error:
        return replace(library, problem=str(error))


def _model(place: str, pieces: Iterable[bytes], facts: _AppFacts, *, named: bool = False) -> None:
    versions = _versions(pieces)
    if versions or named or place.endswith(".pte"):  # a .bin without a context is somebody else's
        facts.models.append(Model(place, versions))


def _manifest(place: str, data: bytes, kind: str, facts: _AppFacts) -> None:
    """Add a manifest: an AAR's only says what it adds to the app's."""
    try:
        written = data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")
        manifest = manifest_of(read_text(data) if written else read_axml(data))
    except DamagedError as error:
        facts.problems.append(f"{place} cannot be read: {error}")
        return
    if kind == "aar":
        facts.declared.update(manifest.libraries)
    else:
        facts.manifests.append((place, manifest))


def _file(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise AuditError(f"{path} cannot be read: {error.strerror}") from error


def _pieces(path: Path) -> Iterator[bytes]:
    with _file(path) as file:
        if (size := path.stat().st_size) > _MOST_MODEL:
            raise AuditError(f"{path} has {size:,} bytes; {_MOST_MODEL:,} are read")
        while piece := file.read(zips.PIECE):
            yield piece


def _scan(pieces: Iterable[bytes], to: IO[bytes] | None = None) -> tuple[str, tuple[str, ...]]:
    """Return (sha256, QNN versions in it) of a library, and write it to `to` on the way."""
    digest = hashlib.sha256()

    def passed() -> Iterator[bytes]:
        for piece in pieces:
            digest.update(piece)
            if to:
                to.write(piece)
            yield piece

    versions = _versions(passed())
    return digest.hexdigest(), versions


def _versions(pieces: Iterable[bytes]) -> tuple[str, ...]:
    """Return the QNN versions in a file, also across the borders of its pieces."""
    versions: set[str] = set()
    before = b""
    for piece in pieces:
        data = before + piece
        versions.update(qnn_versions(data))
        before = data[-_OVERLAP:]
    return tuple(sorted(versions))


def _holds(pieces: Iterable[bytes], wanted: bytes) -> bool:
    before, present = b"", False
    for piece in pieces:
        present = present or wanted in before + piece
        before = piece[-_OVERLAP:]
    return present

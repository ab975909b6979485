"""Licence texts of fetched sources, taken from the pinned trees, wheels and folders themselves."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping
from functools import lru_cache

from kz_build.core.errors import ConfigError
from kz_build.core.locks import scratch_folder
from kz_build.git import repository as git
from kz_build.git.cat_file import Objects
from kz_build.release.statement import is_notice, is_own_notice, notice_name
from kz_build.sources.archive import is_zip, opened_zip
from kz_build.sources.fetched import Fetched, TreeAt

MOST_BYTES = 16 << 20
"""How large a licence text may be; those of a browser's 1,000 parts are 10 MB."""
_MOST_LINKS = 40  # as Linux
_HINT = "look at what upstream put there; the release is not written"


def of_tree(at: TreeAt) -> dict[str, bytes]:
    """Return name -> text of the licence files of a tree, vendored code's too; links are followed.

    Raises ConfigError for one that is too large, or whose name no line of SHA256SUMS can have.
    """
    repository = git.Repository(at.repository)
    entries = {e.path: e for e in repository.entries(at.tree, at.exclude) if not e.submodule}
    texts = {}
    with repository.objects() as objects:
        for path in sorted(entries):
            if is_notice(path) and (entry := linked(path, entries, objects)):
                data = objects.content(entry.id)
                _require_text(path, len(data))
                texts[path] = data
    return texts


def linked(path: str, entries: Mapping[str, git.TreeEntry], objects: Objects) -> git.TreeEntry | None:
    """Return the file that links lead to, None if they lead out of the tree or in a circle."""
    for _ in range(_MOST_LINKS):
        entry = entries.get(path)
        if entry is None or entry.mode != "120000":
            return entry
        path = posixpath.normpath(posixpath.join(posixpath.dirname(path), os.fsdecode(objects.content(entry.id))))
    return None


def of_files(source: Fetched) -> dict[str, bytes]:
    """Return name -> text of the licence files of a wheel or archive: of the whole file, even if only part was unpacked.

    Raises ConfigError for one that is too large: it is not read.
    """
    texts: dict[str, bytes] = {}
    if source.file and source.folder and is_zip(source.file):
        with opened_zip(source.file) as zipped:
            names = [i.filename for i in zipped.infolist() if not i.is_dir()]
            top = _only_folder(names)
            for name in sorted(names):
                if is_own_notice(inner := name.removeprefix(top)):
                    _require_text(f"{source.name}/{name}", zipped.getinfo(name).file_size)
                    data = zipped.read(name)
                    if (
                        texts.setdefault(notice_name(inner), data) != data
                    ):  # x.dist-info/LICENSE and .../licenses/LICENSE
                        texts[inner] = data
    elif source.folder:
        for path in sorted(source.folder.iterdir()):
            if path.is_file() and is_own_notice(path.name):
                _require_text(f"{source.name}/{path.name}", path.stat().st_size)
                texts[path.name] = path.read_bytes()
    return texts


def _require_text(name: str, size: int) -> None:
    if name.splitlines() != [name] or name.encode("utf-8", "replace").decode() != name:
        raise ConfigError(
            f"{name!r} has the name of a licence, but a line end in it, or bytes that are not UTF-8",
            hint=_HINT,
        )
    if size > MOST_BYTES:
        raise ConfigError(
            f"{name} has the name of a licence, but {size:,} bytes: kz takes up to {MOST_BYTES:,}",
            hint=_HINT,
        )


def _only_folder(names: list[str]) -> str:
    """Return `folder/` if it contains everything, as in SDKs, else ''. A wheel has several folders."""
    top = posixpath.commonpath({posixpath.dirname(name) for name in names}) if names else ""
    return f"{top}/" if top else ""


@lru_cache(maxsize=512)
def licence(text: bytes) -> str:
    """Return the SPDX id of a licence text (identify's table, of choosealicense.com), '' if it is none of them.

    It compares the text with the whole table, and most projects have some licence many times.
    """
    from identify.identify import license_id

    with scratch_folder() as folder:
        file = folder / "text"
        file.write_bytes(text)
        try:
            return license_id(str(file)) or ""
        except UnicodeDecodeError:
            return ""

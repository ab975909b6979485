"""Licences in wheels, and the user's record of those that they accepted.

The record is in the user's configuration folder. It is their word, so it is not in the project, which others clone, nor in
the store, which others may share and which `kz store gc` and CI's caches treat as bytes that anybody can make again.
"""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import asdict
from pathlib import Path

from kz_build.core import plain_json
from kz_build.core.env import config_root
from kz_build.core.errors import ConfigError
from kz_build.core.files import write_atomic
from kz_build.sources.archive import wheel_file
from kz_build.sources.licence_types import Acceptance

VERSION = 1

MOST_BYTES = 1 << 20
"""Bytes of a record that are read: a user accepts a few licences."""


def member(wheel: Path, name: str) -> bytes:
    """Return a file of a wheel. Raises ConfigError if there is none of that name."""
    data, names = wheel_file(wheel, name)
    if data is None:
        near = [n for n in names if "licen" in n.lower()]
        raise ConfigError(
            f"there is no {name} in that wheel", hint=f"fix `licence` in pins.yaml; it has: {', '.join(near)}"
        )
    return data


def digest(wheel: Path, name: str) -> str:
    """Return the sha256 of a wheel's licence."""
    return hashlib.sha256(member(wheel, name)).hexdigest()


def text(data: bytes) -> str:
    """Return a licence as people read it: the text of a PDF, page by page, or else the text itself.

    Raises ConfigError for a PDF that cannot be read.
    """
    if not data.startswith(b"%PDF-"):
        return data.decode("utf-8", "replace").strip()
    import pypdf  # 200 ms, only for a person who reads it

    try:
        texts = [page.extract_text() for page in pypdf.PdfReader(io.BytesIO(data)).pages]
    except (pypdf.errors.PyPdfError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        hint = "read it with another program; --yes accepts it without showing it"
        raise ConfigError(f"kz cannot read the licence, a PDF: {error}", hint=hint) from error
    return "\n\n".join("\n".join(line.rstrip() for line in one.strip().splitlines()) for one in texts)


def record_file() -> Path:
    """Return the path of the user's record."""
    return config_root() / "accepted.json"


def accepted() -> tuple[Acceptance, ...]:
    """Return what the user accepted. Raises ConfigError for a damaged record."""
    path = record_file()
    try:
        data = plain_json.read(path, MOST_BYTES)
        if data["version"] != VERSION:
            raise ValueError(f"version {data['version']}")
        return tuple(Acceptance(**one) for one in data["accepted"])
    except FileNotFoundError:
        return ()
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{path} is not a record of accepted licences: {error}",
            hint="remove it, and accept again: kz accept SOURCE",
        ) from None


def record(one: Acceptance) -> None:
    """Add a licence to the user's record."""
    data = {"version": VERSION, "accepted": [asdict(each) for each in (*accepted(), one)]}
    write_atomic(record_file(), json.dumps(data, indent=1, sort_keys=True).encode() + b"\n")

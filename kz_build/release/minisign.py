"""Signatures: Debian's `minisign`, https://jedisct1.github.io/minisign/."""

from __future__ import annotations

import os
import re
from pathlib import Path

from kz_build.core.errors import CommandError, ConfigError, Missing, MissingError
from kz_build.core.locks import scratch_folder
from kz_build.core.process import answered, find, run

_REMEDY = "apt install minisign, or jedisct1.github.io/minisign"
_KEY = re.compile(r"RW[A-Za-z0-9+/]{54}")


def require(key: Path) -> None:
    """Raise MissingError or ConfigError if signing would fail, before anything is built."""
    require_program()
    if not key.is_file():
        raise ConfigError(f"there is no key {key}", hint="minisign -G -W -s KEYFILE -p KEYFILE.pub makes one for CI")
    _public_key(key)


def require_program() -> None:
    """Raise MissingError without minisign."""
    if not find("minisign"):
        raise MissingError((Missing("minisign", "it signs SHA256SUMS", _REMEDY),))


def sign(file: Path, key: Path, comment: str) -> tuple[bytes, bytes]:
    """Return (signature, public key) of a file: the same key, file and comment give the same bytes. Raises CommandError."""
    with scratch_folder() as folder:
        signature = folder / "sig"
        _run(key, "-S", "-m", str(file), "-x", str(signature), "-t", comment)
        return signature.read_bytes(), _public_key(key)


def _public_key(key: Path) -> bytes:
    with scratch_folder() as folder:
        public_key = folder / "pub"
        _run(key, "-R", "-p", str(public_key))
        return public_key.read_bytes()


def _run(key: Path, *words: str) -> None:
    argv = ["minisign", *words, "-s", str(key)]
    output = answered(argv, run(argv))
    if output.code != 0:
        raise CommandError(
            f"minisign cannot sign with {key}: {output.stderr.decode('utf-8', 'replace').strip()}",
            hint="kz asks for no password: make the key with `minisign -G -W`, or remove it with `minisign -C -W -s KEYFILE`",
        )


def verify(file: Path, signature: Path, key: str) -> tuple[bool | None, str]:
    """Return whether a signature is good (None if that cannot be checked), and a message. `key`: a file, or the key itself."""
    if not find("minisign"):
        return None, f"no minisign here: {_REMEDY}"
    is_file = os.path.isfile(key)  # False for what is too long to be one
    if not is_file and not _KEY.fullmatch(key):
        raise ConfigError(f"--key {key[:80]} is neither a file nor a public key of minisign", hint="a key begins with RW and has 56 characters")  # fmt: skip
    output = run(["minisign", "-V", "-m", str(file), "-x", str(signature), "-p" if is_file else "-P", key])
    text = (output.stdout if output.code == 0 else output.stderr).decode("utf-8", "replace").strip()
    text = text or f"minisign ended with {output.code}"
    # 2: it cannot read a file, or one is in no form that it knows.
    good = output.code == 0 if output.code in (0, 1) else None
    return good, "; ".join(row.strip() for row in text.splitlines())

"""Signatures: Debian's `minisign`, https://jedisct1.github.io/minisign/."""

from __future__ import annotations

import tempfile
from pathlib import Path

from kz_build.core.errors import CommandError, ConfigError, Missing, MissingError
from kz_build.core.process import find, run

_BRINGS = "apt install minisign, or jedisct1.github.io/minisign"


def require(key: Path) -> None:
    """Raise what is wrong with signing here, before anything is built: MissingError or ConfigError."""
    if not find("minisign"):
        raise MissingError((Missing("minisign", "it signs SHA256SUMS", _BRINGS),))
    if not key.is_file():
        raise ConfigError(f"there is no key {key}", hint="minisign -G -W -s KEYFILE -p KEYFILE.pub makes one for CI")
    _public(key)


def sign(file: Path, key: Path, comment: str) -> tuple[bytes, bytes]:
    """(signature, public key) of a file: the same key, file and comment give the same bytes. Raises CommandError."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "sig"
        done = run(["minisign", "-S", "-s", str(key), "-m", str(file), "-x", str(made), "-t", comment])
        if done.code != 0:
            raise _failed(key, done.stderr)
        return made.read_bytes(), _public(key)


def _public(key: Path) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "pub"
        done = run(["minisign", "-R", "-s", str(key), "-p", str(made)])
        if done.code != 0:
            raise _failed(key, done.stderr)
        return made.read_bytes()


def _failed(key: Path, said: bytes) -> CommandError:
    return CommandError(
        f"minisign cannot sign with {key}: {said.decode('utf-8', 'replace').strip()}",
        hint="kz asks for no password: make the key with `minisign -G -W`, or take it off with `minisign -C -W -s KEYFILE`",
    )


def verify(file: Path, signature: Path, key: str) -> tuple[bool | None, str]:
    """Whether a signature is good, and what to say of it; None where nothing here can tell. `key`: a file, or the key itself."""
    if not find("minisign"):
        return None, f"no minisign here: {_BRINGS}"
    named = ["-p", key] if Path(key).is_file() else ["-P", key]
    done = run(["minisign", "-V", "-m", str(file), "-x", str(signature), *named])
    said = (done.stdout if done.code == 0 else done.stderr).decode("utf-8", "replace").strip()
    return done.code == 0, "; ".join(row.strip() for row in said.splitlines())

"""Signatures: Debian's `minisign`, https://jedisct1.github.io/minisign/."""

from __future__ import annotations

from pathlib import Path

from kz_build.core.errors import CommandError, ConfigError, Missing, MissingError
from kz_build.core.locks import scratch_folder
from kz_build.core.process import find, run

_REMEDY = "apt install minisign, or jedisct1.github.io/minisign"


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
        output = run(["minisign", "-S", "-s", str(key), "-m", str(file), "-x", str(signature), "-t", comment])
        if output.code != 0:
            raise _failed(key, output.stderr)
        return signature.read_bytes(), _public_key(key)


def _public_key(key: Path) -> bytes:
    with scratch_folder() as folder:
        public_key = folder / "pub"
        output = run(["minisign", "-R", "-s", str(key), "-p", str(public_key)])
        if output.code != 0:
            raise _failed(key, output.stderr)
        return public_key.read_bytes()


def _failed(key: Path, errors: bytes) -> CommandError:
    return CommandError(
        f"minisign cannot sign with {key}: {errors.decode('utf-8', 'replace').strip()}",
        hint="kz asks for no password: make the key with `minisign -G -W`, or remove it with `minisign -C -W -s KEYFILE`",
    )


def verify(file: Path, signature: Path, key: str) -> tuple[bool | None, str]:
    """Return whether a signature is good (None if that cannot be checked), and a message. `key`: a file, or the key itself."""
    if not find("minisign"):
        return None, f"no minisign here: {_REMEDY}"
    key_options = ["-p", key] if Path(key).is_file() else ["-P", key]
    output = run(["minisign", "-V", "-m", str(file), "-x", str(signature), *key_options])
    text = (output.stdout if output.code == 0 else output.stderr).decode("utf-8", "replace").strip()
    return output.code == 0, "; ".join(row.strip() for row in text.splitlines())

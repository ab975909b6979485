"""A new project: the smallest pins.yaml for one git source with patches."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from kz_build.core.errors import ConfigError
from kz_build.core.escape import without_secrets
from kz_build.core.files import write_atomic
from kz_build.core.rules import bad_address
from kz_build.git import remote
from kz_build.pins import template
from kz_build.pins.load import PINS, load_project

DEBIAN = "debian/patches"
IGNORED = ("out/", "dist/", "pins.local.yaml")
_PLAIN = re.compile(r"(?!(?:y|n|yes|no|on|off|true|false|null)$)[A-Za-z.][A-Za-z0-9._/:@+-]*[A-Za-z0-9]", re.IGNORECASE)


@dataclass(frozen=True)
class NewProject:
    """What was written: paths in the project. `stack` is the folder of the patches, `ignore` what a .gitignore of the user's lacks."""

    line: str
    source: str
    version: str
    stack: str
    written: tuple[str, ...]
    ignore: tuple[str, ...]


def begin_executorch(root: Path) -> NewProject:
    """Write the pins, stacks and recipes for ExecuTorch that kz is released with. Raises ConfigError if one of the files is there and differs."""
    root = root.resolve()
    files = template.copy_to(root)
    if not (root / ".gitignore").exists():
        write_atomic(root / ".gitignore", _rows(IGNORED))
        files += (".gitignore",)
    pins = load_project(root, local=False).pins
    line, source = pins.default, "executorch"
    return NewProject(line, source, pins.line(line)[source], f"patches/{line}/{source}", files, _not_ignored(root))


def begin(root: Path, address: str, version: str) -> NewProject:
    """Write the first files of a project; none that exists is changed. Raises ConfigError if it has a pins.yaml.

    Without an address, debian/upstream/metadata says where upstream is; without a version, it is upstream's newest tag.
    A quilt stack in debian/patches stays where it is.
    """
    root = root.resolve()
    if (root / PINS).exists():
        raise ConfigError(
            f"{root / PINS} is there already: kz init changes no file",
            hint="kz's docs/reference/pins.md says how to add a source",
        )
    address = address or _debian_upstream(root)
    if wrong := bad_address(address):
        raise ConfigError(f"the address {address!r} {wrong}")
    if without_secrets(address) != address:
        raise ConfigError(
            "the address has a password, and everyone reads pins.yaml",
            hint="leave it out: git asks its credential helper (gitcredentials(7))",
        )
    place = Path(address)
    if ":" not in address and not place.exists():
        raise ConfigError(f"there is no folder or file {address}", hint="upstream's address is a URL or a path")
    url = str(place.resolve()) if place.exists() else address
    version = version or remote.newest(url)
    remote.resolve(url, version)
    last = re.split(r"[/:]", address.rstrip("/"))[-1] or place.resolve().name
    source = _name(re.sub(r"\.(git|bundle)$", "", last), "upstream")
    line = _line(source, version)
    debian = (root / DEBIAN / "series").is_file()
    stack = DEBIAN if debian else f"patches/{line}/{source}"
    pinned = os.path.relpath(place.resolve(), root) if place.exists() else address
    rows = [f"    git: {_scalar(pinned)}", *([f"    patches: {DEBIAN}"] if debian else [])]
    pins = ["version: 1", f"default: {_scalar(line)}", "sources:", f"  {_scalar(source)}:", *rows]
    pins += ["lines:", f"  {_scalar(line)}:", f"    {_scalar(source)}: {_scalar(version)}"]
    files = {f"{stack}/series": b"", ".gitignore": _rows(IGNORED), PINS: _rows(tuple(pins))}
    written = [name for name in files if not (root / name).exists()]
    for name in written:
        write_atomic(root / name, files[name])
    return NewProject(line, source, version, stack, tuple(written), _not_ignored(root))


def _not_ignored(root: Path) -> tuple[str, ...]:
    """Return what a project's .gitignore lacks."""
    ignored = (root / ".gitignore").read_text(errors="replace").split()
    return tuple(row for row in IGNORED[:2] if row not in ignored)


def _rows(names: tuple[str, ...]) -> bytes:
    return "".join(f"{name}\n" for name in names).encode()


def _debian_upstream(root: Path) -> str:
    """Return the address of upstream's repository that a Debian package names (DEP-12)."""
    metadata = root / "debian" / "upstream" / "metadata"
    text = metadata.read_text(errors="replace") if metadata.is_file() else ""
    if match := re.search(r"^Repository:\s*(\S+)", text, re.MULTILINE):
        return match[1]
    raise ConfigError("which repository? debian/upstream/metadata names none", hint="kz init ADDRESS [VERSION]")


def _line(source: str, version: str) -> str:
    """Return the name of a line: `executorch-1.2` holds for v1.2.1 too, and the next release is a line beside it."""
    if release := re.search(r"\d+\.\d+", version):
        return _name(f"{source}-{release[0]}", "main")
    return _name(version[:12] if re.fullmatch("[0-9a-f]{40}", version) else version, "main")


def _name(text: str, otherwise: str) -> str:
    """Return a valid name of a line or a source."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._") or otherwise


def _scalar(text: str) -> str:
    """Return a text as YAML, quoted where it could be read as something else."""
    return text if _PLAIN.fullmatch(text) else json.dumps(text)

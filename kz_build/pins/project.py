"""A kz project: a folder with pins.yaml, and what was read from it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from kz_build.core.errors import ConfigError, LockError
from kz_build.pins.lock_file import Lock
from kz_build.pins.pins import Pins, Source

RECORD = "manifest.json"
"""The name of a stage's record in its folder."""


class Project(NamedTuple):
    """`root` is the project's folder, `store` the folder of the content-addressed store."""

    root: Path
    store: Path
    pins: Pins
    lock: Lock

    def out(self, stage: str, *parts: str) -> Path:
        """Return the folder of a stage's results: out/<stage>/<line>/…"""
        return self.root.joinpath("out", stage, *parts)

    def record(self, stage: str, *parts: str) -> Path:
        """Return the path of a stage's record: out/<stage>/<line>/…/manifest.json."""
        return self.out(stage, *parts) / RECORD

    def dist_folder(self, line: str, *parts: str) -> Path:
        """Return the folder of what a target made for others to take: dist/<line>/<target>."""
        return self.root.joinpath("dist", line, *parts)

    def git_url(self, source: Source) -> str:
        """Return a git source's address: its own here, else that of pins.yaml."""
        own = self.pins.replacement(source.name)
        return self.address(own.git if own and own.git else source.location)

    def address(self, url: str) -> str:
        """Return an address that works from any folder; one without scheme is a path below the project (such as a bundle)."""
        path = None if url.startswith("file://") else self.local_path(url)
        return str(path) if path else url

    def local_path(self, address: str) -> Path | None:
        """Return the file or folder of this machine that an address names; None for one of a network."""
        if address.startswith("file:///"):
            return Path(unquote(urlsplit(address).path))
        if "://" in address or (":" in address and not address.startswith((".", "/", "~"))):  # HOST:PATH is git's
            return None
        return (self.root / os.path.expanduser(address)).resolve()

    def stack_folder(self, line: str, source: str) -> str:
        """Return the path of a source's stack in the project."""
        named = str(self.pins.source(source).options.get("patches") or "")
        return named.replace("{line}", line) if named else f"patches/{line}/{source}"

    def with_pin(self, line: str, source: str, version: str) -> Project:
        """Return the project with another version of a source on a line; its lock is the same."""
        lines = {**self.pins.data["lines"], line: {**self.pins.line(line), source: version}}
        return self._replace(pins=self.pins._replace(data={**self.pins.data, "lines": lines}))

    def locked(self, line: str, source: str) -> dict[str, object]:
        """Return the lock's entry of a source. Raises ConfigError if the line does not have that source, LockError if the
        pin was never locked or has changed since."""
        version = self.pins.line(line).get(source)
        if version is None:
            having = [name for name in self.pins.lines if source in self.pins.line(name)]
            raise ConfigError(
                f"line {line} has no {source}",
                hint=f"lines that have it: {', '.join(having)}" if having else "add it under `lines` in pins.yaml",
            )
        entry, kind = self.lock.entry(line, source), self.pins.source(source).kind
        hint = f"kz lock --write --line {line}"
        if entry is None:
            raise LockError(f"{source} of line {line} is not in pins.lock", hint=hint)
        if entry["kind"] != kind:
            raise LockError(f"pins.lock has {source} as {entry['kind']}, pins.yaml as {kind}", hint=hint)
        if entry["version"] != version:
            raise LockError(f"pins.lock has {source} {entry['version']}, pins.yaml asks for {version}", hint=hint)
        return dict(entry)

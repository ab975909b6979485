"""Our own project with the digests of stand-ins: all else in its pins.yaml and pins.lock is as it is."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pip._internal.models.index import PyPI

from tests.kz import ROOT
from tests.network import archives
from tests.network.proxy import Network
from tests.network.repositories import ADDED, BEFORE, EXECUTORCH, SOURCE
from tests.stack.made_up import sha
from tests.stack.test_git_tools import sh

LINES = ("et-1.2", "et-1.3", "et-1.4")
"""Those that build something."""
INDEX, PYTORCH = PyPI.simple_url.rstrip("/"), "https://download.pytorch.org/whl/cpu"
PACKAGES = f"https://{PyPI.file_storage_domain}/packages"
"""Where pip's default index has its files."""
_MODULES = {"torch": "torchgen", "pyyaml": "yaml", "typing-extensions": "typing_extensions"}
_PARTS = ("pins.yaml", "pins.lock", "noxfile.py", "pyproject.toml", "requirements")
_FORM = ("--zero-commit", "--no-signature", "--no-stat", "--full-index", "--no-renames", "--no-numbered")


@dataclass
class Played:
    """A clone of our project, the network that has its stand-ins, and the wheels that are not stand-ins, by file name."""

    root: Path
    network: Network
    zig: Path | None = None
    cache: Path = Path("unused")
    wheels: Mapping[str, bytes] = field(default_factory=dict)
    lines: Sequence[str] = ("et-1.2",)

    def __post_init__(self) -> None:
        self.root.mkdir()
        for name in _PARTS:
            subprocess.run(["cp", "-a", ROOT / name, self.root], check=True)
        self.pins = (self.root / "pins.yaml").read_text()
        self.lock: dict[str, Any] = json.loads((self.root / "pins.lock").read_text())
        self.pages: dict[str, dict[str, str]] = {}
        marks = {line: self._commits(self.lock["lines"][line]) for line in self.lines}
        ids = self.network.repository.write()
        for line in self.lines:
            self._git(line, marks[line], ids)
            self._files(line)
        for page, files in self.pages.items():
            self.network.put_index(page, files.items())
        (self.root / "pins.yaml").write_text(self.pins)
        (self.root / "pins.lock").write_text(json.dumps(self.lock, indent=1, sort_keys=True) + "\n")

    def _instead(self, entry: dict[str, Any], key: str, value: str | int) -> None:
        """Change a fact of the lock, and of pins.yaml if it states it."""
        if entry.get(key) is not None:
            self.pins = self.pins.replace(f" {entry[key]}\n", f" {value}\n").replace(f" {entry[key]} #", f" {value} #")
            entry[key] = value

    def _files(self, line: str) -> None:
        entries = self.lock["lines"][line]
        for name in ("android-ndk", "qnn-sdk", "fbjni"):
            entry = entries[name]
            data = self._archive(name, entry["version"])
            self.network.put(entry["url"], data)
            self._digest(entry, data)
            published = yaml.safe_load(self.pins)["sources"][name]["published"][entry["version"]]
            self.pins = (
                self.pins.replace(published["sha1"], hashlib.sha1(data).hexdigest())
                if "sha1" in published
                else self.pins
            )
        for name in ("torch", "pyyaml", "typing-extensions", "cmake", "ninja"):
            entry, version = entries[name], entries[name]["version"]
            module = _MODULES.get(name, name)
            data = self.wheels.get(entry["file"]) or archives.wheel(
                name, version, {f"{module}/__init__.py": "", "torch/include/a.h": ""}
            )
            if name not in ("cmake", "ninja") or entry["file"] not in self.wheels:
                self._digest(entry, data)
            index = entry.get("index", INDEX)
            host = "https://download-r2.pytorch.org/whl/cpu" if "index" in entry else PACKAGES
            url = f"{host}/{entry['file'].replace('+', '%2B')}"
            self.network.put(url, data)
            page = f"{index}/{entry['file'].split('-')[0].replace('_', '-')}/"
            other = url.replace("x86_64", "aarch64").replace("none-any", "none-win_arm64")
            self.pages.setdefault(page, {}).update({url: sha(data), other: "0" * 64})

    def _digest(self, entry: dict[str, Any], data: bytes) -> None:
        self._instead(entry, "sha256", sha(data))
        self._instead(entry, "size", len(data))

    def _archive(self, name: str, version: str) -> bytes:
        if name == "android-ndk":
            return archives.ndk(version, "28.2.13676358", self.zig, self.cache)
        return archives.qnn_sdk(version) if name == "qnn-sdk" else archives.fbjni()

    def _commits(self, entries: dict[str, Any]) -> dict[str, int]:
        """Commit stand-ins of a line's repositories; give the mark of each source, of each submodule, and of our patch."""
        repository, kleidiai, entry = self.network.repository, entries["kleidiai"], entries["executorch"]
        own = repository.commit(kleidiai["url"], {"README": f"In the place of {kleidiai['commit']}.\n"})
        links = repository.of_submodules({path: sub["url"] for path, sub in entry["submodules"].items()})
        needed = "".join(f"{path}\n" for path in links if "vulkan" not in path and "pybind11" not in path)
        pin = repository.commit(entry["url"], {**EXECUTORCH, "needed.txt": needed}, links, entry["version"])
        patch = repository.commit(entry["url"], {SOURCE: BEFORE + ADDED}, parent=pin)
        return {path: mark for path, (_, mark) in links.items()} | {"kleidiai": own, "executorch": pin, "patch": patch}

    def _git(self, line: str, marks: Mapping[str, int], ids: Sequence[tuple[str, str]]) -> None:
        """Put them into the lock, and write a stack of one patch, as git makes it."""
        kleidiai, entry = self.lock["lines"][line]["kleidiai"], self.lock["lines"][line]["executorch"]
        self._instead(kleidiai, "version", ids[marks["kleidiai"]][0])
        for name, facts in {
            "kleidiai": kleidiai,
            "executorch": entry,
            "patch": entry["patched"],
            **entry["submodules"],
        }.items():
            facts["commit"], tree = ids[marks[name]]
            facts["tree"] = facts["tree"] and tree  # what is null stays null
        folder = self.root / "patches" / line / "executorch"
        sh(
            "git",
            "format-patch",
            "-q",
            *_FORM,
            "-1",
            ids[marks["patch"]][0],
            "-o",
            folder,
            cwd=self.network.repository.folder,
        )
        (folder / "series").write_text("".join(f"{path.name}\n" for path in folder.glob("*.patch")))

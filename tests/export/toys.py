"""A kz project whose upstream is a small exporter of our own: real wheels, real pip, real processes."""

from __future__ import annotations

import base64
import hashlib
import io
import textwrap
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.formats.ptes import decoder

EXPORTER = '''
"""toyexport MODE OUT [FILE]: what an exporter may do to one who runs it."""
import os, resource, shutil, subprocess, sys, time

mode, out = sys.argv[1:3]
print("[INFO] - Exporting with:", flush=True)
with open("stray.txt", "w") as file:
    file.write("what upstream drops where it runs")
with open(out + ".runs", "a") as file:
    file.write("x")
if mode == "import":
    print("ImportError: cannot import name 'int4_weight_only' from 'torchao.quantization' (/x/torchao/quantization/__init__.py)")
    sys.exit(1)
if mode == "unknown":
    print("something nobody knows")
    sys.exit(3)
if mode == "limit":
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    bytearray(1 << 31)
if mode == "kill":
    os.kill(os.getpid(), 9)
if mode == "eat":
    held = [os.urandom(1 << 20) * 16 for _ in range(1000)]
if mode == "hang":
    # A worker in a group of its own, as a job of a shell is.
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], process_group=0)
    print("Lowering model using following partitioner(s): ", flush=True)
    open(out + ".hangs", "w").close()
    time.sleep(600)
if mode == "hold":
    held = os.urandom(1 << 20) * 200
    time.sleep(1.5)
print("Lowering model using following partitioner(s): ", flush=True)
if mode != "nothing":
    shutil.copy(sys.argv[3], out + ".part")
    os.rename(out + ".part", out)
'''
FILES = {"toyexport/__init__.py": "", "toyexport/__main__.py": EXPORTER}
RECIPE = {
    "about": "a toy",
    "line": "toy-1",
    "requirements": "toy",
    "needs": {
        "memory": {"gb": [0.01, 0.02], "source": "a guess"},
        "disk": {"{out}": {"gb": [0, 0], "source": "a guess"}},
    },
    "weights": {},
    "output": "toy.pte",
    "contract": {"methods": ["kv_forward", "prefill_forward"]},
}


def wheel(folder: Path, name: str, version: str, files: Mapping[str, str], requires: tuple[str, ...] = ()) -> Path:
    """A wheel of these files."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + "".join(
        f"Requires-Dist: {one}\n" for one in requires
    )
    content = {**files, f"{info}/METADATA": metadata}
    content[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: toy\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    rows = []
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as zipped:
        for member, text in content.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            rows.append(f"{member},sha256={digest},{len(text.encode())}")
            zipped.writestr(zipfile.ZipInfo(member), text)  # the same bytes at any time
        zipped.writestr(zipfile.ZipInfo(f"{info}/RECORD"), "\n".join([*rows, f"{info}/RECORD,,", ""]))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    path.write_bytes(data.getvalue())
    return path


@dataclass
class Toy:
    """A project, and the folder of wheels that its pip looks into."""

    root: Path
    wheels: Path
    store: Path

    @property
    def out(self) -> Path:
        return self.root / "out" / "export" / "toy-1" / "toy"

    @property
    def dist(self) -> Path:
        return self.root / "dist" / "toy-1" / "toy.pte"

    @property
    def env(self) -> dict[str, str]:
        """Variables that keep pip and uv from any other place, and this store from others'."""
        found = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": self.wheels.as_uri(), "KZ_CACHE": str(self.store)}
        return {**found, "UV_NO_INDEX": "1", "UV_OFFLINE": "1"}

    def requirements(self, asked: str, *files: Path, digest: str = "") -> None:
        """What is asked for, and these wheels as the locked set."""
        folder = self.root / "recipes" / "requirements"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "toy.in").write_text(f"# Locked by: by hand\n{asked}\n")
        rows = []
        for file in files:
            name, version = file.name.split("-")[:2]
            sha256 = digest or hashlib.sha256(file.read_bytes()).hexdigest()
            rows.append(f"{name}=={version} \\\n    --hash=sha256:{sha256}\n")
        (folder / "toy.txt").write_text("# Made of toy.in: by hand\n" + "".join(rows))

    def recipe(self, *modes: str, **over: object) -> None:
        """A recipe of one stage for each mode: `ok`, or another of the exporter's."""
        stages = []
        for number, mode in enumerate(modes, 1):
            out = "{out}/" + f"{number}.pte"
            run = ["{python}", "-m", "toyexport", mode, out, str(self.root / "model.pte")]
            stages.append({"name": f"step{number}", "inside": "toy", "run": run, "makes": [out]})
        text = yaml.safe_dump({**RECIPE, "command": stages, **over}, sort_keys=False)
        (self.root / "recipes" / "toy.yaml").write_text(text)

    def runs(self, step: int) -> int:
        """How often a step was run."""
        path = self.out / f"{step}.pte.runs"
        return len(path.read_text()) if path.exists() else 0


def toy(folder: Path, store: Path | None = None) -> Toy:
    """A project with the exporter locked, and a recipe of one step; in a store of its own, where none is given."""
    root = folder / "project"
    root.mkdir(parents=True)
    (root / "pins.yaml").write_text(
        textwrap.dedent("""\
            version: 1
            default: toy-1
            sources: {toy: {wheel: toyexport}}
            lines: {toy-1: {toy: "1.0"}}
            targets: {}
        """)
    )
    (root / "model.pte").write_bytes(decoder())
    made = Toy(root, folder / "wheels", store or folder / "cache")
    made.requirements("toyexport==1.0", wheel(made.wheels, "toyexport", "1.0", FILES))
    made.recipe("ok")
    return made

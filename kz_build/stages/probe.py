"""probe: whether an environment's ExecuTorch really compiles for, and runs on, the QNN that was brought for it.

Versions do not tell: of five releases of the same wheel one understands ExecuTorch 1.5.1. So one layer is compiled and run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from kz_build.adapters import files, pte, venv
from kz_build.adapters.digests import remembered_sha256
from kz_build.adapters.process import run
from kz_build.model.errors import CommandError, NotReadyError

if TYPE_CHECKING:
    from kz_build.stages.env import Environment

KEPT = "probes"
LIBRARIES = ("libQnnHtp.so", "libQnnSystem.so")
_WHY = (
    (
        "unknown custom config socModel",
        "it does not understand how ExecuTorch names the SoC (14001, unknown custom config socModel): the structure that both pass "
        "has another layout in its version",
        "take the version that pins.yaml has: this one is not usable with that ExecuTorch",
    ),
    (
        "Cannot Open QNN library",
        "its libraries do not load",
        "`kz diagnose LOG` says what the loader said",
    ),
    (
        "op package API version",
        "its operators are of another version than ExecuTorch expects",
        "take the version that pins.yaml has",
    ),
)


@dataclass(frozen=True)
class Probed:
    """What one layer came to: the build id that its context carries, and the library's sha256."""

    build: str
    soc: str
    library: str


def probe(store: Path, environment: Environment, libraries: Path, soc: str) -> Probed:
    """Compile and run one layer in an environment with the libraries of a folder; remembered by what both hold.

    Raises NotReadyError with what it says where it does not, or gives other numbers than torch.
    """
    digests = [remembered_sha256(store, (libraries / name).resolve()) for name in LIBRARIES]
    script = venv.SCRIPTS / "probe_qnn.py"
    inputs = [environment.key, *digests, soc, hashlib.sha256(script.read_bytes()).hexdigest()]
    asked = hashlib.sha256(json.dumps(inputs).encode()).hexdigest()
    note = store / KEPT / f"{asked[:24]}.json"
    if known := files.read_manifest(note, asked):
        return Probed(known["build"], known["soc"], known["library"])
    with TemporaryDirectory(prefix="kz-probe-") as folder:
        out = Path(folder, "layer.pte")
        argv = [str(environment.python), str(script), soc, str(out)]
        said = _run(argv, environment.variables, Path(folder), store)
        if not said["equal"]:
            raise NotReadyError(
                f"QNN's emulation gives other numbers than torch for one layer: {said['off']:g} off",
                hint="this machine cannot rehearse with it: are libraries of another version before it on LD_LIBRARY_PATH?",
            )
        build = " ".join(sorted({context.sdk for _, context in pte.read_pte(out).contexts}))
    if not build:
        raise NotReadyError("the context that QNN compiled names no version of QNN", hint="kz cannot say what it is of")
    found = Probed(build, soc, digests[0])
    files.write_manifest(note, asked, asdict(found))
    return found


def _run(argv: list[str], variables: Mapping[str, str], folder: Path, store: Path) -> dict[str, Any]:
    done = run(argv, env=variables, cwd=folder)
    said = (done.stdout + b"\n" + done.stderr).decode("utf-8", "replace")
    try:
        found = json.loads(done.stdout.decode().splitlines()[-1]) if done.code == 0 else None
    except (ValueError, IndexError):
        found = None
    if isinstance(found, dict):
        return found
    log = store / KEPT / "failed.log"
    files.write_atomic(log, said.encode())
    for text, why, do in _WHY:
        if text in said:
            raise NotReadyError(
                f"this QNN does not work with that ExecuTorch: {why}", hint=f"{do}; the whole log: {log}"
            )
    last = [line for line in said.splitlines() if line.strip()][-3:]
    raise CommandError(
        f"one layer could not be compiled and run with QNN (exit {done.code})\n"
        + "\n".join(f"  | {x[:160]}" for x in last),
        hint=f"kz diagnose {log}",
    )

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

from kz_build.core import files
from kz_build.core.errors import CommandError, NotReadyError
from kz_build.core.hash_cache import cached_sha256
from kz_build.core.process import run
from kz_build.core.stage_record import StageRecord, load
from kz_build.export import venv
from kz_build.formats import pte

if TYPE_CHECKING:
    from kz_build.export.environment import Environment

KEPT = "probes"
CACHE_EPOCH = 1
"""Raise it when scripts/probe_qnn.py asks something else."""
MOST_STEPS = 1.001
"""How far one layer may be off torch's, in steps of its quantization."""
LIBRARIES = ("libQnnHtp.so", "libQnnSystem.so")
_WHY = (
    (
        "unknown custom config socModel",
        "it does not find the SoC that ExecuTorch names (14001, unknown custom config socModel), for the two have that at different "
        "places of a structure, as most versions of that wheel do",
        "go back to the version that pins.yaml came with, or try others: this tells",
    ),
    ("Cannot Open QNN library", "its libraries do not load", "`kz diagnose` on the log says what the loader said"),
)


@dataclass(frozen=True)
class Probed:
    """What one layer came to: the version of QNN that its context carries, and the library's sha256."""

    build: str
    soc: str
    library: str


def probe(store: Path, environment: Environment, what: str, libraries: Path, soc: str) -> Probed:
    """Compile and run one layer in an environment with the libraries of a folder; remembered by what both hold. `what` names them.

    Raises NotReadyError with what it says where it does not, or gives other numbers than torch.
    """
    digests = [cached_sha256(store, (libraries / name).resolve()) for name in LIBRARIES]
    inputs = [CACHE_EPOCH, environment.key, *digests, soc]
    asked = hashlib.sha256(json.dumps(inputs).encode()).hexdigest()
    note = store / KEPT / f"{asked[:24]}.json"
    if known := load(note, asked):
        return Probed(known.get("build", str), known.get("soc", str), known.get("library", str))
    with TemporaryDirectory(prefix="kz-probe-") as folder:
        out = Path(folder, "layer.pte")
        argv = [str(environment.python), str(venv.SCRIPTS / "probe_qnn.py"), soc, str(out)]
        said = _run(argv, environment.variables, what, Path(folder), store)
        if said["off"] > MOST_STEPS:
            raise NotReadyError(
                f"the emulation of {what} gives other numbers than torch for one layer: {said['off']:g} steps off",
                hint="this machine cannot rehearse with it: are libraries of another version before it on LD_LIBRARY_PATH?",
            )
        build = " ".join(sorted({context.sdk for _, context in pte.read_pte(out).contexts}))
    if not build:
        raise NotReadyError(
            f"the context that {what} compiled names no version of QNN", hint="kz cannot say what it is of"
        )
    found = Probed(build, soc, digests[0])
    StageRecord(note, asked, facts=asdict(found)).save()
    return found


def _run(argv: list[str], variables: Mapping[str, str], what: str, folder: Path, store: Path) -> dict[str, Any]:
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
            raise NotReadyError(f"{what} does not work with this ExecuTorch: {why}", hint=f"{do}; the whole log: {log}")
    last = [line for line in said.splitlines() if line.strip()][-3:]
    raise CommandError(
        f"one layer could not be compiled and run with {what} (exit {done.code})\n"
        + "\n".join(f"  | {x[:160]}" for x in last),
        hint=f"kz diagnose {log}",
    )

"""probe: compile one layer with an environment's ExecuTorch and QNN, and run it.

Versions do not tell whether the two fit: of five releases of the same wheel, one works with ExecuTorch 1.5.1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kz_build.core import files
from kz_build.core.errors import CommandError, NotReadyError
from kz_build.core.hash_cache import cached_sha256
from kz_build.core.locks import scratch_folder
from kz_build.core.process import run
from kz_build.core.stage_record import StageRecord, load
from kz_build.export import venv
from kz_build.formats import pte
from kz_build.pins.pins import digest_of

if TYPE_CHECKING:
    from kz_build.export.environment import Environment

KEPT = "probes"
CACHE_EPOCH = 1
"""Raise it if scripts/probe_qnn.py checks something else."""
MOST_STEPS = 1.001
"""How far one layer's result may differ from torch's, in steps of its quantization."""
LIBRARIES = ("libQnnHtp.so", "libQnnSystem.so")
_WHY = (
    (
        "unknown custom config socModel",
        "it does not find the SoC that ExecuTorch names (14001, unknown custom config socModel), because the two have it at different "
        "places of a structure, as with most versions of that wheel",
        "go back to the original version of pins.yaml, or try others: this check tells",
    ),
    ("Cannot Open QNN library", "its libraries do not load", "`kz diagnose` on the log shows the loader's error"),
)


@dataclass(frozen=True)
class ProbeResult:
    """The result for one layer: the version of QNN in its context, and the library's sha256."""

    build: str
    soc: str
    library: str


def probe(store: Path, environment: Environment, what: str, libraries: Path, soc: str) -> ProbeResult:
    """Compile and run one layer with an environment and a folder of libraries, once for their content. `what` names the SDK.

    Raises NotReadyError with the error if that fails, or if the numbers differ from torch's.
    """
    digests = [cached_sha256(store, (libraries / name).resolve()) for name in LIBRARIES]
    key = digest_of([CACHE_EPOCH, environment.key, *digests, soc])
    note = store / KEPT / f"{key[:24]}.json"
    if record := load(note, key):
        return ProbeResult(*(record.get(name, str) for name in ("build", "soc", "library")))
    with scratch_folder() as folder:
        out = folder / "layer.pte"
        argv = [str(environment.python), str(venv.SCRIPTS / "probe_qnn.py"), soc, str(out)]
        steps = _run(argv, environment.variables, what, folder, store)
        if not steps <= MOST_STEPS:  # NaN is no result either
            raise NotReadyError(
                f"the emulation of {what} differs from torch for one layer, by {steps:g} steps",
                hint="this machine cannot rehearse with it: are libraries of another version first on LD_LIBRARY_PATH?",
            )
        build = " ".join(sorted({context.sdk for _, context in pte.read_pte(out).contexts}))
    if not build:
        raise NotReadyError(
            f"the context that {what} compiled names no version of QNN", hint="kz cannot tell what compiled it"
        )
    probed = ProbeResult(build, soc, digests[0])
    StageRecord(note, key, facts=asdict(probed)).save()
    return probed


def _run(argv: list[str], variables: Mapping[str, str], what: str, folder: Path, store: Path) -> float:
    done = run(argv, env=variables, cwd=folder)
    output = (done.stdout + b"\n" + done.stderr).decode("utf-8", "replace")
    try:
        if done.code == 0:
            return float(json.loads(done.stdout.decode().splitlines()[-1])["off"])
    except (ValueError, IndexError, KeyError, TypeError):
        pass
    log = store / KEPT / "failed.log"
    files.write_atomic(log, output.encode())
    for text, why, do in _WHY:
        if text in output:
            raise NotReadyError(f"{what} does not work with this ExecuTorch: {why}", hint=f"{do}; the whole log: {log}")
    last = [line for line in output.splitlines() if line.strip()][-3:]
    raise CommandError(
        f"one layer could not be compiled and run with {what} (exit {done.code})\n"
        + "\n".join(f"  | {x[:160]}" for x in last),
        hint=f"the whole log: {log}",
        code=done.code,
        log=str(log),
    )

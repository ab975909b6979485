"""A farm: what an object costs locally and by a worker, and on paper what a build of them takes with more cores.

`farm.py measure COMPDB URL INTERFACE [OBJECTS]` compiles random objects of a finished build both ways, one after the other (KZ_SCHEDULER_TOKEN
is the token, `sccache` is on PATH), and prints the parts as JSON. `farm.py table PARTS.json` prints the table; beside those parts it reads
`objects` and `serial s` of the whole build (its `.ninja_log`, and the phases of a build that the compile cache answers).
"""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from common import table

from kz_build.build.farm_engine import LAUNCHER
from kz_build.build.sccache import CompileServer, Farm, client_config
from kz_build.core.process_group import members

_TICKS = os.sysconf("SC_CLK_TCK")
WORKERS, HERE, BYTES_A_SECOND = (16, 64, 256), (4, 8, 16), 117e6
"""Cores of the workers and of this machine, and what 1 Gbit/s carries."""


class Cost(NamedTuple):
    """One compilation: its seconds, and the processor's seconds on this machine."""

    seconds: float
    cpu: float


def _cpu(session: int) -> float:
    """Return the processor's seconds of a session's processes and those that they waited for."""
    total = 0
    for pid in members(session):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += sum(int(field) for field in fields[11:15])
    return total / _TICKS


def _timed(argv: list[str], folder: str, env: dict[str, str], session: int = 0) -> Cost:
    before, start, own = _cpu(session) if session else 0.0, time.perf_counter(), os.times()
    subprocess.run(argv, cwd=folder, env=env, check=True, capture_output=True)
    now = os.times()
    cpu = now.children_user + now.children_system - own.children_user - own.children_system
    return Cost(time.perf_counter() - start, cpu + (_cpu(session) - before if session else 0.0))


def _traffic(interface: str) -> int:
    folder = Path(f"/sys/class/net/{interface}/statistics")
    return sum(int((folder / f"{way}_bytes").read_text()) for way in ("rx", "tx"))


def _measured(
    commands: list[dict[str, str]], server: CompileServer, launcher: Path, interface: str
) -> dict[str, object]:
    env = {
        "PATH": os.environ["PATH"],
        "LC_ALL": "C.UTF-8",
        "SOURCE_DATE_EPOCH": "1",
        "SCCACHE_SERVER_UDS": str(server.socket),
    }
    local, remote, preprocessed, sizes, different, carried = [], [], [], [], [], 0
    for number, entry in enumerate(commands):
        words = shlex.split(entry["command"])
        at = words.index("-o") + 1
        made = [str(launcher.with_name(name)) for name in ("local.o", "remote.o")]
        argvs = [[*words[:at], to, *words[at + 1 :]] for to in made]
        if not number:  # the toolchain is packed and sent once
            start = time.perf_counter()
            _timed([str(launcher), *argvs[1]], entry["directory"], env)
            first = time.perf_counter() - start
        before = _traffic(interface)
        remote.append(_timed([str(launcher), *argvs[1]], entry["directory"], env, server.pid))
        carried += _traffic(interface) - before
        local.append(_timed(argvs[0], entry["directory"], env))
        text = [word for word in words if word != "-c"]
        preprocessed.append(_timed([*text, "-E", "-frewrite-includes", "-o", os.devnull], entry["directory"], env))
        one, two = (Path(name).read_bytes() for name in made)
        sizes.append(len(one))
        different += [entry["file"]] if one != two else []
        print(f"{number + 1}: local {local[-1].seconds:.2f} s, remote {remote[-1].seconds:.2f} s", file=sys.stderr)
    shares = server.shares()
    if not shares or sum(shares.workers.values()) != len(commands) + 1:
        sys.exit(f"not every object was compiled by a worker: {shares}")
    return {
        "objects measured": len(commands),
        "different": different,
        "first object with toolchain, s": round(first, 2),
        "local s": round(statistics.mean(c.seconds for c in local), 3),
        "local cpu s": round(statistics.mean(c.cpu for c in local), 3),
        "preprocess cpu s": round(statistics.mean(c.cpu for c in preprocessed), 3),
        "remote s": round(statistics.mean(c.seconds for c in remote), 3),
        "remote cpu s here": round(statistics.mean(c.cpu for c in remote), 3),
        "median overhead s": round(
            statistics.median(r.seconds - c.seconds for r, c in zip(remote, local, strict=True)), 3
        ),
        "bytes on the network": carried // len(commands),
        "bytes of object": round(statistics.mean(sizes)),
        "longest s": round(max(c.seconds for c in local), 1),
    }


def measure(compdb: Path, url: str, interface: str, count: int) -> None:
    """Print what objects of a build cost."""
    known = [e for e in json.loads(compdb.read_text()) if e["file"].endswith((".c", ".cc", ".cpp"))]
    program = shutil.which("sccache") or sys.exit("sccache is not on PATH")
    with tempfile.TemporaryDirectory(prefix="f", dir="/tmp") as name:
        folder = Path(name)
        launcher = folder / "sccache"
        launcher.write_text(LAUNCHER.format(program))
        launcher.chmod(0o755)
        server = CompileServer(program, folder, folder / "log")
        server.start(client_config(Farm(url, os.environ["KZ_SCHEDULER_TOKEN"]), folder / "toolchains"))
        try:
            commands = random.Random(18).sample(known, min(count, len(known)))
            print(json.dumps(_measured(commands, server, launcher, interface), indent=1))
        finally:
            server.stop()


def paper(parts: dict[str, float]) -> None:
    """Print seconds of a build: what is serial, then the slowest of this machine, the workers and the network."""
    objects, serial, longest = parts["objects"], parts["serial s"], parts["longest s"]
    compile_, here, carried = parts["local cpu s"], parts["remote cpu s here"], parts["bytes on the network"]

    def alone(cores: int) -> float:
        return serial + max(objects * compile_ / cores, longest)

    def with_workers(cores: int, workers: int) -> tuple[float, str]:
        limits = {
            "this machine": objects * here / cores,
            "workers": objects * compile_ / workers,
            "network": objects * carried / BYTES_A_SECOND,
            "longest object": longest,
        }
        limit = max(limits, key=lambda name: limits[name])
        return serial + limits[limit], limit

    rows = []
    for cores in HERE:
        for workers in WORKERS:
            seconds, limit = with_workers(cores, workers)
            rows.append(
                (cores, f"{alone(cores):.0f}", workers, f"{seconds:.0f}", f"{alone(cores) / seconds:.1f}", limit)
            )
    table(
        f"{objects:,.0f} objects of {compile_:g} s, {serial:g} s serial",
        ("cores here", "s alone", "cores of workers", "s with them", "times", "limit"),
        rows,
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(Path(sys.argv[2]), sys.argv[3], sys.argv[4], int((*sys.argv[5:], "60")[0]))
    else:
        paper(json.loads(Path(sys.argv[2]).read_text()))

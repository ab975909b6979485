"""What the container adds to engine host on the sample: a cold build (compiler caches empty, sources fetched), and one with nothing to do.

Needs a daemon and BASE_IMAGE. Usage: python benchmarks/containers.py [ROUNDS]
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import docker
from common import KZ, in_turn, ratio, table

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "examples" / "sample"


def main() -> None:
    """Build by both engines in turn and print the table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    client = docker.from_env()
    with tempfile.TemporaryDirectory() as at:
        store = Path(at, "store")
        env = {**os.environ, "PYTHONPATH": str(ROOT), "KZ_CACHE": str(store)}

        def kz(engine: str, *words: str) -> None:
            project = Path(at, engine)
            if not project.exists():
                shutil.copytree(SAMPLE, project, ignore=shutil.ignore_patterns("out", "dist"))
            done = subprocess.run(
                [*KZ, "-C", project, *words, "--engine", engine], env=env, capture_output=True, text=True
            )
            if done.returncode:
                raise SystemExit(done.stdout + done.stderr)

        def forget(engine: str) -> None:
            for folder in ("out", "dist"):
                shutil.rmtree(Path(at, engine, folder), ignore_errors=True)
            for folder in ("zig", "ccache"):
                shutil.rmtree(store / folder, ignore_errors=True)
            own = f"kz-cache-{hashlib.sha256(bytes(store)).hexdigest()[:12]}"
            for volume in client.volumes.list(filters={"name": own}):
                volume.remove()

        def cold(engine: str) -> tuple[float, float]:
            forget(engine)
            started = time.perf_counter()
            kz(engine, "build")
            took = time.perf_counter() - started
            return took, took - in_commands(Path(at, engine))

        for engine in ("host", "docker"):
            kz(engine, "build")  # sources fetched, the image and the volumes made
        both: dict[str, list[tuple[float, float]]] = {"host": [], "docker": []}
        for number in range(rounds):
            for engine in ("host", "docker")[:: 1 if number % 2 else -1]:
                both[engine].append(cold(engine))
        nothing = in_turn(rounds, host=lambda: kz("host", "build"), docker=lambda: kz("docker", "build"))
    seconds = {engine: [one[0] for one in found] for engine, found in both.items()}
    around = {engine: [one[1] for one in found] for engine, found in both.items()}
    rows = []
    for name, found in (
        ("cold", seconds),
        ("of that, not in the build's commands", around),
        ("nothing to do", nothing),
    ):
        medians = [f"{statistics.median(found[engine]):.2f}" for engine in ("host", "docker")]
        rows.append((name, *medians, f"{ratio(found['docker'], found['host']):.3f}"))
    table(f"the sample, {rounds} rounds", ("build", "host, s", "docker, s", "docker / host"), rows)
    print("cold, s:", {k: [round(s, 1) for s in v] for k, v in seconds.items()})


def in_commands(project: Path) -> float:
    """Seconds that the commands of the last build took: compilers, which a busy machine slows on either engine."""
    journal = max(project.glob("out/log/*/commands.jsonl"))
    return sum(float(json.loads(row)["seconds"]) for row in journal.read_text().splitlines())


if __name__ == "__main__":
    main()

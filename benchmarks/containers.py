"""What the container adds to engine host on the sample: a cold build (compiler caches empty, sources fetched), and one with nothing to do.

Needs a daemon and BASE_IMAGE. Usage: python benchmarks/containers.py [ROUNDS]
"""

from __future__ import annotations

import hashlib
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

        def cold(engine: str) -> float:
            forget(engine)
            started = time.perf_counter()
            kz(engine, "build")
            return time.perf_counter() - started

        for engine in ("host", "docker"):
            kz(engine, "build")  # sources fetched, the image and the volumes made
        seconds: dict[str, list[float]] = {"host": [], "docker": []}
        for number in range(rounds):
            for engine in ("host", "docker")[:: 1 if number % 2 else -1]:
                seconds[engine].append(cold(engine))
        nothing = in_turn(rounds, host=lambda: kz("host", "build"), docker=lambda: kz("docker", "build"))
    rows = []
    for name, found in (("cold", seconds), ("nothing to do", nothing)):
        medians = [f"{statistics.median(found[engine]):.2f}" for engine in ("host", "docker")]
        rows.append((name, *medians, f"{ratio(found['host'], found['docker']):.3f}"))
    table(f"the sample, {rounds} rounds", ("build", "host, s", "docker, s", "docker / host"), rows)
    print("cold, s:", {k: [round(s, 1) for s in v] for k, v in seconds.items()})


if __name__ == "__main__":
    main()

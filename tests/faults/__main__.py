"""Disturb verbs: `python -m tests.faults [VERB…] [--points N] [--seed N] [--at POINT]`; `--table` prints the figures of the last runs."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from kz_build.core.errors import ConflictError
from tests.faults import cases
from tests.faults.points import parsed
from tests.faults.process import prepare
from tests.faults.trial import Trial, Verdict
from tests.faults.world import remove
from tests.kz import ROOT

ROWS = ROOT / "out" / "faults.json"


def main() -> int:
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of system calls depends on it
        os.execve(
            sys.executable, [sys.executable, "-m", "tests.faults", *sys.argv[1:]], {**os.environ, "PYTHONHASHSEED": "0"}
        )
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("verbs", nargs="*", metavar="VERB", help=f"all by default: {', '.join(cases.CASES)}")
    parser.add_argument("--points", type=int, default=120, help="how many points of each verb (default: 120)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at", action="append", default=[], help="only this point, and what kz said")
    parser.add_argument("--table", action="store_true", help="only print the figures of the last run of each verb")
    arguments = parser.parse_args()
    if arguments.table:
        print(_table(_last_rows()))
        return 0
    prepare()
    wrong = [_verb(name, arguments)["wrong"] for name in arguments.verbs or cases.CASES]
    return int(any(wrong))


def _last_rows() -> dict[str, dict[str, object]]:
    """Figures of the last run of each verb."""
    return json.loads(ROWS.read_text()) if ROWS.is_file() else {}


def _table(rows: dict[str, dict[str, object]]) -> str:
    """The table of docs/reference/reliability.md."""
    known = [rows[name] for name in cases.CASES if name in rows]
    keys = ("points", "killed", "in git", "wrong")
    sums = {key: sum(int(str(row[key])) for row in known) for key in keys}
    lines = ["| verb | points | of them SIGKILL | in git | otherwise than undisturbed |", "|---|---|---|---|---|"]
    for row in (*known, {"verb": "all", **sums}):
        lines.append(f"| {row['verb']} | " + " | ".join(str(row[key]) for key in keys) + " |")
    return "\n".join(lines)


def _verb(name: str, arguments: argparse.Namespace) -> dict[str, object]:
    folder = Path(tempfile.mkdtemp(prefix=f"kz-faults-{name}-"))
    start = time.monotonic()
    try:
        with cases.CASES[name](folder) as (world, argv, answers):
            world.keep()
            trial = Trial(world, argv, answers, code=ConflictError.exit_code if name.endswith("-conflict") else 0)
            points = [parsed(text) for text in arguments.at] or trial.points(arguments.points, arguments.seed)
            verdicts = []
            for point in points:
                verdict = trial.at(point)
                verdicts.append(verdict)
                if verdict.wrong:
                    print(f"{verdict.wrong}\n    python -m tests.faults {name} --at {point}", flush=True)
                if arguments.at:
                    print(
                        f"{point}: ended with {verdict.code}{'' if verdict.hit else ', and was not hit'}\n{verdict.said}"
                    )
    finally:
        remove(folder)
    row = _row(name, verdicts, time.monotonic() - start)
    if not arguments.at:
        ROWS.parent.mkdir(exist_ok=True)
        ROWS.write_text(json.dumps({**_last_rows(), name: row}, indent=1) + "\n")
    print(" ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    return row


def _row(name: str, verdicts: list[Verdict], seconds: float) -> dict[str, object]:
    hit = [verdict for verdict in verdicts if verdict.hit]
    return {
        "verb": name,
        "points": len(hit),
        "killed": sum(verdict.point.what == "SIGKILL" for verdict in hit),
        "in git": sum(verdict.point.git is not None for verdict in hit),
        "not hit": len(verdicts) - len(hit),
        "wrong": sum(bool(verdict.wrong) for verdict in hit),
        "seconds": round(seconds),
    }


if __name__ == "__main__":
    sys.exit(main())

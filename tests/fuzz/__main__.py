"""`python -m tests.fuzz FORMAT [--runs N] [--seed N]` reads hostile files; `python -m tests.fuzz FORMAT FILE…` reads these files."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests.fuzz.readers import FORMATS
from tests.fuzz.run import fuzz, replay

parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
parser.add_argument("format", choices=FORMATS)
parser.add_argument("files", nargs="*", type=Path, help="files to read, instead of hostile ones")
parser.add_argument("--runs", type=int, default=100_000)
parser.add_argument("--seed", type=int, default=0)
arguments = parser.parse_args()
with tempfile.TemporaryDirectory(prefix="kz-fuzz-") as scratch:
    os.environ["KZ_CACHE"] = f"{scratch}/store"
    if arguments.files:
        failed = bool(replay(arguments.format, arguments.files, Path(scratch)))
    else:
        failed = bool(fuzz(arguments.format, arguments.runs, arguments.seed, Path(scratch)).faults)
sys.exit(failed)

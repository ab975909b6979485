"""diagnose: find known problems in a log."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kz_build.core.process import in_processes
from kz_build.diagnose.load import extra, shipped
from kz_build.diagnose.log_blocks import Part, blocks, parts
from kz_build.diagnose.scanner import Scanner
from kz_build.diagnose.signature import Diagnosis, Signature


def diagnose(log: str, signature_files: Sequence[str] = ()) -> Diagnosis:
    """Look for every known problem in a log file, or in standard input for `-`.

    Raises ConfigError if the log cannot be read or a file of signatures is wrong.
    """
    signatures = (*shipped(), *extra(signature_files))
    first, *later = in_processes(partial(_scan, log, signatures), parts(log))
    for scanner in later:
        first.add(scanner)
    return Diagnosis(log, first.lines, len(signatures), first.found())


def _scan(log: str, signatures: tuple[Signature, ...], part: Part) -> Scanner:
    """Scan one part of a log; a last line without an end counts as a line."""
    scanner, last = Scanner(signatures), b"\n"
    for block in blocks(log, part):
        scanner.feed(block)
        last = block[-1:]
    scanner.lines += last != b"\n"
    return scanner

"""diagnose: find known problems in a log."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from kz_build.core.errors import ConfigError, Problem
from kz_build.core.process import in_processes
from kz_build.core.yaml_schema import load, wrong
from kz_build.diagnose.log_blocks import Part, blocks, parts
from kz_build.diagnose.scanner import Scanner
from kz_build.diagnose.signature import Diagnosis, Signature, parse_signature
from kz_build.diagnose.tables import table


def diagnose(log: str, signature_files: Sequence[str] = ()) -> Diagnosis:
    """Look for every known problem in a log file, or in standard input for `-`.

    Raises ConfigError if the log cannot be read or a file of signatures is wrong.
    """
    signatures = (*shipped(), *extra(signature_files))
    first, *later = in_processes(partial(_scan, log, signatures), parts(log))
    for scanner in later:
        first.add(scanner)
    return Diagnosis(log, first.lines, len(signatures), first.found(), first.error_lines())


def _scan(log: str, signatures: tuple[Signature, ...], part: Part) -> Scanner:
    """Scan one part of a log; a last line without an end counts as a line."""
    scanner, last = Scanner(signatures), b"\n"
    for block in blocks(log, part):
        scanner.feed(block)
        last = block[-1:]
    scanner.lines += last != b"\n"
    return scanner


FOLDER = Path(__file__).with_name("signatures")


def files() -> list[Path]:
    """Return the files of kz's signatures by their names, in whatever folder they are: families are tried in that order."""
    return sorted(FOLDER.rglob("*.yaml"), key=lambda path: path.name)


@cache
def shipped() -> tuple[Signature, ...]:
    """Return kz's signatures. A test validates their files; here they are only read."""
    return _signatures(_shipped_files())


@cache
def _shipped_files() -> dict[Path, dict[str, Any]]:
    return {path: table(path) for path in files()}


def extra(paths: Sequence[str]) -> tuple[Signature, ...]:
    """Return the signatures of a user's files. Raises ConfigError with every problem of each, and for an id that is taken."""
    files = {Path(path): read(Path(path)) for path in paths}
    return _signatures(_shipped_files() | files)[len(shipped()) :]


def _signatures(files: dict[Path, dict[str, Any]]) -> tuple[Signature, ...]:
    """Build the signatures of all files. Raises ConfigError if two have one id: the text of one would stand beside the other's line."""
    first: dict[str, Path] = {}
    for path, file in files.items():
        for id in file:
            if first.setdefault(id, path) != path:
                raise ConfigError(
                    f"the signature {id} is in two files: {first[id]} and {path}", hint="give one of them another id"
                )
    return tuple(parse_signature(id, plain) for file in files.values() for id, plain in file.items())


def read(path: Path) -> dict[str, Any]:
    """Read and validate one file. Raises ConfigError with all that is wrong in it, each with its line."""
    from kz_build.diagnose.signature_schema import SignatureFile, invalid_examples

    file, where = load(path, SignatureFile, "signatures")
    plain: dict[str, Any] = file.model_dump()
    problems = tuple(Problem(str(path), where(place), text) for place, text in invalid_examples(plain))
    if problems:
        raise wrong("signatures", problems)
    return plain

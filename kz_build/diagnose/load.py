"""Files of signatures: kz's own, and the user's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kz_build.core.errors import ConfigError, Problem
from kz_build.core.yaml_schema import load
from kz_build.diagnose.signature import Signature, parse_signature

FOLDER = Path(__file__).with_name("signatures")


def shipped() -> tuple[Signature, ...]:
    """Return kz's signatures. A test validates their files; here they are only read."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    files = (yaml.load(path.read_bytes(), loader) for path in sorted(FOLDER.glob("*.yaml")))
    return tuple(parse_signature(id, plain) for file in files for id, plain in file.items())


def extra(paths: Sequence[str]) -> tuple[Signature, ...]:
    """Return the signatures of a user's files. Raises ConfigError with every problem of each."""
    return tuple(parse_signature(id, plain) for path in paths for id, plain in read(Path(path)).items())


def read(path: Path) -> dict[str, Any]:
    """Read and validate one file. Raises ConfigError with all that is wrong in it, each with its line."""
    from kz_build.diagnose.signature_schema import SignatureFile, invalid_examples

    plain, where = load(path, SignatureFile, "signatures")
    problems = tuple(Problem(str(path), where(place), text) for place, text in invalid_examples(plain))
    if problems:
        raise ConfigError("signatures are wrong:", problems, hint="docs/diagnose.md describes the form")
    return plain

"""How much code of each library comes from which folder of the sources, by its debug file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from kz_build.build.steps import MAPPED
from kz_build.core.errors import AuditError
from kz_build.core.stage_record import Output

_VENDORED = ("third-party", "third_party")
ELSEWHERE = "elsewhere"
"""What is not of the sources: parts of the SDK, mostly."""


def code_parts(folder: Path, outputs: Mapping[str, Output]) -> dict[str, dict[str, int]]:
    """Return artifact -> folder of a source -> bytes of code, for those in `folder` that have a readable debug file."""
    from kz_build.formats.elf_units import code_by_source

    parts = {}
    for name, output in outputs.items():
        debug = f"symbols/{output.build_id[:2]}/{output.build_id[2:]}.debug" if output.build_id else ""
        if debug not in outputs:
            continue
        try:
            sizes = code_by_source(folder / debug)
        except AuditError:  # a form of debug information that nobody has read yet must not stop a build
            continue
        by_part: Counter[str] = Counter()
        for source, size in sizes.items():
            by_part[part_of(source)] += size
        parts[name] = dict(sorted(by_part.items()))
    return parts


def part_of(source: str) -> str:
    """Return the part that a source file belongs to: vendored code by its folder, other code by at most two folders."""
    path = PurePosixPath(source)
    if not path.is_relative_to(MAPPED):
        return ELSEWHERE
    folders = path.relative_to(MAPPED).parts[:-1]
    vendored = [at for at, name in enumerate(folders[:-1]) if name in _VENDORED]
    return "/".join(folders[: vendored[-1] + 2] if vendored else folders[:3]) or ELSEWHERE

"""Verbs about what was built and what it was built from: papers, lines x targets, the store."""

from __future__ import annotations

import argparse

from kz_build.cli.common import project as project_of
from kz_build.cli.common import show


def attest(arguments: argparse.Namespace) -> int:
    from kz_build.model.errors import AuditError
    from kz_build.stages.attest import verify
    from kz_build.views.terminal import checks

    found = verify(arguments.folder, arguments.key)
    show(arguments, found, checks(found))
    failed = [c for c in found if c.failed]
    if failed:
        named = ", ".join(sorted({c.file for c in failed} - {"-"})) or "the papers"
        raise AuditError(f"{arguments.folder} is not what its papers say: {named}", hint="do not ship it")
    return 0


def matrix(arguments: argparse.Namespace) -> int:
    from kz_build.stages.matrix import matrix
    from kz_build.views.json import text

    rows = matrix(project_of(arguments), arguments.line)
    if arguments.format == "github" and not arguments.json:
        import json

        print(json.dumps({"include": [{"line": r.line, "target": r.target} for r in rows]}, separators=(",", ":")))
    else:
        print(text(rows))
    return 0

"""Verbs from a checked library to an app."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from kz_build.cli.common import project as project_of
from kz_build.cli.common import relative, show


def packed(project: Any, line: str, target: str, live: Any, sign: Path | None) -> tuple[Any, str]:
    """(the package, its piece for Gradle, which lies beside it); '' where a check failed and nothing was written."""
    from kz_build.release.aar import package
    from kz_build.release.gradle import snippet

    made = package(project, line, target, live.event, snippet, sign)
    return made, snippet(made, Path(made.path).name) if made.path else ""


def package(arguments: argparse.Namespace) -> int:
    from kz_build.core import terminal
    from kz_build.core.errors import AuditError
    from kz_build.release.write import signing_key

    project = project_of(arguments)
    line, target = arguments.line or project.pins.default, arguments.target or project.pins.targets[0]
    with terminal.Live() as live:
        made, text = packed(project, line, target, live, signing_key(arguments.sign))
    rows = [
        *(f"  {path}: {what}" for path, what in (*made.libraries, *made.left_out)),
        *(f"  canonical: false, {o['where']}: {o['value']}" for o in made.overrides),
        terminal.checks(made.checks),
    ]
    if made.path:
        rows = [f"{relative(Path(made.path))}\n  sha256 {made.sha256}\n  tree   {made.tree}", *rows, "", text.rstrip()]
    show(arguments, made, "\n".join(rows))
    if failed := [c for c in made.checks if c.failed]:
        raise AuditError(f"{len(failed)} of {len(made.checks)} checks failed", hint="no AAR was written")
    return 0


def check_apk(arguments: argparse.Namespace) -> int:
    from kz_build.checks.apk import check_apk
    from kz_build.core import terminal
    from kz_build.core.errors import AuditError, ConfigError

    if not arguments.files and not arguments.bundle:
        raise ConfigError("check-apk takes an app's file or --bundle FOLDER", hint="kz check-apk --help")
    checks = check_apk(tuple(arguments.files), arguments.bundle)
    show(arguments, checks, terminal.checks(checks))
    if failed := [c for c in checks if c.failed]:
        raise AuditError(f"{len(failed)} of {len(checks)} answers say that the parts do not fit: do not ship them")
    return 0

"""Verbs from a checked library to an app."""

from __future__ import annotations

import argparse

from kz_build.cli.common import show


def check_apk(arguments: argparse.Namespace) -> int:
    from kz_build.model.errors import AuditError, ConfigError
    from kz_build.stages.check_apk import check_apk
    from kz_build.views import terminal

    if not arguments.files and not arguments.bundle:
        raise ConfigError("check-apk takes an app's file or --bundle FOLDER", hint="kz check-apk --help")
    checks = check_apk(tuple(arguments.files), arguments.bundle)
    show(arguments, checks, terminal.checks(checks))
    if failed := [c for c in checks if c.failed]:
        raise AuditError(f"{len(failed)} of {len(checks)} answers say that the parts do not fit: do not ship them")
    return 0

"""Verbs around the export of a model."""

from __future__ import annotations

import argparse

from kz_build.cli.common import show


def diagnose(arguments: argparse.Namespace) -> int:
    from kz_build.stages.diagnose import diagnose
    from kz_build.views.diagnose import text

    found = diagnose(arguments.log, arguments.signatures)
    show(arguments, found, text(found))
    return 0

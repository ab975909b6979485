"""kz check-apk: check that the libraries and models of an app fit together."""

from __future__ import annotations

import argparse
from pathlib import Path

from kz_build.cli.common import json_option, show
from kz_build.core.check import require_passed, table
from kz_build.core.errors import ConfigError

EXAMPLE = "app.apk qwen3-4b.pte"


def options(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        type=Path,
        help="an APK, app bundle or AAR, then its other APKs and AARs, and models",
    )
    parser.add_argument(
        "--bundle", metavar="DIR", type=Path, help="instead: a folder of AARs, split APKs, libraries, models"
    )


def run(arguments: argparse.Namespace) -> None:
    from kz_build.checks.apk import check_apk

    if not arguments.files and not arguments.bundle:
        raise ConfigError("kz check-apk: FILE or --bundle DIR is needed", hint="kz check-apk --help")
    checks = check_apk(tuple(arguments.files), arguments.bundle)
    show(arguments, checks, table(checks))
    require_passed(checks, "do not ship these files")

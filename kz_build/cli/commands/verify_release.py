"""kz verify-release: check artifacts against the release files beside them."""

from __future__ import annotations

import argparse
from pathlib import Path

from kz_build.cli.common import json_option, show
from kz_build.core.errors import AuditError

EXAMPLE = "dist/et-1.2/android-arm64-qnn"


def options(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.add_argument("folder", metavar="DIR", type=Path, help="the folder that has SHA256SUMS")
    parser.add_argument(
        "--key", metavar="PUB", default="", help="minisign public key, or its file: requires a signature by it"
    )


def run(arguments: argparse.Namespace) -> None:
    from kz_build.core.terminal import checks
    from kz_build.release.verify import verify

    results = verify(arguments.folder, arguments.key)
    show(arguments, results, checks(results))
    failed = [c for c in results if c.failed]
    if failed:
        named = ", ".join(sorted({c.subject for c in failed} - {"-"})) or "its SHA256SUMS"
        raise AuditError(f"{arguments.folder} does not match its release files: {named}", hint="do not ship it")

"""kz verify-release: check artifacts against the provenance and sums beside them."""

from __future__ import annotations

import argparse
from pathlib import Path

from kz_build.cli.common import json_option, show
from kz_build.core.errors import AuditError

EXAMPLE = "dist/et-1.2/android-arm64-qnn"


def options(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.add_argument("folder", metavar="DIR", type=Path, help="what SHA256SUMS lies in")
    parser.add_argument(
        "--key", metavar="PUB", default="", help="public key of minisign, or its file: a signature of it is required"
    )


def run(arguments: argparse.Namespace) -> int:
    from kz_build.core.terminal import checks
    from kz_build.release.verify import verify

    found = verify(arguments.folder, arguments.key)
    show(arguments, found, checks(found))
    failed = [c for c in found if c.failed]
    if failed:
        named = ", ".join(sorted({c.subject for c in failed} - {"-"})) or "the release files"
        raise AuditError(f"{arguments.folder} is not what its release files say: {named}", hint="do not ship it")
    return 0

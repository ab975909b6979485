"""kz verify-release: check artifacts against the release files beside them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from kz_build.cli.common import json_option, show
from kz_build.core.errors import AuditError, ConfigError

if TYPE_CHECKING:
    from kz_build.core.check import Check

EXAMPLE = "dist/et-1.2/android-arm64-qnn"


def options(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.add_argument("folder", metavar="DIR", type=Path, help="the folder that has SHA256SUMS")
    parser.add_argument(
        "--key", metavar="PUB", default="", help="minisign public key, or its file: requires a signature by it"
    )
    parser.add_argument(
        "--osv",
        metavar="FILE",
        type=Path,
        help="ask this file of the OSV database for known vulnerabilities: JSON, or a zip of it",
    )
    parser.add_argument("--vex", metavar="FILE", type=Path, help="write them to this file too, as CycloneDX")


def run(arguments: argparse.Namespace) -> None:
    from kz_build.core.check import table
    from kz_build.core.escape import one_line
    from kz_build.release.verify import verify

    if arguments.vex and not arguments.osv:
        raise ConfigError("--vex needs --osv", hint="kz verify-release --help")
    results = verify(arguments.folder, arguments.key)
    if arguments.osv and not any(c.failed for c in results):
        results += _vulnerabilities(arguments)
    show(arguments, results, table(results))
    failed = [c for c in results if c.failed]
    if vulnerable := [c for c in failed if c.name == "osv"]:
        raise AuditError(
            f"{arguments.folder} has known vulnerabilities in {', '.join(dict.fromkeys(c.subject for c in vulnerable))}",
            hint="move the pin to a version that has the fix, or take the fix into its stack",
        )
    if failed:
        named = ", ".join(sorted({one_line(c.subject) for c in failed} - {"-"})) or "its SHA256SUMS"
        raise AuditError(f"{arguments.folder} does not match its release files: {named}", hint="do not ship it")


def _vulnerabilities(arguments: argparse.Namespace) -> tuple[Check, ...]:
    """Ask a file of OSV about the components of the folder."""
    from kz_build import __version__
    from kz_build.core.files import write_atomic
    from kz_build.release import osv
    from kz_build.release.verify import bills

    named = tuple(part for bill in bills(arguments.folder) for part in osv.parts(bill))
    findings, count = osv.ask(named, arguments.osv)
    if arguments.vex:
        from kz_build.release.vex import vex

        write_atomic(arguments.vex, vex(findings, __version__))
    return tuple(osv.checks(findings, named, count))

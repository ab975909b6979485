"""kz attest: sign a release by a CI's identity, or verify who signed it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from kz_build.cli.common import json_option, relative, show, trust_option
from kz_build.core.errors import AuditError, ConfigError

if TYPE_CHECKING:
    from kz_build.release.sigstore_bundle import Builder

EXAMPLE = "--verify dist/et-1.2/android-arm64-qnn"


def options(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.add_argument("folder", metavar="DIR", type=Path, help="the folder that has SHA256SUMS")
    parser.add_argument("--verify", action="store_true", help="verify who signed, offline; without it, sign")
    parser.add_argument(
        "--bundle",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="verify this bundle too: another builder's",
    )
    parser.add_argument(
        "--identity",
        metavar="ID",
        action="append",
        default=[],
        help="a builder who may sign (default: those of pins.yaml)",
    )
    parser.add_argument(
        "--issuer", metavar="URL", action="append", default=[], help="who vouches for the identity; one for each"
    )
    parser.add_argument(
        "--builders", metavar="N", type=int, default=1, help="how many different builders must agree (default: 1)"
    )
    trust_option(parser)


def run(arguments: argparse.Namespace) -> None:
    from kz_build.core.check import table
    from kz_build.core.escape import one_line
    from kz_build.release.attest import attest, verify_attested

    given = arguments.bundle or arguments.identity or arguments.issuer or arguments.builders != 1
    if not arguments.verify:
        if given:
            raise ConfigError(
                "--bundle, --identity, --issuer and --builders belong to --verify", hint="kz attest --help"
            )
        path = attest(arguments.folder, arguments.trust_config)
        show(arguments, {"bundle": str(path)}, f"signed: {relative(path.absolute())}")
        return
    if arguments.builders < 1:
        raise ConfigError("--builders must be at least 1", hint="kz attest --help")
    builders = _builders(arguments)
    results = verify_attested(arguments.folder, arguments.bundle, builders, arguments.builders, arguments.trust_config)
    show(arguments, results, table(results))
    if failed := [c for c in results if c.failed]:
        named = ", ".join(dict.fromkeys(one_line(c.subject) if c.subject != "-" else c.name for c in failed))
        raise AuditError(f"{arguments.folder} is not proved to be of those builders: {named}", hint="do not ship it")


def _builders(arguments: argparse.Namespace) -> tuple[Builder, ...]:
    """Return who may sign: those of the command line, else of pins.yaml."""
    from kz_build.release.sigstore_bundle import Builder

    if len(arguments.identity) != len(arguments.issuer):
        raise ConfigError("each --identity needs its --issuer", hint="kz attest --help")
    if arguments.identity:
        return tuple(map(Builder, arguments.identity, arguments.issuer))
    from kz_build.pins.load import load_project

    if builders := load_project(arguments.root).pins.builders:
        return tuple(Builder(*one) for one in builders)
    raise ConfigError(
        "nobody is named who may sign",
        hint="--identity ID --issuer URL, or `builders` in pins.yaml (kz's docs/reference/pins.md)",
    )

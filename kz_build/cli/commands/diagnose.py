"""kz diagnose: say what went wrong in a log, and what to do about it."""

from __future__ import annotations

import argparse

from kz_build.cli.common import json_option, show

EXAMPLE = "logcat.txt"


def options(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.add_argument("log", metavar="LOGFILE", help="a log of any size, or - for standard input")
    parser.add_argument(
        "--signatures",
        metavar="FILE",
        action="append",
        default=[],
        help="a file of your own signatures, in addition to kz's",
    )


def run(arguments: argparse.Namespace) -> None:
    from kz_build.diagnose.diagnose import diagnose
    from kz_build.diagnose.text import text

    result = diagnose(arguments.log, arguments.signatures)
    show(arguments, result, text(result))

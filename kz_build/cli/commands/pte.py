"""kz pte: show what a .pte holds, and whether it will load there."""

from __future__ import annotations

import argparse
from pathlib import Path

from kz_build.cli.common import json_option, show
from kz_build.core.errors import DeviceError

EXAMPLE = "model.pte --lib dist/et-1.4/android-arm64-qnn --soc SM8750"


def options(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.add_argument("file", metavar="FILE", type=Path)
    parser.add_argument("--contract", metavar="RECIPE", type=Path, help="check it against this recipe's contract")
    parser.add_argument("--lib", metavar="LIB.so|DIST", type=Path, help="the library that is to load it, or its folder")
    parser.add_argument("--tokenizer", metavar="TOK", type=Path, help="the tokenizer that goes with it")
    parser.add_argument("--soc", metavar="S", default="", help="SoC of the device, e.g. SM8750")


def run(arguments: argparse.Namespace) -> None:
    from kz_build.checks import text_pte as view
    from kz_build.formats.pte import read_pte

    file = read_pte(arguments.file)
    if not (arguments.contract or arguments.lib or arguments.soc or arguments.tokenizer):
        show(arguments, {"file": file, "summary": view.plain(file)}, view.text(file))
        return
    from kz_build.checks.pte import check_contract
    from kz_build.formats.library import read_library
    from kz_build.formats.tokenizer import read_tokenizer
    from kz_build.pins.load import executorch_of

    contract = None
    if arguments.contract:
        from kz_build.checks.contract_files import read_contract  # pydantic costs 15 MB

        contract = read_contract(arguments.contract, arguments.root)
    library = read_library(arguments.lib, file, executorch_of(arguments.lib)) if arguments.lib else None
    tokenizer = read_tokenizer(arguments.tokenizer) if arguments.tokenizer else None
    checks = check_contract(file, contract, library, arguments.soc, tokenizer)
    value = {"file": file, "summary": view.plain(file), "tokenizer": tokenizer, "checks": checks}
    about = f"\n\n{view.tokenizer(tokenizer)}" if tokenizer else ""
    show(arguments, value, f"{view.text(file)}{about}\n\n{view.checks(checks)}")
    if failed := [c for c in checks if c.failed]:
        raise DeviceError(f"{file.name} will not load there: {', '.join(c.name for c in failed)}")

"""Verbs about model files."""

from __future__ import annotations

import argparse

from kz_build.cli.common import show


def pte(arguments: argparse.Namespace) -> int:
    from kz_build.checks import text_pte as view
    from kz_build.formats.pte import read_pte

    file = read_pte(arguments.file)
    if not (arguments.contract or arguments.lib or arguments.soc):
        show(arguments, {"file": file, "summary": view.plain(file)}, view.text(file))
        return 0
    from kz_build.checks.contract_files import read_contract
    from kz_build.checks.pte import hold
    from kz_build.core.errors import DeviceError
    from kz_build.formats.library import read_library
    from kz_build.pins.load import executorch_of

    contract = read_contract(arguments.contract, arguments.root) if arguments.contract else None
    library = read_library(arguments.lib, file, executorch_of(arguments.lib)) if arguments.lib else None
    found = hold(file, contract, library, arguments.soc)
    told = {"file": file, "summary": view.plain(file), "checks": found}
    show(arguments, told, f"{view.text(file)}\n\n{view.checks(found)}")
    if failed := [c for c in found if c.failed]:
        raise DeviceError(f"{file.name} will not do there: {', '.join(c.name for c in failed)}")
    return 0

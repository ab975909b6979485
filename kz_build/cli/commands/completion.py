"""kz completion: print the script that completes kz in a shell."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kz_build.cli.parser import VerbParser

EXAMPLE = "bash > ~/.local/share/bash-completion/completions/kz"


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=("bash", "zsh", "tcsh"), help="bash, zsh or tcsh")


def run(arguments: argparse.Namespace) -> None:
    import shtab

    from kz_build.cli.parser import parser

    whole = parser()
    _load_all(whole)
    print(shtab.complete(whole, arguments.shell))


def _load_all(parser: VerbParser) -> None:
    parser.load()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                _load_all(verb)

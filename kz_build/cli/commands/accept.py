"""kz accept: show the licence of a source, and accept it once."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kz_build.cli.common import line_option, open_project, show
from kz_build.core.errors import ConfigError, NotReadyError

EXAMPLE = "qnn-host"


def options(parser: argparse.ArgumentParser) -> None:
    line_option(parser, "the one pins.yaml names, else the first that has the source")
    parser.add_argument(
        "source", nargs="?", metavar="SOURCE", help="source of pins.yaml; without it: list what there is to accept"
    )
    parser.add_argument(
        "--yes", action="store_true", help="accept without asking, if you know the licence (for a CI of your own)"
    )


def run(arguments: argparse.Namespace) -> None:
    from kz_build.core.terminal import Live
    from kz_build.sources import accept as stage
    from kz_build.sources import text_licence as view

    project = open_project(arguments)
    rows, place = stage.pinned_licences(project)
    if not arguments.source:
        show(arguments, {"record": place, "licences": rows}, view.listing(rows, place))
        return
    with Live() as live:
        licence = stage.licence(project, arguments.line or "", arguments.source, live.event)
    if not arguments.json:
        print(view.head(licence))
    if licence.accepted and licence.accepted.version != licence.version:
        known = licence.accepted
        licence = stage.accept(licence, f"the same bytes as of {known.version}, accepted {known.date}")
    elif not licence.accepted:
        if not arguments.yes:
            _ask(view.body(stage.text(licence)), licence.source, licence.place)
        licence = stage.accept(licence, "--yes" if arguments.yes else "asked")
    show(arguments, licence, view.accepted_text(licence, place))


def _ask(text: str, name: str, wheel: Path) -> None:
    """Show a licence and ask. Raises NotReadyError unless the answer is yes, ConfigError without a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError(
            "nobody to ask: this is no terminal, and a licence is accepted by a person",
            hint=f"run kz accept {name} on a terminal, or, if you know the licence and accept it: kz accept {name} --yes",
        )
    import pydoc

    from kz_build.core.escape import escaped, without_heartbeat

    print()
    try:
        with without_heartbeat():
            pydoc.pager(escaped(text))  # another program
            answer = input('\nDo you accept it, for yourself or whom you work for? "yes", or anything else: ')
    except EOFError:
        answer = ""
    if answer.strip().lower() != "yes":
        raise NotReadyError(
            f"not accepted: nothing was recorded, and nothing can use {name}",
            hint=f"to delete the wheel too: rm {wheel}",
        )

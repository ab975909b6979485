"""What the site adds to the written pages: options from the parser, and the signatures that `kz diagnose` knows."""

from __future__ import annotations

import argparse
import importlib
import re
from collections.abc import Iterator

from kz_build.cli.commands.device import SUBVERBS
from kz_build.cli.parser import GROUPS, VerbParser
from kz_build.diagnose.diagnose import shipped

PAGE_OF = {"refresh": "edit", "schema": "pins"}
"""The page of a verb that has none of its own."""
SUMMARIES = {name: summary for verbs in GROUPS.values() for name, summary in verbs.items()}


def parsers() -> dict[str, VerbParser]:
    """Return the parser of each verb and of each verb of `kz device`."""
    filled = {}
    for name in SUMMARIES:
        command = importlib.import_module(f"kz_build.cli.commands.{name.replace('-', '_')}")
        filled[name] = parser = VerbParser(epilog=command.EXAMPLE)
        command.options(parser)
    for name, fill, *_ in SUBVERBS:
        filled[f"device {name}"] = parser = VerbParser()
        fill(parser)
    return filled


def options(page: str) -> str:
    """Return the Markdown that ends a verb's page on the site: for each of its verbs a table of options and an example."""
    verbs = [
        (verb, parser) for verb, parser in parsers().items() if PAGE_OF.get(first := verb.split()[0], first) == page
    ]
    return "\n".join(row for verb, parser in verbs for row in _rows(verb, parser))


def signatures() -> str:
    """Return the Markdown of all shipped signatures."""
    return "\n".join(
        f"\n## {one.id}\n\n{_text(one.title)}\n\n- Cause: {_text(one.cause)}\n"
        + "".join(f"- Often: {_text(reason)}\n" for reason in one.reasons)
        + f"- Next: {_text(one.next)}\n"
        + "".join(f"- Seen: <{seen.at}>\n" for seen in one.seen if seen.at)
        + f"\n```\n{one.seen[0].line}\n```\n"
        for one in shipped()
    )


def _rows(verb: str, parser: VerbParser) -> Iterator[str]:
    rows = [f"| {_name(action)} | {_help(parser, action)} |" for action in parser._actions if _shown(action)]
    yield f"\n## All options of kz {verb}\n"
    if rows:
        yield "\n".join(["| option | meaning |", "|---|---|", *rows, ""])
    if parser.epilog is not None:
        yield f"```console\n$ kz {verb} {parser.epilog}".rstrip() + "\n```\n"


def _shown(action: argparse.Action) -> bool:
    return (
        not isinstance(action, argparse._HelpAction | argparse._SubParsersAction) and action.help != argparse.SUPPRESS
    )


def _name(action: argparse.Action) -> str:
    value = action.metavar or action.dest.upper()
    if action.choices:
        value = "{" + ",".join(map(str, action.choices)) + "}"
    if not action.option_strings:
        return _code(str(value))
    return _code(", ".join(action.option_strings) + ("" if action.nargs == 0 else f" {value}"))


def _help(parser: VerbParser, action: argparse.Action) -> str:
    return _text(parser._get_formatter()._expand_help(action) if action.help else "")


def _text(words: str) -> str:
    return re.sub(r"([|<*_\[\]`{}#])", r"\\\1", words)


def _code(text: str) -> str:
    return "`" + text.replace("|", "\\|") + "`"

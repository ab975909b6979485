"""The verbs: the name and summary of each. What else a verb has stands in kz_build/cli/commands/."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kz_build import __version__
from kz_build.core.errors import EXIT_CODES, ConfigError

EPILOG = "exit codes: 0 done, 1 bug, " + ", ".join(f"{code} {name}" for code, name in EXIT_CODES.items())


class VerbParser(argparse.ArgumentParser):
    """A parser that gets its options, by `fill`, only when its verb is asked for."""

    fill: Callable[[VerbParser], None] | None = None

    def error(self, message: str) -> Any:
        raise ConfigError(message if self.prog == "kz" else f"{self.prog}: {message}", hint=f"{self.prog} --help")

    def parse_known_args(self, *words: Any, **named: Any) -> Any:
        # What the verb that is asked for does not know, nobody else does.
        if not self.fill:
            return super().parse_known_args(*words, **named)
        fill, self.fill = self.fill, None
        fill(self)
        result, unknown = super().parse_known_args(*words, **named)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return result, unknown


def parser() -> VerbParser:
    """The command line of `kz`; a parsed one names the function of its verb as `run`."""
    parser = VerbParser(
        prog="kz",
        description="Pins, patches, builds and proves ExecuTorch for Android.",
        epilog=EPILOG,
        allow_abbrev=False,
    )
    parser.add_argument(
        "-C", dest="root", type=Path, default=Path(), metavar="DIR", help="the project's folder (default: this one)"
    )
    parser.add_argument("--version", action="version", version=f"kz {__version__}")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for name, summary in VERBS:
        verb = verbs.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        verb.fill = partial(_load, name)
    return parser


def _load(name: str, parser: VerbParser) -> None:
    command = importlib.import_module(f"kz_build.cli.commands.{name.replace('-', '_')}")
    parser.epilog = f"example: kz {name} {command.EXAMPLE}".rstrip()
    parser.set_defaults(run=command.run)
    command.options(parser)


def words_without(argv: Sequence[str], *options: str) -> list[str]:
    """A command line without these options and their values."""
    kept: list[str] = []
    skip = False
    for word in argv:
        if not skip and word not in options and not word.startswith(tuple(f"{o}=" for o in options)):
            kept.append(word)
        skip = not skip and word in options
    return kept


VERBS = (
    ("lock", "resolve the pins and show what changes in pins.lock"),
    ("fetch", "bring the sources of a target, proved equal to the lock"),
    ("apply", "apply the stacks and compare the trees with the lock"),
    ("wheel", "write the patched wheel of a source to dist/<line>/wheels"),
    ("accept", "read a source's licence, and accept it for yourself, once"),
    ("build", "build a target into dist/<line>/<target>, then audit it"),
    ("all", "everything about a target: fetched, built, audited, packed, exported, tried on a device"),
    ("audit", "check what was built"),
    ("attest", "check artifacts by the papers beside them"),
    ("matrix", "every target on every line that can build it, for CI"),
    ("store", "what is in the store, whether it is whole, what can go"),
    ("report", "what was fetched, applied, built and checked, in one table"),
    ("reproduce", "build twice in other surroundings and name what differs, and why"),
    ("verify", "judge every patch on its pin or other revisions of upstream, without a checkout"),
    ("history", "which upstream commit broke each patch, and whether it still does"),
    ("radar", "pull requests that would hurt the stack once merged"),
    ("rebase", "carry a stack to another version of upstream, its pin with it"),
    ("edit", "a stack as ordinary commits in a worktree, to amend, reorder, drop, add"),
    ("refresh", "write an edited stack back to its files"),
    ("import-pr", "take a pull request, or some files of it, as patches"),
    ("upstream", "a patch made ready for a pull request: on main, linted, with its text"),
    ("status", "what is under way, and what upstream did with what the patches say of it"),
    ("nightly", "the newest line against main, in one GitHub issue; for CI"),
    ("health", "write patches/HEALTH.md: every patch on every tag and on main"),
    ("package", "a target's libraries as an AAR that an app takes"),
    ("check-apk", "whether the libraries and models of one app fit each other"),
    ("pte", "what a .pte holds, and whether it will load there"),
    ("export", "export a model: what keeps it from running first, and its contract before it is kept"),
    ("env", "make the environment that a recipe runs in, and say what it holds"),
    ("diagnose", "what a log of an export, a device or an app says went wrong, and what to do"),
    ("device", "Android devices: list, info, check, run, push, emulate"),
    ("schema", "print the JSON schema of pins.yaml or of a recipe, for your editor"),
)

"""The verbs: the group, name and summary of each. The rest of a verb is in kz_build/cli/commands/."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from kz_build import __version__
from kz_build.core.errors import EXIT_CODES, ConfigError, similar

OPTIONS = """\
  kz VERB --help  the options of a verb, and an example
  kz -C DIR VERB  in the project of that folder (default: here or above)
  kz --version
"""
EPILOG = "exit codes: 0 done, 1 bug, " + ", ".join(f"{code} {name}" for code, name in EXIT_CODES.items())


class VerbParser(argparse.ArgumentParser):
    """A parser. With `fill`, which adds its options, it is set up only when its verb is used."""

    def __init__(self, fill: Callable[[VerbParser], None] | None = None, **named: Any) -> None:
        self.fill = fill
        self._named: dict[str, Any] | None = named
        if not fill:
            self._set_up()

    def _set_up(self) -> bool:
        """Let argparse set this parser up, and return whether it was not yet. Thirty of them take six milliseconds."""
        named, self._named = self._named, None
        if named is not None:
            super().__init__(**named)
            self.color = False  # Python 3.14 colours help, and kz escapes what a terminal obeys
        return named is not None

    def __getattr__(self, name: str) -> Any:
        if self._set_up():
            return getattr(self, name)
        raise AttributeError(name)

    def error(self, message: str, word: str = "--help") -> NoReturn:
        raise ConfigError(message if self.prog == "kz" else f"{self.prog}: {message}", hint=f"{self.prog} {word}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Name the word that a mistyped one is nearly, instead of all."""
        if action.choices and value not in action.choices and (near := similar(str(value), map(str, action.choices))):
            raise argparse.ArgumentError(action, f"invalid choice: {str(value)!r}{near}")
        super()._check_value(action, value)

    def parse_known_args(  # type: ignore[override]
        self, words: Sequence[str], namespace: argparse.Namespace
    ) -> tuple[argparse.Namespace, list[str]]:
        if not self.fill:
            return super().parse_known_args(words, namespace)
        self.load()
        # Words may stand behind options: `kz edit abort --line L SOURCE`. That knows no subverbs, and loses a `--`.
        plain = self._subparsers or "--" in words
        if not plain:  # a mistyped option is the mistake, not the word after it that argparse takes for a step
            self._require_known(
                [w for w in words if w[:2] == "--" and w.partition("=")[0] not in self._option_string_actions]
            )
        parse = super().parse_known_args if plain else self.parse_known_intermixed_args
        result, unknown = parse(words, namespace)
        self._require_known(unknown)  # what this verb does not know, no other parser does
        return result, unknown

    def _require_known(self, unknown: Sequence[str]) -> None:
        """Raise ConfigError if there is a word that the verb does not know."""
        if unknown:
            steps = {f"--{step}": step for action in self._positionals._group_actions for step in action.choices or ()}
            word = unknown[0].partition("=")[0]
            near, remedy = "", steps.get(word, "--help")
            if word[:2] == "--" and word not in steps:  # without the dashes, which make any two options alike
                names = [name[2:] for name in self._option_string_actions if name[:2] == "--"]
                near = similar(word[2:], names).replace("mean ", "mean --")
            elif word[:1] != "-" and "--onto" in self._option_string_actions:
                remedy = f"--onto {word}"
            self.error(f"unrecognized arguments: {' '.join(unknown)}{near}", remedy)

    def load(self) -> None:
        """Add the options, once."""
        fill, self.fill = self.fill, None
        if fill:
            self._set_up()
            fill(self)


class _Kz(VerbParser):
    def format_help(self) -> str:
        import textwrap

        parts = [self.format_usage(), f"{self.description}\n"]
        parts += [
            f"{group}:\n" + "".join(f"  {n:16}{s}\n" for n, s in verbs.items()) for group, verbs in GROUPS.items()
        ]
        return "\n".join([*parts, OPTIONS, textwrap.fill(EPILOG, 80) + "\n"])


def parser() -> VerbParser:
    """Return the parser of `kz`; its result has the verb's function as `run`, or prints help without a verb."""
    parser = _Kz(prog="kz", description="Pins, patches, builds and proves ExecuTorch for Android.", allow_abbrev=False)
    parser.add_argument("-C", dest="root", type=Path, default=Path(), metavar="DIR")
    parser.add_argument("--version", action="version", version=f"kz {__version__}")
    parser.set_defaults(run=lambda arguments: parser.print_help())
    verbs = parser.add_subparsers(metavar="VERB", parser_class=VerbParser)
    for group in GROUPS.values():
        for name, summary in group.items():
            verbs.add_parser(name, help=summary, description=summary, allow_abbrev=False, fill=partial(_load, name))
    return parser


def _load(name: str, parser: VerbParser) -> None:
    command = importlib.import_module(f"kz_build.cli.commands.{name.replace('-', '_')}")
    parser.epilog = f"example: kz {name} {command.EXAMPLE}".rstrip()
    parser.set_defaults(run=command.run)
    command.options(parser)


def words_without(argv: Sequence[str], *options: str) -> list[str]:
    """Return a command line without these options and their values."""
    kept: list[str] = []
    skip = False
    for word in argv:
        if not skip and word not in options and not word.startswith(tuple(f"{o}=" for o in options)):
            kept.append(word)
        skip = not skip and word in options
    return kept


GROUPS = {
    "start here": {
        "init": "begin a project for one git repository and its patches",
        "all": "build, check, package, export and try a target in one go",
        "doctor": "show what this machine can do, and what closes each gap",
        "status": "show what is under way, and what upstream did with the patches",
        "report": "show what was fetched, built and checked: a table or a page",
        "diagnose": "say what went wrong in a log, and what to do about it",
    },
    "patches": {
        "apply": "apply the stacks and compare the trees with the lock",
        "verify": "judge every patch on its pin or on other upstream revisions",
        "history": "name the upstream commit that broke each patch",
        "radar": "list pull requests that would break the stack once merged",
        "rebase": "move a stack and its pin to another version of upstream",
        "edit": "turn a stack into commits in a worktree, to change them",
        "refresh": "write an edited stack back to its files",
        "import-pr": "take a pull request, or some files of it, as patches",
        "upstream": "prepare a patch for a pull request: rebase and lint it",
        "wheel": "write the patched wheel of a source to dist/<line>/wheels",
    },
    "build and prove": {
        "fetch": "download the sources of a target, verified against the lock",
        "build": "build a target into dist/<line>/<target>, and audit it",
        "audit": "check again what was built",
        "package": "put the libraries of targets into an AAR for an app",
        "verify-release": "check artifacts against the release files beside them",
        "attest": "sign a release by a CI's identity, or verify who signed it",
        "check-apk": "check that the libraries and models of an app fit together",
        "reproduce": "build twice in varied surroundings, and explain what differs",
    },
    "models": {
        "export": "export a model, after a preflight, and check its contract",
        "env": "make the environment that a recipe runs in",
        "pte": "show what a .pte holds, and whether it will load there",
    },
    "devices": {
        "device": "Android devices: list, info, check, run, push, emulate",
    },
    "CI": {
        "matrix": "list every target on every line that can build it",
        "nightly": "propose on GitHub what moves by itself, and report the rest",
        "queue": "judge your own open pull requests, and every two together",
        "health": "write patches/HEALTH.md: every patch on every tag and main",
    },
    "files": {
        "lock": "resolve the pins, and show what changes in pins.lock",
        "accept": "show the licence of a source, and accept it once",
        "store": "show, verify and clean the store of downloads",
        "schema": "print the JSON schema of pins.yaml or of a recipe",
        "completion": "print the script that completes kz in a shell",
    },
}

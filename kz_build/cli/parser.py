"""The verbs and their options."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kz_build import __version__
from kz_build.model.errors import EXIT_CODES, ConfigError

EPILOG = "exit codes: 0 done, 1 bug, " + ", ".join(f"{code} {name}" for code, name in EXIT_CODES.items())


class _Parser(argparse.ArgumentParser):
    options: Callable[[Any], None] | None = None

    def error(self, message: str) -> Any:
        raise ConfigError(f"{self.prog}: {message}", hint=f"{self.prog} --help")

    def parse_known_args(self, *words: Any, **named: Any) -> Any:
        # Only the verb that is asked for needs its options.
        if self.options:
            fill, self.options = self.options, None
            fill(self)
        return super().parse_known_args(*words, **named)


def parser() -> argparse.ArgumentParser:
    """The command line of `kz`; a parsed one names its function as `verb`, "module.function" of this package."""
    parser = _Parser(
        prog="kz",
        description="Pins, patches, builds and proves ExecuTorch for Android.",
        epilog=EPILOG,
        allow_abbrev=False,
    )
    parser.add_argument(
        "-C", dest="root", type=Path, default=Path(), metavar="DIR", help="the project's folder (default: this one)"
    )
    parser.add_argument("--version", action="version", version=f"kz {__version__}")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True, parser_class=_Parser)
    for name, module, options, text, example in VERBS:
        made = verbs.add_parser(
            name, help=text, description=text, epilog=f"example: kz {name} {example}".rstrip(), allow_abbrev=False
        )
        made.options = options
        made.set_defaults(verb=f"{module}.{name.replace('-', '_')}")
    return parser


def words_without(argv: Sequence[str], *options: str) -> list[str]:
    """A command line without these options and their values."""
    kept: list[str] = []
    skip = False
    for word in argv:
        if not skip and word not in options and not word.startswith(tuple(f"{o}=" for o in options)):
            kept.append(word)
        skip = not skip and word in options
    return kept


def _any(made: Any) -> None:
    made.add_argument("--json", action="store_true", help="print the result as JSON")


def _line(made: Any) -> None:
    _any(made)
    made.add_argument("--line", metavar="L", help="release line (default: the one pins.yaml names)")


def _lines(made: Any) -> None:
    _line(made)
    made.add_argument("--all-lines", action="store_true", help="every line of pins.yaml")


def _engine(made: Any) -> None:
    made.add_argument(
        "--engine", choices=("host", "docker"), default="host", help="docker: in the image that builds, with its git"
    )


def _apply(made: Any) -> None:
    _lines(made)
    _engine(made)


def _asks(made: Any) -> None:
    made.add_argument("--fetch", action="store_true", help="ask upstream for new commits and tags first")


def _target(made: Any) -> None:
    _line(made)
    made.add_argument("--target", metavar="T", help="what to build (default: the first of pins.yaml)")
    made.add_argument("--soc", metavar="S", default="", help="SoC whose QNN runtime goes along, e.g. SM8750")


def _fetch(made: Any) -> None:
    _target(made)
    made.add_argument(
        "--allow-unpinned",
        metavar="NAME",
        action="append",
        default=[],
        help="take an installed SDK of another version; the report says so",
    )


def _build(made: Any) -> None:
    _fetch(made)
    made.add_argument("--dry-run", action="store_true", help="print the plan as commands one can paste")
    made.add_argument(
        "--sign", metavar="KEYFILE", default="", help="sign SHA256SUMS with this key of minisign (or KZ_MINISIGN_KEY)"
    )
    made.add_argument("--jobs", type=int, default=0, metavar="N", help="parallel compilations (default: one a core)")
    made.add_argument(
        "--timeout", type=float, default=0, metavar="MIN", help="stop a command that takes longer (default: never)"
    )
    made.add_argument(
        "--engine",
        choices=("auto", "host", "docker"),
        default="auto",
        help="where it is built (default: docker where a daemon answers and knows the base, else this machine)",
    )


def _reproduce(made: Any) -> None:
    _fetch(made)
    made.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="parallel compilations")


def _lock(made: Any) -> None:
    _line(made)
    made.add_argument("--write", action="store_true", help="write pins.lock")
    made.add_argument(
        "--trust", metavar="NAME", action="append", default=[], help="download NAME and take its digest into the lock"
    )


def _wheel(made: Any) -> None:
    _line(made)
    made.add_argument("source")


def _verify(made: Any) -> None:
    _lines(made)
    made.add_argument("--onto", metavar="REV", nargs="+", default=[], help="revisions of upstream instead of the pin")
    made.add_argument("--tags", metavar="PATTERN", help="all tags of upstream that match, e.g. 'v1.*'")
    _asks(made)
    _engine(made)


def _history(made: Any) -> None:
    _line(made)
    made.add_argument("--to", metavar="REV", default="main", help="where upstream's history ends (default: main)")
    made.add_argument("--why", action="store_true", help="show what those commits did to the lines that a patch needs")
    _asks(made)


def _radar(made: Any) -> None:
    _line(made)
    which = made.add_mutually_exclusive_group()
    which.add_argument("--pr", metavar="N", type=int, nargs="+", default=[], help="these pull requests")
    which.add_argument("--open", action="store_true", help="all that GitHub says are open")
    which.add_argument("--since", metavar="DATE", help="those that moved since YYYY-MM-DD")
    made.add_argument("--to", metavar="REV", default="main", help="what they are merged into (default: main)")
    _asks(made)


def _steps(made: Any, **said: str) -> Any:
    """What goes on with a session, as git's own sequencer says it."""
    which = made.add_mutually_exclusive_group()
    for name, text in said.items():
        which.add_argument(f"--{name}", dest="step", action="store_const", const=name, help=text)
    return which


GOES_ON = {"continue": "go on: it is resolved", "abort": "throw it all away", "status": "where it stands"}
DROPS = {**GOES_ON, "skip": "drop this patch and go on"}


def _rebase(made: Any) -> None:
    _line(made)
    made.add_argument("--source", metavar="S", default="", help="whose stack (default: the line's only git source)")
    which = _steps(made, **DROPS)
    which.add_argument("--onto", metavar="REV", default="", help="tag, branch or commit of upstream")
    made.add_argument("--as", dest="into", metavar="LINE", default="", help="write it as a new line; this one stays")
    _engine(made)


def _edit(made: Any) -> None:
    _line(made)
    made.add_argument("source")
    made.add_argument("--abort", action="store_true", help="throw the worktree away, with what was not refreshed")


def _refresh(made: Any) -> None:
    _line(made)
    made.add_argument("source")


def _import_pr(made: Any) -> None:
    _line(made)
    made.add_argument("number", metavar="N", nargs="?", type=int, help="the pull request")
    made.add_argument("--source", metavar="S", default="", help="whose (default: the line's only git source)")
    made.add_argument("--path", metavar="P", nargs="+", default=[], help="only these files or folders of it")
    _steps(made, **DROPS)


def _upstream(made: Any) -> None:
    _line(made)
    made.add_argument("patch", metavar="PATCH", nargs="?", help="its file name, number or subject")
    made.add_argument("--source", metavar="S", default="", help="whose stack (default: the line's only git source)")
    made.add_argument("--onto", metavar="REV", default="main", help="where it shall go (default: main)")
    _steps(made, **GOES_ON)


def _package(made: Any) -> None:
    _line(made)
    made.add_argument("--target", metavar="T", help="whose libraries (default: the first of pins.yaml)")
    made.add_argument(
        "--aar", action="store_true", required=True, help="as an Android library, upstream's with ours in it"
    )


def _check_apk(made: Any) -> None:
    _any(made)
    made.add_argument(
        "files", metavar="FILE", nargs="*", type=Path, help="an APK or app bundle, then models that come from elsewhere"
    )
    made.add_argument(
        "--bundle", metavar="DIR", type=Path, help="instead: a folder of AARs, split APKs, libraries, models"
    )


def _status(made: Any) -> None:
    _lines(made)
    _asks(made)


def _health(made: Any) -> None:
    _any(made)
    _asks(made)


def _attest(made: Any) -> None:
    _any(made)
    made.add_argument("action", choices=("verify",), help="what to do with the papers")
    made.add_argument("folder", metavar="DIR", type=Path, help="what SHA256SUMS lies in")
    made.add_argument(
        "--key", metavar="PUB", default="", help="public key of minisign, or its file: a signature of it is required"
    )


def _matrix(made: Any) -> None:
    _line(made)
    made.add_argument("--format", choices=("github", "json"), default="github", help="default: github, on one line")


def _store(made: Any) -> None:
    _any(made)
    made.add_argument("action", choices=("list", "verify", "gc"), help="what is there; is it whole; what can go")
    made.add_argument(
        "--project", metavar="DIR", type=Path, action="append", default=[], help="another project that uses the store"
    )
    made.add_argument(
        "--older", metavar="DAYS", type=float, default=30.0, help="gc: what nobody has used for so long (default: 30)"
    )
    made.add_argument("--delete", action="store_true", help="gc: remove it; without, it is only listed")


def _pte(made: Any) -> None:
    _any(made)
    made.add_argument("file", metavar="FILE", type=Path)
    made.add_argument("--contract", metavar="RECIPE", type=Path, help="hold it against the contract of this recipe")
    made.add_argument("--lib", metavar="LIB.so|DIST", type=Path, help="the library that shall load it, or its folder")
    made.add_argument("--soc", metavar="S", default="", help="SoC of the device, e.g. SM8750")


def _schema(made: Any) -> None:
    _any(made)
    made.add_argument(
        "of", metavar="pins|recipes", nargs="?", choices=("pins", "recipes"), default="pins", help="whose"
    )


def _export(made: Any) -> None:
    _any(made)
    made.add_argument("recipe", metavar="RECIPE", nargs="?", help="its name: a file of recipes/ without .yaml")
    which = made.add_mutually_exclusive_group()
    which.add_argument("--list", action="store_true", help="every recipe of the project")
    which.add_argument("--show", action="store_true", help="all of one recipe")
    which.add_argument("--dry-run", action="store_true", help="print the commands, the environment and what it needs")
    which.add_argument(
        "--preflight", action="store_true", help="is this machine ready? Everything that is not, at once"
    )


def _diagnose(made: Any) -> None:
    _any(made)
    made.add_argument("log", metavar="LOGFILE", help="a log of any size, or - for standard input")
    made.add_argument(
        "--signatures",
        metavar="FILE",
        action="append",
        default=[],
        help="a file of signatures of your own, beside kz's",
    )


def _device(made: Any) -> None:
    from kz_build.cli.device import options

    options(made)


VERBS: tuple[tuple[str, str, Callable[[Any], None], str, str], ...] = (
    ("lock", "building", _lock, "resolve the pins and show what changes in pins.lock", "--write --trust fbjni"),
    (
        "fetch",
        "building",
        _fetch,
        "bring the sources of a target, proved equal to the lock",
        "--target android-arm64-xnnpack",
    ),
    ("apply", "building", _apply, "apply the stacks and compare the trees with the lock", "--line et-1.2"),
    ("wheel", "building", _wheel, "write the patched wheel of a source to dist/<line>/wheels", "torchtune"),
    (
        "build",
        "building",
        _build,
        "build a target into dist/<line>/<target>, then audit it",
        "--target android-arm64-xnnpack --dry-run",
    ),
    ("audit", "building", _target, "check what was built", "--target android-arm64-xnnpack"),
    ("attest", "proving", _attest, "check artifacts by the papers beside them", "verify dist/et-1.2/android-arm64-qnn"),
    ("matrix", "proving", _matrix, "every target on every line that can build it, for CI", "--format github"),
    ("store", "proving", _store, "what is in the store, whether it is whole, what can go", "gc --older 30 --delete"),
    ("report", "building", _line, "what was fetched, applied, built and checked, in one table", "--json"),
    (
        "reproduce",
        "proving",
        _reproduce,
        "build twice in other surroundings and name what differs, and why",
        "--target android-arm64-xnnpack",
    ),
    (
        "verify",
        "patching",
        _verify,
        "judge every patch on its pin or other revisions of upstream, without a checkout",
        "--tags 'v1.[34].?' --onto main",
    ),
    (
        "history",
        "patching",
        _history,
        "which upstream commit broke each patch, and whether it still does",
        "--to main --why",
    ),
    ("radar", "patching", _radar, "pull requests that would hurt the stack once merged", "--open"),
    (
        "rebase",
        "carrying",
        _rebase,
        "carry a stack to another version of upstream, its pin with it",
        "--onto v1.4.1 --as et-1.4",
    ),
    (
        "edit",
        "carrying",
        _edit,
        "a stack as ordinary commits in a worktree, to amend, reorder, drop, add",
        "executorch",
    ),
    ("refresh", "carrying", _refresh, "write an edited stack back to its files", "executorch"),
    (
        "import-pr",
        "carrying",
        _import_pr,
        "take a pull request, or some files of it, as patches",
        "19146 --path backends/qualcomm",
    ),
    (
        "upstream",
        "carrying",
        _upstream,
        "a patch made ready for a pull request: on main, linted, with its text",
        "0001",
    ),
    (
        "status",
        "carrying",
        _status,
        "what is under way, and what upstream did with what the patches say of it",
        "--fetch",
    ),
    ("nightly", "carrying", _any, "the newest line against main, in one GitHub issue; for CI", ""),
    ("health", "carrying", _health, "write patches/HEALTH.md: every patch on every tag and on main", "--fetch"),
    ("package", "packaging", _package, "a target's libraries as an AAR that an app takes", "--aar --line et-1.2"),
    (
        "check-apk",
        "packaging",
        _check_apk,
        "whether the libraries and models of one app fit each other",
        "app.apk qwen3-4b.pte",
    ),
    (
        "pte",
        "models",
        _pte,
        "what a .pte holds, and whether it will load there",
        "model.pte --lib dist/et-1.4/android-arm64-qnn --soc SM8750",
    ),
    (
        "export",
        "exporting",
        _export,
        "plan a model's export, and see whether this machine is ready for it",
        "qwen3-4b-qnn-hybrid --dry-run",
    ),
    (
        "diagnose",
        "exporting",
        _diagnose,
        "what a log of an export, a device or an app says went wrong, and what to do",
        "logcat.txt",
    ),
    ("device", "device", _device, "Android devices: list, info, push, emulate", "info --all"),
    (
        "schema",
        "building",
        _schema,
        "print the JSON schema of pins.yaml or of a recipe, for your editor",
        "> pins.schema.json",
    ),
)

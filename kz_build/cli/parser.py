"""The verbs and their options."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kz_build import __version__
from kz_build.cli import options
from kz_build.core.errors import EXIT_CODES, ConfigError

EPILOG = "exit codes: 0 done, 1 bug, " + ", ".join(f"{code} {name}" for code, name in EXIT_CODES.items())


class _Parser(argparse.ArgumentParser):
    fill: Callable[[Any], None] | None = None

    def error(self, message: str) -> Any:
        raise ConfigError(message if self.prog == "kz" else f"{self.prog}: {message}", hint=f"{self.prog} --help")

    def parse_known_args(self, *words: Any, **named: Any) -> Any:
        # Only the verb that is asked for needs its options; what it does not know, nobody else does.
        if not self.fill:
            return super().parse_known_args(*words, **named)
        fill, self.fill = self.fill, None
        fill(self)
        found, unknown = super().parse_known_args(*words, **named)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown


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
    for name, module, fill, text, example in VERBS:
        made = verbs.add_parser(
            name, help=text, description=text, epilog=f"example: kz {name} {example}".rstrip(), allow_abbrev=False
        )
        made.fill = fill
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


VERBS: tuple[tuple[str, str, Callable[[Any], None], str, str], ...] = (
    ("lock", "building", options.lock, "resolve the pins and show what changes in pins.lock", "--write --trust fbjni"),
    (
        "fetch",
        "building",
        options.fetch,
        "bring the sources of a target, proved equal to the lock",
        "--target android-arm64-xnnpack",
    ),
    ("apply", "building", options.apply, "apply the stacks and compare the trees with the lock", "--line et-1.2"),
    ("wheel", "building", options.wheel, "write the patched wheel of a source to dist/<line>/wheels", "torchtune"),
    (
        "accept",
        "accepting",
        options.accept,
        "read a source's licence, and accept it for yourself, once",
        "qnn-host",
    ),
    (
        "build",
        "building",
        options.build,
        "build a target into dist/<line>/<target>, then audit it",
        "--target android-arm64-xnnpack --dry-run",
    ),
    (
        "all",
        "whole",
        options.all,
        "everything about a target: fetched, built, audited, packed, exported, tried on a device",
        "--recipe qwen3-4b-qnn-hybrid --serial R5CT123",
    ),
    ("audit", "building", options.target, "check what was built", "--target android-arm64-xnnpack"),
    (
        "attest",
        "proving",
        options.attest,
        "check artifacts by the papers beside them",
        "verify dist/et-1.2/android-arm64-qnn",
    ),
    ("matrix", "proving", options.matrix, "every target on every line that can build it, for CI", "--format github"),
    (
        "store",
        "proving",
        options.store,
        "what is in the store, whether it is whole, what can go",
        "gc --older 30 --delete",
    ),
    ("report", "building", options.line, "what was fetched, applied, built and checked, in one table", "--json"),
    (
        "reproduce",
        "proving",
        options.reproduce,
        "build twice in other surroundings and name what differs, and why",
        "--target android-arm64-xnnpack",
    ),
    (
        "verify",
        "patching",
        options.verify,
        "judge every patch on its pin or other revisions of upstream, without a checkout",
        "--tags 'v1.[34].?' --onto main",
    ),
    (
        "history",
        "patching",
        options.history,
        "which upstream commit broke each patch, and whether it still does",
        "--to main --why",
    ),
    ("radar", "patching", options.radar, "pull requests that would hurt the stack once merged", "--open"),
    (
        "rebase",
        "carrying",
        options.rebase,
        "carry a stack to another version of upstream, its pin with it",
        "--line et-1.4 --onto main --as et-next",
    ),
    (
        "edit",
        "carrying",
        options.edit,
        "a stack as ordinary commits in a worktree, to amend, reorder, drop, add",
        "executorch",
    ),
    ("refresh", "carrying", options.refresh, "write an edited stack back to its files", "executorch"),
    (
        "import-pr",
        "carrying",
        options.import_pr,
        "take a pull request, or some files of it, as patches",
        "19146 --path backends/qualcomm",
    ),
    (
        "upstream",
        "carrying",
        options.upstream,
        "a patch made ready for a pull request: on main, linted, with its text",
        "0001",
    ),
    (
        "status",
        "carrying",
        options.status,
        "what is under way, and what upstream did with what the patches say of it",
        "--fetch",
    ),
    ("nightly", "carrying", options.any, "the newest line against main, in one GitHub issue; for CI", ""),
    ("health", "carrying", options.health, "write patches/HEALTH.md: every patch on every tag and on main", "--fetch"),
    (
        "package",
        "packaging",
        options.package,
        "a target's libraries as an AAR that an app takes",
        "--aar --line et-1.2",
    ),
    (
        "check-apk",
        "packaging",
        options.check_apk,
        "whether the libraries and models of one app fit each other",
        "app.apk qwen3-4b.pte",
    ),
    (
        "pte",
        "models",
        options.pte,
        "what a .pte holds, and whether it will load there",
        "model.pte --lib dist/et-1.4/android-arm64-qnn --soc SM8750",
    ),
    (
        "export",
        "exporting",
        options.export,
        "export a model: what keeps it from running first, and its contract before it is kept",
        "tiny-qwen3-xnnpack",
    ),
    (
        "env",
        "exporting",
        options.env,
        "make the environment that a recipe runs in, and say what it holds",
        "tiny-qwen3-xnnpack --shell",
    ),
    (
        "diagnose",
        "exporting",
        options.diagnose,
        "what a log of an export, a device or an app says went wrong, and what to do",
        "logcat.txt",
    ),
    ("device", "device", options.device, "Android devices: list, info, check, run, push, emulate", "info --all"),
    (
        "schema",
        "building",
        options.schema,
        "print the JSON schema of pins.yaml or of a recipe, for your editor",
        "> pins.schema.json",
    ),
)

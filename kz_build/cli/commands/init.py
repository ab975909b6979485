"""kz init: begin a project for one git repository and its patches, or for ExecuTorch with ours."""

from __future__ import annotations

import argparse
from collections import Counter

from kz_build.cli.common import json_option, show
from kz_build.core.errors import ConfigError

EXAMPLE = "https://github.com/pytorch/executorch v1.2.0"


def options(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.add_argument(
        "address", nargs="?", default="", help="upstream's git repository (default: that of debian/upstream/metadata)"
    )
    parser.add_argument(
        "version", nargs="?", default="", help="its tag, branch or full commit (default: the newest tag)"
    )
    parser.add_argument(
        "--executorch", action="store_true", help="copy kz's own pins, stacks and recipes for ExecuTorch, to change"
    )


def run(arguments: argparse.Namespace) -> None:
    from kz_build.stack.new_project import DEBIAN, begin, begin_executorch

    if arguments.executorch and arguments.address:
        raise ConfigError("--executorch has its own ADDRESS and VERSION: leave them out")
    new = (
        begin_executorch(arguments.root)
        if arguments.executorch
        else begin(arguments.root, arguments.address, arguments.version)
    )
    rows = ["written:", *(f"  {name}" for name in written(new.written))]
    if new.ignore:
        rows.append(f"your .gitignore is as it was; it should have {' and '.join(new.ignore)}")
    rows.append("then:")
    if arguments.executorch:
        rows += [
            "  kz doctor                                          (what your machine lacks)",
            "  kz build --target android-arm64-xnnpack --dry-run",
        ]
    elif new.stack == DEBIAN:
        rows += ["  kz lock --write", "  kz apply", "  kz verify --onto HEAD"]
    else:
        rows.append("  kz lock --write")
        rows.append(f"  kz edit {new.source}      (makes a worktree: git am your patches there, or commit)")
        rows.append(f"  kz refresh {new.source}   (writes them to {new.stack})")
    show(arguments, new, "\n".join(rows))


def written(names: tuple[str, ...]) -> list[str]:
    """Return a row for each file, or for each folder with the number of its files where they are many."""
    if len(names) < 10:
        return list(names)
    count = Counter(name.partition("/")[0] + ("/" if "/" in name else "") for name in names)
    return [f"{name} ({number} files)" if name.endswith("/") else name for name, number in count.items()]

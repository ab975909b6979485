"""kz apply: apply the stacks and compare the trees with the lock."""

from __future__ import annotations

import argparse

from kz_build.cli.common import (
    chosen_lines,
    engine_option,
    lines_options,
    open_project,
    run_in_build_image,
    show,
    watching,
)

EXAMPLE = "--line et-1.2"


def options(parser: argparse.ArgumentParser) -> None:
    lines_options(parser)
    engine_option(parser)


def run(arguments: argparse.Namespace) -> int:
    from kz_build.stack.apply import apply
    from kz_build.stack.text import trees

    project = open_project(arguments)
    lines = chosen_lines(arguments, project)
    if arguments.engine == "docker":
        return run_in_build_image(arguments, project, lines)
    with watching() as watch:
        result = {line: apply(project, line, watch) for line in lines}
    show(arguments, result, "\n".join(trees(line, applied) for line, applied in result.items()))
    return 0

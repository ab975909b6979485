"""kz verify: judge every patch on its pin or on other upstream revisions."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kz_build.cli.common import (
    chosen_lines,
    engine_option,
    fetch_option,
    lines_options,
    open_project,
    run_in_build_image,
    show,
    source_option,
    unpinned_option,
    watching,
)
from kz_build.core.errors import CommandError, ConfigError, ConflictError, MissingError

if TYPE_CHECKING:
    from kz_build.core.progress import Watch
    from kz_build.pins.project import Project
    from kz_build.upstream.verify import VerifyResult

EXAMPLE = "--tags 'v1.[34].?' --onto main"


def options(parser: argparse.ArgumentParser) -> None:
    lines_options(parser)
    source_option(parser)
    parser.add_argument(
        "--onto",
        metavar="REV",
        action="extend",
        nargs="+",
        default=[],
        help="revisions of upstream instead of the pin (repeatable)",
    )
    parser.add_argument(
        "--tags",
        metavar="PATTERN",
        action="extend",
        nargs="+",
        default=[],
        help="all tags of upstream that match, e.g. 'v1.*' (repeatable)",
    )
    fetch_option(parser)
    parser.add_argument("--build", action="store_true", help="also build a target wherever all patches hold")
    parser.add_argument("--target", metavar="T", default="", help="which target (default: the first of pins.yaml)")
    unpinned_option(parser, ", for --build")
    engine_option(parser)


def _built(project: Project, result: VerifyResult, arguments: argparse.Namespace, watch: Watch) -> VerifyResult:
    from kz_build.pipeline.target import TargetRequest
    from kz_build.pipeline.trial_build import with_trial_builds

    if project.pins.source(result.source).kind != "git":
        return result
    unpinned = tuple(arguments.allow_unpinned)
    request = TargetRequest(target=arguments.target, engine=arguments.engine, allow_unpinned=unpinned)
    return with_trial_builds(project, result, request, watch, lambda text: None)


def run(arguments: argparse.Namespace) -> int:
    from kz_build.core.env import add_to_job_summary, variable
    from kz_build.core.escape import escaped, unescaped
    from kz_build.upstream import text_verdicts
    from kz_build.upstream.verify import verify

    project = open_project(arguments)
    lines = chosen_lines(arguments, project)
    if arguments.target and not arguments.build:
        raise ConfigError("--target is for --build", hint="kz verify --build --target " + arguments.target)
    if arguments.allow_unpinned and not arguments.build:
        raise ConfigError("--allow-unpinned is for --build")
    if arguments.engine == "docker" and not arguments.build:
        judged = verify(project, lines, (), arguments.tags, sources=arguments.source) if arguments.tags else ()
        tags = [t.name for f in judged for t in f.targets]
        return run_in_build_image(arguments, project, lines, onto=[*dict.fromkeys([*tags, *arguments.onto])])
    unjudged: dict[VerifyResult, MissingError] = {}
    with watching() as watch:
        result = verify(
            project,
            lines,
            arguments.onto,
            arguments.tags,
            sources=arguments.source,
            fetch=arguments.fetch,
            watch=watch,
            unjudged=unjudged,
        )
        if arguments.build:
            result = tuple(_built(project, f, arguments, watch) for f in result)
    tables = [
        *(text_verdicts.table(f) for f in result),
        *(f"{one.line} {one.source}: not judged, its files cannot be had" for one in unjudged),
    ]
    show(arguments, (*result, *unjudged), "\n".join(tables) or "no stacks")
    if variable("GITHUB_ACTIONS") == "true":
        # GitHub reads them on either stream, and JSON must stay JSON.
        for row in (row for f in result for row in text_verdicts.workflow_commands(f, _in_repository(project.root))):
            print(escaped(row), file=unescaped(sys.stderr if arguments.json else sys.stdout))
        add_to_job_summary("\n".join(text_verdicts.markdown(f) for f in result))
    if not all(f.holds for f in result):
        hint = "kz history names the commits that broke them; kz rebase --onto REV moves them"
        if not (arguments.onto or arguments.tags):
            hint = "no upstream commit broke them, for this is their own version: correct or restore the patches"
        raise ConflictError(text_verdicts.conclusion(result), hint=hint)
    failed = [(t, b) for f in result for t, b in zip(f.targets, f.builds, strict=False) if b and b.outcome != "builds"]
    if failed:
        names = ", ".join(f"{t.name} ({b.outcome})" for t, b in failed)
        hint = "kz rebase --onto REV, and change the patch"
        if all(b.outside_stack for _, b in failed):
            hint = "name the versions of other sources that it needs under `sources` in pins.local.yaml"
        raise CommandError(f"the patched tree does not build at {names}", hint=hint)
    if unjudged:
        raise next(iter(unjudged.values()))
    return 0


def _in_repository(root: Path) -> str:
    """Return a project's path below the checkout of a GitHub workflow, whatever folder kz was started in; '' for its root."""
    from kz_build.core.env import variable

    checkout = Path(variable("GITHUB_WORKSPACE") or Path.cwd()).resolve()
    return root.relative_to(checkout).as_posix() if root != checkout and root.is_relative_to(checkout) else ""

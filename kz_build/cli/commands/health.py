"""kz health: write patches/HEALTH.md: every patch on every tag and main."""

from __future__ import annotations

import argparse

from kz_build.cli.common import fetch_option, json_option, locked_project, show, watching

EXAMPLE = "--fetch"


def options(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    fetch_option(parser)


def run(arguments: argparse.Namespace) -> None:
    import datetime

    from kz_build.core.files import write_atomic
    from kz_build.upstream.health import FILE, health
    from kz_build.upstream.text_health import markdown

    with locked_project(arguments) as project, watching() as watch:
        result = health(project, fetch=arguments.fetch, watch=watch)
        page = markdown(result, datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"))
        write_atomic(project.root / FILE, page.encode())
    stacks = "1 stack" if len(result) == 1 else f"{len(result)} stacks"
    show(arguments, result, f"{sum(len(h.verified.patches) for h in result)} patches of {stacks}: {FILE}")

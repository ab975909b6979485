"""kz doctor: show what this machine can do, and what closes each gap."""

from __future__ import annotations

import argparse

from kz_build.cli.common import json_option, open_project, show

EXAMPLE = ""


def options(parser: argparse.ArgumentParser) -> None:
    json_option(parser)


def run(arguments: argparse.Namespace) -> None:
    from kz_build.pipeline.capability import screen
    from kz_build.pipeline.doctor import doctor

    capabilities = doctor(open_project(arguments))
    show(arguments, capabilities, screen(capabilities))

"""kz schema: print the JSON schema of pins.yaml or of a recipe."""

from __future__ import annotations

import argparse

from kz_build.cli.common import json_option

EXAMPLE = "> pins.schema.json"


def options(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.add_argument(
        "of", metavar="pins|recipes", nargs="?", choices=("pins", "recipes"), default="pins", help="whose"
    )


def run(arguments: argparse.Namespace) -> None:
    from kz_build.core.plain_json import text
    from kz_build.core.validation import json_schema
    from kz_build.export.recipe import RecipeFile
    from kz_build.pins.schema import Pins

    print(text(json_schema(Pins) if arguments.of == "pins" else json_schema(RecipeFile)))

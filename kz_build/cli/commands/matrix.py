"""kz matrix: list every target on every line that can build it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from kz_build.cli.common import line_option, open_project

EXAMPLE = "--format github"
MOST_CELLS = {"github": (256, "jobs of a matrix"), "gitlab": (200, "targets of a line")}
"""What one run takes: docs.github.com, "Running variations of jobs in a workflow"; docs.gitlab.com, `parallel:matrix`."""


def options(parser: argparse.ArgumentParser) -> None:
    line_option(parser, "all of them")
    parser.add_argument(
        "--format",
        choices=("github", "gitlab", "json"),
        default="github",
        help="default: github, on one line; gitlab: a child pipeline that builds and reports",
    )


def run(arguments: argparse.Namespace) -> None:
    import json

    from kz_build.core.errors import ConfigError
    from kz_build.core.plain_json import text

    pins = open_project(arguments).pins
    able = pins.matrix([arguments.line] if arguments.line else ())
    style = "json" if arguments.json else arguments.format
    if style == "json":
        rows = [{"line": line, "target": name} for line, name in able]
        kinds = [pins.target(name, line) for line, name in able]
        print(
            text(
                [
                    {**row, "platform": kind["platform"], "abi": kind["abi"]}
                    for row, kind in zip(rows, kinds, strict=True)
                ]
            )
        )
        return
    most, of = MOST_CELLS[style]
    lines = {line: [target for its, target in able if its == line] for line, _ in able}
    if (len(able) if style == "github" else max(map(len, lines.values()), default=0)) > most:
        raise ConfigError(
            f"{len(able)} cells: {style} takes at most {most} {of}", hint="a run for each line: kz matrix --line LINE"
        )
    if style == "github":
        rows = [{"line": line, "target": target} for line, target in able]
        print(json.dumps({"include": rows}, separators=(",", ":")))
    else:
        print(text(gitlab(lines)))


def gitlab(lines: Mapping[str, Sequence[str]]) -> dict[str, object]:
    """Return a child pipeline: a job for each target of each line, one that signs it if KZ_ATTEST is `true`, and one report of all.
    KZ_REQUIREMENT is what pip installs."""
    kept = ["out/*/$LINE/$TARGET/manifest.json", "dist/$LINE/$TARGET"]
    cell = {
        "stage": "build",
        "script": ['kz build --line "$LINE" --target "$TARGET"'],
        "cache": {"key": {"files": ["pins.lock"]}, "paths": [".kz"]},
        "artifacts": {"paths": kept},
    }
    attested = {
        "stage": "attest",
        "rules": [{"if": '$KZ_ATTEST == "true"'}],
        "id_tokens": {"SIGSTORE_ID_TOKEN": {"aud": "sigstore"}},
        "script": ['kz attest "dist/$LINE/$TARGET"'],
        "artifacts": {"paths": ["dist/$LINE/$TARGET/*.sigstore.json"]},
    }
    jobs: dict[str, object] = {}
    for line, targets in lines.items():
        each = {"parallel": {"matrix": [{"LINE": line, "TARGET": list(targets)}]}}
        jobs[f"build {line}"] = {**cell, **each}
        jobs[f"attest {line}"] = {**attested, **each, "needs": [f"build {line}"]}
    report = {
        "stage": "report",
        "when": "always",
        "script": ["kz report --join . --html"],
        "artifacts": {"when": "always", "paths": ["out/report/report.html"]},
    }
    return {
        "stages": ["build", "attest", "report"],
        "variables": {"KZ_CACHE": "$CI_PROJECT_DIR/.kz"},
        "default": {"before_script": ['pip install -q "$KZ_REQUIREMENT"']},
        **jobs,
        "report": report,
    }

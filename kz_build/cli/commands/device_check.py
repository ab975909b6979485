"""kz device check and run: try on devices what was built."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kz_build.cli.common import MOST_MINUTES, device_options, for_each_device, open_project
from kz_build.core.errors import ConfigError, MissingError

if TYPE_CHECKING:
    from kz_build.core.progress import Watch
    from kz_build.core.terminal import Live
    from kz_build.device.adb import Device
    from kz_build.device.in_app import App
    from kz_build.device.trial import Report, TrialPlan, TrialRequest
    from kz_build.pins.project import Project

    _Ask = Callable[[Device], Report]


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of check: what to try, and how."""
    device_options(parser)
    parser.add_argument("--line", metavar="L", default="", help="release line (default: the recipe's, or pins.yaml's)")
    parser.add_argument("--target", metavar="T", default="", help="target that was built (default: the first)")
    parser.add_argument("--recipe", metavar="R", default="", help="this recipe's model, by its contract")
    parser.add_argument("--pte", metavar="FILE", type=Path, help="this model instead")
    parser.add_argument("--tokenizer", metavar="FILE", type=Path, help="its tokenizer (default: the recipe's)")
    parser.add_argument("--chat", metavar="NAME", default="", help="its chat template: llama3, llava, qwen3")
    parser.add_argument("--prompt", metavar="TEXT", default="", help="its prompt (default: pins.yaml's)")
    parser.add_argument("--tokens", metavar="N", type=int, default=128, help="prompt and answer at most (default: 128)")
    parser.add_argument(
        "--qnn", metavar="PATH", type=Path, help="Qualcomm's SDK, or its runtime AAR (default: the build's)"
    )
    parser.add_argument(
        "--from", dest="folders", metavar="NAME=DIR", action="append", default=[], help="a folder a recipe names"
    )
    parser.add_argument(
        "--timeout", metavar="MIN", type=float, default=10, help="end a run that takes longer (default: 10)"
    )
    parser.add_argument(
        "--in-app", action="store_true", help="also in an app on the device: a process forked by Zygote"
    )
    parser.add_argument("--apk", metavar="FILE", type=Path, help="that app (default: kz builds it, with Android's SDK)")
    parser.add_argument(
        "--require",
        choices=("in-app",),
        action="append",
        default=[],
        help="fail if it cannot run here (default: skip it)",
    )


def run_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of run: those of check, how often, and what is a failure."""
    options(parser)
    parser.add_argument("--runs", metavar="N", type=int, default=5, help="timed runs (default: 5)")
    parser.add_argument("--warmup", metavar="N", type=int, default=1, help="untimed runs before them (default: 1)")
    parser.add_argument(
        "--tolerance",
        metavar="PERCENT",
        type=float,
        help="how much worse a figure may be (default: 15, or the baseline's)",
    )


def check(arguments: argparse.Namespace) -> int:
    from kz_build.device.run import check

    return _tried(
        arguments, lambda project, trial, watch: lambda device: check(project, device, trial, watch=watch), {}
    )


def run(arguments: argparse.Namespace) -> int:
    from kz_build.device.run import run

    if arguments.runs < 1 or arguments.warmup < 0:
        raise ConfigError("kz device run: --runs is 1 or more, --warmup 0 or more")
    if arguments.tolerance is not None and not 0 <= arguments.tolerance < float("inf"):
        raise ConfigError("kz device run: --tolerance is a percentage, 0 or more")
    options = {"runs": arguments.runs, "warmup": arguments.warmup, "tolerance": arguments.tolerance}
    return _tried(
        arguments,
        lambda project, trial, watch: lambda device: run(project, device, trial, watch=watch, note=_say, **options),
        {**options, "compare": True},
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _tried(
    arguments: argparse.Namespace, what: Callable[[Project, TrialPlan, Watch], _Ask], often: dict[str, Any]
) -> int:
    """Try the same on every chosen device; `often` says how often an app runs it, if one does."""
    from kz_build.core.progress import quiet
    from kz_build.core.terminal import Live
    from kz_build.device.plan import trial
    from kz_build.device.text_report import report

    project = open_project(arguments)
    plan = trial(project, _wish(arguments))
    alone = len(arguments.serial) < 2 and not arguments.every
    with Live() as live:
        watch = live.event if alone else quiet
        ask = what(project, plan, watch)
        if arguments.in_app or arguments.apk or arguments.require:
            often = {**often, "required": bool(arguments.require)}
            ask = _and_in_app(ask, _app(arguments, project, plan, live), project, plan, watch, often)
        return for_each_device(arguments, ask, report)


def _app(arguments: argparse.Namespace, project: Project, trial: TrialPlan, live: Live) -> App | str:
    """Return the app to run it in, or why there is none."""
    from kz_build.core.command_log import Commands, new_log_folder
    from kz_build.device.benchmark_app import app
    from kz_build.device.in_app import app_of

    if arguments.apk:
        return app_of(arguments.apk)
    try:
        return app(
            project, trial.line, trial.target, Commands(new_log_folder(project.out("log")), live.note), live.event
        )
    except MissingError as error:
        if arguments.require:
            raise
        return "; ".join(f"{item.what}: {item.why}. {item.remedy}" for item in error.missing)


def _and_in_app(
    ask: _Ask, app: App | str, project: Project, trial: TrialPlan, watch: Watch, often: dict[str, Any]
) -> _Ask:

    from kz_build.device.in_app import RunPolicy, in_app, skipped

    def both(device: Device) -> Report:
        report = ask(device)
        if isinstance(app, str):
            return skipped(report, app)
        return replace(report, in_app=in_app(project, device, trial, app, RunPolicy(**often), watch=watch, note=_say))

    return both


def _wish(arguments: argparse.Namespace) -> TrialRequest:
    from kz_build.device.trial import TrialRequest

    folders = {}
    for word in arguments.folders:
        name, equals, folder = word.partition("=")
        if not equals or not Path(folder).is_dir():
            raise ConfigError(f"--from {word}: must be NAME=FOLDER, of an existing folder")
        folders[name] = Path(folder).absolute()
    if arguments.tokens < 1 or not 0 < arguments.timeout <= MOST_MINUTES or "\0" in arguments.prompt:
        raise ConfigError(
            f"--tokens is 1 or more, --timeout more than 0 and at most {MOST_MINUTES:,}, and --prompt has no NUL"
        )
    if arguments.qnn and not arguments.qnn.exists():
        raise ConfigError(f"--qnn {arguments.qnn} is not there")
    return TrialRequest(
        line=arguments.line,
        target=arguments.target,
        recipe=arguments.recipe,
        pte=arguments.pte,
        tokenizer=arguments.tokenizer,
        chat=arguments.chat,
        prompt=arguments.prompt,
        tokens=arguments.tokens,
        qnn=arguments.qnn,
        folders=folders,
        seconds=max(1, round(arguments.timeout * 60)),
    )

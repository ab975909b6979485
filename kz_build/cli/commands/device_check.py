"""kz device check and run: try on devices what was built."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kz_build.cli.common import MOST_MINUTES, device_options, for_each_device, open_project
from kz_build.core.errors import ConfigError, MissingError

if TYPE_CHECKING:
    from kz_build.core.terminal import Live
    from kz_build.device.adb import Device
    from kz_build.device.in_app import App
    from kz_build.device.trial import Report, RunPolicy, TrialPlan, TrialRequest
    from kz_build.pins.project import Project


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
    parser.add_argument(
        "--tokens", metavar="N", type=int, help="prompt and answer at most (default: the recipe's, or 128)"
    )
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
    parser.add_argument("--apk", metavar="FILE", type=Path, help="that app (default: kz builds it)")
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
        "--sustain",
        metavar="TIME",
        type=_seconds,
        default=0,
        help="run for so long instead, as 5m or 90s: what is left of its speed",
    )
    parser.add_argument(
        "--tolerance",
        metavar="PERCENT",
        type=float,
        help="how much worse a figure may be (default: 15, or the baseline's)",
    )


def _seconds(text: str) -> int:
    number, unit = text[:-1], text[-1:]
    if (
        unit not in "sm"
        or not number.isdecimal()
        or not 0 < (seconds := int(number) * (60 if unit == "m" else 1)) <= 86400
    ):
        raise argparse.ArgumentTypeError(f"{text} is no time such as 5m or 90s, of a day at most")
    return seconds


def check(arguments: argparse.Namespace) -> None:
    from kz_build.device.checks import check
    from kz_build.device.trial import RunPolicy

    _try(arguments, lambda live: check, RunPolicy(required=bool(arguments.require)))


def run(arguments: argparse.Namespace) -> None:
    from kz_build.device.run import run
    from kz_build.device.trial import RunPolicy

    if arguments.runs < 1 or arguments.warmup < 0:
        raise ConfigError("kz device run: --runs is 1 or more, --warmup 0 or more")
    if arguments.tolerance is not None and not 0 <= arguments.tolerance < float("inf"):
        raise ConfigError("kz device run: --tolerance is a percentage, 0 or more")
    policy = RunPolicy(
        arguments.runs, arguments.warmup, True, arguments.tolerance, bool(arguments.require), arguments.sustain
    )
    # Devices run in threads, which an interrupt ends without their `finally`: this one puts the devices back as they were.
    with ExitStack() as at_end:
        _try(arguments, lambda live: partial(run, policy=policy, note=live.note, at_end=at_end), policy, at_end)


def _try(
    arguments: argparse.Namespace,
    asker: Callable[[Live], Callable[..., Report]],
    policy: RunPolicy,
    at_end: ExitStack | None = None,
) -> None:
    """Ask the same of every chosen device, and of an app on it if the user wants one."""
    from kz_build.core.progress import quiet
    from kz_build.core.terminal import Live
    from kz_build.device.in_app import in_app, skipped
    from kz_build.device.plan import trial
    from kz_build.device.text_report import report

    project = open_project(arguments)
    plan = trial(project, _request(arguments))
    alone = len(arguments.serial) < 2 and not arguments.every
    with Live() as live:
        ask, watch = asker(live), live.event if alone else quiet
        app = _app(arguments, project, plan, live) if arguments.in_app or arguments.apk or arguments.require else None

        def everything(device: Device) -> Report:
            result = ask(project, device, plan, watch=watch)
            if app is None:
                return result
            if isinstance(app, str):
                return skipped(result, app)
            inner = in_app(project, device, plan, app, policy, watch=watch, note=live.note, at_end=at_end)
            return replace(result, in_app=inner)

        for_each_device(arguments, everything, report)


def _app(arguments: argparse.Namespace, project: Project, trial: TrialPlan, live: Live) -> App | str:
    """Return the app to run it in, or why there is none."""
    from kz_build.core.command_log import Commands, new_log_folder
    from kz_build.device.in_app import app_of
    from kz_build.device.probe_app import app

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


def _request(arguments: argparse.Namespace) -> TrialRequest:
    from kz_build.device.trial import TrialRequest

    folders = {}
    for word in arguments.folders:
        name, equals, folder = word.partition("=")
        if not equals or not Path(folder).is_dir():
            raise ConfigError(f"--from {word}: must be NAME=FOLDER, of an existing folder")
        folders[name] = Path(folder).absolute()
    if (
        (arguments.tokens is not None and arguments.tokens < 1)
        or not 0 < arguments.timeout <= MOST_MINUTES
        or "\0" in arguments.prompt
    ):
        raise ConfigError(
            f"--tokens is 1 or more, --timeout more than 0 and at most {MOST_MINUTES:,}, and --prompt has no NUL"
        )
    if arguments.qnn and not arguments.qnn.exists():
        raise ConfigError(f"--qnn {arguments.qnn} is not there")
    same = ("line", "target", "recipe", "pte", "tokenizer", "chat", "prompt", "tokens", "qnn")
    named = {name: getattr(arguments, name) for name in same}
    named["tokens"] = arguments.tokens or 0
    return TrialRequest(**named, folders=folders, seconds=max(1, round(arguments.timeout * 60)))

"""What the verbs share."""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kz_build.core.errors import DeviceError, MissingError
from kz_build.core.escape import fit

if TYPE_CHECKING:
    from kz_build.core.progress import Event, Watch
    from kz_build.core.terminal import Live
    from kz_build.device.adb import Device
    from kz_build.pins.project import Project
    from kz_build.pipeline.target import TargetRequest
    from kz_build.stack.pinned import AbsentRevision

Result = TypeVar("Result")


def open_project(arguments: argparse.Namespace, *, local: bool = True) -> Project:
    """Load the project that `-C` names, `local` with pins.local.yaml, and keep `kz store gc` from its store."""
    from kz_build.core.locks import share
    from kz_build.pins.load import load_project

    project = load_project(arguments.root, local=local)
    share(project.store)
    return project


@contextmanager
def watching() -> Iterator[Watch]:
    """Yield a watcher that shows a progress bar from its first event on."""
    lives: list[Live] = []

    def watch(event: Event) -> None:
        if not lives:
            from kz_build.core.terminal import Live

            lives.append(Live())
        lives[0].event(event)

    try:
        yield watch
    finally:
        for live in lives:
            live.stop()


@contextmanager
def locked_project(arguments: argparse.Namespace, *, local: bool = True) -> Iterator[Project]:
    """Load the project, and lock it against other commands that change it."""
    from kz_build.core.env import cache_root
    from kz_build.core.locks import lock

    root = arguments.root.resolve()
    name = f"project-{hashlib.sha256(bytes(root)).hexdigest()[:12]}"
    with lock(cache_root(), name, lambda _: print("kz: waiting: another kz changes this project", file=sys.stderr)):
        yield open_project(arguments, local=local)


def run_in_build_image(
    arguments: argparse.Namespace, project: Project, lines: Sequence[str], *, onto: Sequence[str] = ()
) -> int:
    """Run this command line in the build image instead, show its output and return its exit code."""
    from kz_build.build.run_in_image import run_in_image
    from kz_build.core.command_log import Commands, new_log_folder

    commands = Commands(new_log_folder(project.out("log")), lambda text: print(text, file=sys.stderr))
    done = run_in_image(project, lines, arguments.words, commands, onto=onto)
    print(done.stdout, end="")
    print(done.stderr, end="", file=sys.stderr)
    if done.changed:
        print("\n".join(["changed here:", *(f"  {name}" for name in done.changed)]), file=sys.stderr)
    return done.code


def show(arguments: argparse.Namespace, value: object, text: str, *, script: bool = False) -> None:
    """Print a result, as JSON with `--json`, else as text that fits the terminal, unless it is a script."""
    if arguments.json:
        from kz_build.core.plain_json import text as as_json

        print(as_json(value))
    elif text:
        print(text if script else fit(text, sys.stdout))


def relative(path: Path) -> Path:
    """Return a path as a user would type it in this folder."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


MOST_MINUTES = 10_000
"""About a week: the longest time limit."""
_PINNED = "the one pins.yaml names"
WHOSE = "whose stack (default: the line's only git source)"


def json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def line_option(parser: argparse.ArgumentParser, default: str = _PINNED) -> None:
    json_option(parser)
    parser.add_argument("--line", metavar="L", help=f"release line (default: {default})")


def lines_options(parser: argparse.ArgumentParser) -> None:
    line_option(parser)
    parser.add_argument("--all-lines", action="store_true", help="every line of pins.yaml")


def chosen_lines(arguments: argparse.Namespace, project: Project) -> tuple[str, ...]:
    """Return the lines that `lines_options` choose."""
    return project.pins.lines if arguments.all_lines else (arguments.line or project.pins.default,)


def trust_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trust-config",
        metavar="FILE",
        type=Path,
        help="sigstore's client trust configuration of another instance than the public one",
    )


def engine_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--engine", choices=("host", "docker"), default="host", help="docker: in the build image, with its git"
    )


class _Once(argparse.Action):
    """An option that may be given once: argparse would silently drop the first of two."""

    given = False

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: object, value: object, option: object = None
    ) -> None:
        if self.given:
            raise argparse.ArgumentError(self, "may be given once")
        self.given = True
        setattr(namespace, self.dest, value)


def onto_option(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--onto", metavar="REV", action=_Once, default="", help=text)


def source_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--source", metavar="S", action="append", default=[], help="only the stack on this source (repeatable)"
    )


def absent_text(absent: Sequence[AbsentRevision]) -> list[str]:
    """Say which stacks were not judged, and why."""
    return [f"{one.line} {one.source}: {one.absent}; the other stacks were judged" for one in absent]


def fetch_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fetch", action="store_true", help="ask upstream for new commits and tags first")


def target_options(parser: argparse.ArgumentParser, default: str = _PINNED) -> None:
    line_option(parser, default)
    parser.add_argument("--target", metavar="T", help="which target (default: the first of pins.yaml)")


def soc_option(parser: argparse.ArgumentParser) -> None:
    help = "SoC whose QNN runtime is included, e.g. SM8750"
    parser.add_argument("--soc", metavar="S", default="", type=_known_soc, help=help)


def _known_soc(name: str) -> str:
    """Return the name of a SoC. Raises ConfigError for an unknown one: before anything is downloaded for it."""
    from kz_build.formats.soc import arch_of

    if name:
        arch_of(name)
    return name


def sources_options(parser: argparse.ArgumentParser, default: str = _PINNED) -> None:
    target_options(parser, default)
    unpinned_option(parser)


def unpinned_option(parser: argparse.ArgumentParser, of: str = "; the report says so") -> None:
    parser.add_argument(
        "--allow-unpinned",
        metavar="NAME",
        action="append",
        default=[],
        help=f"accept an installed SDK of another version{of}",
    )


def jobs(text: str) -> int:
    """Parse a number of parallel jobs; 0 is one per core. Raises ValueError, which argparse reports."""
    if (number := int(text)) < 0:
        raise ValueError
    return number


def minutes(text: str) -> float:
    """Parse a time limit; 0 is none. Raises ValueError, which argparse reports."""
    if not 0 <= (number := float(text)) <= MOST_MINUTES:
        raise ValueError
    return number


def build_options(parser: argparse.ArgumentParser, default: str = _PINNED) -> None:
    sources_options(parser, default)
    soc_option(parser)
    sign_option(parser)
    parser.add_argument("--jobs", type=jobs, default=0, metavar="N", help="parallel compilations (default: one a core)")
    parser.add_argument(
        "--timeout", type=minutes, default=0, metavar="MIN", help="stop a command that takes longer (default: never)"
    )
    parser.add_argument(
        "--distrust",
        type=jobs,
        default=0,
        metavar="N",
        help="compile N objects of the build again, without caches, and compare (default: none)",
    )
    parser.add_argument(
        "--engine",
        choices=("auto", "host", "docker"),
        default="auto",
        help="where to build (default: docker if a daemon answers and knows the base, else this machine)",
    )
    parser.add_argument(
        "--distributed",
        metavar="URL",
        default="",
        help="compile on the workers of this scheduler of sccache-dist; its token is in KZ_SCHEDULER_TOKEN",
    )


def sign_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sign", metavar="KEYFILE", default="", help="sign SHA256SUMS with this minisign key (or KZ_MINISIGN_KEY)"
    )


def target_request(arguments: argparse.Namespace) -> TargetRequest:
    """Return the request that `build_options` describe."""
    from kz_build.pipeline.target import TargetRequest
    from kz_build.release.write import signing_key

    return TargetRequest(
        line=arguments.line or "",
        target=arguments.target or "",
        engine=arguments.engine,
        jobs=arguments.jobs,
        soc=arguments.soc,
        timeout=arguments.timeout * 60,
        allow_unpinned=tuple(arguments.allow_unpinned),
        sign=signing_key(arguments.sign),
        distrust=arguments.distrust,
        distributed=arguments.distributed,
    )


STEPS = {"continue": "after resolving it", "abort": "undo it all", "status": "show its state"}
DROPS = {**STEPS, "skip": "drop this patch", "undo": "take back the last answer"}
"""The steps of a session, named as in git's sequencer; `skip` and `undo` where there are several patches."""


def listed(steps: Mapping[str, str]) -> str:
    return ", ".join(f"{name} ({text})" for name, text in steps.items())


def take_step(arguments: argparse.Namespace, project: Project, verb: str, step: str) -> None:
    """Take one step of a session: continue, skip, abort or status."""
    from kz_build.stack import rebase as stage
    from kz_build.stack import text as carrying
    from kz_build.stack.resolution import skip_patch, unchanged, undo_answer
    from kz_build.stack.session_folder import open_sessions

    line, source = arguments.line or "", arguments.source
    if step == "status":
        sessions = [(o.session, o.folder) for o in open_sessions(project, verb)]
        show(arguments, sessions, carrying.session_list(sessions))
    elif step == "abort":
        dropped = stage.abort(project, verb, line, source)
        show(arguments, dropped, carrying.aborted(dropped))
    else:
        changes = {"skip": skip_patch, "undo": undo_answer, "continue": unchanged}
        done = stage.resume(project, verb, line, source, changes[step])
        show(arguments, done, carrying.written_stack(done))


def device_options(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.add_argument(
        "--serial",
        metavar="S",
        action="append",
        default=[],
        help="this device (repeatable); HOST:PORT is connected first",
    )
    parser.add_argument("--all", dest="every", action="store_true", help="every device that adb sees, in parallel")


def for_each_device(
    arguments: argparse.Namespace, ask: Callable[[Device], Result], text: Callable[[Result], str]
) -> None:
    """Call `ask` with every chosen device and show the reports; the first failure sets the exit code."""
    from kz_build.core.env import variable
    from kz_build.device.adb import running
    from kz_build.device.info import Failed, choose_serials, run_on_each

    server = running()
    serials = choose_serials(server, arguments.serial, every=arguments.every, named=variable("ANDROID_SERIAL"))
    reports = run_on_each(server, serials, ask)
    failed = [one for one in reports if isinstance(one, Failed)]
    show(arguments, reports, "\n".join(text(one) for one in reports if not isinstance(one, Failed)))
    if failed:
        error = DeviceError("\n".join(one.error for one in failed), hint=failed[0].hint)
        if all(one.exit_code == MissingError.exit_code for one in failed):
            error.exit_code, error.name = MissingError.exit_code, MissingError.name
        raise error
    failures = {serial: getattr(one, "failed", ()) for serial, one in zip(serials, reports, strict=True)}
    if bad := [f"{serial}: {', '.join(names)}" for serial, names in failures.items() if names]:
        raise DeviceError("; ".join(bad))

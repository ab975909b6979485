"""What the verbs share."""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kz_build.core.errors import DeviceError, MissingError

if TYPE_CHECKING:
    from kz_build.core.progress import Event, Watch
    from kz_build.core.terminal import Live
    from kz_build.pins.project import Project
    from kz_build.pipeline.target import TargetRequest


def open_project(arguments: argparse.Namespace) -> Project:
    """The project that `-C` names, its store held against `kz store gc`."""
    from kz_build.core.locks import hold
    from kz_build.pins.load import load_project

    found = load_project(arguments.root)
    hold(found.store)
    return found


@contextmanager
def watching() -> Iterator[Watch]:
    """Who is to be told how far a fetch is: a bar on the terminal, made once there is something to tell."""
    made: list[Live] = []

    def told(event: Event) -> None:
        if not made:
            from kz_build.core.terminal import Live

            made.append(Live())
        made[0].event(event)

    try:
        yield told
    finally:
        for live in made:
            live.stop()


@contextmanager
def changing(arguments: argparse.Namespace) -> Iterator[Project]:
    """The project, while no other command changes it."""
    from kz_build.core.env import cache_root
    from kz_build.core.locks import locked

    root = arguments.root.resolve()
    name = f"project-{hashlib.sha256(bytes(root)).hexdigest()[:12]}"
    with locked(cache_root(), name, lambda _: print("kz: waiting: another kz changes this project", file=sys.stderr)):
        yield open_project(arguments)


def within(arguments: argparse.Namespace, project: Project, lines: Sequence[str], *, onto: Sequence[str] = ()) -> int:
    """Run the verb of this command line in the image instead: what it says is shown as it is; gives its exit code."""
    from kz_build.build.run_in_image import run_in_image
    from kz_build.core.command_log import Commands, new_log_folder

    commands = Commands(new_log_folder(project.out("log")), lambda text: print(text, file=sys.stderr))
    done = run_in_image(project, lines, arguments.words, commands, onto=onto)
    print(done.stdout, end="")
    print(done.stderr, end="", file=sys.stderr)
    if done.changed:
        print("\n".join(["changed here:", *(f"  {name}" for name in done.changed)]), file=sys.stderr)
    return done.code


def show(arguments: argparse.Namespace, value: object, text: str) -> None:
    """Print a result: as JSON where that is asked for, else as text."""
    if arguments.json:
        from kz_build.core.json_text import text as as_json

        print(as_json(value))
    elif text:
        print(text)


def relative(path: Path) -> Path:
    """A path as one would type it here."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


MOST_MINUTES = 10_000
"""A week; what waits takes no number at will."""
_PINNED = "the one pins.yaml names"


def json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def line_option(parser: argparse.ArgumentParser, default: str = _PINNED) -> None:
    json_option(parser)
    parser.add_argument("--line", metavar="L", help=f"release line (default: {default})")


def lines_options(parser: argparse.ArgumentParser) -> None:
    line_option(parser)
    parser.add_argument("--all-lines", action="store_true", help="every line of pins.yaml")


def engine_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--engine", choices=("host", "docker"), default="host", help="docker: in the image that builds, with its git"
    )


class Once(argparse.Action):
    """An option with one value: a second one is refused, where argparse would forget the first."""

    given = False

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: object, value: object, option: object = None
    ) -> None:
        if self.given:
            raise argparse.ArgumentError(self, "may be given once")
        self.given = True
        setattr(namespace, self.dest, value)


def fetch_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fetch", action="store_true", help="ask upstream for new commits and tags first")


def target_options(parser: argparse.ArgumentParser, default: str = _PINNED) -> None:
    line_option(parser, default)
    parser.add_argument("--target", metavar="T", help="which target (default: the first of pins.yaml)")


def soc_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--soc", metavar="S", default="", help="SoC whose QNN runtime goes along, e.g. SM8750")


def sources_options(parser: argparse.ArgumentParser, default: str = _PINNED) -> None:
    target_options(parser, default)
    parser.add_argument(
        "--allow-unpinned",
        metavar="NAME",
        action="append",
        default=[],
        help="take an installed SDK of another version; the report says so",
    )


def jobs(text: str) -> int:
    """How many at once; 0 for as many as there are cores. Raises ValueError, which argparse tells."""
    if (found := int(text)) < 0:
        raise ValueError
    return found


def minutes(text: str) -> float:
    """A time limit; 0 for none. Raises ValueError, which argparse tells."""
    if not 0 <= (found := float(text)) <= MOST_MINUTES:
        raise ValueError
    return found


def build_options(parser: argparse.ArgumentParser, default: str = _PINNED) -> None:
    sources_options(parser, default)
    soc_option(parser)
    sign_option(parser)
    parser.add_argument("--jobs", type=jobs, default=0, metavar="N", help="parallel compilations (default: one a core)")
    parser.add_argument(
        "--timeout", type=minutes, default=0, metavar="MIN", help="stop a command that takes longer (default: never)"
    )
    parser.add_argument(
        "--engine",
        choices=("auto", "host", "docker"),
        default="auto",
        help="where it is built (default: docker where a daemon answers and knows the base, else this machine)",
    )


def sign_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sign", metavar="KEYFILE", default="", help="sign SHA256SUMS with this key of minisign (or KZ_MINISIGN_KEY)"
    )


def target_request(arguments: argparse.Namespace) -> TargetRequest:
    """What `build_options` say."""
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
    )


STEPS = {"continue": "it is resolved", "abort": "throw it all away", "status": "where it stands"}
DROPS = {**STEPS, "skip": "drop this patch"}
"""What goes on with a session, as git's own sequencer says it; `skip` where there are patches to drop."""


def listed(steps: Mapping[str, str]) -> str:
    """Steps as a help text."""
    return ", ".join(f"{name} ({text})" for name, text in steps.items())


def take_step(arguments: argparse.Namespace, project: Project, verb: str, step: str) -> None:
    """Go on with a session: continue, skip, abort, or say where it stands."""
    from kz_build.stack import rebase as stage
    from kz_build.stack import text as carrying

    line, source = arguments.line or "", arguments.source
    if step == "status":
        show_sessions(arguments, project, verb)
    elif step == "abort":
        dropped = stage.abort(project, verb, line, source)
        show(
            arguments, dropped, f"{verb} of {dropped.source} on {dropped.line} is thrown away; the project is as it was"
        )
    else:
        done = stage.resume(project, verb, line, source, skip=step == "skip")
        show(arguments, done, carrying.written_stack(done))


def show_sessions(arguments: argparse.Namespace, project: Project, verb: str) -> None:
    from kz_build.stack.session_folder import open_sessions
    from kz_build.stack.text import session_list

    found = [(o.session, o.folder) for o in open_sessions(project, verb)]
    show(arguments, found, session_list(found))


def device_options(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.add_argument(
        "--serial",
        metavar="S",
        action="append",
        default=[],
        help="this device (repeatable); HOST:PORT is connected first",
    )
    parser.add_argument("--all", dest="every", action="store_true", help="every device that adb sees, at once")


def for_each_device(arguments: argparse.Namespace, ask: Any, text: Any) -> int:
    """Ask every device that is meant, and show what each said; the first failure gives the exit code."""
    from kz_build.core.env import variable
    from kz_build.device.adb import running
    from kz_build.device.info import Failed, choose_serials, run_on_each

    server = running()
    serials = choose_serials(server, arguments.serial, every=arguments.every, named=variable("ANDROID_SERIAL"))
    found = run_on_each(server, serials, ask)
    failed = [one for one in found if isinstance(one, Failed)]
    show(arguments, found, "\n".join(text(one) for one in found if not isinstance(one, Failed)))
    if failed:
        said = DeviceError("\n".join(one.error for one in failed), hint=failed[0].hint)
        if all(one.exit_code == MissingError.exit_code for one in failed):
            said.exit_code, said.name = MissingError.exit_code, MissingError.name
        raise said
    bad = [f"{one.serial}: {', '.join(lacks)}" for one in found if (lacks := getattr(one, "failed", ()))]
    if bad:
        raise DeviceError("; ".join(bad))
    return 0

"""The options of the verbs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_PINNED = "the one pins.yaml names"
MOST_MINUTES = 10_000
"""A week; what waits takes no number at will."""


def any(made: Any) -> None:
    made.add_argument("--json", action="store_true", help="print the result as JSON")


def line(made: Any, default: str = _PINNED) -> None:
    any(made)
    made.add_argument("--line", metavar="L", help=f"release line (default: {default})")


def lines(made: Any) -> None:
    line(made)
    made.add_argument("--all-lines", action="store_true", help="every line of pins.yaml")


def engine(made: Any) -> None:
    made.add_argument(
        "--engine", choices=("host", "docker"), default="host", help="docker: in the image that builds, with its git"
    )


def apply(made: Any) -> None:
    lines(made)
    engine(made)


def asks(made: Any) -> None:
    made.add_argument("--fetch", action="store_true", help="ask upstream for new commits and tags first")


def target(made: Any, default: str = _PINNED) -> None:
    line(made, default)
    made.add_argument("--target", metavar="T", help="which target (default: the first of pins.yaml)")


def _soc(made: Any) -> None:
    made.add_argument("--soc", metavar="S", default="", help="SoC whose QNN runtime goes along, e.g. SM8750")


def fetch(made: Any, default: str = _PINNED) -> None:
    target(made, default)
    made.add_argument(
        "--allow-unpinned",
        metavar="NAME",
        action="append",
        default=[],
        help="take an installed SDK of another version; the report says so",
    )


def build(made: Any) -> None:
    build_here(made)
    made.add_argument("--dry-run", action="store_true", help="print the plan as commands one can paste")


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


def build_here(made: Any, default: str = _PINNED) -> None:
    fetch(made, default)
    _soc(made)
    _sign(made)
    made.add_argument("--jobs", type=jobs, default=0, metavar="N", help="parallel compilations (default: one a core)")
    made.add_argument(
        "--timeout", type=minutes, default=0, metavar="MIN", help="stop a command that takes longer (default: never)"
    )
    made.add_argument(
        "--engine",
        choices=("auto", "host", "docker"),
        default="auto",
        help="where it is built (default: docker where a daemon answers and knows the base, else this machine)",
    )


def all(made: Any) -> None:
    build_here(made, "the recipe's where that builds the target, else the one pins.yaml names")
    made.add_argument("--recipe", metavar="R", default="", help="the model to export, and to run on the device")
    where = made.add_mutually_exclusive_group()
    where.add_argument("--serial", metavar="S", default="", help="this device; HOST:PORT is connected first")
    where.add_argument("--emulate", action="store_true", help="an EMULATED device, begun for this and ended after it")
    made.add_argument(
        "--require",
        metavar="STAGE",
        action="append",
        default=[],
        choices=("package", "export", "device", "in-app"),
        help="package, export, device or in-app: where it cannot run here, do not begin (repeatable)",
    )


def reproduce(made: Any) -> None:
    fetch(made)
    _soc(made)
    made.add_argument("--jobs", type=jobs, default=0, metavar="N", help="parallel compilations (default: one a core)")


def lock(made: Any) -> None:
    line(made, "all of them")
    made.add_argument("--write", action="store_true", help="write pins.lock")
    made.add_argument(
        "--trust", metavar="NAME", action="append", default=[], help="download NAME and take its digest into the lock"
    )


def wheel(made: Any) -> None:
    line(made)
    made.add_argument("source")


def accept(made: Any) -> None:
    line(made, "the one pins.yaml names, else the first that has the source")
    made.add_argument(
        "source", nargs="?", metavar="SOURCE", help="source of pins.yaml; without it: what there is to accept"
    )
    made.add_argument(
        "--yes", action="store_true", help="you know the licence and accept it: nothing is asked (for a CI of your own)"
    )


def verify(made: Any) -> None:
    lines(made)
    made.add_argument("--onto", metavar="REV", nargs="+", default=[], help="revisions of upstream instead of the pin")
    made.add_argument("--tags", metavar="PATTERN", help="all tags of upstream that match, e.g. 'v1.*'")
    asks(made)
    engine(made)


def history(made: Any) -> None:
    line(made)
    made.add_argument("--to", metavar="REV", default="main", help="where upstream's history ends (default: main)")
    made.add_argument("--why", action="store_true", help="show what those commits did to the lines that a patch needs")
    asks(made)


def radar(made: Any) -> None:
    line(made)
    which = made.add_mutually_exclusive_group()
    which.add_argument("--pr", metavar="N", type=int, nargs="+", default=[], help="these pull requests")
    which.add_argument("--open", action="store_true", help="all that GitHub says are open")
    which.add_argument("--since", metavar="DATE", help="those that moved since YYYY-MM-DD")
    made.add_argument("--to", metavar="REV", default="main", help="what they are merged into (default: main)")
    asks(made)


def steps(made: Any, **said: str) -> Any:
    """What goes on with a session, as git's own sequencer says it."""
    which = made.add_mutually_exclusive_group()
    for name, text in said.items():
        which.add_argument(f"--{name}", dest="step", action="store_const", const=name, help=text)
    return which


GOES_ON = {"continue": "go on: it is resolved", "abort": "throw it all away", "status": "where it stands"}
DROPS = {**GOES_ON, "skip": "drop this patch and go on"}


def rebase(made: Any) -> None:
    line(made)
    made.add_argument("--source", metavar="S", default="", help="whose stack (default: the line's only git source)")
    which = steps(made, **DROPS)
    which.add_argument("--onto", metavar="REV", default="", help="tag, branch or commit of upstream")
    made.add_argument("--as", dest="into", metavar="LINE", default="", help="write it as a new line; this one stays")
    made.add_argument(
        "--keep",
        metavar="PATCH",
        action="append",
        default=[],
        help="apply this patch even if upstream has what it changes (its file name, number or subject; can be repeated)",
    )
    engine(made)


def edit(made: Any) -> None:
    line(made)
    made.add_argument("source")
    made.add_argument("--abort", action="store_true", help="throw the worktree away, with what was not refreshed")


def refresh(made: Any) -> None:
    line(made)
    made.add_argument("source")


def import_pr(made: Any) -> None:
    line(made)
    made.add_argument("number", metavar="N", nargs="?", type=int, help="the pull request")
    made.add_argument("--source", metavar="S", default="", help="whose (default: the line's only git source)")
    made.add_argument("--path", metavar="P", nargs="+", default=[], help="only these files or folders of it")
    steps(made, **DROPS)


def upstream(made: Any) -> None:
    line(made)
    made.add_argument("patch", metavar="PATCH", nargs="?", help="its file name, number or subject")
    made.add_argument("--source", metavar="S", default="", help="whose stack (default: the line's only git source)")
    made.add_argument("--onto", metavar="REV", default="main", help="where it shall go (default: main)")
    steps(made, **GOES_ON)


def _sign(made: Any) -> None:
    made.add_argument(
        "--sign", metavar="KEYFILE", default="", help="sign SHA256SUMS with this key of minisign (or KZ_MINISIGN_KEY)"
    )


def package(made: Any) -> None:
    line(made)
    _sign(made)
    made.add_argument("--target", metavar="T", help="whose libraries (default: the first of pins.yaml)")
    made.add_argument(
        "--aar", action="store_true", required=True, help="as an Android library, upstream's with ours in it"
    )


def check_apk(made: Any) -> None:
    any(made)
    made.add_argument(
        "files", metavar="FILE", nargs="*", type=Path, help="an APK or app bundle, then models that come from elsewhere"
    )
    made.add_argument(
        "--bundle", metavar="DIR", type=Path, help="instead: a folder of AARs, split APKs, libraries, models"
    )


def status(made: Any) -> None:
    lines(made)
    asks(made)


def health(made: Any) -> None:
    any(made)
    asks(made)


def attest(made: Any) -> None:
    any(made)
    made.add_argument("action", choices=("verify",), help="what to do with the papers")
    made.add_argument("folder", metavar="DIR", type=Path, help="what SHA256SUMS lies in")
    made.add_argument(
        "--key", metavar="PUB", default="", help="public key of minisign, or its file: a signature of it is required"
    )


def matrix(made: Any) -> None:
    line(made, "all of them")
    made.add_argument("--format", choices=("github", "json"), default="github", help="default: github, on one line")


def store(made: Any) -> None:
    any(made)
    made.add_argument("action", choices=("list", "verify", "gc"), help="what is there; is it whole; what can go")
    made.add_argument(
        "--project", metavar="DIR", type=Path, action="append", default=[], help="another project that uses the store"
    )
    made.add_argument(
        "--older", metavar="DAYS", type=float, default=30.0, help="gc: what nobody has used for so long (default: 30)"
    )
    made.add_argument("--delete", action="store_true", help="gc: remove it; without, it is only listed")


def pte(made: Any) -> None:
    any(made)
    made.add_argument("file", metavar="FILE", type=Path)
    made.add_argument("--contract", metavar="RECIPE", type=Path, help="hold it against the contract of this recipe")
    made.add_argument("--lib", metavar="LIB.so|DIST", type=Path, help="the library that shall load it, or its folder")
    made.add_argument("--soc", metavar="S", default="", help="SoC of the device, e.g. SM8750")


def schema(made: Any) -> None:
    any(made)
    made.add_argument(
        "of", metavar="pins|recipes", nargs="?", choices=("pins", "recipes"), default="pins", help="whose"
    )


def export(made: Any) -> None:
    any(made)
    made.add_argument("recipe", metavar="RECIPE", nargs="?", help="its name: a file of recipes/ without .yaml")
    which = made.add_mutually_exclusive_group()
    which.add_argument("--list", action="store_true", help="every recipe of the project")
    which.add_argument("--show", action="store_true", help="all of one recipe")
    which.add_argument("--dry-run", action="store_true", help="print the commands, the environment and what it needs")
    which.add_argument(
        "--preflight", action="store_true", help="is this machine ready? Everything that is not, at once"
    )
    which.add_argument("--again", metavar="STAGE", default="", help="run this stage and those after it once more")


def env(made: Any) -> None:
    any(made)
    made.add_argument("recipe", metavar="RECIPE", help="its name: a file of recipes/ without .yaml")
    made.add_argument("--shell", action="store_true", help='print it as lines for a shell: eval "$(kz env R --shell)"')


def diagnose(made: Any) -> None:
    any(made)
    made.add_argument("log", metavar="LOGFILE", help="a log of any size, or - for standard input")
    made.add_argument(
        "--signatures",
        metavar="FILE",
        action="append",
        default=[],
        help="a file of signatures of your own, beside kz's",
    )


def device(made: Any) -> None:
    from kz_build.cli.device import options

    options(made)

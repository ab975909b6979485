"""argv -> stage. The only place that catches KzError, prints it and exits."""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from kz_build import __version__
from kz_build.model.errors import EXIT_CODES, ConfigError, KzError

EPILOG = "exit codes: 0 done, 1 bug, " + ", ".join(f"{code} {name}" for code, name in EXIT_CODES.items())


def main(argv: list[str] | None = None) -> None:
    """Entry point of `kz`."""
    sys.exit(run(sys.argv[1:] if argv is None else argv))


def run(argv: list[str]) -> int:
    """Run one command line; gives its exit code. The last line of a failure is `kz: exit N (name)`."""
    code, name = 1, "bug"
    try:
        arguments = _parser().parse_args(argv)
        code = arguments.verb(arguments) or 0
        sys.stdout.flush()
        return code
    except KzError as error:
        code, name = error.exit_code, error.name
        _say(f"kz: {error}")
        if error.hint:
            _say(f"  -> {error.hint}")
    except KeyboardInterrupt:
        code, name = 130, "interrupt"
        _say("kz: interrupted; nothing half-made is left, the same command goes on from here")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception:
        _say(traceback.format_exc())
        _say("kz: this is a bug of kz; please report it with the text above")
    _say(f"kz: exit {code} ({name})")
    return code


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise ConfigError(f"{self.prog}: {message}", hint=f"{self.prog} --help")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="kz",
        description="Pins, patches, builds and proves ExecuTorch for Android.",
        epilog=EPILOG,
        allow_abbrev=False,
    )
    parser.add_argument(
        "-C", dest="root", type=Path, default=Path(), metavar="DIR", help="the project's folder (default: this one)"
    )
    parser.add_argument("--version", action="version", version=f"kz {__version__}")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True, parser_class=_Parser)

    def verb(name: str, function: Any, text: str, example: str) -> argparse.ArgumentParser:
        made = verbs.add_parser(
            name,
            help=text,
            description=text,
            epilog=f"example: {example}",
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        made.add_argument("--json", action="store_true", help="print the result as JSON")
        made.set_defaults(verb=function)
        return made

    def on_line(made: argparse.ArgumentParser, *, every: bool = False) -> None:
        made.add_argument("--line", metavar="L", help="release line (default: the one pins.yaml names)")
        if every:
            made.add_argument("--all-lines", action="store_true", help="every line of pins.yaml")

    def unpinned(made: argparse.ArgumentParser) -> None:
        made.add_argument(
            "--allow-unpinned",
            metavar="NAME",
            action="append",
            default=[],
            help="take an installed SDK of another version; the report says so",
        )

    def asks(made: argparse.ArgumentParser) -> None:
        made.add_argument("--fetch", action="store_true", help="ask upstream for new commits and tags first")

    def target(made: argparse.ArgumentParser) -> None:
        made.add_argument("--target", metavar="T", help="what to build (default: the first of pins.yaml)")
        made.add_argument("--soc", metavar="S", default="", help="SoC whose QNN runtime goes along, e.g. SM8750")

    lock = verb("lock", _lock, "resolve the pins and show what changes in pins.lock", "kz lock --write --trust fbjni")
    on_line(lock)
    lock.add_argument("--write", action="store_true", help="write pins.lock")
    lock.add_argument(
        "--trust", metavar="NAME", action="append", default=[], help="download NAME and take its digest into the lock"
    )
    made = verb(
        "fetch",
        _fetch,
        "bring the sources of a target, proved equal to the lock",
        "kz fetch --target android-arm64-xnnpack",
    )
    for add in (on_line, target, unpinned):
        add(made)
    made = verb("apply", _apply, "apply the stacks and compare the trees with the lock", "kz apply --line et-1.2")
    on_line(made, every=True)
    made = verb("wheel", _wheel, "write the patched wheel of a source to dist/<line>/wheels", "kz wheel torchtune")
    on_line(made)
    made.add_argument("source")
    made = verb(
        "build",
        _build,
        "build a target into dist/<line>/<target>, then audit it",
        "kz build --target android-arm64-xnnpack --dry-run",
    )
    for add in (on_line, target, unpinned):
        add(made)
    made.add_argument("--dry-run", action="store_true", help="print the plan as commands one can paste")
    made.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="parallel compilations")
    made = verb(
        "verify",
        _verify,
        "judge every patch on its pin or other revisions of upstream, without a checkout",
        "kz verify --tags 'v1.[34].?' --onto main",
    )
    on_line(made, every=True)
    made.add_argument("--onto", metavar="REV", nargs="+", default=[], help="revisions of upstream instead of the pin")
    made.add_argument("--tags", metavar="PATTERN", help="all tags of upstream that match, e.g. 'v1.*'")
    asks(made)
    made = verb(
        "history",
        _history,
        "which upstream commit broke each patch, and whether it still does",
        "kz history --to main --why",
    )
    on_line(made)
    made.add_argument("--to", metavar="REV", default="main", help="where upstream's history ends (default: main)")
    made.add_argument("--why", action="store_true", help="show what those commits did to the lines that a patch needs")
    asks(made)
    made = verb("radar", _radar, "pull requests that would hurt the stack once merged", "kz radar --open")
    on_line(made)
    which = made.add_mutually_exclusive_group()
    which.add_argument("--pr", metavar="N", type=int, nargs="+", default=[], help="these pull requests")
    which.add_argument("--open", action="store_true", help="all that GitHub says are open")
    which.add_argument("--since", metavar="DATE", help="those that moved since YYYY-MM-DD")
    made.add_argument("--to", metavar="REV", default="main", help="what they are merged into (default: main)")
    asks(made)
    made = verb("audit", _audit, "check what was built", "kz audit --target android-arm64-xnnpack")
    on_line(made)
    target(made)
    made = verb("report", _report, "what was fetched, applied, built and checked, in one table", "kz report --json")
    on_line(made)
    verb("schema", _schema, "print the JSON schema of pins.yaml for your editor", "kz schema > pins.schema.json")
    return parser


# --- verbs -------------------------------------------------------------------------------------------------------


def _project(arguments: argparse.Namespace) -> Any:
    from kz_build.adapters.project import load_project

    return load_project(arguments.root)


def _show(arguments: argparse.Namespace, value: object, text: str) -> None:
    if arguments.json:
        from kz_build.views.json import text as as_json

        print(as_json(value))
    elif text:
        print(text)


def _lock(arguments: argparse.Namespace) -> int:
    from kz_build.adapters.files import write_atomic
    from kz_build.adapters.project import LOCK, load_project
    from kz_build.model.lock import differences
    from kz_build.stages.lock import lock
    from kz_build.views.terminal import Live

    project = load_project(arguments.root, local=False)  # a lock holds for every machine
    lines = (arguments.line,) if arguments.line else project.pins.lines
    with Live() as live:
        resolved = lock(project, lines, arguments.trust, live.download)
    changed = differences(project.lock.lines, resolved.lock.lines)
    if arguments.write and (changed or not (project.root / LOCK).exists()):
        write_atomic(project.root / LOCK, resolved.lock.text().encode())
    state = "written" if arguments.write else "not written (--write does)"
    rows = [
        *changed,
        *(f"note: {note}" for note in resolved.notes),
        f"{len(changed)} changes in {LOCK}" + (f", {state}" if changed else ""),
    ]
    _show(arguments, {"changes": changed, "notes": resolved.notes, "written": arguments.write}, "\n".join(rows))
    return 0


def _names(project: Any, arguments: argparse.Namespace) -> tuple[str, str, Any]:
    """(line, target, request for all its sources) of a command line."""
    from kz_build.model.request import Request

    line = arguments.line or project.pins.default
    target = arguments.target or project.pins.targets[0]
    project.pins.line(line)
    wanted = project.pins.target(target, line)
    unpinned = tuple(getattr(arguments, "allow_unpinned", ()))
    request = Request(line, tuple(wanted["sources"]), unpinned, tuple(wanted["omit"]))
    return line, target, request


def _fetch(arguments: argparse.Namespace) -> int:
    from dataclasses import replace

    from kz_build.stages.build import require
    from kz_build.stages.fetch import fetch
    from kz_build.views.terminal import Live, sources

    project = _project(arguments)
    line, target, request = _names(project, arguments)
    require(project, line, target, request)
    with Live() as live:
        found = fetch(project, replace(request, progress=live.download))
    _show(arguments, found, sources(found))
    return 0


def _apply(arguments: argparse.Namespace) -> int:
    from kz_build.stages.apply import apply
    from kz_build.views.terminal import trees

    project = _project(arguments)
    lines = project.pins.lines if arguments.all_lines else (arguments.line or project.pins.default,)
    found = {line: apply(project, line) for line in lines}
    _show(arguments, found, "\n".join(trees(line, made) for line, made in found.items()))
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    from kz_build.adapters.environment import append_to, variable
    from kz_build.model.errors import ConflictError
    from kz_build.stages.verify import verify
    from kz_build.views import patches

    project = _project(arguments)
    lines = project.pins.lines if arguments.all_lines else (arguments.line or project.pins.default,)
    found = verify(project, lines, arguments.onto, arguments.tags, fetch=arguments.fetch)
    _show(arguments, found, "\n".join(patches.table(f) for f in found) or "no stacks")
    if variable("GITHUB_ACTIONS") == "true":
        # GitHub reads them on either stream, and JSON must stay JSON.
        root = arguments.root.as_posix() if arguments.root != Path() and not arguments.root.is_absolute() else ""
        for row in (row for f in found for row in patches.workflow_commands(f, root)):
            print(row, file=sys.stderr if arguments.json else sys.stdout)
        append_to("GITHUB_STEP_SUMMARY", "\n".join(patches.markdown(f) for f in found))
    if not all(f.holds for f in found):
        raise ConflictError(
            patches.conclusion(found),
            hint="kz history says who broke them; kz rebase --onto REV carries them over",
        )
    return 0


def _history(arguments: argparse.Namespace) -> int:
    from kz_build.stages.history import history, why
    from kz_build.views.history import plain, text

    project = _project(arguments)
    found = history(project, arguments.line or project.pins.default, arguments.to, fetch=arguments.fetch)
    diffs = [why(project, one) if arguments.why else {} for one in found]
    told = list(zip(found, diffs, strict=True))
    _show(arguments, [plain(*one) for one in told], "\n".join(text(*one) for one in told))
    return 0


def _radar(arguments: argparse.Namespace) -> int:
    from kz_build.stages.radar import Wanted, radar
    from kz_build.views.radar import plain, text

    project = _project(arguments)
    wanted = Wanted(tuple(arguments.pr), arguments.open, arguments.since, arguments.fetch)
    found = radar(project, arguments.line or project.pins.default, wanted, arguments.to)
    _show(arguments, [plain(one) for one in found], "\n".join(text(one) for one in found))
    return 0


def _wheel(arguments: argparse.Namespace) -> int:
    from kz_build.stages.wheel import wheel

    project = _project(arguments)
    made = wheel(project, arguments.line or project.pins.default, arguments.source)
    _show(arguments, made, f"{_relative(made.path)}\n  sha256 {made.sha256}\n  tree   {made.tree}")
    return 0


def _relative(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _build(arguments: argparse.Namespace) -> int:
    from dataclasses import replace

    from kz_build.adapters.process import Commands
    from kz_build.model.errors import AuditError
    from kz_build.stages import audit, report
    from kz_build.stages import build as stage
    from kz_build.stages.apply import apply
    from kz_build.stages.fetch import fetch
    from kz_build.stages.plan import plan
    from kz_build.views import terminal

    project = _project(arguments)
    line, target, request = _names(project, arguments)
    stage.require(project, line, target, request)
    with terminal.Live() as live:
        request = replace(request, progress=live.download)
        sources = fetch(project, request)
        trees = tuple(t for t in apply(project, line, live.download, request.names))
        sources = stage.with_stacks(sources, trees)
        planned = plan(project, line, target, sources, soc=arguments.soc, jobs=arguments.jobs)
        if arguments.dry_run:
            from kz_build.views.script import script

            _show(arguments, planned, script(planned))
            return 0
        built = stage.done(planned)
        commands = Commands(_log_folder(project), live.note)
        if built is None:
            from kz_build.adapters.engine import Host

            built = stage.build(planned, Host(), commands, stage.sources_facts(sources, trees, project), live.event)
    checks = audit.audit(project, built, sources)
    report.write(project, line)
    folder = str(_relative(planned.dist))
    rows = [
        terminal.artifacts(dict(built.files), folder),
        terminal.checks(checks),
        _canonical(built.manifest),
        f"built in {built.manifest['seconds']:g} s; logs in {_relative(commands.folder)}"
        if built.fresh
        else "nothing to do: up to date",
    ]
    _show(
        arguments,
        {"manifest": built.manifest, "fresh": built.fresh, "checks": checks},
        "\n".join(row for row in rows if row),
    )
    failed = [c for c in checks if c.failed]
    if failed:
        raise AuditError(
            f"{len(failed)} of {len(checks)} checks failed", hint=f"the files are in {folder}; do not ship them"
        )
    return 0


def _canonical(manifest: Any) -> str:
    if manifest["canonical"]:
        return ""
    return "\n".join(
        ["canonical: false. This machine's own:", *(f"  {o['where']}: {o['value']}" for o in manifest["overrides"])]
    )


def _log_folder(project: Any) -> Path:
    return Path(project.out("log", f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"))


def _audit(arguments: argparse.Namespace) -> int:
    from kz_build.model.errors import AuditError
    from kz_build.stages.audit import recorded
    from kz_build.views import terminal

    project = _project(arguments)
    line, target, _ = _names(project, arguments)
    checks = recorded(project, line, target)
    _show(arguments, checks, terminal.checks(checks))
    if any(c.failed for c in checks):
        raise AuditError(f"{sum(c.failed for c in checks)} of {len(checks)} checks failed")
    return 0


def _report(arguments: argparse.Namespace) -> int:
    from kz_build.stages.report import report
    from kz_build.views.terminal import report as table

    project = _project(arguments)
    found = report(project, arguments.line or project.pins.default)
    _show(arguments, found, table(found))
    return 0


def _schema(arguments: argparse.Namespace) -> int:
    from kz_build.model.schema import json_schema
    from kz_build.views.json import text

    print(text(json_schema()))
    return 0

"""Virtual environments: made from a locked set of packages, and inspected."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypedDict, cast

from kz_build.core import env as environment
from kz_build.core.command_log import Commands
from kz_build.core.errors import CommandError, LockError, Missing, MissingError
from kz_build.core.locks import scratch_folder
from kz_build.core.process import find, require_success, run
from kz_build.export.requirements import Locked

SCRIPTS = Path(__file__).with_name("scripts")
_BUILDS = ("setuptools", "wheel")
"""The build tools of packages without wheels: in the locked set too, so they are installed first."""
Count = Callable[[int, int], None]


class Inspection(TypedDict):
    """What scripts/inspect_env.py prints: versions by package, paths ('' for none), and an error for each name in `wrong`."""

    python: str
    packages: dict[str, str]
    flatc: str
    adaptor: str
    wrong: dict[str, str]


def make(folder: Path, program: str, commands: Commands) -> Path:
    """Make an empty environment and return its Python. Raises MissingError if that Python cannot make one."""
    try:
        commands.run("venv", [program, "-m", "venv", str(folder)], cwd=folder.parent, env=environment.plain())
    except CommandError as error:
        if "ensurepip" not in str(error) and "No module named venv" not in str(error):
            raise
        remedy = "apt install python3-venv   # or the one for this Python"
        raise MissingError((Missing("Python's venv", f"{program} cannot make an environment", remedy),)) from error
    return folder / "bin" / "python"


def install(
    python: Path, name: str, packages: Sequence[Locked], indexes: Sequence[str], commands: Commands, count: Count
) -> None:
    """Install a locked set, every file by its hash: with uv, ten times as fast, if its indexes and `indexes` have all of it;
    else with pip from its own indexes, then from `indexes` too.

    Raises LockError for a file with another hash, MissingError if no index has a package.
    """
    early = [one for one in packages if one.name in _BUILDS]
    for title, some in (("builds-with", early), ("packages", packages)):
        if some and not _by_uv(python, name, some, indexes, commands):
            try:
                _install(python, name, title, some, (), commands, count)
            except MissingError:
                if not indexes:
                    raise
                _install(python, name, title, some, indexes, commands, count)


def _by_uv(python: Path, name: str, packages: Sequence[Locked], indexes: Sequence[str], commands: Commands) -> bool:
    """Install the set with uv, and return whether that worked. If not, pip tries it and says what is wrong."""
    program = find("uv")
    if not program:
        return False
    argv = [program, "pip", "install", "--python", str(python), "--require-hashes", "--no-deps", "--no-build-isolation"]
    # A file's hash matters, not its index.
    argv += [
        "--index-strategy=unsafe-best-match",
        "--link-mode=copy",
    ]  # nothing of an environment is shared with uv's cache
    with scratch_folder() as folder:
        file = _written(folder, name, packages)
        try:
            commands.run("uv", [*argv, "-r", str(file)], cwd=folder, env=environment.uv(indexes))
        except CommandError:
            return False
    return True


def _written(folder: Path, name: str, packages: Sequence[Locked]) -> Path:
    file = folder / f"{name}.txt"
    file.write_text("".join(one.text for one in packages))
    return file


def _install(
    python: Path,
    name: str,
    title: str,
    packages: Sequence[Locked],
    indexes: Sequence[str],
    commands: Commands,
    count: Count,
) -> None:
    errors: list[str] = []
    collected = 0

    def watch(text: str) -> None:
        nonlocal collected
        if text.startswith("Collecting "):
            collected += 1
            count(collected, len(packages))
        if text.startswith("ERROR:") or errors:
            errors.append(text)

    with scratch_folder() as folder:
        file = _written(folder, name, packages)
        argv = [*_pip(python), "--require-hashes", "--no-build-isolation", "--use-pep517", "--retries=2"]
        try:
            commands.run(title, [*argv, "-r", str(file)], cwd=folder, env=environment.pip(indexes), watch=watch)
        except CommandError as error:
            raise _refused(name, "\n".join(errors), error) from error


def _refused(name: str, errors: str, error: CommandError) -> Exception:
    if "DO NOT MATCH THE HASHES" in errors or "Hashes are required" in errors:
        return LockError(
            f"a package differs from {name}.txt:\n{_short(errors)}",
            hint="nothing of it is kept. Was the file edited? Its first line has the command that makes it; if not, do not trust the index",
        )
    if "No matching distribution found" in errors:
        what = errors.rsplit("No matching distribution found for ", 1)[1].split()[0]
        return MissingError(
            (Missing(what, "no package index of this machine has it", "pip's own settings: PIP_INDEX_URL, PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS"),)
        )  # fmt: skip
    return error


def _short(text: str) -> str:
    return "\n".join(f"  | {line[:160]}" for line in text.splitlines()[:8] if line.strip())


def install_wheels(python: Path, wheels: Sequence[Path], commands: Commands) -> None:
    """Install wheels that kz made, without dependencies."""
    if wheels:
        argv = [*_pip(python), "--no-index", *map(str, wheels)]
        commands.run("patched", argv, cwd=wheels[0].parent, env=environment.plain())


def _pip(python: Path) -> list[str]:
    return [str(python), "-m", "pip", "install", "--no-deps", "--no-input", "--disable-pip-version-check"]


def complete(python: Path) -> str:
    """Return the problems that `pip check` finds, '' without one. Raises CommandError if it finds none and fails."""
    argv = (str(python), "-m", "pip", "check")
    done = run(argv, env=environment.plain())
    if done.code > 0 and (problems := done.stdout.decode("utf-8", "replace").strip()):
        return problems
    require_success(argv, done)
    return ""


def inspect(
    python: Path, packages: Sequence[str], libraries: Sequence[str], variables: Mapping[str, str]
) -> Inspection:
    """Import packages and open libraries in a process of that Python (kz_build/export/scripts/inspect_env.py).

    Raises CommandError if that script gives no result.
    """
    argv = [str(python), str(SCRIPTS / "inspect_env.py"), *packages]
    argv += [word for library in libraries for word in ("--open", library)]
    done = run(argv, env=variables)
    try:
        result = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        result = None
    if not isinstance(result, dict):
        stderr = done.stderr.decode("utf-8", "replace").strip()[-2000:]
        raise CommandError(f"the environment's Python ended with {done.code}\n{stderr}")
    return cast(Inspection, result)

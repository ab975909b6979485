"""Front door for maintainers and CI: each session calls `kz` or one tool.

`nox -s build_android`                        the app's library, with the pinned upstream
`nox -s build_android -- -C examples/sample`  the same on the sample, on any machine
"""

from __future__ import annotations

from pathlib import Path

import nox

nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["lint", "typecheck", "tests"]

WORKS_ANYWHERE = "nox -s build_android -- -C examples/sample"


def install(session: nox.Session, *requirements: str) -> None:
    """Install locked requirements and this checkout; nothing where that was done before."""
    stamp = Path(session.create_tmp(), "installed")
    files = [*(Path("requirements", f"{name}.txt") for name in requirements), Path("pyproject.toml")]
    wanted = "".join(file.read_text() for file in files)
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    for name in requirements:
        session.install("--require-hashes", "-r", f"requirements/{name}.txt", silent=True)
    session.install("--no-deps", "-e", ".", silent=True)
    stamp.write_text(wanted)


def kz(session: nox.Session, verb: str, *options: str) -> None:
    """Run `kz [-C DIR] VERB …` with the session's arguments; -C may stand among them."""
    arguments = [*options, *session.posargs]
    project = []
    if "-C" in arguments:
        at = arguments.index("-C")
        project = arguments[at : at + 2]
        del arguments[at : at + 2]
    try:
        session.run("kz", *project, verb, *arguments)
    except nox.command.CommandFailed as failed:
        if "code 6" in str(failed) and not project:
            session.log(f"what works on this machine: {WORKS_ANYWHERE}")
        raise


@nox.session
def build_android(session: nox.Session) -> None:
    """Build and audit the app's library: `kz build`."""
    install(session, "run")
    kz(session, "build")


@nox.session
def all(session: nox.Session) -> None:
    """Everything about a target, from pins to a device: `kz all`. On any machine: `-- -C examples/sample --emulate`."""
    install(session, "run")
    kz(session, "all")


@nox.session
def reproduce(session: nox.Session) -> None:
    """Build twice in other surroundings and compare every byte: `kz reproduce`."""
    install(session, "run")
    kz(session, "reproduce")


@nox.session
def verify_patches(session: nox.Session) -> None:
    """Judge every patch of every line: `kz verify --all-lines`, on the pins, where trees must be the lock's, or after `--` on others."""
    install(session, "run")
    kz(session, "verify", *([] if "--line" in session.posargs else ["--all-lines"]))
    if session.posargs[:1] in ([], ["-C"]) and len(session.posargs) in (0, 2):
        kz(session, "apply", "--all-lines")


@nox.session
def nightly(session: nox.Session) -> None:
    """The newest line against upstream's branch, in one issue of GITHUB_REPOSITORY: `kz nightly`."""
    install(session, "run")
    kz(session, "nightly")


@nox.session
def tests(session: nox.Session) -> None:
    """Unit tests, real tools, and the sample end to end."""
    install(session, "dev")
    session.run("pytest", *session.posargs)


@nox.session
def differential(session: nox.Session) -> None:
    """The engine against `git apply` and GNU patch: upstream's whole history, and 20,000 generated examples of each."""
    install(session, "dev")
    session.run("pytest", "-m", "live", "tests/live/test_differential.py", *session.posargs)
    session.run(
        "pytest",
        "tests/tools",
        "-k",
        "are_gits or damaged or gnu_patch",
        *session.posargs,
        env={"KZ_EXAMPLES": "20000"},
    )


@nox.session
def fuzz(session: nox.Session) -> None:
    """The reader of .pte files on 100,000 hostile ones."""
    install(session, "dev")
    session.run("pytest", "tests/tools/test_pte.py", "-k", "hostile", *session.posargs, env={"KZ_EXAMPLES": "100000"})


@nox.session
def device_load(session: nox.Session) -> None:
    """Transfers of gigabytes and 200 generated names, the real adb on an emulated device."""
    install(session, "dev")
    session.run("pytest", "-s", "-m", "live", "tests/live/test_device_load.py", *session.posargs)
    big = {"KZ_DEVICE_MB": "1024", "KZ_DEVICE_EXAMPLES": "200"}
    session.run("pytest", "--durations=5", "tests/tools/test_device.py", *session.posargs, env=big)


@nox.session
def lint(session: nox.Session) -> None:
    """ruff: rules and format."""
    install(session, "dev")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")


@nox.session
def typecheck(session: nox.Session) -> None:
    """mypy --strict."""
    install(session, "dev")
    session.run("mypy")


@nox.session
def benchmarks(session: nox.Session) -> None:
    """Ratios against git on real ExecuTorch; benchmarks/README.md says what they mean. `-- verify` for one of them."""
    install(session, "dev")
    for name in session.posargs or ("verify", "history", "radar", "rebase", "scaling", "layout", "build"):
        session.run("python", f"benchmarks/{name}.py")

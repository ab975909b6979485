"""Entry points for maintainers and CI: each session calls `kz` or one tool.

`nox -s build_android`                        the app's library, with the pinned upstream
`nox -s build_android -- -C examples/sample`  the same on the sample, on any machine
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import nox

nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["lint", "typecheck", "tests"]

WORKS_ANYWHERE = "nox -s build_android -- -C examples/sample"


def reaches_github() -> bool:
    """Tell whether git can reach ExecuTorch at GitHub, or at a mirror by insteadOf."""
    asked = ["git", "ls-remote", "--exit-code", "https://github.com/pytorch/executorch", "HEAD"]
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    try:
        return subprocess.run(asked, capture_output=True, timeout=30, env=environment).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def licence_accepted() -> bool:
    """Tell whether the user accepted Qualcomm's licence with `kz accept`."""
    asked = subprocess.run([sys.executable, "-m", "kz_build", "accept", "--json"], capture_output=True)
    rows = json.loads(asked.stdout)["licences"] if asked.returncode == 0 else []
    return any(row["accepted"] is not None for row in rows)


def programs(*names: str) -> bool:
    """Tell whether all these programs are on PATH."""
    return None not in map(shutil.which, names)


TIERS = {
    "containers": lambda: os.geteuid() == 0 and programs("apt-get"),
    "exports": lambda: programs("python3.11"),
    "rehearsal": lambda: programs("python3.11") and licence_accepted(),
    "reproduce": lambda: True,
    "apps": lambda: programs("aapt2", "apksigner", "javac", "npm", "zipalign"),
    "deep": lambda: True,
    "faults": lambda: programs("strace"),
    "fuzz": lambda: True,
    "upstream": reaches_github,
}
"""Tiers of tests beside the default one, and whether this machine can run each: pyproject.toml says what they need."""


def install(session: nox.Session, *requirements: str) -> None:
    """Install locked requirements and this checkout, unless that was done before."""
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
    """Run `kz [-C DIR] VERB …` with the session's arguments, which may include -C."""
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
    """Run every stage of a target, from pins to a device: `kz all`. On any machine: `-- -C examples/sample --emulate`."""
    install(session, "run")
    kz(session, "all")


@nox.session
def reproduce_android(session: nox.Session) -> None:
    """Build twice in different surroundings and compare every byte: `kz reproduce`."""
    install(session, "run")
    kz(session, "reproduce")


@nox.session
def verify_patches(session: nox.Session) -> None:
    """Judge every patch of every line: on its pin, where trees must match the lock, or with `-- --onto REV` on others."""
    install(session, "run")
    kz(session, "verify", *([] if "--line" in session.posargs else ["--all-lines"]))
    if session.posargs[:1] in ([], ["-C"]) and len(session.posargs) in (0, 2):
        kz(session, "apply", "--all-lines")


@nox.session
def nightly(session: nox.Session) -> None:
    """Propose what moves by itself to GITHUB_REPOSITORY, and report what does not: `kz nightly`."""
    install(session, "run")
    kz(session, "nightly")


@nox.session
def tests(session: nox.Session) -> None:
    """Run the default tier: unit tests, real tools, one build of the sample, an emulated device."""
    install(session, "dev")
    session.run("pytest", *session.posargs)


def tier(session: nox.Session, *options: str) -> None:
    """Run the tests of one tier: those with the session's name as their marker, which pyproject.toml describes."""
    install(session, "dev")
    session.run("pytest", "-m", session.name, *options, *session.posargs)


MUTATED = {
    "patch engine": (
        90,
        "patch/change patch/diff patch/binary patch/gnu_diff patch/gnu_names patch/gnu_place patch/mail patch/quilt patch/place patch/apply patch/attempt"
        " patch/intent_checks patch/judge patch/verdict patch/blame patch/trailers git/object_types",
    ),
    "audit rules": (
        85,
        "core/check formats/elf_types formats/java_source formats/library_types formats/elf checks/elf_rules checks/audit",
    ),
    "lock and records": (
        85,
        "pins/lock_file pins/lock_form core/rules stack/resolve_lock stack/lock_submodules core/transaction core/files core/stage_record",
    ),
}
"""Each group's lowest score in percent, and its files."""
MUTATION_TESTS = (
    "patch/patch patch/hunks patch/diff patch/binary patch/mail patch/quilt patch/place patch/trailers patch/stack patch/judge patch/blame patch/intent"
    " core/check checks/audit_rules formats/elf formats/java pins/lock pins/lock_text stack/locking stack/locking_stacks core/record core/stage_record core/files core/folders patch/presence"
)
"""The tests of these files: ROOM/NAME for tests/ROOM/test_NAME.py. They start no process, for they run some thousand times."""
MUTATION_LINKS = "kz_build tests pyproject.toml pins.lock examples/sample/pins.yaml examples/sample/pins.lock"


@nox.session
def mutation(session: nox.Session) -> None:
    """Count the faults in the patch engine, the audit's rules, the lock and the records that the unit tests find. Half an hour to two hours."""
    install(session, "mutation")
    work = Path(session.create_tmp()).absolute()
    shutil.rmtree(work / "mutants", ignore_errors=True)  # or it keeps the results of older tests
    for name in MUTATION_LINKS.split():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).unlink(missing_ok=True)
        (work / name).symlink_to(Path(name).absolute())
    paths = [f"kz_build/{name}.py" for _, names in MUTATED.values() for name in names.split()]
    tests = ["tests/{}/test_{}.py".format(*name.split("/")) for name in MUTATION_TESTS.split()]
    settings = {
        "source_paths": ["kz_build"],
        "only_mutate": paths,
        "also_copy": ["pins.lock", "examples"],
        "pytest_add_cli_args": ["-o", "addopts=", "-m", "not hypothesis"],  # in one process, always the same
        "pytest_add_cli_args_test_selection": tests,
        "timeout_multiplier": ["3"],
    }
    rows = [f"{key} =\n  " + "\n  ".join(values) for key, values in settings.items()]
    (work / "setup.cfg").write_text("[mutmut]\n" + "\n".join(rows))
    with session.chdir(work):
        session.run("mutmut", "run", silent=not sys.stdout.isatty())
        results = session.run("mutmut", "results", "--all", "true", silent=True)
    _hold_scores(session, [row.split(": ") for row in str(results).split("\n") if ": " in row])


def _hold_scores(session: nox.Session, results: list[list[str]]) -> None:
    """Show each group's score, and fail if one is too low. A mutant that ran out of time does not count as found: of 65 that
    did, tests found 57 when given more time."""
    low = []
    for group, (least, names) in MUTATED.items():
        modules = tuple(f"kz_build.{name.replace('/', '.')}." for name in names.split())
        found = Counter(status for name, status in results if name.strip().startswith(modules))
        killed, every, slow = found["killed"], found.total(), found["timeout"]
        session.log(
            f"{group}: {killed} of {every} mutants found, {killed / every:.1%} (at least {least} %), {slow} out of time"
        )
        low += [group] if killed * 100 < least * every else []
    if low:
        session.error(f"too low: {', '.join(low)}. See `mutmut results` and `mutmut show NAME` in .nox/mutation/tmp")


@nox.session
def containers(session: nox.Session) -> None:
    """Test builds in containers, with a dockerd and a podman that the tests start."""
    tier(session)


@nox.session
def exports(session: nox.Session) -> None:
    """Test real exports: PyPI's ExecuTorch with our patches, and PyTorch."""
    tier(session)


@nox.session
def rehearsal(session: nox.Session) -> None:
    """Test real QNN contexts, compiled and emulated with Qualcomm's libraries from PyPI."""
    tier(session)


@nox.session
def reproduce(session: nox.Session) -> None:
    """Test `kz reproduce` on the sample and on upstreams that do not reproduce."""
    tier(session)


@nox.session
def apps(session: nox.Session) -> None:
    """Test AARs, APKs and the in-app check with aapt2, javac and npm's apps, and devices by Debian's adb."""
    tier(session)


@nox.session
def deep(session: nox.Session) -> None:
    """Test every property on 20,000 examples, 100,000 hostile .pte files, gigabytes to a device."""
    install(session, "dev")
    session.run("pytest", "--hypothesis-profile=deep", "-m", "(deep or hypothesis) and not apps", *session.posargs)


@nox.session
def faults(session: nox.Session) -> None:
    """Inject errors and SIGKILL into every verb that writes; `python -m tests.faults --help` does so for one verb or point."""
    tier(session)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Read 100,000 hostile files of each format: YAML, locks, mails, archives, ELF, classes, AXML, .pte, releases, logs, conflicts, HTTP. `-- -k yaml` for one."""
    tier(session)


@nox.session
def upstream(session: nox.Session) -> None:
    """Test our stacks and the patch engine on ExecuTorch's whole history."""
    tier(session)


@nox.session
def everything(session: nox.Session) -> None:
    """Run all tiers that this machine can; the end names the others, and what each needs."""
    install(session, "dev")
    left_out = [name for name, possible in TIERS.items() if not possible()]
    session.run("pytest", "-m", f"not ({' or '.join(left_out)})" if left_out else "", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Run ruff: rules and format."""
    install(session, "dev")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")


@nox.session
def typecheck(session: nox.Session) -> None:
    """Run mypy --strict."""
    install(session, "dev")
    session.run("mypy")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the pages as a site into out/site, without a network, by Python 3.11 or newer. A dead link fails; so does what a page loads from elsewhere."""
    install(session, "docs")
    site = Path("out/site")
    shutil.rmtree(site, ignore_errors=True)
    session.run(
        "sphinx-build", "-q", "-E", "-n", "-W", "--keep-going", "-d", session.create_tmp(), "-c", "docs", ".", str(site)
    )
    loads = re.compile(
        r"""<(?:script|img|iframe|source)[^>]+src=["']?(?:https?:)?//|<link[^>]+rel=["']?stylesheet[^>]*//|(?:@import|url\()[ "']*(?:https?:)?//"""
    )
    elsewhere = [
        str(page)
        for page in site.rglob("*")
        if page.suffix in {".html", ".css", ".svg"} and loads.search(page.read_text())
    ]
    if elsewhere:
        session.error(f"loads something from elsewhere: {', '.join(elsewhere)}")
    session.log(f"{site.absolute()}/index.html")


@nox.session
def audit_requirements(session: nox.Session) -> None:
    """Ask PyPI for known vulnerabilities of all locked requirements: pip-audit. Only PyPI itself knows them, not a mirror."""
    session.install("--require-hashes", "-r", "requirements/audit.txt", silent=True)
    for file in sorted(Path("requirements").glob("*.txt")):
        session.run("pip-audit", "--require-hashes", "--disable-pip", "--strict", "-r", str(file))


@nox.session
def release(session: nox.Session) -> None:
    """Build kz's wheel and sdist from a clean tag into out/release, twice to the same bytes, and begin a project with the wheel. Uploads nothing."""
    try:
        tag, stamp = release_tag(Path())
        changes = changes_of(tag.removeprefix("v"), Path("CHANGELOG.md").read_text())
    except ValueError as refused:
        session.error(str(refused))
    session.install("--require-hashes", "-r", "requirements/release.txt", silent=True)
    work = Path(session.create_tmp()).absolute()
    shutil.rmtree(work / "twice", ignore_errors=True)
    os.umask(0o022)  # a wheel has its files' modes
    builds = []
    for number in ("1", "2"):
        source, files = work / "twice" / number / "kz_build", work / "twice" / number / "files"
        clone_at(tag, source)
        environment = {"SOURCE_DATE_EPOCH": str(stamp)}
        session.run(
            "python", "-m", "build", "--no-isolation", "--outdir", str(files), str(source), env=environment, silent=True
        )
        builds.append({path.name: path.read_bytes() for path in files.iterdir()})
    if builds[0] != builds[1]:
        session.error(f"two builds of {tag} differ; see {work / 'twice'}")
    session.run("twine", "check", "--strict", *map(str, sorted(files.iterdir())))
    started = work / "venv"
    session.run("python", "-m", "venv", "--clear", str(started))
    pip = (str(started / "bin" / "pip"), "install", "-q")
    session.run(*pip, "--require-hashes", "-r", "requirements/run.txt", external=True)
    session.run(*pip, "--no-deps", *map(str, files.glob("*.whl")), external=True)
    version = session.run(str(started / "bin" / "kz"), "--version", external=True, silent=True)
    if tag.removeprefix("v") not in str(version).split():
        session.error(f"kz of the wheel says {str(version).strip()!r}, the tag is {tag}")
    project = work / "project"
    shutil.rmtree(project, ignore_errors=True)
    project.mkdir()
    session.run(str(started / "bin" / "kz-build"), "-C", str(project), "init", "--executorch", external=True)
    session.run(str(started / "bin" / "kz"), "-C", str(project), "matrix", external=True)
    out = Path("out/release")
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(files, out)
    (out / "CHANGES.md").write_text(changes)
    for name, data in sorted(builds[0].items()):
        session.log(f"{hashlib.sha256(data).hexdigest()}  {out / name}")


def release_tag(folder: Path) -> tuple[str, int]:
    """Return the tag of a checkout's version and its commit's time. Raises ValueError if the checkout is not that tag, to the byte."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, errors="replace")
        if done.returncode not in (0, 1):  # 1: there is no such commit
            raise ValueError(f"`git {words[0]}` ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout.rstrip()

    version = re.search(r'^version = "(.+)"$', (folder / "pyproject.toml").read_text(), re.M)
    tag = f"v{version[1]}" if version else ""
    if changed := git("status", "--porcelain", "--untracked-files=normal"):
        names = ", ".join(row[3:] for row in changed.splitlines())
        raise ValueError(f"a release is made of commits alone: commit or remove {names}")
    head, tagged = (git("rev-parse", "--verify", "-q", f"{ref}^{{commit}}") for ref in ("HEAD", f"refs/tags/{tag}"))
    if not head or head != tagged:
        where = f"is {tagged[:10]}" if tagged else "is not there"
        raise ValueError(
            f"the tag {tag} {where}, HEAD is {head[:10] or 'no commit'}: git tag -s {tag}, or check it out"
        )
    return tag, int(git("log", "-1", "--format=%ct"))


def clone_at(tag: str, to: Path, folder: Path = Path()) -> None:
    """Clone a checkout at its tag, whatever else has that name, with line ends as they are in git."""
    subprocess.run(["git", "clone", "-q", "--no-checkout", "-c", "core.autocrlf=false", folder, to], check=True)
    subprocess.run(["git", "checkout", "-q", f"refs/tags/{tag}"], cwd=to, check=True)


def changes_of(version: str, changelog: str) -> str:
    """Return what CHANGELOG.md says of a version. Raises ValueError if there is no section with a date for it."""
    head = re.search(rf"^## {re.escape(version)} \((.+)\)\n", changelog, re.M)
    if not head or not re.fullmatch(r"\d{4}-\d\d-\d\d", head[1]):
        raise ValueError(f"CHANGELOG.md has no section of its release: write `## {version} (YYYY-MM-DD)`")
    return changelog[head.start() :].split("\n## ")[0].strip() + "\n"


@nox.session
def benchmarks(session: nox.Session) -> None:
    """Measure ratios to git on real ExecuTorch; benchmarks/README.md says what they mean. `-- verify` runs one of them."""
    install(session, "dev")
    for name in session.posargs or ("verify", "history", "radar", "rebase", "scaling", "layout", "build"):
        session.run("python", f"benchmarks/{name}.py")

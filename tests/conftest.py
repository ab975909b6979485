"""What the tests share: tiers, `kz`, the sample and one build of it, a store, an adb server."""

from __future__ import annotations

import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import adbutils
import pytest
from hypothesis import HealthCheck, settings

from kz_build.core.locks import lock
from kz_build.device import adb as adapter
from kz_build.emulator.device import EmulatedDevice
from tests.emulator.emulated import emulated
from tests.formats.apps import SAMPLE as SAMPLE
from tests.formats.apps import Linker
from tests.kz import ROOT as ROOT
from tests.kz import Kz as Kz
from tests.kz import kz_in_process
from tests.kz import kz_process as in_a_process

_NOISY = settings(deadline=None, suppress_health_check=list(HealthCheck))  # machines are, and some examples start git
settings.register_profile("dev", _NOISY, max_examples=100)
settings.register_profile("ci", _NOISY, max_examples=200, print_blob=True)
settings.register_profile("deep", _NOISY, max_examples=20_000, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

IGNORED = "kz_ignored_signals"
ADB = "ADBUTILS_ADB_PATH"  # without it adbutils takes the adb that stands first on PATH
WHEELS_ADB = str(Path(adbutils.__file__).parent / "binaries" / "adb")
_not_run: Counter[str] = Counter()


def pytest_configure(config: pytest.Config) -> None:
    """Choose the tests' adb, and let what they start be interruptible, also where the caller ignores signals (nohup, a background job).

    An ignored signal stays ignored in every child. One that Python handles is reset there.
    """
    os.environ[ADB] = WHEELS_ADB
    ignored = [name for name in ("SIGINT", "SIGHUP") if signal.getsignal(signal.Signals[name]) == signal.SIG_IGN]
    ignored += getattr(config, "workerinput", {}).get(IGNORED, [])
    config.stash[_IGNORED] = ignored
    for name in ignored:
        signal.signal(signal.Signals[name], lambda *_: None)


_IGNORED = pytest.StashKey[list[str]]()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    """Tell a worker of pytest-xdist which signals the caller ignores: it was started with them reset."""
    node.workerinput[IGNORED] = node.config.stash[_IGNORED]  # type: ignore[attr-defined]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two workers more than cores, for many wait; none where a few tests are named: starting workers takes longer than they do."""
    if any(".py" in argument for argument in config.args):
        return 0
    return len(os.sched_getaffinity(0)) + 2


def tiers(config: pytest.Config) -> dict[str, str]:
    """Name of each tier beside the default one, and what it needs: the markers of pyproject.toml."""
    rows = (row.partition(": ") for row in config.getini("markers"))
    return {name: needs for name, _, needs in rows if needs.startswith("tier, needs ")}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with one test of the built sample, and end with the others: while one worker builds, the rest wait for nothing."""
    waiting = [item for item in items if "built" in getattr(item, "fixturenames", ())]
    later = set(waiting)
    items[:] = [*waiting[:1], *(item for item in items if item not in later), *waiting[1:]]


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Count what each tier would have run."""
    for item in items:
        _not_run.update(name for name in tiers(item.config) if item.get_closest_marker(name))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send a worker's counts to the process that reports."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["not_run"] = dict(_not_run)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object, error: object) -> None:
    """Take a worker's counts: each worker collects, and deselects, all tests."""
    _not_run.update(Counter(getattr(node, "workeroutput", {}).get("not_run", {})) - _not_run)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say which tiers were not run, and what each needs."""
    for name, needs in tiers(config).items():
        if _not_run[name]:
            terminalreporter.write_line(
                f"not run: {_not_run[name]:3} tests of `nox -s {name}`: {needs.removeprefix('tier, ')}"
            )


class FailuresAtOnce:
    """Print the name of a test when it fails, not at the end of the run alone."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self.terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Print the line."""
        if report.failed:
            self.terminal.ensure_newline()
            self.terminal.write_line(f"FAILED {report.nodeid} ({report.when}, {report.duration:.1f} s)", red=True)


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Register what reports, where this process does."""
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal and not hasattr(session.config, "workerinput"):
        session.config.pluginmanager.register(FailuresAtOnce(terminal))


@pytest.fixture(scope="session")
def store() -> Iterator[Path]:
    """The store of a test run: what KZ_TEST_CACHE names, so that runs can share a warm one, else one in the checkout."""
    folder = Path(os.environ.get("KZ_TEST_CACHE", ROOT / "out" / "test-cache")).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    yield folder


@pytest.fixture(scope="session")
def downloads(store: Path) -> Path:
    """Where tests keep what they took from package registries."""
    folder = store / "test-downloads"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of this run share."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if os.environ.get("PYTEST_XDIST_WORKER") else own


@pytest.fixture(scope="session")
def linker(store: Path, clean_env: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Linker:
    """A linker for every machine of an app."""
    return Linker(clean_env, tmp_path_factory.mktemp("linker"), store / "test-linker")


@pytest.fixture(scope="session")
def clean_env(store: Path) -> dict[str, str]:
    """The caller's environment without what would change a result."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("ANDROID_", "ADB", "QNN_SDK", "KZ_"))}
    return {**env, "KZ_CACHE": str(store), "PYTHONPATH": str(ROOT)}


@pytest.fixture
def kz(clean_env: dict[str, str]) -> Kz:
    """Run `kz` in this process; gives what a finished process would."""
    return kz_in_process({**clean_env, ADB: os.environ[ADB]})


@pytest.fixture
def kz_process(clean_env: dict[str, str]) -> Kz:
    """Run `kz` as a user does, for what only a process shows: signals, limits, start-up, closed outputs, several at once."""
    return in_a_process({**clean_env, ADB: os.environ[ADB]})


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """A copy of the sample project that a test may change."""
    return copy_of_sample(tmp_path / "sample")


def copy_of_sample(to: Path) -> Path:
    """Copy the sample project, without what was built in it."""
    return Path(shutil.copytree(SAMPLE, to, ignore=shutil.ignore_patterns("out", "dist", "pins.local.yaml")))


@pytest.fixture(scope="session")
def built(run_folder: Path, tmp_path_factory: pytest.TempPathFactory, clean_env: dict[str, str]) -> Path:
    """The sample, built once a run; each worker has a copy, which its tests must not change."""
    first = run_folder / "built sample"
    with lock(run_folder, first.name):
        if not first.exists():
            part = copy_of_sample(run_folder / "sample that is built")
            result = in_a_process(clean_env)("-C", part, "build")
            assert result.returncode == 0, result.stdout + result.stderr
            part.rename(first)
    copy = Path(shutil.copytree(first, tmp_path_factory.mktemp("with space") / "the sample", symlinks=True))
    assert (
        kz_in_process(clean_env)("-C", copy, "build").returncode == 0
    )  # it audits again: what is a path of this machine differs
    return copy


def snapshot(folder: Path) -> dict[str, bytes | str]:
    """Every file below a folder with its content: to see that nothing changed."""
    return {
        p.relative_to(folder).as_posix(): os.readlink(p) if p.is_symlink() else p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_symlink() or p.is_file()
    }


@pytest.fixture(scope="session", params=["wheel", pytest.param("debian", marks=pytest.mark.apps)])
def adb_program(request: pytest.FixtureRequest) -> Iterator[str]:
    """The adb that kz and the tests start: that of adbutils' wheel or, in its tier, Debian's, which is years older."""
    program = {"wheel": WHEELS_ADB, "debian": shutil.which("adb", path="/usr/bin") or ""}[request.param]
    if not program:
        pytest.skip("apt install adb")
    os.environ[ADB] = program
    yield program
    os.environ[ADB] = WHEELS_ADB


@pytest.fixture(scope="session")
def server(adb_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[adapter.Server]:
    """An adb server of this worker's own."""
    with adapter.private(tmp_path_factory.mktemp("adb-home")) as running:
        yield running


@pytest.fixture
def device(tmp_path: Path, server: adapter.Server) -> Iterator[EmulatedDevice]:
    """An emulated device that this server knows."""
    with emulated(server, tmp_path / "device") as made:
        server.device(made.serial)
        yield made

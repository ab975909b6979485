"""Engine docker with a real daemon: the same bytes as engine host, and hostile builds held and named."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

import docker
import pytest

from kz_build.build.cache_server import CacheServer
from kz_build.build.docker_engine import DockerEngine
from kz_build.build.steps import Artifact, Checkout, Command, Copy, Plan
from kz_build.container import daemon as adapter
from kz_build.container import sandbox, tar_stream
from kz_build.container.mount import Mount
from kz_build.core.command_log import Commands
from kz_build.core.errors import (
    CommandError,
    ConfigError,
    MissingError,
    StoppedError,
    StorageError,
    UnreachableError,
)
from tests.build import daemon
from tests.conftest import ROOT, Kz, snapshot
from tests.deadline import patient, until
from tests.stack.upstreams import started

pytestmark = [pytest.mark.containers, pytest.mark.xdist_group("dockerd")]
FOLDER = ROOT / "examples/sample/containers/build"
DIST = Path("dist/sample-0.1/linux-arm64")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with daemon.any_daemon() as found:
        yield found


@pytest.fixture(scope="module")
def base(address: str, store: Path) -> str:
    return daemon.imported(address, store)


@pytest.fixture
def engine(address: str, base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DockerEngine:
    monkeypatch.setenv("DOCKER_HOST", address)
    monkeypatch.setenv("KZ_MEMORY", "256m")
    found = adapter.connect()
    return DockerEngine(found, adapter.Image(FOLDER, base, found.layers(base)), tmp_path, ccache=False)


def planned(engine: DockerEngine, tmp_path: Path, *, artifacts: tuple[Artifact, ...] = ()) -> Plan:
    at = tmp_path / "build"
    return Plan(
        "l", "t", "k", tmp_path / "tree", at, at / "stage", tmp_path / "dist", (), artifacts, engine.layout(tmp_path)
    )


def shell(text: str) -> Command:
    return Command("evil", ("sh", "-c", text), Path("/kz/out"), (("PATH", "/usr/bin:/bin"),))


def tried(engine: DockerEngine, tmp_path: Path, text: str, *, limit: float = 60) -> str:
    """What a build says that runs this; the container is gone afterwards."""
    commands = Commands(tmp_path / "log", limit=limit)
    with pytest.raises(CommandError) as said, engine.opened(planned(engine, tmp_path), commands):
        engine.run(shell(text), commands, lambda line: None)
    assert not running(engine)
    return str(said.value)


def running(engine: DockerEngine) -> list[str]:
    return [c["Id"] for c in engine.sandbox.daemon.api.containers(filters={"label": f"kz_build={engine.cache}"})]


def test_a_build_that_writes_outside_is_refused_and_told_so(engine: DockerEngine, tmp_path: Path) -> None:
    for place in ("/usr/bin/evil", "/etc/passwd", "/evil"):
        said = tried(engine, tmp_path, f"echo x > {place}")
        assert "it wrote outside: only /kz, /cache and /tmp" in said or "Permission denied" in said, said
    assert "it wrote outside" in tried(engine, tmp_path, "echo x > /evil")


def test_a_build_has_no_rights_and_sees_nothing_of_this_machine(engine: DockerEngine, tmp_path: Path) -> None:
    commands = Commands(tmp_path / "log")
    lines: list[str] = []
    with engine.opened(planned(engine, tmp_path), commands):
        ask = "id -u; grep -E '^(CapEff|NoNewPrivs)' /proc/self/status; ls /sys/class/net; cat /proc/mounts; env | cut -d= -f1"
        engine.run(shell(ask), commands, lines.append)
    assert lines[0] == "10001"
    assert "CapEff:\t0000000000000000" in lines and "NoNewPrivs:\t1" in lines and "lo" in lines and "eth0" not in lines
    assert not [line for line in lines if str(tmp_path) in line or str(Path.home()) in line.split()]
    assert {line for line in lines if line.isidentifier() and line.isupper()} <= {"PATH", "HOME", "HOSTNAME", "PWD"}


def test_a_build_sees_no_proxy_of_the_user(
    engine: DockerEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK gives a container those of ~/.docker/config.json, with their password."""
    (tmp_path / "config.json").write_text('{"proxies": {"default": {"httpProxy": "http://me:secret@proxy:3128"}}}')
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    configured = adapter.connect()
    assert configured.api._proxy_configs.http
    monkeypatch.setattr(engine.sandbox, "daemon", configured)
    commands = Commands(tmp_path / "log")
    lines: list[str] = []
    with engine.opened(planned(engine, tmp_path), commands):
        engine.run(shell("env"), commands, lines.append)
    assert lines and not [line for line in lines if "proxy" in line.lower()]


def test_a_file_that_cannot_be_read_here_is_no_fault_of_the_daemon(
    engine: DockerEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(name: str, path: Path) -> Iterator[bytes]:
        yield b""
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / "sdk").mkdir()
    (tmp_path / "sdk/header.h").touch()
    monkeypatch.setattr(tar_stream, "_file", refused)
    with engine.sandbox.started(()), pytest.raises(StorageError, match="sdk/header.h: Permission denied"):
        engine.sandbox.send(tmp_path / "sdk", PurePosixPath("/kz/sdk"))
    monkeypatch.setattr(tar_stream, "_file", lambda name, path: iter(path.with_name("gone").open("rb")))
    with engine.sandbox.started(()), pytest.raises(StorageError, match="sdk changed while it was sent.*gone"):
        engine.sandbox.send(tmp_path / "sdk", PurePosixPath("/kz/sdk"))


@pytest.mark.parametrize("left", [0, 100, 1024])
def test_half_an_answer_with_files_is_a_daemon_that_broke_off(
    engine: DockerEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    give = engine.sandbox.daemon.api.get_archive

    def cut(container: str, path: str) -> tuple[Iterator[bytes], object]:
        pieces, status = give(container, path)
        return iter([b"".join(pieces)[:left]]), status

    monkeypatch.setattr(engine.sandbox.daemon.api, "get_archive", cut)
    plan = planned(engine, tmp_path, artifacts=(Artifact("a", "bin", "program", False),))
    with pytest.raises(UnreachableError, match="no longer answers"), engine.opened(plan, Commands(tmp_path / "log")):
        pass


def test_a_build_that_dials_out_reaches_nobody(engine: DockerEngine, tmp_path: Path) -> None:
    said = tried(engine, tmp_path, "exec bash -c 'exec 3<>/dev/tcp/10.0.0.1/80'")
    assert "it dialled out: the network is off in a build" in said
    said = tried(engine, tmp_path, "exec bash -c 'exec 3<>/dev/tcp/kz.example.org/80'")
    assert "it dialled out" in said


def test_a_build_that_eats_memory_is_ended_and_told_so(engine: DockerEngine, tmp_path: Path) -> None:
    said = tried(engine, tmp_path, "perl -e '$x = q(x) x (1 << 30); print length $x'")
    assert "out of memory: the container may use 0.2 GB" in said and "--jobs" in said
    # A child of it is killed, and the program that started it says no more than that it failed.
    said = tried(engine, tmp_path, "perl -e '$x = q(x) x (1 << 30)' || exit 1")
    assert "ended with 1" in said and "out of memory" in said
    said = tried(engine, tmp_path, "cat /dev/zero > /tmp/all")
    assert "the disk of the daemon, or /tmp (memory), is full" in said
    said = tried(engine, tmp_path, "cp /dev/zero /tmp/half; perl -e '$x = q(x) x (1 << 28)'")
    assert "out of memory" in said


def test_a_build_that_forks_without_end_is_held_and_ends_at_its_limit(engine: DockerEngine, tmp_path: Path) -> None:
    engine.sandbox.memory = 4 << 30
    bomb = "perl -e 'while (1) { my $p = fork(); if (!defined $p) { warn qq(fork: $!\\n); sleep 1 } }'"
    started = time.monotonic()
    with pytest.raises(StoppedError, match="took longer than 6 s"):
        commands = Commands(tmp_path / "log", limit=6)
        with engine.opened(planned(engine, tmp_path), commands):
            engine.run(shell(bomb), commands, lambda line: None)
    assert time.monotonic() - started < patient(40) and not running(engine)
    said = tried(
        engine,
        tmp_path,
        "perl -e 'while (1) { my $p = fork(); defined $p or die qq(fork: $!\\n); $p or sleep 99 }'",
        limit=20,
    )
    assert "Resource temporarily unavailable" in (tmp_path / "log/02-evil.log").read_text() or "4096 processes" in said


def test_a_build_that_ignores_term_is_stopped_with_all_it_started(engine: DockerEngine, tmp_path: Path) -> None:
    started = time.monotonic()
    said = tried(
        engine, tmp_path, "trap '' TERM INT HUP; (trap '' TERM; setsid sleep 300) & while :; do sleep 1; done", limit=2
    )
    assert "stopped: it took longer than 2 s" in said
    assert time.monotonic() - started < patient(20)


def test_what_a_container_stages_is_taken_and_nothing_else(engine: DockerEngine, tmp_path: Path) -> None:
    plan = planned(engine, tmp_path, artifacts=(Artifact("a", "bin", "program", False),))
    commands = Commands(tmp_path / "log")
    with engine.opened(plan, commands):
        engine.run(shell("echo hello > made; ln -s /etc/passwd stage/bin/b; echo x > stage/bin/more"), commands, print)
        engine.run(Copy(Path("/kz/out/made"), Path("/kz/out/stage/bin/a")), commands, print)
    assert snapshot(tmp_path / "build") == {"stage/bin/a": b"hello\n"}
    with pytest.raises(CommandError, match="has no stage/bin/a"), engine.opened(plan, commands):
        engine.run(shell("ln -s /etc/passwd stage/bin/a"), commands, print)
    with pytest.raises(CommandError, match="/kz/out/nothing was not made"), engine.opened(plan, commands):
        engine.run(Copy(Path("/kz/out/nothing"), Path("/kz/out/stage/bin/a")), commands, print)


def test_an_image_is_named_by_content_and_not_made_twice(engine: DockerEngine, base: str, tmp_path: Path) -> None:
    commands = Commands(tmp_path / "log")
    engine.sandbox.daemon.ensure(engine.image, commands)
    before = engine.sandbox.daemon.api.inspect_image(engine.image.tag)["Id"]
    engine.sandbox.daemon.ensure(engine.image, Commands(tmp_path / "again"))
    assert not (tmp_path / "again").exists()
    assert engine.sandbox.daemon.api.inspect_image(engine.image.tag)["Id"] == before
    folder = Path(shutil.copytree(FOLDER, tmp_path / "containers/build"))
    assert adapter.Image(folder, "other-name", engine.image.base_is).tag == engine.image.tag
    (folder / "Dockerfile").write_text("ARG BASE\nFROM ${BASE}\nRUN exit 7\n")
    broken = adapter.Image(folder, base, engine.image.base_is)
    assert broken.tag != engine.image.tag
    with pytest.raises(CommandError, match="returned a non-zero code: 7"):
        engine.sandbox.daemon.ensure(broken, commands)


def test_programs_that_an_image_lacks_are_named_at_once(engine: DockerEngine, tmp_path: Path) -> None:
    plan = replace(planned(engine, tmp_path), needs=("sh", "cobol", "glslc"))
    with pytest.raises(MissingError, match="cobol") as said, engine.opened(plan, Commands(tmp_path / "log")):
        pass
    assert "glslc" in str(said.value) and "containers/build" not in str(said.value)


@pytest.mark.parametrize("target", ["/usr/lib/libc.so", "../../beside/libc.so"])
def test_a_link_out_of_what_a_container_gets_is_said_so(engine: DockerEngine, tmp_path: Path, target: str) -> None:
    """Such an NDK builds on this machine, and in a container its compiler does not start."""
    (tmp_path / "ndk/lib").mkdir(parents=True)
    (tmp_path / "ndk/lib/libc++.so").symlink_to("../lib/libc.so")
    (tmp_path / "ndk/current").symlink_to("..of-today")  # a name, and no way up
    (tmp_path / "ndk/lib/libc.so").symlink_to(target)
    with pytest.raises(ConfigError, match=f"ndk/lib/libc.so is a link to {target}, and"):
        engine.sandbox.volume(Mount(tmp_path / "ndk", Path("/kz/ndk"), (), ""))


@pytest.fixture(scope="module")
def built(address: str, base: str, tmp_path_factory: pytest.TempPathFactory, clean_env: dict[str, str]) -> Path:
    folder = tmp_path_factory.mktemp("built") / "with space"
    shutil.copytree(ROOT / "examples/sample", folder, ignore=shutil.ignore_patterns("out", "dist"))
    done = subprocess.run(
        [sys.executable, "-m", "kz_build", "-C", folder, "build"],
        cwd=ROOT,
        env={**clean_env, "DOCKER_HOST": address, "BASE_IMAGE": base},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_both_engines_and_two_caches_make_the_same_bytes(
    built: Path, sample: Path, address: str, base: str, kz: Kz, store: Path, tmp_path: Path
) -> None:
    record = json.loads((built / "out/build/sample-0.1/linux-arm64/manifest.json").read_text())
    assert record["engine"] == "docker" and record["network"] == "off" and record["image"]["base"] == base
    assert {"where": "BASE_IMAGE", "value": base} in record["overrides"]
    assert kz("verify-release", built / DIST).returncode == 0
    provenance = json.loads((built / DIST / "provenance.json").read_text())["predicate"]["buildDefinition"]
    images = [d for d in provenance["resolvedDependencies"] if d.get("annotations") == {"kind": "image"}]
    assert [d["name"] for d in images] == [record["image"]["name"]]
    assert kz("-C", sample, "build", "--engine", "host").returncode == 0
    assert artifacts(sample) == artifacts(built)
    # Another cache, whose volume for what compilers keep is another too; sources are linked, for time.
    other = tmp_path / "other"
    for kept in ("git", "sha256", "unpacked", "validated"):
        shutil.copytree(store / kept, other / kept, copy_function=os.link, symlinks=True)
    shutil.rmtree(sample / "dist")
    done = kz("-C", sample, "build", "--engine", "docker", DOCKER_HOST=address, BASE_IMAGE=base, KZ_CACHE=str(other))
    assert done.returncode == 0, done.stderr
    assert artifacts(sample) == artifacts(built)


def artifacts(project: Path) -> dict[str, bytes | str]:
    """What was built, symbols with it; the release files beside say on which engine."""
    found = {k: v for k, v in snapshot(project / DIST).items() if k.startswith(("bin/", "lib/", "symbols/"))}
    assert len(found) == 5
    return found


def test_nothing_changed_nothing_done(built: Path, address: str, base: str, kz: Kz) -> None:
    before = snapshot(built)
    done = kz("-C", built, "build", "--json", DOCKER_HOST=address, BASE_IMAGE=base)
    assert done.returncode == 0 and json.loads(done.stdout)["fresh"] is False
    assert snapshot(built) == before


def own(env: dict[str, str]) -> dict[str, str | list[str] | bool]:
    """The filter for containers of this test run."""
    return {"label": f"kz_build=kz-cache-{hashlib.sha256(env['KZ_CACHE'].encode()).hexdigest()[:12]}"}


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_stopped_build_leaves_no_container(
    built: Path, sample: Path, address: str, base: str, clean_env: dict[str, str], sign: int, code: int
) -> None:
    shutil.copytree(built / "dist", sample / "dist")
    before = snapshot(sample / "dist")
    client = docker.DockerClient(base_url=address)
    process = subprocess.Popen(
        [sys.executable, "-m", "kz_build", "-C", sample, "build"],
        cwd=ROOT,
        env={**clean_env, "DOCKER_HOST": address, "BASE_IMAGE": base},
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    log = sample / "out/log"
    until(lambda: list(log.glob("*/*-library-configure.log")) or process.poll() is not None, 60)
    os.kill(process.pid, sign)
    _, stderr = process.communicate(timeout=patient(20))
    assert process.returncode == code
    assert sign == signal.SIGKILL or b"kz: exit 130 (interrupt)" in stderr
    until(lambda: not client.api.containers(all=True, filters=own(clean_env)))
    assert snapshot(sample / "dist") == before


def test_ctrl_c_in_a_compile_leaves_the_last_build_known(
    built: Path, sample: Path, address: str, base: str, clean_env: dict[str, str], kz: Kz
) -> None:
    for name in ("dist", "out"):
        shutil.copytree(built / name, sample / name, symlinks=True)
    where = {"DOCKER_HOST": address, "BASE_IMAGE": base}
    assert kz("-C", sample, "build", **where).returncode == 0
    report, checks = (kz("-C", sample, verb, "--json", **where).stdout for verb in ("report", "audit"))
    before, logs = snapshot(sample / "dist"), set((sample / "out/log").iterdir())
    local = sample / "pins.local.yaml"
    flag = f"-DSTARTED_AT={time.time_ns()}"  # what compilers keep knows nothing of it
    local.write_text(f"targets: {{linux-arm64: {{cmake: {{library: {{defines: {{CMAKE_CXX_FLAGS: {flag}}}}}}}}}}}\n")
    command = [sys.executable, "-m", "kz_build", "-C", str(sample), "build"]
    environment = {**clean_env, **where}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, start_new_session=True)

    def compiles() -> bool:
        return any(log not in logs and list(log.glob("*-library-build.log")) for log in (sample / "out/log").iterdir())

    until(lambda: compiles() or process.poll() is not None, 120)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    stopped = time.monotonic()
    _, stderr = process.communicate(timeout=patient(60))
    assert process.returncode == 130 and time.monotonic() - stopped < patient(10), stderr
    client = docker.DockerClient(base_url=address)
    until(lambda: not client.api.containers(all=True, filters=own(clean_env)))
    assert snapshot(sample / "dist") == before
    changed = local.rename(sample / "changed")
    assert kz("-C", sample, "report", "--json", **where).stdout == report
    assert kz("-C", sample, "audit", "--json", **where).stdout == checks
    again = kz("-C", sample, "build", **where)
    assert again.returncode == 0 and "nothing to do: up to date" in again.stdout, again.stdout + again.stderr
    changed.rename(local)
    done = kz("-C", sample, "build", "--json", **where)
    assert done.returncode == 0 and json.loads(done.stdout)["fresh"] is True, done.stderr


def test_ctrl_c_while_the_daemon_creates_a_container_leaves_none(
    engine: DockerEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = engine.sandbox.daemon.api
    create = api.create_container

    def interrupted(*args: object, **options: object) -> object:
        created = create(*args, **options)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.5)  # its answer is still on the way
        return created

    monkeypatch.setattr(api, "create_container", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts its background jobs without
    try:
        with pytest.raises(KeyboardInterrupt), engine.opened(planned(engine, tmp_path), Commands(tmp_path / "log")):
            pass
    finally:
        signal.signal(signal.SIGINT, before)
    until(lambda: not api.containers(all=True, filters={"label": f"kz_build={engine.cache}"}))


def test_ctrl_c_waits_for_no_deletion_of_what_was_checked_out(
    engine: DockerEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """9,000 files took nine seconds; the next build deletes them while it runs."""
    deleted: list[Path] = []
    monkeypatch.setattr("kz_build.build.docker_engine.remove", deleted.append)
    with pytest.raises(KeyboardInterrupt), engine.opened(planned(engine, tmp_path), Commands(tmp_path / "log")):
        raise KeyboardInterrupt
    assert not deleted and not running(engine)


@pytest.mark.parametrize("killed", ["create_container", "put_archive"])
def test_what_a_killed_kz_left_at_the_daemon_goes(
    engine: DockerEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: str
) -> None:
    """A container that was created and not started stayed for ever, one that was filled for an hour, and then as a dead one."""
    api = engine.sandbox.daemon.api
    original = getattr(api, killed)

    def dies(*args: object, **options: object) -> object:
        answer = original(*args, **options) if killed == "create_container" else None
        os.kill(os.getpid(), signal.SIGKILL)
        return answer

    (tmp_path / "source").mkdir()
    (tmp_path / "source/file").write_text(str(tmp_path))
    plan = replace(planned(engine, tmp_path), mounts=(Mount(tmp_path / "source", Path("/kz/source"), (), ""),))
    engine.sandbox.daemon.ensure(engine.image, Commands(tmp_path / "log"))
    if (child := os.fork()) == 0:
        setattr(api, killed, dies)
        with engine.opened(plan, Commands(tmp_path / "log")):
            os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    mine: dict[str, str | list[str] | bool] = {"label": f"kz_build={engine.cache}"}
    left = {m["Name"] for container in api.containers(all=True, filters=mine) for m in container["Mounts"]}
    if killed == "create_container":
        assert [c["State"] for c in api.containers(all=True, filters=mine)] == ["created"]
        monkeypatch.setattr(sandbox, "ABANDONED_SECONDS", 0)
        time.sleep(1.1)  # the daemon counts in seconds
    commands = Commands(tmp_path / "log")
    with engine.opened(plan, commands):
        engine.run(shell("cat /kz/source/file"), commands, print)
    until(lambda: not api.containers(all=True, filters=mine))
    kept = {volume["Name"] for volume in api.volumes()["Volumes"]}
    assert {name for name in left & kept if not name.startswith("kz-")} == set()


def test_ctrl_c_stops_the_checkout_that_runs(engine: DockerEngine, tmp_path: Path) -> None:
    """It waited for the whole of it: five to fourteen seconds for 9,331 files on a busy machine."""
    upstream, slow = started(tmp_path), tmp_path / "slow"
    upstream.git("config", "filter.slow.smudge", f"touch {slow}; sleep 60")
    attributes = upstream.folder / ".git/info/attributes"
    attributes.parent.mkdir(exist_ok=True)
    attributes.write_text("* filter=slow\n")
    checkout = Checkout(upstream.folder / ".git", upstream.git("rev-parse", "v1^{tree}").strip(), (), Path("/kz/tree"))
    plan = replace(planned(engine, tmp_path), steps=(checkout,))
    with pytest.raises(KeyboardInterrupt), engine.opened(plan, Commands(tmp_path / "log")):
        until(slow.exists)
        stopped = time.monotonic()
        raise KeyboardInterrupt
    assert time.monotonic() - stopped < patient(2) and not running(engine)


def test_no_daemon_is_said_with_what_brings_one(sample: Path, kz: Kz, base: str) -> None:
    done = kz("-C", sample, "build", "--engine", "docker", DOCKER_HOST="unix:///nowhere/s", BASE_IMAGE=base)
    assert done.returncode == 6 and "a container daemon at unix:///nowhere/s" in done.stderr
    assert "apt install docker.io" in done.stderr and "--engine host" in done.stderr


def test_no_base_is_said_with_what_brings_one(sample: Path, kz: Kz, address: str) -> None:
    done = kz("-C", sample, "build", "--engine", "docker", DOCKER_HOST=address)
    assert done.returncode == 3 and "BASE_IMAGE=NAME" in done.stderr
    done = kz("-C", sample, "build", "--engine", "docker", DOCKER_HOST=address, BASE_IMAGE="no/such:1")
    assert done.returncode == 6 and "image no/such:1" in done.stderr


def test_a_daemon_that_dies_under_a_build_is_said_so(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with daemon.dockerd() as own:
        monkeypatch.setenv("DOCKER_HOST", own.address)
        found = adapter.connect()
        base = daemon.imported(own.address, store)
        engine = DockerEngine(found, adapter.Image(FOLDER, base, found.layers(base)), tmp_path, ccache=False)
        commands = Commands(tmp_path / "log")
        timer = threading.Timer(2, own.stop, [signal.SIGKILL])
        with pytest.raises(CommandError) as said, engine.opened(planned(engine, tmp_path), commands):
            timer.start()
            engine.run(shell("sleep 60"), commands, lambda line: None)
        timer.join()
        assert "no longer answers" in str(said.value), said.value
        own.start()  # so that it ends the container that it left


def test_podman_does_the_same(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "source/deep").mkdir(parents=True)
    (tmp_path / "source/deep/file").write_text("content\n")
    mount = Mount(tmp_path / "source", Path("/kz/source"), (), "")
    with daemon.podman() as own:
        monkeypatch.setenv("DOCKER_HOST", own)
        found = adapter.connect()
        base = daemon.imported(own, store)
        engine = DockerEngine(found, adapter.Image(FOLDER, base, found.layers(base)), tmp_path, ccache=False)
        artifact = Artifact("a", "bin", "program", False)
        plan = replace(planned(engine, tmp_path, artifacts=(artifact,)), mounts=(mount,))
        commands = Commands(tmp_path / "log")
        for _ in range(2):  # the second finds its volumes there
            with engine.opened(plan, commands):
                engine.run(Copy(Path("/kz/source/deep/file"), Path("/kz/out/stage/bin/a")), commands, print)
            assert (tmp_path / "build/stage/bin/a").read_text() == "content\n"
        assert "it wrote outside" in tried(engine, tmp_path, "echo x > /evil")
        assert "stopped: it took longer" in tried(engine, tmp_path, "trap '' TERM; sleep 60", limit=2)


def test_ccache_shares_what_it_knows_by_redis_on_an_internal_network(
    address: str, base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the image of containers/android: made by apt, with a mirror in the place of the base's snapshot."""
    daemon.packages("redis-server", programs=["redis-server"])
    monkeypatch.setenv("DOCKER_HOST", address)
    client = docker.DockerClient(base_url=address)
    network = client.networks.create(f"kz-test-{os.getpid()}", internal=True)
    redis = None
    try:
        assert network.id and network.name
        gateway = client.networks.get(network.id).attrs["IPAM"]["Config"][0]["Gateway"]
        argv = ["redis-server", "--bind", gateway, "--port", "6399", "--save", "", "--protected-mode", "no"]
        redis = subprocess.Popen(argv, stdout=subprocess.DEVNULL, cwd=tmp_path)
        server = CacheServer(f"redis://{gateway}:6399", True)
        monkeypatch.setenv("KZ_CCACHE_NETWORK", network.name)
        found = adapter.connect()
        image = adapter.Image(ROOT / "containers/android", base, found.layers(base), daemon.apt_mirror())
        one, two = (DockerEngine(found, image, tmp_path / name, ccache=True, server=server) for name in ("one", "two"))
        assert one.cache != two.cache
        assert cached(one, tmp_path) == {"cache_miss": "1", "remote_storage_write": "2"}
        assert network.name in str(one.facts()["network"])
        assert cached(two, tmp_path) == {"direct_cache_hit": "1", "remote_storage_hit": "1"}
    finally:
        if redis:
            redis.terminate()
            redis.wait(patient(10))
        network.remove()
    monkeypatch.setenv("KZ_CCACHE_NETWORK", "bridge")
    with pytest.raises(ConfigError, match="no internal network"):
        DockerEngine(found, image, tmp_path, ccache=True, server=server)


def cached(engine: DockerEngine, tmp_path: Path) -> dict[str, str]:
    """What ccache counts of one compilation."""
    env = (("PATH", "/usr/bin:/bin"), ("CCACHE_DIR", "/cache/ccache"), ("HOME", "/kz/out/home"))
    text = "echo 'int f;' > a.c && ccache gcc -c a.c -o a.o && ccache --print-stats"
    commands = Commands(tmp_path / "log")
    lines: list[str] = []
    with engine.opened(planned(engine, tmp_path), commands):
        engine.run(Command("cached-build", ("sh", "-c", text), Path("/kz/out"), env), commands, lines.append)
    wanted = ("cache_miss", "direct_cache_hit", "remote_storage_hit", "remote_storage_write")
    return {k: v for k, _, v in (line.partition("\t") for line in lines) if k in wanted and v != "0"}


def test_the_base_is_the_one_of_the_lock_by_digest(
    address: str, store: Path, sample: Path, kz: Kz, tmp_path: Path
) -> None:
    daemon.packages("docker-registry", programs=["docker-registry"])
    port = daemon.free_port()
    config = f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {tmp_path}/registry}}}}\nhttp: {{addr: 127.0.0.1:{port}}}\n"
    (tmp_path / "registry.yml").write_text(config)
    log = (tmp_path / "registry.log").open("wb")
    registry = subprocess.Popen(["docker-registry", "serve", tmp_path / "registry.yml"], stdout=log, stderr=log)
    client = docker.DockerClient(base_url=address, timeout=120)
    name = f"127.0.0.1:{port}/base"
    try:
        client.images.get(daemon.imported(address, store)).tag(name, "day-1")
        until(lambda: "digest: sha256:" in client.images.push(name, "day-1"))
        said = client.images.push(name, "day-1")
        digest = said.split("digest: ")[1].split()[0]
        client.images.remove(f"{name}:day-1")
        pins = (sample / "pins.yaml").read_text()
        pins = pins.replace("sources:\n", f"sources:\n  base: {{image: '{name}'}}\n", 1)
        pins = pins.replace("{minirt: v0.1.0,", "{base: day-1, minirt: v0.1.0,")
        (sample / "pins.yaml").write_text(
            pins.replace("{folder: containers/build}", "{folder: containers/build, base: base}")
        )

        done = kz("-C", sample, "lock", "--write", DOCKER_HOST="unix:///nowhere/s")
        assert done.returncode == 0 and "base day-1: missing on this machine" in done.stdout, done.stdout + done.stderr
        done = kz("-C", sample, "build", "--engine", "docker", DOCKER_HOST=address)
        assert done.returncode == 3 and "does not know the digest of base" in done.stderr

        done = kz("-C", sample, "lock", "--write", DOCKER_HOST=address)
        assert done.returncode == 0, done.stderr
        assert json.loads((sample / "pins.lock").read_text())["lines"]["sample-0.1"]["base"]["digest"] == digest
        done = kz("-C", sample, "build", "--json", DOCKER_HOST=address)
        assert done.returncode == 0, done.stderr
        record = json.loads(done.stdout)["manifest"]
        assert record["engine"] == "docker" and record["image"]["base"] == f"{name}@{digest}"
        assert record["canonical"] is True
    finally:
        registry.terminate()
        registry.wait(patient(20))
        log.close()


@pytest.fixture
def with_git(sample: Path) -> Path:
    """The sample with the image for Android, which has git and Python in it."""
    folder = ROOT / "containers/android"
    (sample / "pins.local.yaml").write_text(f"targets: {{linux-arm64: {{container: {{folder: '{folder}'}}}}}}\n")
    return sample


def test_patch_verbs_say_and_write_the_same_inside(
    with_git: Path, sample: Path, address: str, base: str, kz: Kz, tmp_path: Path
) -> None:
    here = Path(shutil.copytree(sample, tmp_path / "here"))
    daemon_env = {"DOCKER_HOST": address, "BASE_IMAGE": base, "APT_MIRROR": daemon.apt_mirror()}
    for verb in (("apply",), ("apply", "--json"), ("verify", "--json"), ("verify", "--tags", "v*")):
        inside, outside = kz("-C", sample, *verb, "--engine=docker", **daemon_env), kz("-C", here, *verb)
        assert inside.returncode == outside.returncode, inside.stderr
        assert without_places(inside.stdout) == without_places(outside.stdout)
    # A commit that moves lines and breaks nothing; the next release stops it.
    bundle = ROOT / "examples/sample/upstream.bundle"
    subprocess.run(["git", "clone", "-q", bundle, tmp_path / "clone"], check=True, capture_output=True)
    listed = subprocess.run(
        ["git", "-C", tmp_path / "clone", "rev-list", "--reverse", "v0.1.0..v0.2.0"], check=True, capture_output=True
    )
    first = listed.stdout.decode().split()[0]
    before = snapshot(sample)
    stopped = kz("-C", sample, "rebase", "--onto", "v0.2.0", "--engine", "docker", **daemon_env)
    assert stopped.returncode == 4 and "the same command without --engine docker" in stopped.stderr
    assert {k: v for k, v in snapshot(sample).items() if not k.startswith("out/log/")} == {
        k: v for k, v in before.items() if not k.startswith("out/log/")
    }
    inside = kz("-C", sample, "rebase", "--onto", first, "--engine", "docker", **daemon_env)
    assert inside.returncode == 0, inside.stderr
    assert kz("-C", here, "rebase", "--onto", first).returncode == 0
    for name in ("pins.yaml", "pins.lock", "patches"):
        done = subprocess.run(["diff", "-r", sample / name, here / name], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
    assert first[:10] in (sample / "pins.yaml").read_text()


def test_a_rebase_inside_writes_a_stack_in_its_own_folder(
    with_git: Path, sample: Path, address: str, base: str, kz: Kz, tmp_path: Path
) -> None:
    """As debian/patches: only pins and lock came back, and named a version that the patches were not made for."""
    (sample / "quilt").mkdir()
    (sample / "patches/sample-0.1/minirt").rename(sample / "quilt/minirt")
    pins, git = (sample / "pins.yaml").read_text(), "{git: upstream.bundle}"
    assert git in pins
    (sample / "pins.yaml").write_text(pins.replace(git, "{git: upstream.bundle, patches: quilt/minirt}"))
    assert kz("-C", sample, "lock", "--write").returncode == 0
    here = Path(shutil.copytree(sample, tmp_path / "here"))
    subprocess.run(["git", "clone", "-q", ROOT / "examples/sample/upstream.bundle", tmp_path / "clone"], check=True)
    words = ["git", "-C", str(tmp_path / "clone"), "rev-list", "--reverse", "v0.1.0..v0.2.0"]
    first = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()[0]
    daemon_env = {"DOCKER_HOST": address, "BASE_IMAGE": base, "APT_MIRROR": daemon.apt_mirror()}
    inside = kz("-C", sample, "rebase", "--onto", first, "--engine", "docker", **daemon_env)
    assert inside.returncode == 0, inside.stderr
    assert kz("-C", here, "rebase", "--onto", first).returncode == 0
    for name in ("pins.yaml", "pins.lock", "quilt"):
        done = subprocess.run(["diff", "-r", sample / name, here / name], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
    assert kz("-C", sample, "verify").returncode == 0


def without_places(text: str) -> str:
    """What a verb says, without the folders that it found things in."""
    return re.sub(r'"repository": "[^"]*"', "", text)


def test_an_image_without_git_is_said_so(sample: Path, address: str, base: str, kz: Kz) -> None:
    done = kz("-C", sample, "verify", "--engine", "docker", DOCKER_HOST=address, BASE_IMAGE=base)
    assert done.returncode == 6 and "git, python3" in done.stderr

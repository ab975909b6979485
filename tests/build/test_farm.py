"""kz build --distributed: what it asks for, what it tells sccache and reads of it, and no token anywhere. Real workers: test_farm_workers.py."""

from __future__ import annotations

import http.server
import json
import sys
import tempfile
import threading
from pathlib import Path

import pytest
import tomllib
from check_jsonschema import main as check_jsonschema

from kz_build.build.engine import _why_unmapped, root_prefix
from kz_build.build.farm import TOKEN, ask, farm_of, join
from kz_build.build.farm_engine import FarmEngine
from kz_build.build.plan import plan
from kz_build.build.sccache import CompileServer, Farm, Shares, client_config, shares, total
from kz_build.build.steps import CACHING, Command
from kz_build.core.errors import ConfigError
from kz_build.core.progress import quiet
from kz_build.pins.load import load_project
from kz_build.pins.project import Project
from tests.build.test_plan import sources
from tests.conftest import ROOT

URL, SECRET = "http://10.0.0.1:10600", 'a "secret"\\token'


@pytest.fixture(scope="module")
def project() -> Project:
    return load_project(ROOT, local=False)


@pytest.mark.parametrize(
    ("line", "url", "engine", "token", "says"),
    [
        ("et-1.5", URL, "auto", SECRET, "line et-1.5 pins no sccache"),
        ("et-1.4", URL, "docker", SECRET, "--distributed needs engine host"),
        ("et-1.4", "10.0.0.1:10600", "auto", SECRET, "takes the address of a scheduler"),
        ("et-1.4", "http://me:pass@10.0.0.1", "auto", SECRET, "takes the address of a scheduler"),
        ("et-1.4", f"{URL}/x?y", "auto", SECRET, "takes the address of a scheduler"),
        ("et-1.4", URL, "auto", "", f"{TOKEN} is unset"),
        ("et-1.4", URL, "auto", "a\nb", f"{TOKEN} is no value of an HTTP header"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_fetched(
    project: Project, monkeypatch: pytest.MonkeyPatch, line: str, url: str, engine: str, token: str, says: str
) -> None:
    monkeypatch.setenv(TOKEN, token)
    with pytest.raises(ConfigError, match=says) as error:
        farm_of(project, line, url, engine)
    assert error.value.hint and "pass@" not in str(error.value)


def test_sccache_is_told_the_token_in_its_configuration_alone(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN, SECRET)
    farm = farm_of(project, "et-1.4", f"{URL}/", "host")
    assert SECRET not in repr(farm) and farm.scheduler == URL
    config = tomllib.loads(client_config(farm, Path("/t")))
    assert config == {
        "dist": {
            "scheduler_url": URL,
            "cache_dir": "/t",
            "rewrite_includes_only": True,
            "auth": {"type": "token", "token": SECRET},
        }
    }
    assert client_config(None, Path("/t")) == ""  # on this machine alone


def test_a_farm_changes_the_launcher_and_no_key_of_a_build(project: Project, tmp_path: Path) -> None:
    farm = FarmEngine(Farm(URL, SECRET), "/pinned/sccache", lambda text: None)
    target = "android-arm64-xnnpack"
    fetched = sources(project, "et-1.4", target, tmp_path, "a" * 40)

    def planned(jobs: int) -> tuple[str, list[dict[str, str]]]:
        made = plan(project, "et-1.4", target, fetched, soc="", jobs=jobs, ccache=farm.compile_cache(tmp_path))
        return made.key, [dict(step.env) for step in made.steps if isinstance(step, Command)]

    key, distributed = planned(64)
    farm.leave("x")
    local_key, local = planned(2)
    assert key == local_key
    for env, without in zip(distributed, local, strict=True):
        launcher = Path(env["CMAKE_C_COMPILER_LAUNCHER"])
        assert launcher.name == "sccache" and "CCACHE_DIR" not in env
        assert env.pop("PATH") == f"{launcher.parent}:{without.pop('PATH')}", "a search for ccache finds sccache"
        assert {k: v for k, v in env.items() if k not in CACHING} == {
            k: v for k, v in without.items() if k not in CACHING
        }
        assert SECRET not in str(env) and "CMAKE_C_COMPILER_LAUNCHER" not in without
    assert farm.facts()["distributed"] == {"scheduler": URL, "workers": {}, "local": 0, "failed": 0, "alone": "x"}


def test_the_shares_are_those_of_all_servers_of_a_build() -> None:
    stats = {"compile_requests": 9, "dist_compiles": {"10.0.0.2:10501": 4, "10.0.0.3:10501": 3}, "dist_errors": 1}
    one = shares(json.dumps({"stats": stats}))
    assert one == Shares({"10.0.0.2:10501": 4, "10.0.0.3:10501": 3}, 2, 1)
    assert total([one, one, Shares({}, 5, 0)]) == Shares({"10.0.0.2:10501": 8, "10.0.0.3:10501": 6}, 9, 2)


SERVER = """#!{python}
import json, os, socket, time
conf = os.environ["SCCACHE_CONF"]
with open(os.environ["HOME"] + "/seen", "w") as file:
    json.dump([os.listdir("/kz"), oct(os.stat(conf).st_mode & 0o777), open(conf).read(), [*os.environ]], file)
listener = socket.socket(socket.AF_UNIX)
listener.bind(os.environ["SCCACHE_SERVER_UDS"])
listener.listen()
time.sleep(600)
"""


@pytest.mark.skipif(bool(_why_unmapped()), reason="needs a kernel that allows `unshare -rm`")
def test_the_server_sees_the_paths_of_the_build_and_leaves_no_token(tmp_path: Path) -> None:
    program, tree, root = tmp_path / "sccache", tmp_path / "tree", tmp_path / "root"
    program.write_text(SERVER.format(python=sys.executable))
    program.chmod(0o755)
    for folder in (tree / "upstream", root):
        folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # a socket's path is short
        prefix = root_prefix(root, [(Path("/kz"), tree)], Path("/"), network=True)
        server = CompileServer(str(program), Path(name), tmp_path / "log", prefix)
        server.start(client_config(Farm(URL, SECRET), tmp_path / "toolchains"))
        paths, mode, config, variables = json.loads(Path(name, "seen").read_text())
        assert server.running and paths == ["upstream"]
        assert mode == "0o600" and tomllib.loads(config)["dist"]["auth"]["token"] == SECRET and TOKEN not in variables
        assert not Path(name, "config").exists()
        server.stop()
        assert not server.running


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ('{"num_servers":3,"num_cpus":12,"in_progress":0}', ""),
        ('{"num_servers":0,"num_cpus":0,"in_progress":0}', "the scheduler has no worker"),
        ("<html>", "it is no scheduler of sccache-dist (HTTP 200)"),
        ('{"num_cpus":[]}', "it is no scheduler of sccache-dist (HTTP 200)"),
        ('{"num_cpus":1e999}', "it is no scheduler of sccache-dist (HTTP 200)"),
        pytest.param("[" * 60_000, "it is no scheduler of sccache-dist (HTTP 200)", id="deep"),
        (None, "the scheduler does not answer: Connection refused"),
    ],
)
def test_a_scheduler_that_is_no_use_is_one_note_and_a_local_build(
    project: Project, answer: str | None, why: str
) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write((answer or "").encode())

        def log_message(self, *words: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        if answer is None:
            server.server_close()
        else:
            threading.Thread(target=server.serve_forever, daemon=True).start()
        assert ask(url) == (12 if not why else 0, why)
        notes: list[str] = []
        if why:
            assert join(project, "et-1.4", Farm(url, SECRET), quiet, notes.append) is None
            assert notes == [f"{url}: {why}; everything is compiled on this machine"]
        if answer is not None:
            server.shutdown()


def test_the_compose_file_of_the_guide_is_one(tmp_path: Path) -> None:
    """By the schema of the compose specification, which check-jsonschema ships."""
    text = (ROOT / "docs/guides/farm.md").read_text().split("```yaml\n")[1].split("```")[0]
    file = tmp_path / "compose.yaml"
    for content, code in ((text, 0), (text.replace("privileged:", "priviledged:"), 1)):
        file.write_text(content)
        with pytest.raises(SystemExit) as ended:
            check_jsonschema(["--quiet", "--builtin-schema", "vendor.compose-spec", str(file)])
        assert ended.value.code == code

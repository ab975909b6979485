"""`kz env` and `kz export` as they run: environments made of real wheels by real pip, real processes that fail and hang."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kz_build.core.host import memory_groups
from kz_build.core.process_group import members
from kz_build.release.sbom import problem
from tests.conftest import Kz, snapshot
from tests.deadline import patient, until
from tests.export.toys import EXPORTER, FILES, Toy, toy, wheel

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def toys(tmp_path: Path) -> Toy:
    """A project with a store of its own."""
    return toy(tmp_path)


@pytest.fixture
def ready(tmp_path: Path, store: Path) -> Toy:
    """A project whose environment is in the store of all tests: venv and pip take seven seconds to make one."""
    return toy(tmp_path, store)


@pytest.fixture
def run(kz: Kz, request: pytest.FixtureRequest) -> Run:
    toys = request.getfixturevalue("ready" if "ready" in request.fixturenames else "toys")
    return lambda *argv, **more: kz("-C", toys.root, *argv, **{**toys.env, **more})


def environments(toys: Toy) -> list[Path]:
    return sorted((toys.root.parent / "cache" / "environments").iterdir())


@pytest.mark.exports
def test_an_environment_is_made_once_and_said(toys: Toy, run: Run) -> None:
    first = run("env", "toy")
    assert first.returncode == 0, first.stderr
    assert "environment of toy: made" in first.stdout and "toyexport  1.0" in first.stdout
    (folder,) = environments(toys)
    before = snapshot(folder)
    again = run("env", "toy")
    assert "there already" in again.stdout and snapshot(folder) == before
    shell = run("env", "toy", "--shell").stdout
    asked = subprocess.run(
        ["sh", "-c", f"{shell}\npython -c 'import sys, toyexport; print(sys.prefix)'; echo $HF_HUB_OFFLINE"],
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"]},
        cwd=toys.root,
    )
    assert asked.stdout.splitlines() == [str(folder), "1"], asked.stderr


@pytest.mark.exports
def test_uv_is_asked_before_pip(toys: Toy, run: Run) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # where the test's own uv is
    places = {"PIP_FIND_LINKS": "", "UV_FIND_LINKS": str(toys.wheels), "PATH": path}
    made = run("env", "toy", **places)  # nothing that pip could find
    assert made.returncode == 0, made.stderr
    toys.requirements("toyexport==1.0", *toys.wheels.glob("*.whl"), digest="0" * 64)
    refused = run("env", "toy", **{**places, "PIP_FIND_LINKS": toys.wheels.as_uri()})
    assert refused.returncode == 3 and "toy.txt" in refused.stderr, refused.stderr


@pytest.mark.exports
def test_a_place_with_a_blank_and_a_quote(tmp_path: Path, kz: Kz) -> None:
    odd = toy(tmp_path / "it's a place")
    shell = kz("-C", odd.root, "env", "toy", "--shell", **odd.env)
    assert shell.returncode == 0, shell.stderr
    said = subprocess.run(
        ["sh", "-c", f'{shell.stdout}\nprintf %s "$VIRTUAL_ENV"'], capture_output=True, text=True, env={"PATH": "/bin"}
    )
    assert said.stdout == str(environments(odd)[0])


@pytest.mark.exports
def test_other_bytes_than_the_hash_says(toys: Toy, run: Run) -> None:
    file = next(toys.wheels.iterdir())
    toys.requirements("toyexport==1.0", file, digest="0" * 64)
    refused = run("env", "toy")
    assert refused.returncode == 3 and "a package differs from toy.txt" in refused.stderr, refused.stderr
    assert "0000000000" in refused.stderr and hashlib.sha256(file.read_bytes()).hexdigest() in refused.stderr
    toys.requirements("toyexport==1.0", file)
    assert run("env", "toy").returncode == 0, "nothing of the other one stands in its way"


@pytest.mark.exports
def test_a_package_that_no_index_has(toys: Toy, run: Run) -> None:
    gone = next(toys.wheels.iterdir())
    toys.requirements("toyexport==1.0", gone)
    gone.unlink()
    refused = run("env", "toy")
    assert refused.returncode == 6 and "toyexport==1.0" in refused.stderr and "PIP_INDEX_URL" in refused.stderr


@pytest.mark.exports
def test_a_set_that_is_not_whole_or_does_not_import(toys: Toy, run: Run) -> None:
    lonely = wheel(toys.wheels, "toyexport", "1.0", FILES, ("friend>=2",))
    toys.requirements("toyexport==1.0", lonely)
    refused = run("env", "toy")
    assert refused.returncode == 5 and "toyexport 1.0 requires friend" in refused.stderr, refused.stderr
    friend = wheel(toys.wheels, "friend", "2.0", {"friend.py": "import nothing_of_that_name\n"})
    toys.requirements("toyexport==1.0\nfriend==2.0", lonely, friend)
    refused = run("env", "toy")
    assert refused.returncode == 5 and "friend: ModuleNotFoundError: No module named 'nothing_of" in refused.stderr


@pytest.mark.exports
def test_a_half_made_environment_counts_for_nothing(toys: Toy, run: Run) -> None:
    assert run("env", "toy").returncode == 0
    (folder,) = environments(toys)
    (folder / "kz.json").unlink()
    module = next(folder.glob("lib/python3*/site-packages/toyexport/__main__.py"))
    module.unlink()
    assert "environment of toy: made" in run("env", "toy").stdout
    assert module.read_text() == EXPORTER
    (folder / "bin" / "python").unlink()  # its Python has left this machine
    assert "environment of toy: made" in run("env", "toy").stdout
    (folder / "lib").rename(folder / "gone")
    done = run("export", "toy")
    assert done.returncode == 6 and f"the environment {folder} is damaged" in done.stdout, done.stderr


@pytest.mark.exports
def test_killed_while_an_environment_is_made(toys: Toy, run: Run, clean_env: dict[str, str]) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "kz_build", "-C", str(toys.root), "env", "toy"],
        env={**clean_env, **toys.env},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    folder = toys.root.parent / "cache" / "environments"
    until(lambda: folder.is_dir() and any(folder.glob("*/lib")))
    process.kill()
    process.wait()
    assert not list(folder.glob("*/kz.json"))
    assert "environment of toy: made" in run("env", "toy").stdout


def test_a_python_that_is_not_here(toys: Toy, run: Run) -> None:
    toys.recipe("ok", needs={"memory": {"gb": [0, 0], "source": "x"}, "disk": {}, "python": ">=3.77"})
    refused = run("env", "toy")
    assert refused.returncode == 6 and "toy needs >=3.77; found: 3." in refused.stderr
    assert "uv python install" in refused.stderr and not (toys.root.parent / "cache" / "environments").exists()


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("toyexport==2.0", "toyexport 2.0 is requested, the line has 1.0 in pins.yaml"),
        ("toyexport==1.0\nother==3", "other 3 is requested, none is locked"),
    ],
)
def test_a_set_that_is_not_what_was_asked(toys: Toy, run: Run, asked: str, says: str) -> None:
    toys.requirements(asked, next(toys.wheels.iterdir()))
    refused = run("env", "toy")
    assert refused.returncode == 2 and says in refused.stderr, refused.stderr


def test_requirements_that_nobody_locked_or_wrote(toys: Toy, run: Run) -> None:
    (toys.root / "recipes" / "requirements" / "toy.txt").unlink()
    refused = run("env", "toy")
    assert refused.returncode == 3 and "-> by hand" in refused.stderr, "the command that locks it"
    toys.recipe("ok", requirements="tow")
    refused = run("env", "toy")
    assert (
        refused.returncode == 2
        and "recipes/toy.yaml:3: requirements: there is no requirements/tow.in" in refused.stderr
    )
    toys.recipe("ok", requirements="")
    assert run("env", "toy").returncode == 2


def test_an_sdk_that_nobody_brings_is_said_before_anything_is_made(toys: Toy, run: Run) -> None:
    needs = {"memory": {"gb": [0, 0], "source": "x"}, "disk": {}, "sdk": {"some-sdk": "3 or newer"}}
    toys.recipe("ok", needs=needs)
    refused = run("env", "toy")
    assert refused.returncode == 6 and "some-sdk" in refused.stderr and "3 or newer" in refused.stderr
    assert not (toys.root.parent / "cache" / "environments").exists()


@pytest.fixture
def tree(toys: Toy, run: Run) -> Toy:
    """A line whose ExecuTorch comes from git, with a stack, and from the index: native parts in the wheel alone."""
    up = toys.root.parent / "upstream"
    (up / "examples").mkdir(parents=True)
    (up / "examples" / "run.py").write_text("print('as upstream has it')\n")
    (up / "examples" / "friend.py").write_text("HERE = True\n")
    (up / "native.py").write_text("raise ImportError('a source tree has no native parts')\n")
    git = ["git", "-C", str(up), "-c", "user.name=x", "-c", "user.email=x@x"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"], ["tag", "v1"]):
        subprocess.run([*git, *words], check=True)
    (up / "examples" / "run.py").write_text(
        "import shutil, sys\n"
        "import executorch.native\n"
        "from executorch.examples.friend import HERE\n"
        "open('stray.txt', 'w').close()\n"
        "shutil.copy(sys.argv[2], sys.argv[1])\n"
    )
    subprocess.run([*git, "commit", "-qam", "examples: run"], check=True)
    stack = toys.root / "patches" / "toy-1" / "executorch"
    form = ["--zero-commit", "--no-signature", "--no-stat", "--full-index", "--no-renames"]
    subprocess.run([*git, "format-patch", "-q", *form, "-o", stack, "v1"], check=True)
    (stack / "series").write_text("0001-examples-run.patch\n")
    files = {"executorch/native.py": "", "executorch/examples/run.py": "print('of the wheel')\n"}
    files |= {"executorch/exir.py": "", "executorch/runtime.py": ""}
    made = wheel(toys.wheels, "executorch", "1.0", files)
    toys.requirements("executorch==1.0", made)
    (toys.root / "pins.yaml").write_text(
        f"version: 1\ndefault: toy-1\nsources: {{executorch: {{git: {up}}}}}\nlines: {{toy-1: {{executorch: v1}}}}\ntargets: {{}}\n"
    )
    stage = {"name": "step1", "inside": "executorch", "makes": ["{out}/1.pte"]}
    stage["run"] = ["{python}", "examples/run.py", "{out}/1.pte", str(toys.root / "model.pte")]
    toys.recipe(command=[stage])
    locked = run("lock", "--write")
    assert locked.returncode == 0, locked.stderr
    return toys


@pytest.mark.exports
def test_a_source_tree_over_the_wheel_hides_nothing_of_it(tree: Toy, run: Run) -> None:
    done = run("export", "toy")
    assert done.returncode == 0, done.stderr
    (folder,) = environments(tree)
    packages = next(folder.glob("lib/python3*/site-packages"))
    assert (packages / "executorch" / "native.py").read_text() == "", "the wheel's"
    assert (tree.out / "work" / "step1" / "stray.txt").exists() and not (packages / "executorch" / "stray.txt").exists()
    assert "executorch over it" in run("env", "toy").stdout


# The run itself.


def test_an_export_ends_in_dist_with_its_record(ready: Toy, run: Run, tmp_path: Path) -> None:
    ready.recipe("hold")
    here = tmp_path / "caller"
    here.mkdir()
    done = run("export", "toy", cwd=here)
    assert done.returncode == 0, done.stderr
    assert ready.dist.read_bytes() == (ready.root / "model.pte").read_bytes()
    facts = json.loads(ready.dist.with_name("toy.pte.json").read_bytes())
    sums = ready.dist.with_name("toy.pte.sha256")
    assert subprocess.run(["sha256sum", "-c", sums.name], cwd=sums.parent, capture_output=True).returncode == 0
    phases = {phase["name"]: phase for phase in facts["stages"]["step1"]["phases"]}
    assert list(phases) == ["load", "export", "lower"] and phases["export"]["seconds"] >= 1.4
    assert 200e6 < phases["export"]["ram"] < 2e9 and phases["load"]["ram"] < 200e6
    assert not list(here.iterdir()), "what upstream drops lies elsewhere"
    assert (ready.out / "work" / "step1" / "stray.txt").exists()
    assert "PASS  methods: it has kv_forward, prefill_forward" in done.stdout


def test_the_bill_of_a_pte_names_its_weights_and_how_they_are_quantized(ready: Toy, run: Run) -> None:
    place = ready.store / "weights" / "Toy-1B"
    place.mkdir(parents=True, exist_ok=True)
    config = {"architectures": ["ToyForCausalLM"], "model_type": "toy"}
    contents = {"model.safetensors": b"weights", "config.json": json.dumps(config).encode()}
    digests = {}
    for name, data in contents.items():
        (place / name).write_bytes(data)
        digests[name] = hashlib.sha256(data).hexdigest()
    known = {**digests, "config.json": None}
    weights = {
        "Toy-1B": {"repository": "owner/Toy-1B", "revision": "a" * 40, "licence": "Apache-2.0", "digests": known}
    }
    stage = {"name": "step1", "inside": "toy", "makes": ["{out}/1.pte"]}
    argv = [
        "{python}",
        "-m",
        "toyexport",
        "ok",
        "{out}/1.pte",
        str(ready.root / "model.pte"),
        "quantization.qmode=8da4w",
    ]
    ready.recipe(command=[{**stage, "run": argv}], weights=weights)
    assert run("export", "toy").returncode == 0
    bill = ready.dist.with_name("toy.pte.cdx.json")
    text = bill.read_text()
    assert problem(text) == "" and str(ready.root) not in text and str(ready.store) not in text
    said = json.loads(text)
    top = said["metadata"]["component"]
    assert top["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(ready.dist.read_bytes()).hexdigest()}]
    assert {"name": "kz:quantization", "value": "quantization.qmode=8da4w"} in top["modelCard"]["properties"]
    parts = {one["bom-ref"]: one for one in said["components"]}
    model = parts["weights:Toy-1B"]
    assert (model["type"], model["name"], model["version"]) == ("machine-learning-model", "owner/Toy-1B", "a" * 40)
    assert model["purl"] == f"pkg:huggingface/owner/Toy-1B@{'a' * 40}"
    assert model["licenses"] == [{"license": {"id": "Apache-2.0", "acknowledgement": "declared"}}]
    assert model["modelCard"]["modelParameters"] == {"modelArchitecture": "ToyForCausalLM", "architectureFamily": "toy"}
    assert {one["name"]: one["hashes"][0]["content"] for one in model["components"]} == digests
    assert model["properties"] == [{"name": "kz:note", "value": "the recipe has no digest of config.json"}]
    assert parts["toyexport"]["purl"] == "pkg:pypi/toyexport@1.0"
    bill.unlink()
    assert run("export", "toy").returncode == 0 and bill.read_text() == text and ready.runs(1) == 1


def test_a_second_run_does_nothing(ready: Toy, run: Run) -> None:
    assert run("export", "toy").returncode == 0
    before = snapshot(ready.dist.parent)
    times = ready.dist.stat().st_mtime_ns
    again = run("export", "toy")
    assert again.returncode == 0 and "nothing to do" in again.stdout and ready.runs(1) == 1
    assert snapshot(ready.dist.parent) == before and ready.dist.stat().st_mtime_ns == times
    ready.dist.unlink()
    ready.dist.write_bytes(b"another")
    assert run("export", "toy").returncode == 0
    assert ready.runs(1) == 1, "it was lying where it was made"
    assert snapshot(ready.dist.parent) == before


def test_another_sdk_of_the_same_version_runs_an_export_again(ready: Toy, run: Run, tmp_path: Path) -> None:
    pins, sdk = ready.root / "pins.yaml", tmp_path / "sdk"
    archive = "sdk: {archive: 'http://127.0.0.1:1/s.zip', installed: {env: [TOY_SDK], identity: source.properties}}"
    pins.write_text(pins.read_text().replace("{toy: {", f"{{{archive}, toy: {{").replace('"1.0"', '"1.0", sdk: r1'))
    needs = {"memory": {"gb": [0, 0], "source": "x"}, "disk": {}, "sdk": {"sdk": "pinned"}}
    ready.recipe("ok", needs=needs)
    sdk.mkdir()
    (sdk / "source.properties").write_text("Pkg.Revision = r1\n")
    for library, runs in (("one", 1), ("one", 1), ("two", 2)):
        (sdk / "lib.so").write_text(library)
        done = run("export", "toy", TOY_SDK=str(sdk))
        assert done.returncode == 0 and ready.runs(1) == runs, done.stderr


def test_a_file_that_is_in_dist_already_is_published_again_without_a_trace(ready: Toy, run: Run) -> None:
    """Its record was not written: the disk was full. Both names are then links to one file, and rename(2) does nothing."""
    assert run("export", "toy").returncode == 0
    before = set(ready.dist.parent.iterdir())
    (ready.dist.parent / "toy.pte.json").unlink()
    assert run("export", "toy").returncode == 0
    assert set(ready.dist.parent.iterdir()) == before


@pytest.mark.exports
def test_only_what_changed_is_run_again(ready: Toy, run: Run) -> None:
    ready.recipe("ok", "unknown")
    refused = run("export", "toy")
    assert refused.returncode == 5 and "step2 of toy failed in phase export" in refused.stderr, refused.stderr
    assert "something nobody knows" in refused.stderr and not ready.dist.exists()
    ready.recipe("ok", "ok")
    assert run("export", "toy").returncode == 0
    assert (ready.runs(1), ready.runs(2)) == (1, 2), "what step1 made was kept"
    assert run("export", "toy", "--again", "step2").returncode == 0
    assert (ready.runs(1), ready.runs(2)) == (1, 3)
    assert run("export", "toy", "--again", "step1").returncode == 0
    assert (ready.runs(1), ready.runs(2)) == (2, 4)
    assert "its stages: step1, step2" in run("export", "toy", "--again", "step3").stderr


def test_a_failure_says_its_cause(ready: Toy, run: Run) -> None:
    ready.recipe("import")
    refused = run("export", "toy")
    assert refused.returncode == 5 and "torchao" in refused.stderr and "cause: " in refused.stderr, refused.stderr
    assert "kz wheel torchtune" in refused.stderr and "the whole log: " in refused.stderr


def test_a_stage_that_makes_nothing(ready: Toy, run: Run) -> None:
    ready.recipe("nothing")
    refused = run("export", "toy")
    assert refused.returncode == 5 and "ended with 0 and did not make" in refused.stderr, refused.stderr


@pytest.mark.exports
def test_killed_by_the_system(ready: Toy, run: Run) -> None:
    ready.recipe("kill")
    refused = run("export", "toy")
    assert refused.returncode == 5 and "out of memory" in refused.stderr and "exit 137" in refused.stderr, (
        refused.stderr
    )


@pytest.mark.exports
def test_at_the_limit_of_a_process(ready: Toy, run: Run) -> None:
    ready.recipe("limit", needs={"memory": {"gb": [0.01, 9999], "source": "x"}, "disk": {}})
    refused = run("export", "toy")
    assert refused.returncode == 5 and "ulimit -v" in refused.stderr, refused.stderr
    assert "sudo fallocate" in refused.stderr, "a recipe that wants more than there is: the swap file"


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group with little memory, where one may make one."""
    roots = memory_groups()
    if not roots or not os.access(roots[-1], os.W_OK):
        pytest.skip("no control groups that this user may make (root in a container may not either)")
    folder = roots[-1] / f"kz-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    for name in ("memory.max", "memory.limit_in_bytes"):
        if (folder / name).exists():
            (folder / name).write_text(str(400 << 20))
    if (folder / "memory.swap.max").exists():
        (folder / "memory.swap.max").write_text("0")
    yield folder

    def removed() -> bool:
        with contextlib.suppress(OSError):  # busy while a process of it ends
            folder.rmdir()
        return not folder.exists()

    until(removed)


@pytest.mark.exports
def test_killed_for_the_limit_of_a_container(ready: Toy, run: Run, clean_env: dict[str, str], group: Path) -> None:
    assert run("env", "toy").returncode == 0
    ready.recipe("eat")
    command = f"echo $$ > {group}/cgroup.procs && exec {sys.executable} -m kz_build -C {ready.root} export toy"
    done = subprocess.run(["sh", "-c", command], env={**clean_env, **ready.env}, capture_output=True, text=True)
    assert done.returncode == 5 and "the kernel killed it for the memory limit of this control group" in done.stderr, (
        done.stderr
    )
    assert "(0.4 RAM + 0.0 swap)" in done.stderr, "what the group may have, not the machine"


def test_a_contract_that_is_not_met_keeps_dist_as_it_was(ready: Toy, run: Run) -> None:
    assert run("export", "toy").returncode == 0
    before = snapshot(ready.dist.parent)
    ready.recipe("ok", contract={"methods": ["forward"]})
    refused = run("export", "toy")
    assert refused.returncode == 8 and "it has no method forward" in refused.stderr and str(ready.out) in refused.stderr
    assert snapshot(ready.dist.parent) == before and ready.runs(1) == 1, "another contract is no reason to run it again"


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ('[{"cosine": 0.9, "same": true}]', "step 1 of 1 has cosine 0.9000 with eager torch, and the same token"),
        ('[{"cosine": 0.99, "same": true}, {"cosine": 0.97, "same": false}]', "step 2 of 2 has cosine 0.9700"),
        ('[{"cosine": NaN, "same": true}]', "step 1 of 1 has cosine nan"),
        ("[]", "does not end with a JSON object that has `steps`"),
        ('[{"same": true}]', "each with `cosine` and `same`"),
        ("nonsense", "does not end with a JSON object"),
    ],
)
def test_decode_steps_that_differ(ready: Toy, run: Run, steps: str, says: str) -> None:
    ready.recipe("ok", decode=["{python}", "-c", f"print('''{{\"steps\": {steps}}}''')"])
    refused = run("export", "toy")
    assert refused.returncode in (2, 8) and says in refused.stderr, refused.stderr
    assert not ready.dist.exists()


def hanging(ready: Toy, clean_env: dict[str, str]) -> tuple[subprocess.Popen[str], int]:
    """`kz export` at a stage that hangs, and that stage's session."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kz_build", "-C", str(ready.root), "export", "toy"],
        env={**clean_env, **ready.env},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: (ready.out / "1.pte.hangs").exists())
    session = int(json.loads((ready.out / "running.json").read_bytes())["session"])
    until(lambda: len(list(members(session))) == 2)
    return process, session


@pytest.mark.exports
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_all_of_it(ready: Toy, run: Run, clean_env: dict[str, str], sign: int) -> None:
    ready.recipe("hang")
    process, session = hanging(ready, clean_env)
    process.send_signal(sign)
    assert process.wait(patient(30)) == 130 and process.stderr and "kz: exit 130 (interrupt)" in process.stderr.read()
    assert not list(members(session)), "also a worker in a process group of its own"
    ready.recipe("ok")
    assert run("export", "toy").returncode == 0


@pytest.mark.exports
def test_killed_in_the_middle_goes_on_and_ends_what_was_left(ready: Toy, run: Run, clean_env: dict[str, str]) -> None:
    ready.recipe("hang")
    process, session = hanging(ready, clean_env)
    process.kill()
    process.wait()
    assert list(members(session)), "nobody could end them"
    assert not ready.dist.exists()
    ready.recipe("ok")
    assert run("export", "toy").returncode == 0
    assert ready.dist.exists()
    until(lambda: not list(members(session)))  # the system reaps them


@pytest.mark.exports
def test_the_next_run_tells_how_long_the_last_one_took(ready: Toy, run: Run) -> None:
    ready.recipe("hold")
    assert run("export", "toy").returncode == 0
    again = run("export", "toy", "--again", "step1")
    assert "step1: export 0:0" in again.stderr and "of ~0:0" in again.stderr, again.stderr

"""A wheel patched and repacked: the same bytes anywhere, and pip takes it."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import subprocess
import sys
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kz_build.build.wheel_types import local_version, repack, zip_bytes
from kz_build.core.errors import ConfigError
from kz_build.git.object_types import Blob
from tests.conftest import ROOT, Kz
from tests.kz import kz_in_process
from tests.stack.test_git_tools import TOOLS, checks_can_fail, committed, take

META = {
    "x-1.0.dist-info/METADATA": Blob(
        "100644", b"Metadata-Version: 2.1\nName: x\nVersion: 1.0\n\nVersion: in the text\n"
    ),
    "x-1.0.dist-info/WHEEL": Blob("100644", b"Wheel-Version: 1.0\nTag: py2-none-any\nTag: py3-none-any\n"),
}
TREE = "0123456789abcdef0123456789abcdef01234567"
names = st.text(
    st.characters(codec="utf-8", exclude_characters="/\\\0", exclude_categories=["Cs"]), min_size=1, max_size=8
).filter(lambda s: s not in (".", ".."))


@given(st.dictionaries(names.map(lambda n: f"x/{n}"), st.binary(max_size=40), max_size=6))
def test_record_names_every_file_with_its_digest(content: dict[str, bytes]) -> None:
    name, version, members = repack({**META, **{p: Blob("100644", d) for p, d in content.items()}}, TREE)
    assert (name, version) == ("x-1.0+kz.g01234567-py2.py3-none-any.whl", "1.0+kz.g01234567")
    data = zip_bytes(members)
    assert data == zip_bytes(members)
    with zipfile.ZipFile(io.BytesIO(data)) as zipped:
        assert zipped.testzip() is None
        rows = list(csv.reader(io.StringIO(zipped.read(f"x-{version}.dist-info/RECORD").decode(), newline="")))
        assert {r[0] for r in rows} == set(zipped.namelist()) and rows[-1] == [f"x-{version}.dist-info/RECORD", "", ""]
        for path, digest, size in rows[:-1]:
            found = zipped.read(path)
            assert digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(found).digest()).decode().rstrip(
                "="
            ) and int(size) == len(found)
        metadata = zipped.read(f"x-{version}.dist-info/METADATA")
        assert metadata == META["x-1.0.dist-info/METADATA"].data.replace(
            b"Version: 1.0", b"Version: " + version.encode(), 1
        )


def test_a_local_version_stays_one() -> None:
    assert local_version("2.11.0+cpu", TREE) == "2.11.0+cpu.kz.g01234567"


def test_what_is_no_wheel() -> None:
    with pytest.raises(ConfigError, match="one .dist-info"):
        repack({"x/a.py": Blob("100644", b"")}, TREE)


@pytest.mark.parametrize(
    "folder", ["x-1.0/../..", r"x-1.0\g<9>", "x-1.0\nName: y", "x y-1.0", "x", "x-", "-1.0", "x-1.0-1"]
)
def test_a_folder_that_names_no_version_is_refused(folder: str) -> None:
    """Its parts go into METADATA and into the new wheel's file name."""
    moved = {path.replace("x-1.0", folder, 1): blob for path, blob in META.items()}
    with pytest.raises(ConfigError, match="does not name a package and its version|one .dist-info"):
        repack(moved, TREE)


@pytest.mark.parametrize(("path", "mode"), [("x/link", "120000"), ("x/\udcff.py", "100644")])
def test_what_no_wheel_can_have_is_refused(path: str, mode: str) -> None:
    """A link became a file with its target as text; a name that is not UTF-8 ended in a traceback."""
    with pytest.raises(ConfigError, match="a wheel has only files"):
        repack({**META, path: Blob(mode, b"a.py")}, TREE)


@pytest.mark.parametrize(
    "tag", [b"py3-none-../../../evil", b"py3-none-\xff", b"py3-none", b"py3-none-any-any", b"py3--any"]
)
def test_a_tag_that_is_none_is_refused(tag: bytes) -> None:
    """A tag goes into the new wheel's file name."""
    with pytest.raises(ConfigError, match="names no tag"):
        repack({**META, "x-1.0.dist-info/WHEEL": Blob("100644", b"Tag: " + tag + b"\n")}, TREE)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped pins, lock and stacks in a folder of their own."""
    folder = tmp_path_factory.mktemp("project")
    subprocess.run(
        ["cp", "-r", *(str(ROOT / n) for n in ("pins.yaml", "pins.lock", "patches")), str(folder)], check=True
    )
    return folder


def test_the_patched_torchtune_is_the_same_on_two_machines(project: Path, kz: Kz, tmp_path: Path) -> None:
    """From two stores, two folders, two time zones; the second one fetches PyPI's wheel itself."""
    first = kz("-C", project, "wheel", "torchtune", "--json")
    assert first.returncode == 0, first.stderr
    other = tmp_path / "other place"
    subprocess.run(["cp", "-r", str(project), str(other)], check=True)
    second = kz(
        "-C",
        other,
        "wheel",
        "torchtune",
        "--json",
        KZ_CACHE=str(tmp_path / "cache"),
        TZ="Asia/Tokyo",
        PYTHONHASHSEED="7",
    )
    assert second.returncode == 0, second.stderr
    one, two = json.loads(first.stdout), json.loads(second.stdout)
    assert one["sha256"] == two["sha256"] == hashlib.sha256(Path(two["path"]).read_bytes()).hexdigest()
    assert one["version"] == f"0.6.1+kz.g{one['tree'][:8]}"
    # A wheel is not made of what was tampered with in the store.
    pack = max((tmp_path / "cache/git/contents.git/objects/pack").glob("*.pack"), key=lambda p: p.stat().st_size)
    pack.chmod(0o644)
    data = pack.read_bytes()
    pack.write_bytes(data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :])
    Path(two["path"]).unlink()
    third = kz("-C", other, "wheel", "torchtune", KZ_CACHE=str(tmp_path / "cache"))
    assert third.returncode != 0 and not Path(two["path"]).exists()
    assert third.returncode == 3 and "git/contents.git" in third.stderr, third.stderr


@pytest.mark.exports
def test_pip_installs_it_and_sees_the_version(project: Path, kz: Kz, tmp_path: Path) -> None:
    made = json.loads(kz("-C", project, "wheel", "torchtune", "--json").stdout)
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv/bin/python"
    subprocess.run(
        [python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", made["path"]], check=True, capture_output=True
    )
    shown = subprocess.run(
        [python, "-m", "pip", "show", "-f", "torchtune"], check=True, capture_output=True, text=True
    ).stdout
    assert f"Version: {made['version']}" in shown and "torchtune/training/quantization.py" in shown
    script = "import importlib.metadata as m; d = m.distribution('torchtune'); print(all(f.locate().exists() for f in d.files))"
    assert subprocess.run([python, "-c", script], capture_output=True, text=True).stdout.strip() == "True"


WHEELS = sorted(
    (p.parent.parent.name, p.parent.name)
    for p in (ROOT / "patches").glob("*/*/series")
    if p.parent.name in ("torchtune", "executorch-wheel")
)


@dataclass(frozen=True)
class Stacked:
    """A wheel's stack: the files of the index's wheel that it names, unpacked, and the wheel that kz made of it."""

    line: str
    source: str
    tree: Path
    made: Path

    @property
    def folder(self) -> Path:
        return ROOT / "patches" / self.line / self.source

    def touched(self, mark: str) -> set[str]:
        """Paths behind `--- a/` (those that were there) or `+++ b/` (those that are there now)."""
        rows = [row for p in self.folder.glob("*.patch") for row in p.read_text().splitlines()]
        return {row.removeprefix(mark) for row in rows if row.startswith(mark)}


@pytest.fixture(scope="module", params=WHEELS, ids="/".join)
def stacked(
    request: pytest.FixtureRequest,
    project: Path,
    store: Path,
    clean_env: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Stacked:
    line, source = request.param
    done = kz_in_process(clean_env)("-C", project, "wheel", source, "--line", line, "--json")
    assert done.returncode == 0, done.stderr
    lock = json.loads((ROOT / "pins.lock").read_text())["lines"][line][source]
    result = Stacked(line, source, tmp_path_factory.mktemp("tree"), Path(json.loads(done.stdout)["path"]))
    text = "".join(path.read_text() for path in result.folder.iterdir())
    with zipfile.ZipFile(store / "sha256" / lock["sha256"]) as zipped:
        zipped.extractall(result.tree, [name for name in zipped.namelist() if name in text])
    return result


@pytest.mark.xdist_group("wheels")  # one worker makes each of them
def test_every_shipped_check_fails_without_its_patch(stacked: Stacked) -> None:
    checks_can_fail(ROOT, stacked.line, stacked.source, stacked.tree)


@pytest.mark.xdist_group("wheels")
@pytest.mark.parametrize("tool", TOOLS)
def test_other_tools_take_the_stack_of_a_wheel(stacked: Stacked, tool: str, tmp_path: Path) -> None:
    tree = tmp_path / "t"
    for path in stacked.touched("--- a/"):
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_bytes((stacked.tree / path).read_bytes())
    take(tool, stacked.folder, committed(tree), tmp_path)
    with zipfile.ZipFile(stacked.made) as made:
        for path in stacked.touched("+++ b/"):
            assert (tree / path).read_bytes() == made.read(path), path


QUANTIZATION = """
import sys, types
def module(name, **names):
    m = types.ModuleType(name); m.__dict__.update(names); sys.modules[name] = m; return m
"""


def test_the_patched_module_imports_without_the_two_names(project: Path, kz: Kz, tmp_path: Path) -> None:
    """torchtune's own file beside a torchao that lacks the two names: it imports, and a quantizer that needs them says why."""
    made = json.loads(kz("-C", project, "wheel", "torchtune", "--json").stdout)
    with zipfile.ZipFile(made["path"]) as zipped:
        source = zipped.read("torchtune/training/quantization.py").decode()
    (tmp_path / "q.py").write_text(source)
    (tmp_path / "torchao-0.17.0.dist-info").mkdir()
    (tmp_path / "torchao-0.17.0.dist-info/METADATA").write_text(
        "Metadata-Version: 2.1\nName: torchao\nVersion: 0.17.0\n"
    )
    script = QUANTIZATION + (
        "nn = module('torch.nn'); module('torch', nn=nn); module('torchtune'); module('torchtune.modules'); module('torchtune.modules.peft')\n"
        "module('torchtune.modules.peft.lora', LoRALinear=object, QATLoRALinear=object); module('torchao')\n"
        "module('torchao.dtypes', TensorCoreTiledLayout=lambda n: n)\n"
        "q = lambda name: type(name, (), {})\n"
        "qat = module('torchao.quantization.qat', Int4WeightOnlyQATQuantizer=q('a'), Int8DynActInt4WeightQATQuantizer=q('b'))\n"
        "module('torchao.quantization', quantize_=None, qat=qat)\n"
        "f = lambda m: None\n"
        "module('torchao.quantization.qat.linear', disable_4w_fake_quant=f, disable_8da4w_fake_quant=f, enable_4w_fake_quant=f, enable_8da4w_fake_quant=f)\n"
        "import builtins; nn.Module = object\n"
        "import q as quantization\n"
        "for one in (quantization.Int4WeightOnlyQuantizer, quantization.Int8DynActInt4WeightQuantizer):\n"
        "    try: one().quantize(None)\n"
        "    except ImportError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, env={"PYTHONPATH": str(tmp_path)}
    )
    assert done.stdout.count("torchao 0.17.0 has no int4_weight_only") == 2, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("source", "said"),
    [("executorch", "not a wheel"), ("torchao", "has no stack"), ("torchtun", "did you mean torchtune?")],
)
def test_what_cannot_be_repacked(project: Path, kz: Kz, source: str, said: str) -> None:
    done = kz("-C", project, "wheel", source)
    assert done.returncode == 2 and said in done.stderr, done.stderr

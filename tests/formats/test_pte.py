"""`kz pte` on programs by other hands: ExecuTorch's own exports, and what the flatbuffers library builds."""

from __future__ import annotations

import json
import os
import random
import resource
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from kz_build.checks.pte import check_contract
from kz_build.checks.text_pte import text
from kz_build.core.errors import ConfigError, DeviceError
from kz_build.core.plain_json import text as as_json
from kz_build.formats.library_types import Library
from kz_build.formats.pte import parse, read_pte
from kz_build.formats.qnn_blob import qnn_versions
from tests.conftest import ROOT, Kz
from tests.formats.ptes import HEADER, Made, Method, Qnn, decoder, program, vulkan

DATA = ROOT / "tests" / "data" / "pte"
EXAMPLES = max(2_000, 5 * settings().max_examples)


def test_an_xnnpack_file_by_executorch_is_read_whole() -> None:
    found = read_pte(DATA / "xnnpack.pte")
    assert [m.name for m in found.methods] == ["encode", "forward"]
    forward = found.methods[1]
    assert [(v.dtype, v.shape, v.dynamic) for v in forward.inputs] == [
        ("int64", (1, 3), False), ("float32", (1, 3, 8), False),
    ]  # fmt: skip
    assert [v.shape for v in forward.outputs] == [(1, 3, 4), (1, 3)]
    assert forward.operators == (("aten::embedding.out", 1), ("aten::sum.IntList_out", 1))
    assert [(d.backend, d.size, d.segment, d.calls) for d in forward.delegates] == [("XnnpackBackend", 1024, 1, 1)]
    assert dict(found.constants) == {
        "get_kv_io_bit_width": (8,), "get_max_seq_len": (128,), "use_kv_cache": (True,), "get_eos_ids": (1, 2),
        "name": ("tiny",), "scale": (0.5,),
    }  # fmt: skip
    assert (found.kv_bits, found.context_length, found.mode, found.shards, found.external) == (8, 128, "", 0, 0)
    assert found.named_data == 2


def test_a_vulkan_file_by_executorch_names_the_operators_of_its_graph() -> None:
    (delegate,) = read_pte(DATA / "vulkan.pte").delegates
    assert (delegate.backend, delegate.size) == ("VulkanBackend", 2000)
    assert "aten.linear.default" in delegate.operators and "aten.embedding.default" in delegate.operators


def test_a_dynamic_file_with_its_weights_elsewhere() -> None:
    found = read_pte(DATA / "dynamic.pte")
    assert found.external == 1
    assert [(v.shape, v.dynamic) for v in found.methods[0].inputs] == [((1, 7), True), ((1, 7, 8), True)]
    assert [d.segment for d in found.delegates] == [None]  # inside the program
    assert next(found.delegates).size == 1024


def test_hybrid_kv_and_two_shards_are_told_apart() -> None:
    hybrid = parse(decoder("hybrid"), "h.pte")
    assert (hybrid.mode, hybrid.shards, hybrid.kv_bits, hybrid.context_length) == ("hybrid", 1, 8, 128)
    assert hybrid.ar_lengths == (("prefill_forward", 32), ("kv_forward", 1))
    assert [(segment, context.sdk) for segment, context in hybrid.contexts] == [(0, "2.42.0.251225")]
    kv = parse(decoder("kv", bits=16, length=512, constants={}), "k.pte")
    assert (kv.mode, kv.shards, kv.kv_bits, kv.context_length) == ("kv", 1, 16, 512)
    two = parse(decoder("hybrid", [Qnn(multi_contexts=True)] * 2), "2.pte")
    assert (two.shards, len(two.contexts), two.operators) == (2, 2, frozenset({"llama::fallback.out"}))


def test_the_compile_spec_is_read() -> None:
    found = parse(decoder(qnn=[Qnn("SM8650", shared_buffer=True, multi_contexts=True)]), "s.pte")
    spec = next(found.delegates).qnn
    assert spec
    assert (spec.soc, spec.arch, spec.vtcm_mb, spec.backend) == ("SM8650", "v75", 8, "HTP")
    assert (spec.shared_buffer, spec.multi_contexts, spec.weight_sharing) == (True, True, False)


def test_a_context_without_a_version_says_so_and_a_look_ends_within_bounds() -> None:
    late = b"c" * (5 << 20) + b"v2.99.0.260101\0"
    assert [c.sdk for _, c in parse(decoder(qnn=[Qnn(sdk="", body=late)]), "x.pte").contexts] == [""]


@pytest.mark.parametrize(
    ("data", "versions"),
    [
        (b"v2.42.0.251225135753_193295\0", ["2.42.0.251225"]),
        (b"v2.42.0.251225 v2.49.40.260810104044", ["2.42.0.251225", "2.49.40.260810"]),
        (b"v2.42.0 v2.99.999999 v2.42.0.991399 v1.2.3.251225 v2.42.0.25122", []),
    ],
)
def test_a_qnn_version_is_read_to_the_day_that_pins_name(data: bytes, versions: list[str]) -> None:
    assert list(qnn_versions(data)) == versions
    assert list(qnn_versions(b"v2.1.0.250101 " + data, 14)) == versions
    assert list(qnn_versions(data, 0, 13)) == []


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "it has 0 bytes"),
        (b"ET12", "it has 4 bytes"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "git-lfs pointer"),
        (b"PK\3\4" + b"x" * 100, "zip archive"),
        (b"\x20\0\0\0FT01" + b"x" * 100, "tensor data"),
        (b"\x20\0\0\0BP08" + b"x" * 100, "bundled program"),
        (b"\x7fELF" + b"x" * 100, "an ELF file"),
        (b"\0" * 4096, "zeros"),
        (b"\x20\0\0\0ET13" + b"x" * 100, "format ET13"),
        (b"\x20\0\0\0HELO" + b"x" * 100, "48 45 4c 4f"),
        (b"\xff\xff\xff\xffET12" + b"x" * 100, "points to byte"),
        (decoder()[:-300], "the last segment ends at byte"),
        (decoder()[:1000], "the program takes"),
        (decoder(qnn=[Qnn(size=1 << 40)]), "does not fit"),
        (program([Method("m", delegates=(Made("X", 7),))]), "segment 7"),
    ],
)
def test_what_is_no_whole_program_is_named(data: bytes, says: str, tmp_path: Path) -> None:
    file = tmp_path / "x.pte"
    file.write_bytes(data)
    with pytest.raises(DeviceError, match="x.pte") as caught:
        read_pte(file)
    assert says in str(caught.value)


def test_no_file_and_a_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "none.pte", tmp_path):
        with pytest.raises(ConfigError):
            read_pte(path)


def cost(file: Path) -> tuple[subprocess.CompletedProcess[str], float, int]:
    """`kz pte FILE` in a process of its own: what it said, its seconds of processor, its peak in KB."""
    code = (
        "import re, sys, time; from kz_build.cli import run\n"
        "code = run(['pte', sys.argv[1], '--soc', 'SM8750', '--json'])\n"
        "print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1], time.process_time(), file=sys.stderr)\n"
        "sys.exit(code)"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code, str(file)], env=env, capture_output=True, text=True)
    kilobytes, seconds = done.stderr.splitlines()[-1].split()
    return done, float(seconds), int(kilobytes)


def hostile(at: Callable[[bytes], int], value: int) -> bytes:
    data = bytearray(decoder())
    struct.pack_into("<I", data, at(bytes(data)), value)
    return bytes(data)


def root_of(data: bytes) -> int:
    return int(struct.unpack_from("<I", data)[0])


@pytest.mark.parametrize(
    "data",
    [
        hostile(lambda d: root_of(d), 0x7FFFFFFF),  # the vtable far before the file
        hostile(lambda d: root_of(d), 0x80000000),  # and far behind it
        hostile(lambda d: root_of(d) + 4, 0xFFFFFFFF),
        hostile(lambda d: 0, 0),
        hostile(lambda d: 16, 0xFFFFFFFF),
        hostile(lambda d: 28, 0xFFFFFFFF),
        hostile(lambda d: 36, 0xFFFFFFFF),
        hostile(lambda d: d.index(b"kv_forward") - 4, 0xFFFFFFF0),
    ],
)
def test_hostile_offsets_are_refused(data: bytes) -> None:
    with pytest.raises(DeviceError, match="damaged or cut off"):
        parse(data, "x.pte")


def test_a_small_file_that_asks_for_endless_work_is_refused_in_bounded_time_and_memory(tmp_path: Path) -> None:
    # A list of a million offsets that all lead to one method, itself of a thousand values that are one.
    data = bytearray(program([Method("m", inputs=(("float32", (1,)),) * 1000)]))
    root = root_of(bytes(data))
    vtable = root - struct.unpack_from("<i", data, root)[0]
    field = root + struct.unpack_from("<H", data, vtable + 4 + 2)[0]
    plans = field + struct.unpack_from("<I", data, field)[0]
    plan = plans + 4 + struct.unpack_from("<I", data, plans + 4)[0]
    # The list moves to the end; offsets are unsigned, so a copy of all that they lead to comes after it.
    count, body = 1_000_000, bytes(data)
    end = len(data)
    struct.pack_into("<I", data, field, end - field)
    base = end + 4 + 4 * count
    offsets = b"".join(struct.pack("<I", base + plan - (end + 4 + 4 * i)) for i in range(count))
    grown = bytes(data) + struct.pack("<I", count) + offsets + body
    grown = grown[:16] + struct.pack("<Q", len(grown)) + grown[24:]
    file = tmp_path / "x.pte"
    file.write_bytes(grown)
    done, seconds, kilobytes = cost(file)
    assert done.returncode == 8 and "more parts than any real program" in done.stderr
    assert seconds < 15  # two on a quiet machine
    assert kilobytes < 250 << 10


def mutated(original: bytes, chance: random.Random) -> bytes:
    """One hostile neighbour: bits, numbers that matter, cuts, and parts moved."""
    data = bytearray(original)
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        program_end = min(len(data), 6000)
        at = chance.randrange(program_end)
        match chance.randrange(6):
            case 0:
                data[at] ^= 1 << chance.randrange(8)
            case 1:
                data[at] = chance.randrange(256)
            case 2:
                at -= at % 4
                value = chance.choice(
                    (0, 1, 4, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, len(data), chance.randrange(len(data)))
                )
                data[at : at + 4] = struct.pack("<I", value)
            case 3:
                size = chance.randrange(1, 64)
                to = chance.randrange(program_end)
                data[to : to + size] = data[at : at + size]
            case 4:
                at -= at % 4
                value = struct.unpack_from("<I", data.ljust(at + 4, b"\0"), at)[0] + chance.choice(
                    (-8, -4, -1, 1, 4, 8)
                )
                data[at : at + 4] = struct.pack("<I", value % (1 << 32))
            case _:
                del data[chance.randrange(8, len(data)) :]
                break
    return bytes(data)


def test_hostile_neighbours_of_real_files_end_in_the_documented_error_or_in_facts() -> None:
    """`nox -s deep` asks 100,000 of them; each within bounds of time, all within bounds of memory."""
    originals = [p.read_bytes() for p in sorted(DATA.glob("*.pte"))]
    originals += [
        decoder("hybrid", [Qnn()] * 2),
        program([Method("m", delegates=(Made("VulkanBackend", vulkan(["a"])),))]),
    ]
    chance = random.Random(EXAMPLES)
    library = Library("lib", ("lib.so",), frozenset({"VulkanBackend"}), qnn="2.42.0.251225", kv_width="16")
    refused, slowest = 0, 0.0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(EXAMPLES):
        data = mutated(chance.choice(originals), chance)
        start = time.process_time()
        try:
            found = parse(data, "x.pte")
            assert found.size == len(data)
            assert max(map(len, text(found).splitlines())) < 400
            json.loads(as_json(found), parse_constant=pytest.fail)
            check_contract(found, None, library, "SM8750")
        except DeviceError:
            refused += 1
        slowest = max(slowest, time.process_time() - start)
    assert EXAMPLES * 0.2 < refused < EXAMPLES
    assert slowest < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10


def test_three_gigabytes_cost_as_little_as_a_small_file(tmp_path: Path) -> None:
    """No more time, and 30 MB: a sparse file around a program, as a 4B model's would be."""
    size = 3 << 30
    data = decoder("hybrid", [Qnn()])
    head = struct.unpack_from("<Q", data, 16)[0]
    small = bytearray(data[:head])
    file = tmp_path / "big.pte"
    blob = Qnn(size=size - 256 - head).blob()
    for number in (len(Qnn().blob()),):  # the segment's size in the table, and in the header
        at = small.index(struct.pack("<Q", number), HEADER + 8)
        struct.pack_into("<Q", small, at, size - head)
    struct.pack_into("<Q", small, 32, size - head)
    with file.open("wb") as out:
        out.write(bytes(small) + blob)
        out.truncate(size)
    (tmp_path / "small.pte").write_bytes(data)
    found = [cost(file) for _ in range(3)]
    least = min(seconds for _, seconds, _ in found)
    assert least < 2 * min(cost(tmp_path / "small.pte")[1] for _ in range(3))
    for done, _, kilobytes in found:
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert (told["summary"]["mode"], told["summary"]["contexts"][0]["size"]) == ("hybrid", size - 256 - head)
        assert told["file"]["segments"] == [{"offset": head, "size": size - head}]
        assert kilobytes < 30 << 10


def test_nothing_heavy_is_imported(kz: Kz) -> None:
    code = f"import sys; from kz_build.cli import run; run(['pte', {str(DATA / 'xnnpack.pte')!r}]); print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = done.stdout.splitlines()[-1]
    for heavy in ("yaml", "pydantic", "requests", "elftools", "rich", "git", "numpy", "torch", "flatbuffers"):
        assert f"'{heavy}'" not in loaded, heavy


def test_names_from_a_file_do_no_harm_to_a_terminal(kz: Kz, tmp_path: Path) -> None:
    file = tmp_path / "evil.pte"
    file.write_bytes(program([Method("\x1b[2Jgone" + "x" * 500)], {"a\nb": "c\rd", "low": float("-inf")}))
    done = kz("pte", file)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout and "\\u001b[2Jgone" in done.stdout and "a\\nb = c\\u000dd" in done.stdout
    assert "low = -inf" in done.stdout
    assert max(map(len, done.stdout.splitlines())) < 160

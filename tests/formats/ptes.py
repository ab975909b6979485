"""Programs made for tests, with the flatbuffers library's own builder: by upstream's schema, and by none of our code."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from flatbuffers.builder import Builder

DTYPES = {"uint8": 0, "int32": 3, "float32": 6, "uint16": 27}
SOCS = {"SM8650": (57, 75), "SM8750": (69, 79)}
HEADER = 32
MAGIC = 0x5678ABCD
Write = Callable[[Builder], int]
Tensor = tuple[str, tuple[int, ...]]


@dataclass(frozen=True)
class Qnn:
    """A QNN delegate: what its compile spec says, and its context. `size` is what the context claims to be, if not its own."""

    soc: str = "SM8750"
    shared_buffer: bool = False
    multi_contexts: bool = False
    spill_fill: int = 0
    sdk: str = "2.42.0.251225112233"
    body: bytes = b"c" * 500
    size: int | None = None

    def blob(self) -> bytes:
        context = b"\2\0\0\0" + f"\0v{self.sdk}\0".encode() + self.body if self.sdk else self.body
        head = struct.pack("<IqQ", MAGIC, 7, len(context) if self.size is None else self.size)
        return head.ljust(256, b"\0") + context

    def spec(self) -> bytes:
        model, arch = SOCS[self.soc]
        b = Builder()
        htp = table(b, {0: ("Int32", arch), 1: ("Uint32", 8)})
        soc = table(b, {0: ("Int32", model), 1: ("table", htp)})
        options = table(b, {0: ("Int32", self.spill_fill), 7: ("Bool", self.multi_contexts)})
        backend = table(b, {0: ("Int32", 2), 1: ("table", options)})
        b.Finish(table(b, {0: ("table", soc), 1: ("table", backend), 7: ("Bool", self.shared_buffer)}))
        return bytes(b.Output())


@dataclass(frozen=True)
class Made:
    """A delegate: its backend, its bytes in a segment (by number) or in the program (bytes), its compile specs."""

    backend: str
    where: int | bytes
    specs: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True)
class Method:
    """A method; every operator and delegate is called once."""

    name: str
    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = (("float32", (1, 4)),)
    operators: tuple[str, ...] = ()
    delegates: tuple[Made, ...] = ()
    external: bool = False


def table(b: Builder, fields: Mapping[int, tuple[str, object]]) -> int:
    """One table; its children stand already."""
    b.StartObject(max(fields, default=-1) + 1)
    for number, (kind, value) in fields.items():
        if kind == "table":
            b.PrependUOffsetTRelativeSlot(number, value, 0)
        else:
            getattr(b, f"Prepend{kind}Slot")(number, value, None)
    return int(b.EndObject())


def vector(b: Builder, items: Sequence[int], kind: str = "UOffsetTRelative", width: int = 4) -> int:
    b.StartVector(width, len(items), width)
    for item in reversed(items):
        getattr(b, f"Prepend{kind}")(item)
    return int(b.EndVector())


def _value(b: Builder, kind: int, inner: int) -> int:
    return table(b, {0: ("Uint8", kind), 1: ("table", inner)})


def _tensor(b: Builder, tensor: Tensor, external: bool = False) -> int:
    sizes = vector(b, tensor[1], "Int32")
    fields: dict[int, tuple[str, object]] = {0: ("Int8", DTYPES[tensor[0]]), 2: ("table", sizes)}
    if external:
        fields[9] = ("table", table(b, {2: ("Int8", 1)}))
    return _value(b, 5, table(b, fields))


def _constant(b: Builder, value: object) -> int:
    if isinstance(value, bool):
        return _value(b, 3, table(b, {0: ("Bool", value)}))
    if isinstance(value, int):
        return _value(b, 2, table(b, {0: ("Int64", value)}))
    if isinstance(value, float):
        return _value(b, 4, table(b, {0: ("Float64", value)}))
    return _value(b, 6, table(b, {0: ("table", b.CreateString(str(value)))}))


def _plan(b: Builder, name: str, fields: dict[int, tuple[str, object]]) -> int:
    text = b.CreateString(name)
    return table(b, {0: ("table", text), **fields})


def _method(b: Builder, method: Method, inline: list[bytes]) -> int:
    values = [_tensor(b, t, method.external) for t in (*method.inputs, *method.outputs)]
    calls = [
        table(b, {0: ("Uint8", kind), 1: ("table", table(b, {0: ("Int32", index)}))})
        for kind, count in ((1, len(method.operators)), (2, len(method.delegates)))
        for index in range(count)
    ]
    chain = table(b, {2: ("table", vector(b, calls))})
    operators = []
    for name in method.operators:
        base, _, overload = name.partition(".")
        texts = b.CreateString(base), b.CreateString(overload)
        operators.append(table(b, {0: ("table", texts[0]), 1: ("table", texts[1])}))
    delegates = [_delegate(b, made, inline) for made in method.delegates]
    count = len(method.inputs)
    fields = {
        2: vector(b, values), 3: vector(b, range(count), "Int32"), 4: vector(b, range(count, len(values)), "Int32"),
        5: vector(b, [chain]), 6: vector(b, operators), 7: vector(b, delegates), 8: vector(b, [0, 64], "Int64", 8),
    }  # fmt: skip
    return _plan(b, method.name, {number: ("table", made) for number, made in fields.items()})


def _delegate(b: Builder, made: Made, inline: list[bytes]) -> int:
    specs = []
    for key, value in made.specs:
        texts = b.CreateString(key), b.CreateByteVector(value)
        specs.append(table(b, {0: ("table", texts[0]), 1: ("table", texts[1])}))
    if isinstance(made.where, bytes):
        inline.append(made.where)
        place = table(b, {0: ("Int8", 0), 1: ("Uint32", len(inline) - 1)})
    else:
        place = table(b, {0: ("Int8", 1), 1: ("Uint32", made.where)})
    name, listed = b.CreateString(made.backend), vector(b, specs)
    return table(b, {0: ("table", name), 1: ("table", place), 2: ("table", listed)})


def program(
    methods: Sequence[Method],
    constants: Mapping[str, object] | None = None,
    segments: Sequence[bytes] = (),
    sizes: Sequence[int] = (),
) -> bytes:
    """A whole .pte. `sizes` are what its segments claim to be, where that is not their own size."""
    b = Builder()
    inline: list[bytes] = []
    plans = [_method(b, method, inline) for method in methods]
    for name, value in (constants or {}).items():
        made = {2: vector(b, [_constant(b, value)]), 4: vector(b, [0], "Int32"), 5: vector(b, [table(b, {})])}
        plans.append(_plan(b, name, {number: ("table", offset) for number, offset in made.items()}))
    blobs = [table(b, {0: ("table", b.CreateByteVector(data))}) for data in inline]
    placed, at = [], 0
    for index, data in enumerate(segments):
        size = sizes[index] if sizes else len(data)
        placed.append(table(b, {0: ("Uint64", at), 1: ("Uint64", size)}))
        at += -(-size // 64) * 64
    listed = {1: vector(b, plans), 3: vector(b, blobs), 4: vector(b, placed)}
    b.Finish(table(b, {number: ("table", made) for number, made in listed.items()}), file_identifier=b"ET12")
    return _with_header(bytes(b.Output()), segments, sizes)


def _with_header(flat: bytes, segments: Sequence[bytes], sizes: Sequence[int]) -> bytes:
    """The extended header stands behind the identifier; the first offset is the only one that it moves."""
    size = -(-(len(flat) + HEADER) // 64) * 64
    data = b"".join(d.ljust(-(-len(d) // 64) * 64, b"\0") for d in segments)
    stored = len(data) if not sizes else sum(-(-s // 64) * 64 for s in sizes)
    root = struct.unpack_from("<I", flat)[0] + HEADER
    header = struct.pack("<4sIQQQ", b"eh00", HEADER, size, size if segments else 0, stored)
    return (struct.pack("<I", root) + flat[4:8] + header + flat[8:]).ljust(size, b"\0") + data


def decoder(
    mode: str = "hybrid",
    qnn: Sequence[Qnn] = (Qnn(),),
    bits: int = 8,
    length: int = 128,
    constants: Mapping[str, object] | None = None,
    sizes: Sequence[int] = (),
) -> bytes:
    """What upstream's llama.py makes: kv_forward, for hybrid prefill_forward too, a shard for each of `qnn`."""
    segments = [one.blob() for one in qnn]
    delegates = tuple(Made("QnnBackend", i, (("qnn_compile_spec", one.spec()),)) for i, one in enumerate(qnn))
    between = ("llama::fallback.out",) * (len(qnn) > 1)

    def method(name: str, tokens: int) -> Method:
        cache = (f"uint{bits}", (1, 4, 8, length - tokens))
        inputs = (("int32", (1, tokens)), ("uint16", (1, 1, tokens, length)), ("int32", (1, tokens)), cache, cache)
        return Method(name, inputs, (("uint16", (1, tokens, 512)),), between, delegates)

    methods = [method("kv_forward", 1)] + ([method("prefill_forward", 32)] if mode == "hybrid" else [])
    said = {"get_kv_io_bit_width": bits, "get_max_seq_len": length} if constants is None else constants
    return program(methods, said, segments, sizes)


def vulkan(operators: Sequence[str]) -> bytes:
    """A Vulkan delegate's data: header and graph."""
    b = Builder()
    calls = []
    for name in operators:
        text = b.CreateString(name)
        calls.append(table(b, {1: ("table", text)}))
    b.Finish(table(b, {1: ("table", vector(b, calls))}), file_identifier=b"VK00")
    graph = bytes(b.Output())
    return b"\0" * 4 + b"VH00" + struct.pack("<HIIIQ", 32, 32, len(graph), 32 + len(graph), 0) + b"\0" * 2 + graph

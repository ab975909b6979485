"""The facts of a .pte file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

QNN = "QnnBackend"
# Bits of the integers that a cache may hold: upstream's runners accept the unsigned ones.
_BITS = {"uint8": 8, "int8": 8, "uint16": 16, "int16": 16}
# [batch, heads, rows, columns] of a cache and of an attention mask.
_RANK = 4

Plain = bool | int | float | str | None


@dataclass(frozen=True)
class Value:
    """An input or output. `kind` as the schema names it (Tensor, Int, …); `dtype` and `shape` of a tensor, `value` of the rest.

    `shape` is the upper bound if `dynamic`.
    """

    kind: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    dynamic: bool = False
    value: Plain = None


@dataclass(frozen=True)
class Segment:
    """Bytes behind the program: offset from the file's start, and size."""

    offset: int
    size: int


@dataclass(frozen=True)
class QnnSpec:
    """How a QNN delegate was compiled. `soc` by name, or its number if kz knows no name; `arch` as in v79; VTCM in MB."""

    soc: str
    arch: str
    vtcm_mb: int
    backend: str
    shared_buffer: bool
    multi_contexts: bool
    weight_sharing: bool
    spill_fill_bytes: int
    signed_pd: bool
    online_prepare: bool
    op_packages: tuple[str, ...]


@dataclass(frozen=True)
class Context:
    """A QNN context binary: its size in bytes and the version of the SDK that compiled it, '' if none was found."""

    size: int
    sdk: str


@dataclass(frozen=True)
class Delegate:
    """A part of a method that a backend runs. `segment` is None for data inside the program; `specs` are the compile specs' keys.

    `operators` are those of a Vulkan graph; other backends' blobs are not read.
    """

    backend: str
    size: int
    segment: int | None
    calls: int
    specs: tuple[str, ...]
    qnn: QnnSpec | None = None
    context: Context | None = None
    operators: tuple[str, ...] = ()


@dataclass(frozen=True)
class Method:
    """One entry point. `operators` are (name with overload, calls); `memory` the planned buffers in bytes."""

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    operators: tuple[tuple[str, int], ...]
    delegates: tuple[Delegate, ...]
    memory: tuple[int, ...]

    @property
    def cache_bits(self) -> int:
        """Width of the KV caches among the inputs: the integer type that most four-dimensional inputs share; 0 if it is none."""
        types = [v.dtype for v in self.inputs[2:] if len(v.shape) == _RANK]
        return _BITS.get(max(types, key=types.count), 0) if types else 0

    @property
    def mask(self) -> Value | None:
        """The attention mask [1, 1, AR length, context length] of upstream's QNN decoders: their second input."""
        second = self.inputs[1] if len(self.inputs) > 1 else None
        return second if second and len(second.shape) in (_RANK - 1, _RANK) else None


@dataclass(frozen=True)
class Pte:
    """A program. `constants` are the methods that only return a value; `external` the tensors whose data is in another file."""

    name: str
    size: int
    version: int
    program_size: int
    segments: tuple[Segment, ...]
    methods: tuple[Method, ...]
    constants: tuple[tuple[str, tuple[Plain, ...]], ...]
    named_data: int
    external: int

    def method(self, name: str) -> Method | None:
        """Return the method of that name."""
        return next((m for m in self.methods if m.name == name), None)

    @property
    def method_names(self) -> frozenset[str]:
        """Names of all methods, including the constant ones."""
        return frozenset([*(m.name for m in self.methods), *(name for name, _ in self.constants)])

    @property
    def delegates(self) -> Iterator[Delegate]:
        """Every delegate of every method."""
        return (d for m in self.methods for d in m.delegates)

    @property
    def operators(self) -> frozenset[str]:
        """Operators that the library itself must run."""
        return frozenset(name for m in self.methods for name, _ in m.operators)

    @property
    def contexts(self) -> tuple[tuple[int | None, Context], ...]:
        """(segment, context) of each distinct QNN context, in the file's order."""
        distinct = {(d.segment, d.context): None for d in self.delegates if d.context}
        return tuple((segment, context) for segment, context in distinct if context)

    @property
    def shards(self) -> int:
        """The number of QNN contexts that a method is split into, 0 without QNN."""
        cut = [sum(1 for d in m.delegates if d.backend == QNN) for m in self.methods]
        return max(cut, default=0)

    @property
    def mode(self) -> str:
        """The runner of upstream's QNN decoders that it is for: hybrid, kv, or '' for something else."""
        if not self.method("kv_forward"):
            return ""
        return "hybrid" if self.method("prefill_forward") else "kv"

    def constant(self, name: str) -> Plain:
        """Return the value of a constant method that returns one value."""
        values = dict(self.constants).get(name, ())
        return values[0] if len(values) == 1 else None

    @property
    def kv_bits(self) -> int:
        """Width of the KV cache: the value of get_kv_io_bit_width, else from the caches' type; 0 if neither is known."""
        value = self.constant("get_kv_io_bit_width")
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        decoder = self.method("kv_forward")
        return decoder.cache_bits if decoder else 0

    @property
    def context_length(self) -> int:
        """Tokens that the model can hold: the columns of the attention mask, else from a constant method; else 0."""
        decoder = self.method("kv_forward")
        if decoder and decoder.mask:
            return decoder.mask.shape[-1]
        for name in ("get_max_context_len", "get_max_seq_len"):
            value = self.constant(name)
            if isinstance(value, int) and not isinstance(value, bool):
                return value
        return 0

    @property
    def vocabulary(self) -> int:
        """Tokens that the model knows: get_vocab_size, else the columns of its decoder's logits [1, tokens, vocabulary]; else 0."""
        value = self.constant("get_vocab_size")
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        decoder = self.method("kv_forward") or self.method("text_decoder") or self.method("forward")
        first = decoder.outputs[0] if decoder and decoder.outputs else None
        return first.shape[-1] if decoder and decoder.inputs and first and len(first.shape) == _RANK - 1 else 0

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """The tokens that end a text, by get_eos_ids or get_eos_id."""
        values = dict(self.constants)
        ids = values.get("get_eos_ids", values.get("get_eos_id", ()))
        return tuple(v for v in ids if isinstance(v, int) and not isinstance(v, bool))

    @property
    def ar_lengths(self) -> tuple[tuple[str, int], ...]:
        """Tokens that each decoder method takes in one call: the rows of its attention mask."""
        decoders = (self.method(name) for name in ("prefill_forward", "kv_forward"))
        return tuple((m.name, m.mask.shape[-2]) for m in decoders if m and m.mask)


def version_key(text: str) -> tuple[int, ...]:
    """Return a version as comparable numbers: QNN's v2.42.0.251225112005_1 to the day of its build, ExecuTorch's v1.4.1 whole."""
    # Not `packaging`: QNN's versions are not Python's (PEP 440), and two builds of one day count as the same.
    match = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:\.(\d{6}))?", text)
    return tuple(int(part) for part in match.groups() if part is not None) if match else ()


def newer(one: str, other: str) -> bool:
    """Return whether a version is newer than another, as far as both are given."""
    first, second = version_key(one), version_key(other)
    both = min(len(first), len(second))
    return first[:both] > second[:both]

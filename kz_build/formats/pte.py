""".pte files: mapped, and read by upstream's published schema (schema/program.fbs, docs/source/pte-file-format.md at v1.4.1).

Only what a question requires is read, so a file of gigabytes costs as little as a small one.
"""

from __future__ import annotations

import math
import mmap
import os
import re
from pathlib import Path

from kz_build.core.errors import ConfigError, DeviceError
from kz_build.formats.flatbuffer import BOOL, F64, I8, I32, I64, U8, U32, U64, Buffer, Damage, Table
from kz_build.formats.pte_types import QNN, Delegate, Method, Plain, Pte, Segment, Value
from kz_build.formats.qnn_blob import context_of, spec_of

_HEADER = 64
_VULKAN_HEADER = 30
_DTYPES = {
    0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "float16", 6: "float32", 7: "float64", 11: "bool",
    12: "qint8", 13: "quint8", 14: "qint32", 15: "bfloat16", 16: "quint4x2", 17: "quint2x4", 22: "bits16",
    23: "float8_e5m2", 24: "float8_e4m3fn", 25: "float8_e5m2fnuz", 26: "float8_e4m3fnuz", 27: "uint16", 28: "uint32",
    29: "uint64",
}  # fmt: skip
_KINDS = (
    "", "Null", "Int", "Bool", "Double", "Tensor", "String", "IntList", "DoubleList", "BoolList", "TensorList",
    "OptionalTensorList",
)  # fmt: skip
_SCALARS = {"Int": I64, "Bool": BOOL, "Double": F64}
_KERNEL_CALL, _DELEGATE_CALL = 1, 2
_IN_SEGMENT, _EXTERNAL = 1, 1
# What people take for a program, by its first bytes.
_OTHERS = (
    (re.compile(rb"version https://git-lfs"), "a git-lfs pointer: the file itself was not fetched (git lfs pull)"),
    (re.compile(rb"PK\x03\x04"), "a zip archive, such as an exported program (.pt2)"),
    (re.compile(rb".{4}FT\d\d", re.DOTALL), "tensor data (.ptd), not a program"),
    (re.compile(rb".{4}BP\d\d", re.DOTALL), "a bundled program (.bpte): a program with its test inputs around it"),
    (re.compile(rb"\x7fELF"), "an ELF file"),
    (re.compile(rb"\0{8}"), "zeros: the write of it was cut off, or the disk was full"),
)


def read_pte(path: Path) -> Pte:
    """Read a program. Raises ConfigError for an unreadable file, DeviceError for anything but a whole program."""
    if not path.is_file():
        raise ConfigError(f"{path} is a folder or a device" if path.exists() else f"there is no {path}")
    try:
        with path.open("rb") as file:
            if (size := os.fstat(file.fileno()).st_size) < 8:
                raise DeviceError(f"{path.name} is not a .pte file: it has {size} bytes")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return parse(data, path.name)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error


def parse(data: mmap.mmap | bytes, name: str) -> Pte:
    """Parse a program from its bytes. Raises DeviceError for anything else, or if it is cut off or damaged."""
    _refuse_others(data[:_HEADER], name)
    try:
        return _Reader(data, name).program()
    except Damage as error:
        raise DeviceError(
            f"{name} is damaged or cut off ({len(data):,} bytes): {error}", hint="export it or copy it again"
        ) from None


def _refuse_others(head: bytes, name: str) -> None:
    if head[4:8] == b"ET12":
        return
    for pattern, what in _OTHERS:
        if pattern.match(head):
            raise DeviceError(f"{name} is not a .pte file but {what}")
    if re.fullmatch(rb"ET\d\d", head[4:8]):
        raise DeviceError(f"{name} is of format {head[4:8].decode()}; ExecuTorch up to 1.5 and kz read ET12")
    raise DeviceError(f"{name} is not a .pte file: bytes 4 to 7 are {head[4:8].hex(' ')}, not 45 54 31 32 (ET12)")


class _Reader:
    def __init__(self, data: mmap.mmap | bytes, name: str) -> None:
        self.data, self.name = data, name
        self.external = 0
        self.size, base, stored = _extents(data)
        self.buffer = Buffer(data, 0, self.size)
        self.root = self.buffer.root
        self.segments = tuple(
            Segment(base + t.number(0, U64), t.number(1, U64)) for t in self.root.tables(4)
        )  # fmt: skip
        ends = [base + stored, *(s.offset + s.size for s in self.segments)]
        if max(ends) > len(data):
            raise Damage(f"the last segment ends at byte {max(ends):,}")
        self.blobs: dict[tuple[bool, int], Delegate] = {}

    def program(self) -> Pte:
        methods, constants = [], []
        for plan in self.root.tables(1):
            method = self._method(plan)
            if _is_constant(plan, method):
                constants.append((method.name, tuple(v.value for v in method.outputs)))
            else:
                methods.append(method)
        if not methods and not constants:
            raise Damage("it has no method")
        return Pte(
            self.name, len(self.data), self.root.number(0, U32), self.size, self.segments, tuple(methods),
            tuple(constants), self.root.span(7, 4)[1], self.external,
        )  # fmt: skip

    def _method(self, plan: Table) -> Method:
        kernels, delegated = _calls(plan)
        names = [self._operator(t) for t in plan.tables(6)]
        operators: dict[str, int] = {}
        for index, name in enumerate(names):
            operators[name] = operators.get(name, 0) + kernels.get(index, 0)
        for value in plan.tables(2):
            self.external += _is_external(value)
        return Method(
            plan.text(0),
            tuple(_value(plan.item(2, index)) for index in plan.numbers(3, "i")),
            tuple(_value(plan.item(2, index)) for index in plan.numbers(4, "i")),
            tuple(sorted(operators.items())),
            tuple(self._delegate(t, delegated.get(index, 0)) for index, t in enumerate(plan.tables(7))),
            tuple(plan.numbers(8, "q")),
        )

    @staticmethod
    def _operator(table: Table) -> str:
        name, overload = table.text(0), table.text(1)
        return f"{name}.{overload}" if overload else name

    def _delegate(self, table: Table, calls: int) -> Delegate:
        backend, specs, qnn = table.text(0), [], None
        for spec in table.tables(2):
            key = spec.text(0)
            specs.append(key)
            if backend == QNN and key == "qnn_compile_spec":
                start, count = spec.span(1)
                qnn = spec_of(self.buffer.within(start, start + count).root)
        start, end, segment = self._blob(table.table(1))
        context = context_of(self.buffer.within(start, end)) if backend == QNN else None
        graph = self._vulkan(start, end) if backend == "VulkanBackend" else ()
        return Delegate(backend, end - start, segment, calls, tuple(specs), qnn, context, graph)

    def _blob(self, reference: Table | None) -> tuple[int, int, int | None]:
        """Return (start, end, segment) of a delegate's data; no segment for data inside the program."""
        if reference is None:
            return 0, 0, None
        index = reference.number(1, U32)
        if reference.number(0, I8) == _IN_SEGMENT:
            if index >= len(self.segments):
                raise Damage(f"a delegate is in segment {index}, and there are {len(self.segments)}")
            place = self.segments[index]
            return place.offset, place.offset + place.size, index
        start, count = self.root.item(3, index).span(0)
        return start, start + count, None

    def _vulkan(self, start: int, end: int) -> tuple[str, ...]:
        """Return the operators of a Vulkan graph: a header of 30 bytes, VH00, then a flatbuffer (backends/vulkan/serialization/schema.fbs)."""
        blob = self.buffer.within(start, end)
        if end - start < _VULKAN_HEADER or self.data[start + 4 : start + 8] != b"VH00":
            return ()
        at = start + blob.number(U32, start + 10)
        graph = blob.within(at, min(at + blob.number(U32, start + 14), end)).root
        return tuple(sorted({call.text(1) for call in graph.tables(1)}))


def _extents(data: mmap.mmap | bytes) -> tuple[int, int, int]:
    """Return (size of the program, base of the segments, bytes of segments) from the extended header; older files have none."""
    whole = Buffer(data, 0, len(data))
    if data[8:12] != b"eh00":
        return len(data), 0, 0
    length, size, base = whole.number(U32, 12), whole.number(U64, 16), whole.number(U64, 24)
    if size > len(data) or base > len(data):
        raise Damage(f"the program takes {size:,} bytes and its segments begin at byte {base:,}")
    return size, base, whole.number(U64, 32) if length >= 32 else 0


def _calls(plan: Table) -> tuple[dict[int, int], dict[int, int]]:
    """Count the calls of each operator and each delegate, by index."""
    kernels: dict[int, int] = {}
    delegates: dict[int, int] = {}
    for chain in plan.tables(5):
        for instruction in chain.tables(2):
            kind = instruction.number(0, U8)
            if kind in (_KERNEL_CALL, _DELEGATE_CALL) and (call := instruction.table(1)):
                counted = kernels if kind == _KERNEL_CALL else delegates
                index = call.number(0, I32)
                counted[index] = counted.get(index, 0) + 1
    return kernels, delegates


def _is_constant(plan: Table, method: Method) -> bool:
    """Return whether a method only returns values: upstream makes one for each entry of `constant_methods`."""
    if method.inputs or not method.outputs or method.delegates or any(v.kind == "Tensor" for v in method.outputs):
        return False
    return not any(chain.span(2, 4)[1] for chain in plan.tables(5))


def _is_external(value: Table) -> bool:
    if value.number(0, U8) != _KINDS.index("Tensor") or not (tensor := value.table(1)):
        return False
    extra = tensor.table(9)
    return extra is not None and extra.number(2, I8) == _EXTERNAL


def _value(table: Table) -> Value:
    number = table.number(0, U8)
    kind = _KINDS[number] if number < len(_KINDS) else f"type {number}"
    inner = table.table(1)
    if inner is None:
        return Value(kind)
    if kind == "Tensor":
        dtype = inner.number(0, I8)
        return Value(
            kind, _DTYPES.get(dtype, f"type {dtype}"), inner.numbers(2, "i"), inner.number(8, I8) != 0
        )  # fmt: skip
    return Value(kind, value=_plain(kind, inner))


def _plain(kind: str, inner: Table) -> Plain:
    if kind == "String":
        return inner.text(0)
    if layout := _SCALARS.get(kind):
        number: bool | int | float = inner.number(0, layout)
        return number if math.isfinite(number) else str(number)  # JSON has no infinity
    return None

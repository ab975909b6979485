"""The contents of Qualcomm's delegates, by upstream's backends/qualcomm at v1.4.1.

The compile spec is a flatbuffer (serialization/qc_compiler_spec.fbs). A context binary follows a magic number, a
signature and its size, in 256 bytes (runtime/backends/QnnCustomProtocol.h). The binary itself is Qualcomm's own
and not read, but for the version of the SDK in it as plain text, as in Qualcomm's libraries.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator

from kz_build.formats.flatbuffer import BOOL, I32, U32, U64, Buffer, Damage, Table
from kz_build.formats.pte_types import Context, QnnSpec
from kz_build.formats.soc import BY_NUMBER

_MAGIC = 0x5678ABCD
_PREFIX = 256
# How far into a context kz looks for the version: it follows the tensors' descriptions, 8 KB for five layers.
_SDK_WITHIN = 4 << 20
# v2.42.0.251225135753_193295: version, then the build's time (yymmddhhmmss), of which the pins take the day.
_VERSION = re.compile(rb"v(2\.\d{1,3}\.\d{1,3}\.2\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01]))")
_BACKENDS = ("", "GPU", "HTP", "DSP", "LPAI")


def spec_of(options: Table) -> QnnSpec:
    """Read a delegate's compile spec from its flatbuffer's root."""
    soc, backend = options.table(0), options.table(1)
    htp = soc.table(1) if soc else None
    chosen = backend.table(1) if backend else None
    model = soc.number(0, I32) if soc else 0
    arch = htp.number(0, I32) if htp else 0
    kind = backend.number(0, I32) if backend else 0
    packages = options.table(11)
    return QnnSpec(
        soc=BY_NUMBER.get(model, str(model) if model else ""),
        arch=f"v{arch}" if arch else "",
        vtcm_mb=htp.number(1, U32) if htp else 0,
        backend=_BACKENDS[kind] if 0 <= kind < len(_BACKENDS) else str(kind),
        shared_buffer=options.number(7, BOOL, False),
        multi_contexts=chosen.number(7, BOOL, False) if chosen else False,
        weight_sharing=chosen.number(8, BOOL, False) if chosen else False,
        spill_fill_bytes=chosen.number(0, I32) if chosen else 0,
        signed_pd=bool(chosen.number(3, I32)) if chosen else False,
        online_prepare=options.number(4, BOOL, False),
        op_packages=tuple(p.text(0) for p in packages.tables(0)) if packages else (),
    )


def context_of(blob: Buffer) -> Context | None:
    """Return the context binary in a delegate's data; None for a graph that the device compiles itself."""
    if blob.end - blob.start < _PREFIX or blob.number(U32, blob.start) != _MAGIC:
        return None
    size = blob.number(U64, blob.start + 12)
    start = blob.start + _PREFIX
    if start + size > blob.end:
        raise Damage(f"a QNN context of {size:,} bytes does not fit into its {blob.end - start:,}")
    return Context(size, next(qnn_versions(blob.data, start, start + min(size, _SDK_WITHIN)), ""))


def qnn_versions(data: mmap.mmap | bytes, start: int = 0, end: int | None = None) -> Iterator[str]:
    """Yield the QNN versions that stand in a part of some bytes, to the day of the build, as pins name them."""
    for match in _VERSION.finditer(data, start, len(data) if end is None else end):
        yield match[1].decode()

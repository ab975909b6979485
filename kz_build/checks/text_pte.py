"""A .pte as text: a summary, then each method."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from kz_build.core.check import Check
from kz_build.core.escape import one_line
from kz_build.formats.pte_types import Delegate, Method, Plain, Pte, QnnSpec, Value
from kz_build.formats.qnn_maven import ARTIFACT, maven_version
from kz_build.formats.tokenizer_types import Tokenizer

_MOST_ROWS = 12
_MOST_TEXT = 60
_MOST_ROW = 150


def text(pte: Pte) -> str:
    """Describe a file, with a few lines per method."""
    rows = [
        f"{_shown(pte.name)}: {pte.size:,} bytes, program {pte.program_size:,}, {_count(len(pte.segments), 'segment')} of "
        f"{sum(s.size for s in pte.segments):,}, {pte.named_data} named data",
    ]
    if summary := _summary(pte):
        rows.append(summary)
    if pte.external:
        rows.append(f"{_count(pte.external, 'tensor')} in another file (.ptd)")
    for segment, context in pte.contexts:
        where = f"segment {segment}" if segment is not None else "the program"
        rows.append(f"QNN context in {where}: {context.size:,} bytes, by QNN {context.sdk or 'of unknown version'}")
    rows += filter(None, (_gradle(sdk) for sdk in dict.fromkeys(c.sdk for _, c in pte.contexts)))
    for spec in dict.fromkeys(d.qnn for d in pte.delegates if d.qnn):
        rows.append(_spec(spec))
    for method in pte.methods:
        rows += ["", *_method(method)]
    if pte.constants:
        rows += ["", "constant methods", *_rows(_constants(pte.constants))]
    return "\n".join(rows)


def plain(pte: Pte) -> dict[str, object]:
    """Return what kz derives from the file's parts, for the JSON."""
    return {
        "mode": pte.mode,
        "ar_lengths": dict(pte.ar_lengths),
        "context_length": pte.context_length,
        "kv_bits": pte.kv_bits,
        "shards": pte.shards,
        "contexts": [
            {"segment": segment, "size": context.size, "sdk": context.sdk} for segment, context in pte.contexts
        ],
    }


def tokenizer(of: Tokenizer) -> str:
    """Describe a tokenizer in one line."""
    parts = [_count(len(of.ids), "token"), f"up to id {of.last:,}", f"{len(of.special)} of them special"]
    if of.expressions:
        parts.append(_count(len(of.expressions), "regular expression"))
    return f"{_shown(of.name)} ({of.kind}): {', '.join(parts)}"


def checks(results: Sequence[Check]) -> str:
    """Return a line per check, failures last, where they are seen."""
    width = max((len(c.name) for c in results), default=0)
    order = sorted(results, key=lambda c: c.failed)
    return "\n".join(f"{c.status.value:5} {c.name:{width}}  {_shown(c.evidence, 400)}" for c in order)


def _summary(pte: Pte) -> str:
    parts = [f"{pte.mode} decoder"] if pte.mode else []
    parts += [f"{name} takes {tokens} at once" for name, tokens in pte.ar_lengths]
    if pte.context_length:
        parts.append(f"context {pte.context_length}")
    if pte.kv_bits:
        parts.append(f"KV cache {pte.kv_bits}-bit")
    if pte.shards:
        parts.append(_count(pte.shards, "shard"))
    return ", ".join(parts)


def _gradle(qnn: str) -> str:
    """Say which runtime of Maven Central a Gradle build needs for contexts of a QNN; '' where that is unknown."""
    maven = maven_version(qnn)
    if maven is None:
        return ""
    return f"Gradle: {ARTIFACT}:{maven}, or newer" if maven else f"Gradle: {ARTIFACT} has no version of QNN {qnn}"


def _spec(spec: QnnSpec) -> str:
    flags = {
        "shared buffer": spec.shared_buffer,
        "multi contexts": spec.multi_contexts,
        "weight sharing": spec.weight_sharing,
        "signed PD": spec.signed_pd,
    }
    parts = [f"compiled for {spec.soc or 'no SoC'}", f"{spec.backend} {spec.arch}", f"VTCM {spec.vtcm_mb} MB"]
    parts += [f"{name} {'on' if on else 'off'}" for name, on in flags.items()]
    if spec.online_prepare:
        parts.append("compiled on the device")
    if spec.spill_fill_bytes:
        parts.append(f"spill-fill {spec.spill_fill_bytes:,}")
    return ", ".join([*parts, *(f"op package {_shown(name)}" for name in spec.op_packages)])


def _method(method: Method) -> list[str]:
    memory = f", plans {sum(method.memory):,} bytes" if sum(method.memory) else ""
    rows = [f"{_shown(method.name)}{memory}"]
    rows += _rows(f"in   {line}" for line in _values(method.inputs))
    rows += _rows(f"out  {line}" for line in _values(method.outputs))
    rows += _rows(f"runs {_delegate(d)}" for d in method.delegates)
    return rows + _rows(f"op   {_shown(name)} x {calls}" for name, calls in method.operators)


def _delegate(delegate: Delegate) -> str:
    where = f"segment {delegate.segment}" if delegate.segment is not None else "in the program"
    graph = f", {_count(len(delegate.operators), 'operator')}" if delegate.operators else ""
    return (
        f"{_shown(delegate.backend)}, {delegate.size:,} bytes ({where}){graph}, called {_count(delegate.calls, 'time')}"
    )


def _values(values: Iterable[Value]) -> Iterable[str]:
    """Join neighbours of one type in one line: a decoder has a cache for every layer."""
    for value, same in itertools.groupby(values):
        count = len(list(same))
        times = f" x {count}" if count > 1 else ""
        if value.kind == "Tensor":
            shape = ", ".join(map(str, value.shape))
            yield f"{value.dtype} [{shape}]{' or less' if value.dynamic else ''}{times}"
        else:
            yield f"{value.kind} {_literal(value.value)}{times}"


def _constants(constants: Iterable[tuple[str, tuple[Plain, ...]]]) -> Iterable[str]:
    for name, values in constants:
        yield f"{_shown(name)} = {', '.join(_literal(value) for value in values)}"


def _literal(value: Plain) -> str:
    return _shown(value) if isinstance(value, str) else str(value)


def _rows(rows: Iterable[str]) -> list[str]:
    lines = [f"  {row[:_MOST_ROW]}" for row in rows]
    more = len(lines) - _MOST_ROWS
    return lines if more <= 1 else [*lines[:_MOST_ROWS], f"  … {more} more: --json has them all"]


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _shown(name: str, most: int = _MOST_TEXT) -> str:
    """Return a name of the file, which can contain anything, as one line for a terminal."""
    plain = one_line(name)
    return plain if len(plain) <= most else plain[:most] + "…"

"""pte: will this file load there? One answer with its evidence per question (docs/pte.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kz_build.model.checks import CheckResult, Status
from kz_build.model.contract import Contract
from kz_build.model.library import Library
from kz_build.model.pte import Pte, QnnSpec, newer, version_key
from kz_build.model.soc import arch_of

# Upstream's README of the QNN backend: a context on HTP is at most 4 GB.
MOST_CONTEXT = 4 << 30
_SHOWN = 5
# Methods of a model that takes more than text, and the one that its runner asks first (extension/llm/runner/constants.h).
_BEYOND_TEXT = ("vision_encoder", "audio_encoder", "text_decoder")
_EMBEDDING = "token_embedding"


@dataclass(frozen=True)
class Asked:
    """A file, and what it is held against: a recipe's contract, a library, the SoC of a device ('' without one)."""

    pte: Pte
    contract: Contract
    library: Library | None
    soc: str

    @property
    def specs(self) -> tuple[QnnSpec, ...]:
        """The distinct compile specs of its QNN delegates."""
        return tuple(dict.fromkeys(d.qnn for d in self.pte.delegates if d.qnn))


@dataclass(frozen=True)
class _Answer:
    status: Status
    evidence: str
    required: bool = True


def hold(pte: Pte, contract: Contract | None, library: Library | None, soc: str) -> tuple[CheckResult, ...]:
    """Ask everything that the contract, the library and the SoC give reason to ask. Raises ConfigError for an unknown SoC."""
    asked = Asked(pte, contract or Contract(), library, soc)
    results = []
    for name, question in QUESTIONS:
        if answer := question(asked):
            results.append(CheckResult(pte.name, name, answer.status, answer.evidence, answer.required))
    return tuple(results)


def _pass(evidence: str) -> _Answer:
    return _Answer(Status.PASS, evidence)


def _fail(evidence: str) -> _Answer:
    return _Answer(Status.FAIL, evidence)


def _open(evidence: str, *, required: bool = False) -> _Answer:
    """The file alone does not decide it; the run fails where the contract asks for it."""
    return _Answer(Status.SKIP, evidence, required)


def _listed(names: object) -> str:
    found = sorted(names)  # type: ignore[call-overload]
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more


def _methods(asked: Asked) -> _Answer | None:
    if not asked.contract.methods:
        return None
    if missing := set(asked.contract.methods) - asked.pte.method_names:
        has = _listed(m.name for m in asked.pte.methods) or "none"
        return _fail(f"it has no method {_listed(missing)}, which the contract names; its methods: {has}")
    return _pass(f"it has {_listed(asked.contract.methods)}")


def _runner(asked: Asked) -> _Answer | None:
    runner, names = asked.contract.runner, asked.pte.method_names
    needs = {"kv": ("kv_forward",), "hybrid": ("kv_forward", "prefill_forward"), "llm": ("forward",)}.get(runner)
    if needs is None:
        return None
    missing = [name for name in needs if name not in names]
    if not missing and runner in ("kv", "hybrid") and asked.library and not asked.library.kv_width:
        return _fail(
            f"{_named(asked)} has no QNN runner: upstream builds it into the JNI only where QNN_SDK_ROOT is set"
        )
    if not missing:
        return _pass(f"the {runner} runner calls {_listed(needs)}, and the file has {'both' if needs[1:] else 'it'}")
    if runner == "hybrid" and missing == ["prefill_forward"]:
        return _fail(
            "it is a kv-only file and the runner is hybrid: it calls prefill_forward, and the file has kv_forward alone"
        )
    return _fail(f"the {runner} runner calls {_listed(missing)}, which the file does not have (No method named …)")


def _token_embedding(asked: Asked) -> _Answer | None:
    names = asked.pte.method_names
    beyond = [name for name in _BEYOND_TEXT if name in names]
    if not beyond and asked.contract.runner != "multimodal":
        return None
    if _EMBEDDING not in names:
        return _fail(
            f"a model of more than text ({_listed(beyond) or 'so the contract says'}) without the method {_EMBEDDING}: "
            "LlmModule calls that for every prompt"
        )
    return _pass(f"it has {_EMBEDDING} beside {_listed(beyond) or 'the rest'}")


def _kv_bits(asked: Asked) -> _Answer | None:
    bits, library = asked.pte.kv_bits, asked.library
    fixed = 16 if library and library.kv_width == "16" and asked.pte.mode else 0
    wanted = asked.contract.kv_bits or fixed
    if not wanted:
        return None
    if not bits:
        return _open(
            "neither get_kv_io_bit_width nor the types of kv_forward's inputs tell its KV width", required=True
        )
    for width, who in (
        (asked.contract.kv_bits, "the runner of the contract"),
        (fixed, f"the runner in {_named(asked)}"),
    ):
        if width and width != bits:
            return _fail(
                f"its KV cache is {bits}-bit and {who} takes {width}-bit: it would read garbage, without an error"
            )
    return _pass(f"its KV cache is {bits}-bit, as the runner takes it")


def _context_length(asked: Asked) -> _Answer | None:
    wanted, has = asked.contract.context_length, asked.pte.context_length
    if not wanted:
        return None
    return (_pass if has == wanted else _fail)(f"it holds {has} tokens, the contract says {wanted}")


def _shared_buffer(asked: Asked) -> _Answer | None:
    wanted = asked.contract.shared_buffer
    if wanted is None or not asked.specs:
        return None
    if any(spec.shared_buffer != wanted for spec in asked.specs):
        said = {True: "with shared buffers", False: "without shared buffers"}
        return _fail(f"it was exported {said[not wanted]} and the runner is started {said[wanted]}")
    return _pass(f"shared_buffer is {str(wanted).lower()} in the file and in the runner")


def _shards(asked: Asked) -> _Answer | None:
    wanted, has = asked.contract.shards, asked.pte.shards
    if not wanted:
        return None
    return (_pass if has == wanted else _fail)(f"{has} QNN contexts per method, the contract says {wanted}")


def _other_models(asked: Asked) -> _Answer | None:
    """Upstream's HtpContextCustomConfig.cpp: with multi contexts and a spill-fill size, contexts join the process's first one."""
    count = len(asked.pte.contexts)
    if not count:
        return None
    if not (grouped := [spec for spec in asked.specs if spec.multi_contexts and spec.spill_fill_bytes]):
        return _pass(f"{count} QNN {'context' if count == 1 else 'contexts'}, none in a group of the process")
    return _open(
        f"at risk: {count} QNN contexts share {grouped[0].spill_fill_bytes:,} bytes of spill-fill with the first QNN context of "
        "the process; error 5010 may come when another QNN model was loaded before, or this one is loaded again"
    )


def _context_size(asked: Asked) -> _Answer | None:
    contexts = asked.pte.contexts
    if not contexts:
        return None
    largest = max(context.size for _, context in contexts)
    said = f"its largest QNN context has {largest:,} bytes, and HTP takes 4 GB"
    return _fail(said) if largest > MOST_CONTEXT else _pass(said)


def _qnn(asked: Asked) -> _Answer | None:
    runtimes = {"the device": asked.contract.qnn, _named(asked): asked.library.qnn if asked.library else ""}
    versions = {context.sdk for _, context in asked.pte.contexts}
    if not versions:
        return None
    known = versions - {""}
    newest = max(known, key=version_key, default="")
    if not any(runtimes.values()):
        said = f"QNN {newest or 'of unknown version'} compiled it; it loads on that or newer, and nothing says what is there"
        return _open(said) if asked.library or asked.soc else None
    for who, runtime in runtimes.items():
        if runtime and newest and newer(newest, runtime):
            said = f"QNN {newest} compiled it and {who} has {runtime}"
            return _fail(f"{said}: a context loads only on the same or newer (err 5000)")
    if known != versions:
        return _open("a context does not say which QNN compiled it", required=True)
    there = " and ".join(f"{who} has {runtime}" for who, runtime in runtimes.items() if runtime)
    return _pass(f"QNN {newest} compiled it and {there}")


def _soc(asked: Asked) -> _Answer | None:
    wanted = asked.contract.soc
    if not wanted or not asked.specs:
        return None
    arch_of(wanted)
    if others := {spec.soc for spec in asked.specs} - {wanted.upper()}:
        return _fail(f"it is compiled for {_listed(others)}, the contract says {wanted}")
    return _pass(f"it is compiled for {wanted}")


def _arch(asked: Asked) -> _Answer | None:
    wanted: dict[str, str] = {}
    if asked.contract.htp_arch:
        wanted["the contract"] = asked.contract.htp_arch
    if asked.soc:
        wanted[asked.soc.upper()] = arch_of(asked.soc)
    archs = {spec.arch for spec in asked.specs if spec.backend == "HTP"}
    if not wanted or not archs:
        return None
    for who, arch in wanted.items():
        if others := archs - {arch}:
            return _fail(f"its contexts are for Hexagon {_listed(others)}, and {who} is {arch}")
    skels = asked.library.skels if asked.library else frozenset()
    if skels and not archs <= skels:
        return _fail(
            f"its contexts are for Hexagon {_listed(archs)}, and {_named(asked)} has the skel of {_listed(skels)}"
        )
    return _pass(f"Hexagon {_listed(archs)}, as {' and '.join(wanted)}")


def _backends(asked: Asked) -> _Answer | None:
    has = {d.backend for d in asked.pte.delegates}
    wanted, library = set(asked.contract.backends), asked.library
    if wanted and has != wanted:
        return _fail(f"its delegates are of {_listed(has) or 'no backend'}, the contract says {_listed(wanted)}")
    if library and (missing := has - library.backends):
        return _fail(f"{_named(asked)} does not register {_listed(missing)}, which its delegates need")
    return _pass(f"its delegates are of {_listed(has)}") if has and (wanted or library) else None


def _operators(asked: Asked) -> _Answer | None:
    needs, library = asked.pte.operators, asked.library
    if not library or not needs:
        return None
    if missing := needs - library.operators:
        return _fail(f"{_named(asked)} does not carry {len(missing)} of its {len(needs)} operators: {_listed(missing)}")
    return _pass(f"{_named(asked)} carries its {len(needs)} operators")


def _graph_operators(asked: Asked) -> _Answer | None:
    needs = {name for d in asked.pte.delegates for name in d.operators}
    library = asked.library
    if not needs or not library or "VulkanBackend" not in library.backends:
        return None
    if missing := needs - library.graph_operators:
        return _fail(
            f"Vulkan in {_named(asked)} does not carry {_listed(missing)} (Could not find operator with name …): upstream's "
            "partitioner takes operators that its runtime does not have"
        )
    return _pass(f"Vulkan in {_named(asked)} carries the {len(needs)} operators of its graphs")


def _executorch(asked: Asked) -> _Answer | None:
    """Upstream's runtime/COMPATIBILITY.md: a file runs on its own minor version and the next; nothing is promised backwards."""
    made, there = asked.contract.executorch, asked.library.executorch if asked.library else ""
    if not made or not asked.library:
        return None
    if not there or not version_key(there) or not version_key(made):
        return _open(f"ExecuTorch {made} makes it, and nothing says of which version {_named(asked)} is")
    (major, minor), (major_there, minor_there) = version_key(made)[:2], version_key(there)[:2]
    if (major, minor) > (major_there, minor_there):
        return _fail(
            f"ExecuTorch {made} makes it and {_named(asked)} is {there}: upstream promises nothing for newer files"
        )
    if major == major_there and minor_there > minor + 1:
        return _open(
            f"ExecuTorch {made} makes it and {_named(asked)} is {there}: upstream promises one minor version further"
        )
    return _pass(f"ExecuTorch {made} makes it and {_named(asked)} is {there}")


def _external(asked: Asked) -> _Answer | None:
    if not asked.pte.external:
        return None
    return _open(
        f"tensors whose data is in another file: {asked.pte.external}; a .ptd must go along and be named when it is loaded"
    )


def _named(asked: Asked) -> str:
    return asked.library.name if asked.library else ""


QUESTIONS: tuple[tuple[str, Callable[[Asked], _Answer | None]], ...] = (
    ("methods", _methods),
    ("runner", _runner),
    ("token-embedding", _token_embedding),
    ("kv-bits", _kv_bits),
    ("context-length", _context_length),
    ("shared-buffer", _shared_buffer),
    ("shards", _shards),
    ("other-models", _other_models),
    ("context-size", _context_size),
    ("qnn", _qnn),
    ("soc", _soc),
    ("arch", _arch),
    ("backends", _backends),
    ("operators", _operators),
    ("vulkan", _graph_operators),
    ("executorch", _executorch),
    ("external", _external),
)

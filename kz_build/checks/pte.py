"""pte: will this file load there? One answer with its evidence per question (docs/pte.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kz_build.checks import pte_qnn
from kz_build.checks.contract import Contract
from kz_build.checks.pte_check import Asked, listed, named
from kz_build.core.check import Check, ask, failed, pass_if, passed, skipped
from kz_build.formats.library_types import Library
from kz_build.formats.pte_types import Pte, version_key
from kz_build.pins.soc import arch_of

# Methods of a model that takes more than text, and the one that its runner asks first (extension/llm/runner/constants.h).
_BEYOND_TEXT = ("vision_encoder", "audio_encoder", "text_decoder")
_EMBEDDING = "token_embedding"


def hold(pte: Pte, contract: Contract | None, library: Library | None, soc: str) -> tuple[Check, ...]:
    """Ask everything that the contract, the library and the SoC give reason to ask. Raises ConfigError for an unknown SoC."""
    asked = Asked(pte, contract or Contract(), library, soc)
    for name in filter(None, (soc, asked.contract.soc)):
        arch_of(name)
    return ask(asked, QUESTIONS, pte.name)


def _methods(asked: Asked) -> Check | None:
    if not asked.contract.methods:
        return None
    if missing := set(asked.contract.methods) - asked.pte.method_names:
        has = listed(m.name for m in asked.pte.methods) or "none"
        return failed(f"it has no method {listed(missing)}, which the contract names; its methods: {has}")
    return passed(f"it has {listed(asked.contract.methods)}")


def _runner(asked: Asked) -> Check | None:
    runner, names = asked.contract.runner, asked.pte.method_names
    needs = {"kv": ("kv_forward",), "hybrid": ("kv_forward", "prefill_forward"), "llm": ("forward",)}.get(runner)
    if needs is None:
        return None
    missing = [name for name in needs if name not in names]
    if not missing and runner in ("kv", "hybrid") and asked.library and not asked.library.kv_width:
        return failed(
            f"{named(asked)} has no QNN runner: upstream builds it into the JNI only where QNN_SDK_ROOT is set"
        )
    if not missing:
        return passed(f"the {runner} runner calls {listed(needs)}, and the file has {'both' if needs[1:] else 'it'}")
    if runner == "hybrid" and missing == ["prefill_forward"]:
        return failed(
            "it is a kv-only file and the runner is hybrid: it calls prefill_forward, and the file has kv_forward alone"
        )
    return failed(f"the {runner} runner calls {listed(missing)}, which the file does not have (No method named …)")


def _token_embedding(asked: Asked) -> Check | None:
    names = asked.pte.method_names
    beyond = [name for name in _BEYOND_TEXT if name in names]
    if not beyond and asked.contract.runner != "multimodal":
        return None
    if _EMBEDDING not in names:
        return failed(
            f"a model of more than text ({listed(beyond) or 'so the contract says'}) without the method {_EMBEDDING}: "
            "LlmModule calls that for every prompt"
        )
    return passed(f"it has {_EMBEDDING} beside {listed(beyond) or 'the rest'}")


def _kv_bits(asked: Asked) -> Check | None:
    bits, library = asked.pte.kv_bits, asked.library
    fixed = 16 if library and library.kv_width == "16" and asked.pte.mode else 0
    wanted = asked.contract.kv_bits or fixed
    if not wanted:
        return None
    if not bits:
        return skipped(
            "neither get_kv_io_bit_width nor the types of kv_forward's inputs tell its KV width", required=True
        )
    for width, who in (
        (asked.contract.kv_bits, "the runner of the contract"),
        (fixed, f"the runner in {named(asked)}"),
    ):
        if width and width != bits:
            return failed(
                f"its KV cache is {bits}-bit and {who} takes {width}-bit: it would read garbage, without an error"
            )
    return passed(f"its KV cache is {bits}-bit, as the runner takes it")


def _context_length(asked: Asked) -> Check | None:
    wanted, has = asked.contract.context_length, asked.pte.context_length
    if not wanted:
        return None
    return pass_if(has == wanted, f"it holds {has} tokens, the contract says {wanted}")


def _backends(asked: Asked) -> Check | None:
    has = {d.backend for d in asked.pte.delegates}
    wanted, library = set(asked.contract.backends), asked.library
    if wanted and has != wanted:
        return failed(f"its delegates are of {listed(has) or 'no backend'}, the contract says {listed(wanted)}")
    if library and (missing := has - library.backends):
        return failed(f"{named(asked)} does not register {listed(missing)}, which its delegates need")
    return passed(f"its delegates are of {listed(has)}") if has and (wanted or library) else None


def _operators(asked: Asked) -> Check | None:
    needs, library = asked.pte.operators, asked.library
    if not library or not needs:
        return None
    if missing := needs - library.operators:
        return failed(f"{named(asked)} does not carry {len(missing)} of its {len(needs)} operators: {listed(missing)}")
    return passed(f"{named(asked)} carries its {len(needs)} operators")


def _graph_operators(asked: Asked) -> Check | None:
    needs = {name for d in asked.pte.delegates for name in d.operators}
    library = asked.library
    if not needs or not library or "VulkanBackend" not in library.backends:
        return None
    if missing := needs - library.graph_operators:
        return failed(
            f"Vulkan in {named(asked)} does not carry {listed(missing)} (Missing operator: …, and the process ends): upstream's "
            "partitioner takes operators that its runtime does not have"
        )
    return passed(f"Vulkan in {named(asked)} carries the {len(needs)} operators of its graphs")


def _executorch(asked: Asked) -> Check | None:
    """Upstream's runtime/COMPATIBILITY.md: a file runs on its own minor version and the next; nothing is promised backwards."""
    made, there = asked.contract.executorch, asked.library.executorch if asked.library else ""
    if not made or not asked.library:
        return None
    if not there or not version_key(there) or not version_key(made):
        return skipped(f"ExecuTorch {made} makes it, and nothing says of which version {named(asked)} is")
    (major, minor), (major_there, minor_there) = version_key(made)[:2], version_key(there)[:2]
    if (major, minor) > (major_there, minor_there):
        return failed(
            f"ExecuTorch {made} makes it and {named(asked)} is {there}: upstream promises nothing for newer files"
        )
    if major == major_there and minor_there > minor + 1:
        return skipped(
            f"ExecuTorch {made} makes it and {named(asked)} is {there}: upstream promises one minor version further"
        )
    return passed(f"ExecuTorch {made} makes it and {named(asked)} is {there}")


def _external(asked: Asked) -> Check | None:
    if not asked.pte.external:
        return None
    return skipped(
        f"tensors whose data is in another file: {asked.pte.external}; a .ptd must go along and be named when it is loaded"
    )


QUESTIONS: Mapping[str, Callable[[Asked], Check | None]] = {
    "methods": _methods,
    "runner": _runner,
    "token-embedding": _token_embedding,
    "kv-bits": _kv_bits,
    "context-length": _context_length,
    "shared-buffer": pte_qnn.shared_buffer,
    "shards": pte_qnn.shards,
    "other-models": pte_qnn.other_models,
    "context-size": pte_qnn.context_size,
    "qnn": pte_qnn.qnn,
    "rehearsal": pte_qnn.rehearsal,
    "soc": pte_qnn.soc,
    "arch": pte_qnn.arch,
    "backends": _backends,
    "operators": _operators,
    "vulkan": _graph_operators,
    "executorch": _executorch,
    "external": _external,
}

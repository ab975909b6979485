"""pte: whether a file will load on a device or with a library (docs/reference/verbs/pte.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kz_build.checks import pte_qnn, pte_tokenizer
from kz_build.checks.contract import Contract
from kz_build.checks.pte_qnn import PteSubject, library_name, listed
from kz_build.core.check import Check, ask, failed, pass_if, passed, skipped
from kz_build.formats.library_types import Library
from kz_build.formats.pte_types import Pte, version_key
from kz_build.formats.soc import arch_of
from kz_build.formats.tokenizer_types import Tokenizer

# Methods of a model that takes more than text, and the one that its runner asks first (extension/llm/runner/constants.h).
_BEYOND_TEXT = ("vision_encoder", "audio_encoder", "text_decoder")
_EMBEDDING = "token_embedding"


def check_contract(
    pte: Pte, contract: Contract | None, library: Library | None, soc: str, tokenizer: Tokenizer | None = None
) -> tuple[Check, ...]:
    """Check a .pte against a contract, a library, a SoC and a tokenizer, as far as each is given.

    Raises ConfigError for an unknown SoC.
    """
    subject = PteSubject(pte, contract or Contract(), library, soc, tokenizer)
    for name in filter(None, (soc, subject.contract.soc)):
        arch_of(name)
    return ask(subject, QUESTIONS, pte.name)


def _methods(subject: PteSubject) -> Check | None:
    if not subject.contract.methods:
        return None
    if missing := set(subject.contract.methods) - subject.pte.method_names:
        has = listed(m.name for m in subject.pte.methods) or "none"
        return failed(f"it has no method {listed(missing)}, which the contract names; its methods: {has}")
    return passed(f"it has {listed(subject.contract.methods)}")


def _runner(subject: PteSubject) -> Check | None:
    runner, names = subject.contract.runner, subject.pte.method_names
    needs = {"kv": ("kv_forward",), "hybrid": ("kv_forward", "prefill_forward"), "llm": ("forward",)}.get(runner)
    if needs is None:
        return None
    missing = [name for name in needs if name not in names]
    if not missing and runner in ("kv", "hybrid") and subject.library and not subject.library.kv_width:
        return failed(
            f"{library_name(subject)} has no QNN runner: upstream builds it into the JNI only where QNN_SDK_ROOT is set"
        )
    if not missing:
        return passed(f"the {runner} runner calls {listed(needs)}, and the file has {'both' if needs[1:] else 'it'}")
    if runner == "hybrid" and missing == ["prefill_forward"]:
        return failed(
            "it is a kv-only file and the runner is hybrid: it calls prefill_forward, and the file has only kv_forward"
        )
    return failed(f"the {runner} runner calls {listed(missing)}, which the file does not have (No method named …)")


def _token_embedding(subject: PteSubject) -> Check | None:
    names = subject.pte.method_names
    beyond = [name for name in _BEYOND_TEXT if name in names]
    if not beyond and subject.contract.runner != "multimodal":
        return None
    if _EMBEDDING not in names:
        return failed(
            f"a multimodal model ({listed(beyond) or 'says the contract'}) without the method {_EMBEDDING}: "
            "LlmModule calls that for every prompt"
        )
    return passed(f"it has {_EMBEDDING} beside {listed(beyond) or 'the rest'}")


def _kv_bits(subject: PteSubject) -> Check | None:
    bits, library = subject.pte.kv_bits, subject.library
    fixed = 16 if library and library.kv_width == "16" and subject.pte.mode else 0
    wanted = subject.contract.kv_bits or fixed
    if not wanted:
        return None
    if not bits:
        return skipped(
            "neither get_kv_io_bit_width nor the types of kv_forward's inputs give its KV width", required=True
        )
    for width, who in (
        (subject.contract.kv_bits, "the runner of the contract"),
        (fixed, f"the runner in {library_name(subject)}"),
    ):
        if width and width != bits:
            return failed(
                f"its KV cache is {bits}-bit and {who} takes {width}-bit: it would read garbage, without an error"
            )
    return passed(f"its KV cache is {bits}-bit, as the runner takes it")


def _context_length(subject: PteSubject) -> Check | None:
    wanted, has = subject.contract.context_length, subject.pte.context_length
    if not wanted:
        return None
    return pass_if(has == wanted, f"it holds {has} tokens, the contract says {wanted}")


def _backends(subject: PteSubject) -> Check | None:
    has = {d.backend for d in subject.pte.delegates}
    wanted, library = set(subject.contract.backends), subject.library
    if wanted and has != wanted:
        return failed(f"its delegates are of {listed(has) or 'no backend'}, the contract says {listed(wanted)}")
    if library and (missing := has - library.backends):
        return failed(f"{library_name(subject)} does not register {listed(missing)}, which its delegates need")
    return passed(f"its delegates are of {listed(has)}") if has and (wanted or library) else None


def _operators(subject: PteSubject) -> Check | None:
    needs, library = subject.pte.operators, subject.library
    if not library or not needs:
        return None
    if missing := needs - library.operators:
        return failed(f"{library_name(subject)} lacks {len(missing)} of its {len(needs)} operators: {listed(missing)}")
    return passed(f"{library_name(subject)} has its {len(needs)} operators")


def _graph_operators(subject: PteSubject) -> Check | None:
    needs = {name for d in subject.pte.delegates for name in d.operators}
    library = subject.library
    if not needs or not library or "VulkanBackend" not in library.backends:
        return None
    if missing := needs - library.graph_operators:
        return failed(
            f"Vulkan in {library_name(subject)} lacks {listed(missing)} (Missing operator: …, and the process ends): upstream's "
            "partitioner takes operators that its runtime does not have"
        )
    return passed(f"Vulkan in {library_name(subject)} has the {len(needs)} operators of its graphs")


def _executorch(subject: PteSubject) -> Check | None:
    """Upstream's runtime/COMPATIBILITY.md: a file runs on its own minor version and the next; nothing is promised backwards."""
    exporter, runtime = subject.contract.executorch, subject.library.executorch if subject.library else ""
    if not exporter or not subject.library:
        return None
    if not runtime or not version_key(runtime) or not version_key(exporter):
        return skipped(f"ExecuTorch {exporter} exports it, and no version is known for {library_name(subject)}")
    (major, minor), (runtime_major, runtime_minor) = version_key(exporter)[:2], version_key(runtime)[:2]
    if (major, minor) > (runtime_major, runtime_minor):
        return failed(
            f"ExecuTorch {exporter} exports it and {library_name(subject)} is {runtime}: upstream does not promise that newer files load"
        )
    if major == runtime_major and runtime_minor > minor + 1:
        return skipped(
            f"ExecuTorch {exporter} exports it and {library_name(subject)} is {runtime}: upstream promises only the next minor version"
        )
    return passed(f"ExecuTorch {exporter} exports it and {library_name(subject)} is {runtime}")


def _external(subject: PteSubject) -> Check | None:
    if not subject.pte.external:
        return None
    return skipped(
        f"tensors whose data is in another file: {subject.pte.external}; push its .ptd as well, and name that when the model is loaded"
    )


QUESTIONS: Mapping[str, Callable[[PteSubject], Check | None]] = {
    "methods": _methods, "runner": _runner, "token-embedding": _token_embedding, "kv-bits": _kv_bits,
    "context-length": _context_length, "shared-buffer": pte_qnn.shared_buffer, "shards": pte_qnn.shards,
    "other-models": pte_qnn.other_models, "context-size": pte_qnn.context_size, "qnn": pte_qnn.qnn,
    "rehearsal": pte_qnn.rehearsal, "soc": pte_qnn.soc, "arch": pte_qnn.arch, "backends": _backends,
    "operators": _operators, "vulkan": _graph_operators, "executorch": _executorch, "external": _external,
    "expression": pte_tokenizer.expression, "vocabulary": pte_tokenizer.vocabulary, "eos": pte_tokenizer.eos,
    "chat-tokens": pte_tokenizer.chat_tokens,
}  # fmt: skip

"""Will this file load there? For each sentence a file that causes it, and one that does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kz_build.checks.contract import Contract
from kz_build.checks.pte import QUESTIONS, check_contract
from kz_build.core.check import Check, Status
from kz_build.core.errors import ConfigError
from kz_build.formats.library_types import Library
from kz_build.formats.pte import parse
from kz_build.formats.pte_types import Pte, newer
from tests.formats.ptes import Made, Method, Qnn, decoder, program, vulkan

HYBRID = parse(decoder("hybrid"), "hybrid.pte")
KV = parse(decoder("kv"), "kv.pte")
KV_16 = parse(decoder("hybrid", bits=16), "16.pte")
TWO = parse(decoder("hybrid", [Qnn(multi_contexts=True, spill_fill=4096)] * 2), "two.pte")
TWO_APART = parse(decoder("hybrid", [Qnn(multi_contexts=True)] * 2), "apart.pte")
SHARED = parse(decoder("hybrid", [Qnn(shared_buffer=True)]), "shared.pte")
V75 = parse(decoder("hybrid", [Qnn("SM8650")]), "v75.pte")
NEW = parse(decoder("hybrid", [Qnn(sdk="2.49.40.260810104044")]), "new.pte")
SILENT = parse(decoder("hybrid", [Qnn(sdk="")]), "silent.pte")
TEXT = parse(program([Method("forward", operators=("aten::add.out", "llama::sdpa.out"))]), "text.pte")
VISION = parse(program([Method("vision_encoder"), Method("text_decoder")]), "vision.pte")
WHOLE = parse(program([Method("vision_encoder"), Method("text_decoder"), Method("token_embedding")]), "whole.pte")
GRAPH = ["aten.add.Tensor", "torchao.dequantize_affine.default"]
VULKAN = parse(program([Method("forward", delegates=(Made("VulkanBackend", vulkan(GRAPH)),))]), "vulkan.pte")
ELSEWHERE = parse(program([Method("forward", external=True)]), "elsewhere.pte")
SILENT_KV = parse(program([Method("kv_forward", (("float32", (1, 1)),))]), "unsaid.pte")
HUGE = replace(HYBRID, methods=tuple(
    replace(m, delegates=tuple(replace(d, context=replace(d.context, size=(4 << 30) + 1)) for d in m.delegates if d.context))
    for m in HYBRID.methods
))  # fmt: skip
LIB = Library(
    "lib", ("libexecutorch.so",), frozenset({"QnnBackend", "VulkanBackend"}), frozenset({"aten::add.out", "llama::sdpa.out"}),
    frozenset(GRAPH), "by file", "v1.4.1", "2.42.0.251225", frozenset({"v79"}),
)  # fmt: skip


SENTENCES = [
    # check, what must fail or be left open, its words, what must pass or not be asked
    ("methods", (KV, {"methods": ("kv_forward", "prefill_forward")}), "no method prefill_forward", (HYBRID, {"methods": ("kv_forward", "prefill_forward")})),
    ("runner", (KV, {"runner": "hybrid"}), "kv-only file and the runner is hybrid", (HYBRID, {"runner": "hybrid"})),
    ("runner", (TEXT, {"runner": "kv"}), "calls kv_forward, which the file does not have", (HYBRID, {"runner": "kv"})),
    ("runner", (KV, {"runner": "llm"}), "calls forward, which the file does not have", (TEXT, {"runner": "llm"})),
    ("runner", (HYBRID, {"runner": "hybrid", "library": replace(LIB, kv_width="")}), "lib has no QNN runner", (HYBRID, {"runner": "hybrid", "library": LIB})),
    ("token-embedding", (VISION, {}), "(text_decoder, vision_encoder) without the method token_embedding", (WHOLE, {})),
    ("token-embedding", (TEXT, {"runner": "multimodal"}), "says the contract", (TEXT, {"runner": "llm"})),
    ("kv-bits", (HYBRID, {"kv_bits": 16}), "8-bit and the runner of the contract takes 16-bit", (KV_16, {"kv_bits": 16})),
    ("kv-bits", (HYBRID, {"library": replace(LIB, kv_width="16")}), "8-bit and the runner in lib takes 16-bit", (HYBRID, {"library": LIB})),
    ("kv-bits", (SILENT_KV, {"kv_bits": 8}), "give its KV width", (HYBRID, {"kv_bits": 8})),
    ("context-length", (HYBRID, {"context_length": 1024}), "holds 128 tokens, the contract says 1024", (HYBRID, {"context_length": 128})),
    ("shared-buffer", (HYBRID, {"shared_buffer": True}), "exported without shared buffers and the runner is started with", (SHARED, {"shared_buffer": True})),
    ("shared-buffer", (SHARED, {"shared_buffer": False}), "exported with shared buffers", (HYBRID, {"shared_buffer": False})),
    ("shards", (TWO, {"shards": 1}), "2 QNN contexts per method, the contract says 1", (TWO, {"shards": 2})),
    ("other-models", (TWO, {}), "at risk: 2 QNN contexts share 4,096 bytes", (TWO_APART, {})),
    ("context-size", (HUGE, {}), "4,294,967,297 bytes, and HTP takes 4 GB", (HYBRID, {})),
    ("qnn", (NEW, {"qnn": "2.42.0.251225"}), "2.49.40.260810 compiled it and the device has 2.42.0.251225", (NEW, {"qnn": "2.49.40.260810"})),
    ("qnn", (NEW, {"qnn": "latest"}), "the device has QNN latest, which is no version", (NEW, {"qnn": "v2.50"})),
    ("qnn", (NEW, {"library": LIB}), "and lib has 2.42.0.251225: a context loads only on the same or newer", (HYBRID, {"library": LIB})),
    ("qnn", (NEW, {"library": LIB, "qnn": "2.50.0.270101"}), "and lib has 2.42.0.251225", (HYBRID, {"library": LIB, "qnn": "2.50.0.270101"})),
    ("qnn", (SILENT, {"qnn": "2.42.0.251225"}), "does not say which QNN", (HYBRID, {"qnn": "2.42.0.251225"})),
    ("qnn", (HYBRID, {"soc": "SM8750"}), "QNN of the device is unknown", (HYBRID, {})),
    ("rehearsal", (HYBRID, {"newer_than": "2.42.0.251225"}), "not newer than 2.42.0.251225, as the contract requires", (NEW, {"newer_than": "2.42.0.251225"})),
    ("rehearsal", (SILENT, {"newer_than": "2.42.0.251225"}), "no context says which QNN", (NEW, {"newer_than": "2.49.40.260809"})),
    ("soc", (V75, {"contract_soc": "SM8750"}), "compiled for SM8650, the contract says SM8750", (HYBRID, {"contract_soc": "sm8750"})),
    ("soc", (TEXT, {"contract_soc": "SM8750"}), "says for which SoC it is", (TEXT, {})),
    ("arch", (TEXT, {"htp_arch": "v79"}), "says for which Hexagon arch it is", (TEXT, {"soc": "SM8750"})),
    ("shared-buffer", (TEXT, {"shared_buffer": False}), "says whether it shares buffers", (TEXT, {})),
    ("arch", (V75, {"soc": "SM8750"}), "for Hexagon v75, and SM8750 is v79", (HYBRID, {"soc": "SXR2330P"})),
    ("arch", (V75, {"htp_arch": "v79"}), "for Hexagon v75, and the contract is v79", (HYBRID, {"htp_arch": "v79"})),
    ("arch", (V75, {"soc": "SM8650", "library": LIB}), "lib has the skel of v79", (HYBRID, {"soc": "SM8750", "library": LIB})),
    ("backends", (VULKAN, {"backends": ("XnnpackBackend",)}), "of VulkanBackend, the contract says XnnpackBackend", (VULKAN, {"backends": ("VulkanBackend",)})),
    ("backends", (TEXT, {"backends": ("XnnpackBackend",)}), "of no backend", (TEXT, {})),
    ("backends", (HYBRID, {"library": replace(LIB, backends=frozenset())}), "does not register QnnBackend", (HYBRID, {"library": LIB})),
    ("operators", (TEXT, {"library": replace(LIB, operators=frozenset({"aten::add.out"}))}), "lacks 1 of its 2 operators: llama::sdpa.out", (TEXT, {"library": LIB})),
    ("vulkan", (VULKAN, {"library": replace(LIB, graph_operators=frozenset(GRAPH[:1]))}), "lacks torchao.dequantize_affine.default", (VULKAN, {"library": LIB})),
    ("executorch", (TEXT, {"library": LIB, "executorch": "1.5.1"}), "upstream does not promise that newer files load", (TEXT, {"library": LIB, "executorch": "1.4.0"})),
    ("executorch", (TEXT, {"library": LIB, "executorch": "1.2.0"}), "only the next minor version", (TEXT, {"library": LIB, "executorch": "v1.3.1"})),
    ("executorch", (TEXT, {"library": replace(LIB, executorch=""), "executorch": "1.5.1"}), "no version is known for lib", (TEXT, {"executorch": "1.5.1"})),
    ("external", (ELSEWHERE, {}), "data is in another file: 1", (TEXT, {})),
]  # fmt: skip
# Open questions that fail nothing where the contract does not ask.
OPEN = {"other-models", "external", "executorch", "qnn"}


def call(name: str, case: tuple[Pte, dict[str, object]]) -> Check | None:
    pte, options = case
    contract = dict(options)
    library, soc = contract.pop("library", None), contract.pop("soc", "")
    if "contract_soc" in contract:
        contract["soc"] = contract.pop("contract_soc")
    checks = check_contract(pte, Contract(**contract), library, soc)  # type: ignore[arg-type]
    return next((c for c in checks if c.name == name), None)


@pytest.mark.parametrize(("name", "bad", "words", "good"), SENTENCES, ids=[f"{s[0]}-{s[2][:25]}" for s in SENTENCES])
def test_each_sentence_comes_when_it_must_and_only_then(name: str, bad: object, words: str, good: object) -> None:
    check = call(name, bad)  # type: ignore[arg-type]
    assert check is not None and words in check.evidence, check
    assert check.status is Status.FAIL or (check.status is Status.SKIP and (name in OPEN or check.failed)), check
    other = call(name, good)  # type: ignore[arg-type]
    assert other is None or other.status is Status.PASS, other


def test_every_question_has_its_sentences() -> None:
    of_tokenizers = {"expression", "vocabulary", "eos", "chat-tokens"}  # test_pte_tokenizer.py
    assert set(QUESTIONS) == {name for name, *_ in SENTENCES} | of_tokenizers


def test_risks_alone_fail_nothing() -> None:
    assert not [c for c in check_contract(TWO, None, None, "") if c.failed]


def test_an_unknown_soc_is_an_error_of_the_question() -> None:
    with pytest.raises(ConfigError, match="SM9999"):
        check_contract(HYBRID, None, None, "SM9999")


@pytest.mark.parametrize(
    ("one", "other", "is_newer"),
    [
        ("2.42.0.251225", "2.42.0.251225112233_7", False),  # the day of the build is all that an SDK's identity says
        ("2.42.0.251226", "2.42.0.251225", True),
        ("2.5.0.240101", "2.42.0.251225", False),
        ("2.42.1", "2.42.0.251225", True),
        ("v1.10.0", "1.9", True),
        ("", "1.9", False),
    ],
)
def test_versions_compare_as_numbers(one: str, other: str, is_newer: bool) -> None:
    assert newer(one, other) is is_newer

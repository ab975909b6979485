"""`kz pte --tokenizer` as a user types it: tokenizers that real tools made, with a .pte and a library."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from kz_build.core.errors import ConfigError
from kz_build.formats.re2 import refused
from kz_build.formats.tokenizer import read_tokenizer
from tests.checks.test_pte_there import library
from tests.conftest import ROOT, Kz
from tests.formats.ptes import Method, program

MADE = ROOT / "tests/data/fuzz/tokenizer"
RE2, PCRE2 = "N10tokenizers8Re2RegexE", "N10tokenizers10Pcre2RegexE"
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}"


def model(folder: Path, constants: Mapping[str, object]) -> Path:
    path = folder / "m.pte"
    path.write_bytes(program([Method("forward", (("int32", (1, 1)),), (("float32", (1, 1, 304)),))], constants))
    return path


def qwen(folder: Path, config: Mapping[str, object] | None = None) -> Path:
    shutil.copy(MADE / "tokenizer-qwen", folder / "tokenizer.json")
    if config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder / "tokenizer.json"


def test_a_lookahead_needs_pcre2_in_the_library(tmp_path: Path, kz: Kz) -> None:
    command = ("pte", model(tmp_path, {"get_eos_ids": 302}), "--tokenizer", qwen(tmp_path))
    done = kz(*command, "--lib", library(tmp_path / "re2.so", RE2))
    assert done.returncode == 8
    assert "what RE2 refuses (lookahead (?!), so it needs PCRE2, and re2.so has RE2 alone" in done.stdout
    assert "SUPPORT_REGEX_LOOKAHEAD=ON" in done.stdout
    assert done.stderr.splitlines()[-2] == "kz: m.pte will not load there: expression"
    done = kz(*command, "--lib", library(tmp_path / "both.so", RE2, PCRE2))
    assert done.returncode == 0, done.stdout
    assert (
        "tokenizer.json (tokenizer.json): 303 tokens, up to id 302, 3 of them special, 1 regular expression"
        in done.stdout
    )
    done = kz(*command)
    assert done.returncode == 0 and "--lib says whether the library has it" in done.stdout


@pytest.mark.parametrize(
    ("size", "status"), [(304, "PASS"), (303, "PASS"), (302, "FAIL"), (151936, "WARN")], ids=["padded", "exact", "small", "other"]
)  # fmt: skip
def test_the_vocabulary_fits_into_the_model(tmp_path: Path, kz: Kz, size: int, status: str) -> None:
    done = kz("pte", model(tmp_path, {"get_vocab_size": size}), "--tokenizer", qwen(tmp_path), "--json")
    answers = {c["check"]: c for c in json.loads(done.stdout)["checks"]}
    assert answers["vocabulary"]["status"] == status
    assert f"the model knows {size:,} tokens and the tokenizer's ids go up to 302" in answers["vocabulary"]["evidence"]
    assert done.returncode == (8 if status == "FAIL" else 0)


def test_without_get_vocab_size_the_logits_say_it(tmp_path: Path, kz: Kz) -> None:
    done = kz("pte", model(tmp_path, {}), "--tokenizer", qwen(tmp_path))
    assert "the model knows 304 tokens" in done.stdout


@pytest.mark.parametrize(
    ("ids", "eos", "evidence"),
    [
        (302, "<|im_end|>", "PASS  eos          get_eos_ids is 302"),
        (300, "<|im_end|>", "FAIL  eos          <|im_end|> (302) ends a text and get_eos_ids has only 300"),
        (2000, "<|im_end|>", "the tokenizer has no 2000"),
        (302, "</s>", "</s> ends a text and is none of the tokenizer's special tokens"),
        (None, "<|im_end|>", "SKIP  eos          the file names no end of text"),
    ],
)
def test_what_ends_a_text_is_a_token_of_both(tmp_path: Path, kz: Kz, ids: int | None, eos: str, evidence: str) -> None:
    file = model(tmp_path, {} if ids is None else {"get_eos_ids": ids})
    done = kz("pte", file, "--tokenizer", qwen(tmp_path, {"eos_token": {"content": eos}, "chat_template": TEMPLATE}))
    assert evidence in done.stdout
    assert done.returncode == (0 if evidence.startswith(("PASS", "SKIP")) else 8)


def test_what_the_chat_template_writes_is_a_token(tmp_path: Path, kz: Kz) -> None:
    file = model(tmp_path, {})
    done = kz("pte", file, "--tokenizer", qwen(tmp_path, {"chat_template": TEMPLATE}))
    assert "PASS  chat-tokens  the chat template's 2 special tokens are in it" in done.stdout
    (tmp_path / "chat_template.jinja").write_text("<start_of_turn>{{ x }}<|eot_id|>")
    done = kz("pte", file, "--tokenizer", tmp_path / "tokenizer.json")
    assert done.returncode == 8
    assert "the chat template writes <start_of_turn>, <|eot_id|>, which the tokenizer would split" in done.stdout


def test_the_other_formats_are_read_as_upstreams_loader_reads_them() -> None:
    """The numbers are those of pytorch_tokenizers 1.5.0 for the same files: vocab_size, bos_tok, eos_tok."""
    llama3, pieces = read_tokenizer(MADE / "tokenizer-tiktoken"), read_tokenizer(MADE / "tokenizer-sentencepiece")
    assert (llama3.kind, len(llama3.ids), llama3.special["<|begin_of_text|>"], llama3.special["<|end_of_text|>"]) == (
        "tiktoken", 514, 258, 259,
    )  # fmt: skip
    assert (pieces.kind, len(pieces.ids), pieces.special["<s>"], pieces.special[pieces.eos]) == (
        "sentencepiece", 200, 1, 2,
    )  # fmt: skip
    assert pieces.special["<start_of_turn>"] == 3


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"{", "is damaged: it is no JSON"),
        (b'{"a":' * 100_000, "is damaged: it is no JSON"),
        (b'{"model_type": "qwen3"}', "no tokenizer.json: it has no model"),
        (b'{"model": {"vocab": {"a": -1}}}', "a token's id is -1"),
        (b'{"model": {"vocab": 7}}', "model.vocab is no list"),
        (b"QQ== 0\nhello\n", "line 2 is not base64 and a rank: b'hello'"),
        (b"QQ== 0\nQg== 1\nQw== 1\n", "line 3 repeats a rank: b'Qw== 1'"),
        (b"\x0a\x7fabc", "does not fit at byte 2: it is cut off"),
        (b"\x0a" + b"\xff" * 20, "a number at byte 11 has no end"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a git-lfs pointer"),
        (b"", "is no tokenizer.json, tiktoken or sentencepiece file"),
        (
            b'{"model": {"vocab": {}}, "pre_tokenizer": {"pattern": {"Regex": "' + b"[" * 100_000 + b'"}}}',
            "more than 10,000 characters",
        ),
        (b'{"a": [' + b"0," * 4_000_001, "more than 4,000,000 values"),
    ],
    ids=["cut", "deep", "config", "id", "vocab", "tiktoken", "rank", "short", "varint", "lfs", "empty", "expr", "many"],
)
def test_what_is_no_tokenizer_is_refused(tmp_path: Path, data: bytes, words: str) -> None:
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        read_tokenizer(tmp_path / "x")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("expression", "what"),
    [
        (r"\s+(?!\S)|\s+", "lookahead (?!"),
        (r"(?<=a)b", "lookbehind (?<="),
        (r"[^\r\n\p{L}]?+\p{L}+", "possessive or doubled quantifier ?+"),
        (r"(a)\1", r"escape \1"),
        (r"a{1001}", "repetition {1001}"),
        (r"(?i:'s|'t)|[^\s\p{L}]+[\r\n]*|\p{N}{1,3}|(?P<x>a)+?|[(?!]|\(?!|\Q++\E|[[:alpha:]]", ""),
    ],
)
def test_what_re2_refuses_is_known(expression: str, what: str) -> None:
    """Compared with google-re2 1.1 on 3,053 expressions: all but those that no engine takes."""
    assert refused(expression) == what

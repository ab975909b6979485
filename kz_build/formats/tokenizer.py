"""Tokenizer files, as upstream's load_tokenizer tries them (extension/llm/runner): tokenizer.json, tiktoken's, sentencepiece's.

Of a tokenizer.json, tokenizer_config.json and chat_template.jinja beside it say which tokens a chat uses.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

from kz_build.core.errors import ConfigError
from kz_build.formats.android_manifest import DamagedError
from kz_build.formats.protobuf import fields
from kz_build.formats.tokenizer_types import Tokenizer

# The largest that are public have 33 MB and 1.5 million values; the limits keep a hostile file below 500 MB of memory.
_MOST_BYTES, _MOST_VALUES = 64 << 20, 4_000_000
_MOST_DEPTH = 100
_MOST_EXPRESSIONS = 10_000  # characters of all: public ones have 500, and a search in them takes their square
_CONFIG, _TEMPLATE = "tokenizer_config.json", "chat_template.jinja"
# Tokens that a template writes in one piece; one that it builds from parts is not seen.
_CHAT_TOKEN = re.compile(r"<[|｜][^<>|｜\s\"'{}]{1,64}[|｜]>|<(?:start|end|begin)_of_[a-z_]{1,32}>")
# Upstream's Tiktoken adds the names of Llama 3, and reserved ones up to 256 (include/pytorch/tokenizers/tiktoken.h).
_LLAMA3 = (
    "begin_of_text", "end_of_text", "reserved_special_token_0", "reserved_special_token_1", "finetune_right_pad_id",
    "step_id", "start_header_id", "end_header_id", "eom_id", "eot_id", "python_tag",
    *(f"reserved_special_token_{number}" for number in range(2, 247)),
)  # fmt: skip
_CONTROL, _USER_DEFINED = 3, 4  # sentencepiece_model.proto
_PIECES, _TRAINER, _TYPE, _EOS = 1, 2, 3, 42

Json = Mapping[str, object]


def read_tokenizer(path: Path) -> Tokenizer:
    """Read a tokenizer with the files beside it. Raises ConfigError for anything else, for a damaged or a too large one."""
    data = _read(path)
    start = data[:4096].lstrip()
    try:
        if start.startswith(b"{"):
            return _with_chat(_hugging_face(_object(data), path.name), path.parent)
        if re.match(rb"[A-Za-z0-9+/]+={0,2} \d+\r?\n", start):
            return _with_chat(_tiktoken(data, path.name), path.parent)
        if data.startswith(b"\x0a"):  # field 1, its first piece
            return _with_chat(_sentencepiece(data, path.name), path.parent)
    except (DamagedError, RecursionError) as error:
        raise ConfigError(
            f"{path.name} is damaged: {error}", hint="download it again, and compare its sha256"
        ) from None
    what = "a git-lfs pointer: git lfs pull" if start.startswith(b"version https://git-lfs") else repr(data[:12])
    raise ConfigError(f"{path.name} is no tokenizer.json, tiktoken or sentencepiece file: it begins with {what}")


def _read(path: Path) -> bytes:
    if not path.is_file():
        raise ConfigError(f"{path} is a folder or a device" if path.exists() else f"there is no {path}")
    try:
        if (size := path.stat().st_size) > _MOST_BYTES:
            raise ConfigError(f"{path.name} has {size:,} bytes; kz reads tokenizers up to {_MOST_BYTES:,}")
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error


def _object(data: bytes) -> Json:
    _count(data.count(b",") + data.count(b"[") + data.count(b"{"))
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"it is no JSON ({error})") from None
    return _mapping(value, "its root")


def _count(values: int) -> None:
    if values > _MOST_VALUES:
        raise DamagedError(f"it has more than {_MOST_VALUES:,} values")


def _mapping(value: object, what: str) -> Json:
    if not isinstance(value, dict):
        raise DamagedError(f"{what} is no JSON object")
    return cast(Json, value)


def _list(value: object, what: str) -> list[object]:
    if not isinstance(value, list):
        raise DamagedError(f"{what} is no list")
    return value


def _hugging_face(root: Json, name: str) -> Tokenizer:
    if "model" not in root:
        raise ConfigError(
            f"{name} is JSON but no tokenizer.json: it has no model", hint="is it a config or a tekken.json?"
        )
    vocabulary = _mapping(root["model"], "model").get("vocab")
    if isinstance(vocabulary, dict):
        ids = {_id(number) for number in vocabulary.values()}
    else:  # a Unigram model: [token, score] in the order of their ids
        ids = set(range(len(_list(vocabulary, "model.vocab"))))
    special: dict[str, int] = {}
    for row in _list(root.get("added_tokens") or [], "added_tokens"):
        token = _mapping(row, "an added token")
        special[str(token.get("content"))] = _id(token.get("id"))
    steps = [*_steps(root.get("pre_tokenizer")), *_steps(root.get("normalizer"))]
    expressions = (_mapping(s.get("pattern"), "a pattern").get("Regex") for s in steps if s.get("pattern"))
    texts = tuple(dict.fromkeys(text for text in expressions if isinstance(text, str)))
    if sum(map(len, texts)) > _MOST_EXPRESSIONS:
        raise DamagedError(f"its regular expressions have more than {_MOST_EXPRESSIONS:,} characters")
    return Tokenizer(name, "tokenizer.json", frozenset(ids | set(special.values())), special, texts)


def _id(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value < 1 << 32:
        raise DamagedError(f"a token's id is {value!r:.40}")
    return int(value)


def _steps(value: object, depth: int = 0) -> Iterator[Json]:
    """Yield a pre-tokenizer or normalizer, and those of a Sequence, however deep."""
    if not isinstance(value, dict):
        return
    if depth > _MOST_DEPTH:
        raise DamagedError("its sequences are too deep")
    if isinstance(value.get("pattern"), dict):  # ByteLevel and others have none
        yield value
    for key in ("pretokenizers", "normalizers"):
        for step in _list(value.get(key) or [], key):
            yield from _steps(step, depth + 1)


def _tiktoken(data: bytes, name: str) -> Tokenizer:
    _count(data.count(b"\n"))
    ids = set()
    for number, line in enumerate(data.splitlines(), 1):
        token, _, rank = line.partition(b" ")
        try:
            base64.b64decode(token, validate=True)
            ids.add(_id(int(rank)))
        except (binascii.Error, ValueError):
            raise DamagedError(f"line {number} is not base64 and a rank: {line[:40]!r}") from None
        if len(ids) != number:  # the special tokens follow them
            raise DamagedError(f"line {number} repeats a rank: {line[:40]!r}")
    special = {f"<|{text}|>": len(ids) + index for index, text in enumerate(_LLAMA3)}
    return Tokenizer(name, "tiktoken", frozenset(ids | set(special.values())), special)


def _sentencepiece(data: bytes, name: str) -> Tokenizer:
    pieces: list[str] = []
    special: dict[str, int] = {}
    eos = 2
    for number, value in fields(data):
        if number == _PIECES and isinstance(value, bytes):
            piece = dict(fields(value))
            text = piece.get(1)
            pieces.append(text.decode(errors="replace") if isinstance(text, bytes) else "")
            if piece.get(_TYPE) in (_CONTROL, _USER_DEFINED):
                special[pieces[-1]] = len(pieces) - 1
        elif number == _TRAINER and isinstance(value, bytes):
            chosen = dict(fields(value)).get(_EOS)
            eos = chosen if isinstance(chosen, int) else eos
    end = pieces[eos] if eos < len(pieces) else ""
    return Tokenizer(name, "sentencepiece", frozenset(range(len(pieces))), special, eos=end)


def _with_chat(tokenizer: Tokenizer, folder: Path) -> Tokenizer:
    """Add what the files beside it say of its chat."""
    config = _object(_read(folder / _CONFIG)) if (folder / _CONFIG).is_file() else {}
    templates = list(_texts(config.get("chat_template")))
    if (folder / _TEMPLATE).is_file():
        templates.append(_read(folder / _TEMPLATE).decode(errors="replace"))
    eos = config.get("eos_token")
    eos = eos.get("content") if isinstance(eos, dict) else eos
    tokens = sorted({token for text in templates for token in _CHAT_TOKEN.findall(text)})
    return replace(tokenizer, eos=eos if isinstance(eos, str) else tokenizer.eos, chat_tokens=tuple(tokens))


def _texts(value: object) -> Iterator[str]:
    """Yield the templates of a configuration: one, or a list of named ones."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for row in value:
            if isinstance(row, dict) and isinstance(row.get("template"), str):
                yield row["template"]

"""The facts of a tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Tokenizer:
    """A tokenizer. `kind` is tokenizer.json, tiktoken or sentencepiece; `ids` all its tokens, `special` those that are never split.

    `expressions` are the regular expressions that its loader compiles. Of the files beside it: `eos` is the token that
    ends a turn, `chat_tokens` those that the chat template writes; '' and none without such files.
    """

    name: str
    kind: str
    ids: frozenset[int]
    special: Mapping[str, int]
    expressions: tuple[str, ...] = ()
    eos: str = ""
    chat_tokens: tuple[str, ...] = ()

    @property
    def last(self) -> int:
        """The highest id."""
        return max(self.ids, default=-1)

    def as_json(self) -> dict[str, object]:
        """Return all but the vocabulary."""
        return {
            "name": self.name, "kind": self.kind, "tokens": len(self.ids), "last": self.last, "special": dict(self.special),
            "expressions": list(self.expressions), "eos": self.eos, "chat_tokens": list(self.chat_tokens),
        }  # fmt: skip

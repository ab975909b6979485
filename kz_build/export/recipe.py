"""How one model is exported, and the contract that its .pte must meet: a file of recipes/ (docs/reference/recipes.md)."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, model_validator

from kz_build.checks.contract import Contract
from kz_build.core.plain_json import plain
from kz_build.pins.source_schema import Name, Strict, Text

PLACEHOLDER = re.compile(r"\{([a-z][\w.-]*)\}")
"""A name in braces, so that JSON in an argument stays what it is."""
FOLDERS = ("out", "weights", "python", "kz")
"""Placeholders that every recipe may use: its output folder, its weights, the Python of its environment, and kz's own
scripts."""
Digest = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
Commit = Annotated[str, StringConstraints(pattern="^[0-9a-f]{40}$")]
Gigabytes = Annotated[float, Field(ge=0, strict=False)]
FileName = Annotated[str, StringConstraints(pattern=r"^[\w][\w.+-]*$")]


def _range(text: str) -> str:
    from packaging.specifiers import SpecifierSet

    SpecifierSet(text)  # raises ValueError
    return text


class Part(Strict):
    def as_json(self) -> dict[str, object]:
        """Return the fields, for kz's JSON."""
        return dict(self)


class Stage(Part):
    """One command of upstream's."""

    name: Name
    run: list[Text] = Field(
        min_length=1, description="argv; {out}, {weights}, {python} and sources of the line in braces"
    )
    inside: Text = Field(description="source whose tree it runs in")
    makes: list[Text] = Field(default=[], description="output files that a later stage or the user needs")
    where: Literal["host", "device"] = "host"


class Amount(Part):
    gb: tuple[Gigabytes, Gigabytes | None] = Field(
        strict=False, description="[at least, at most]; null if nobody measured the most"
    )
    source: Text = Field(description="who measured it, or what it is computed from")

    @property
    def low(self) -> float:
        """Gigabytes (10^9 bytes): at least."""
        return self.gb[0]

    @property
    def high(self) -> float | None:
        """At most; None if nobody measured it."""
        return self.gb[1]

    def as_json(self) -> dict[str, object]:
        """See Part."""
        return {"low": self.low, "high": self.high, "source": self.source}

    @model_validator(mode="after")
    def _check_order(self) -> Amount:
        if self.gb[1] is not None and self.gb[1] < self.gb[0]:
            raise ValueError("gb must be [at least, at most]")
        return self


class Needs(Part):
    memory: Amount = Field(description="RAM and swap together")
    disk: dict[Text, Amount] = Field(description="by folder: {out}, {weights} or a path")
    minutes: list[int] = Field(default=[], max_length=2, description="[least, most], as measured")
    sdk: dict[Name, str] = Field(default={}, description="an SDK: `pinned` for the line's, else which version")
    python: Annotated[str, AfterValidator(_range)] = Field(default="", description="versions, as `>=3.10,<3.13`")
    glibc: Annotated[str, StringConstraints(pattern=r"^(\d+\.\d+)?$")] = Field(default="", description="oldest")
    tools: dict[Text, Text] = Field(default={}, description="programs: how to get each")
    libraries: dict[Text, Text] = Field(
        default={}, description="libraries that the linker of this machine must find: how to get each"
    )


class RandomWeights(Part):
    """Random weights for a model of that shape."""

    seed: int
    shape: Text = Field(description="file among these weights that holds the model's parameters")


class Tokenizer(Part):
    """A SentencePiece tokenizer that kz trains on a fixed text."""

    vocabulary: Annotated[int, Field(gt=256)]


class Weights(Part):
    """Exactly one of repository, random, content, tokenizer."""

    repository: str = Field(default="", description="on huggingface.co, as owner/name")
    revision: Commit | None = Field(default=None, description="null: not pinned yet, kz says so")
    licence: str = Field(default="", description="licence to accept before the download")
    digests: dict[Text, Digest | None] = Field(default={}, description="file: sha256, null if nobody computed it")
    random: RandomWeights | None = None
    content: dict[str, object] | list[object] | None = Field(
        default=None, description="a JSON file, written as it stands here"
    )
    tokenizer: Tokenizer | None = None

    @model_validator(mode="after")
    def _check_one_origin(self) -> Weights:
        if sum((bool(self.repository), *(one is not None for one in (self.random, self.content, self.tokenizer)))) != 1:
            raise ValueError("weights need one of: repository, random, content, tokenizer")
        return self

    @property
    def made_of(self) -> list[object]:
        """What kz makes them of: an input of what they are used for."""
        return [plain(self.random), self.content, plain(self.tokenizer)]


class Upstream(Part):
    """An upstream that is not a source of pins.yaml."""

    git: Text
    commit: Commit


class Measurement(Part):
    """How `kz device run` measures this model, and what its reply must have."""

    prompt: str = Field(default="", description="its prompt (default: the target's)")
    tokens: Annotated[int, Field(gt=0)] | None = Field(default=None, description="prompt and answer (default: 128)")
    words: list[Annotated[int, Field(gt=0)]] = Field(
        default=[], description="lengths of further prompts, in words: a series each"
    )
    expect: str = Field(default="", description="what the reply to `prompt` must contain, in any case")
    celsius: Annotated[float, Field(gt=0, strict=False)] = Field(
        default=35, description="the battery's temperature at most, before runs start"
    )
    minutes: Annotated[float, Field(ge=0, strict=False)] = Field(
        default=30, description="how long to wait for that; then the runs are marked as hot"
    )

    @model_validator(mode="after")
    def _check_prompt(self) -> Measurement:
        if self.expect and not self.prompt:
            raise ValueError("`expect` needs the `prompt` that it answers")
        return self


class Trap(Part):
    text: Text
    source: Text


class RecipeFile(Part):
    model_config = ConfigDict(title="a recipe of kz_build")
    about: Text
    line: Name | Literal[""] = ""
    requirements: Name | Literal[""] = Field(
        default="", description="what it runs with: a file of recipes/requirements/, without .in"
    )
    upstream: Upstream | None = None
    command: list[Stage] = Field(min_length=1)
    environment: dict[Text, str] = {}
    needs: Needs
    weights: dict[FileName, Weights] = Field(description="by name below {weights}: a folder, or a file that kz makes")
    device: dict[Text, FileName] = Field(default={}, description="what is pushed: its name on the device")
    chat: Literal["", "llama3", "llava", "qwen3"] = Field(default="", description="its chat template")
    run: Measurement = Field(default=Measurement(), description="how it is measured on a device")
    traps: list[Trap] = []
    output: Text
    contract: Contract
    decode: list[Text] = Field(
        default=[],
        description="argv of a check that compares decode steps of the .pte with eager torch, and prints JSON in its last line",
    )
    cosine: Annotated[float, Field(ge=0.95, lt=1)] = Field(
        default=0.95, description="every step's cosine with torch must be above it"
    )

    @model_validator(mode="after")
    def _check_line_or_upstream(self) -> RecipeFile:
        if bool(self.line) == bool(self.upstream):
            raise ValueError("a recipe needs one of: line, upstream")
        return self


class Recipe(RecipeFile):
    """A recipe with its name: that of its file."""

    name: str

    def as_json(self) -> dict[str, object]:
        """See Part."""
        return {**dict(self), "upstream": self.upstream or {}}

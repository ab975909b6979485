"""How one model is exported, and the contract that its .pte must meet. Plain data."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from kz_build.checks.contract import Contract

PLACEHOLDER = re.compile(r"\{([a-z][\w.-]*)\}")
"""A name in braces, so that JSON in an argument stays what it is."""
FOLDERS = ("out", "weights", "python", "kz")
"""Placeholders that every recipe may use: its output folder, its weights, the Python of its environment, and kz's own
scripts."""


@dataclass(frozen=True)
class Stage:
    """One command of upstream's, run `inside` the tree of a source."""

    name: str
    run: tuple[str, ...]
    inside: str
    makes: tuple[str, ...] = ()
    where: str = "host"


@dataclass(frozen=True)
class Amount:
    """Gigabytes (10^9 bytes): at least `low`; `high` is None if nobody measured the most."""

    low: float
    high: float | None
    source: str


@dataclass(frozen=True)
class Needs:
    """The needs of a recipe on a machine."""

    memory: Amount
    disk: dict[str, Amount]
    minutes: tuple[int, ...] = ()
    sdk: dict[str, str] = field(default_factory=dict)
    python: str = ""
    glibc: str = ""
    tools: dict[str, str] = field(default_factory=dict)
    libraries: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Weights:
    """Input files: from a repository of models (a digest is None if nobody computed it), or made by kz."""

    repository: str = ""
    revision: str | None = None
    licence: str = ""
    digests: dict[str, str | None] = field(default_factory=dict)
    random: dict[str, Any] | None = None
    content: dict[str, Any] | list[Any] | None = None
    tokenizer: dict[str, Any] | None = None


@dataclass(frozen=True)
class Recipe:
    """One file of recipes/."""

    name: str
    about: str
    command: tuple[Stage, ...]
    needs: Needs
    weights: dict[str, Weights]
    output: str
    contract: Contract
    line: str = ""
    requirements: str = ""
    upstream: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    device: dict[str, str] = field(default_factory=dict)
    chat: str = ""
    traps: tuple[dict[str, str], ...] = ()
    decode: tuple[str, ...] = ()
    cosine: float = 0.95


def recipe(name: str, plain: dict[str, Any]) -> Recipe:
    """Build a recipe from its validated form."""

    def amount(of: dict[str, Any]) -> Amount:
        return Amount(of["gb"][0], of["gb"][1], of["source"])

    needs = plain["needs"]
    contract: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in plain["contract"].items()
    }
    return Recipe(
        **{
            **plain,
            "name": name,
            "command": tuple(
                Stage(s["name"], tuple(s["run"]), s["inside"], tuple(s["makes"]), s["where"]) for s in plain["command"]
            ),
            "needs": Needs(
                **{
                    **needs,
                    "memory": amount(needs["memory"]),
                    "disk": {folder: amount(of) for folder, of in needs["disk"].items()},
                    "minutes": tuple(needs["minutes"]),
                }
            ),
            "weights": {folder: Weights(**of) for folder, of in plain["weights"].items()},
            "upstream": plain["upstream"] or {},
            "traps": tuple(plain["traps"]),
            "decode": tuple(plain["decode"]),
            "contract": Contract(**contract),
        }
    )

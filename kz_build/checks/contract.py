"""What a recipe promises about its .pte: the `contract:` of recipes/*.yaml (docs/reference/verbs/pte.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal


@dataclass(frozen=True)
class Contract:
    """The file, and the runner and device that it is made for. What is not given is not checked.

    `backends` are all those of its delegates; `runner` is the program that runs it: the QNN runner in mode kv or hybrid, or
    LlmModule for text (llm) or more (multimodal); `kv_bits` the width that the runner takes; `shards` QNN contexts
    per method; `shared_buffer` the runner's setting; `qnn` the runtime on the device; `newer_than` the QNN of devices that
    it must not go to, because a context does not load on a QNN older than the one that compiled it; `executorch` what exports it.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    methods: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    runner: Literal["", "kv", "hybrid", "llm", "multimodal"] = ""
    kv_bits: Literal[0, 8, 16] = 0
    context_length: int = 0
    shards: int = 0
    shared_buffer: bool | None = None
    soc: str = ""
    htp_arch: Literal["", "v68", "v69", "v73", "v75", "v79", "v81"] = ""
    qnn: str = ""
    newer_than: str = ""
    executorch: str = ""


def with_pins(contract: Contract, pins: Mapping[str, str]) -> Contract:
    """Return a contract whose `executorch: pinned` is the version that a line pins."""
    return replace(contract, executorch=pinned_executorch(pins)) if contract.executorch == "pinned" else contract


def pinned_executorch(pins: Mapping[str, str]) -> str:
    """Return the version of ExecuTorch that a line pins, as source or as wheel; '' for none."""
    return pins.get("executorch") or pins.get("executorch-wheel", "")

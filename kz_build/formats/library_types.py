"""What a library that shall load a .pte has to offer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Library:
    """Facts of one library, or of a folder of them, about the names that one .pte needs.

    `backends`, `operators` and `graph_operators` (Vulkan's) are those of the .pte that are registered here. `kv_width` says what
    the QNN runner takes: `by file`, `16` where it is built for that alone, `` where there is no QNN runner.
    `executorch` is '' where nothing tells; `qnn` the version of libQnnHtp.so; `skels` the Hexagon archs (v79) that lie beside.
    """

    name: str
    files: tuple[str, ...]
    backends: frozenset[str] = frozenset()
    operators: frozenset[str] = frozenset()
    graph_operators: frozenset[str] = frozenset()
    kv_width: str = ""
    executorch: str = ""
    qnn: str = ""
    skels: frozenset[str] = frozenset()

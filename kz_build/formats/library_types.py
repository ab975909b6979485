"""What a library must provide to load a .pte."""

from __future__ import annotations

import re
from dataclasses import dataclass

_HTP_ARCH = re.compile(r"libQnnHtp(V\d+)(Stub|Skel|CalculatorStub)\.so")


def htp_arch(name: str, *kinds: str) -> str:
    """Return the HTP arch (V79) that a stub or skel of this name is for, '' for other files. `kinds`: those to look at."""
    match = _HTP_ARCH.fullmatch(name)
    return match[1] if match and match[2] in (kinds or match[2]) else ""


@dataclass(frozen=True)
class Library:
    """Facts of one library, or of a folder of them, about the names that one .pte needs.

    `backends`, `operators` and `graph_operators` (Vulkan's) are those of the .pte that are registered here. `kv_width` says what
    the QNN runner accepts: `by file`, `16` if it is built for that alone, `` without a QNN runner. `executorch` is '' if
    unknown; `qnn` the version of libQnnHtp.so; `skels` the Hexagon archs (v79) of the libraries beside it. `expressions` are the
    engines that its tokenizers have for regular expressions: RE2, PCRE2; none without tokenizers.
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
    expressions: frozenset[str] = frozenset()

"""A build.ninja in which commands that generate files wait for no library: what a build would compile first is not in their way.

CMake lets each custom command wait for all that the libraries beside it wait for, and one object for all custom commands:
of ExecuTorch, one object would compile two thirds of the library. It runs as `python -c` where the build is.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

_EDGE = re.compile(r"build (.*?): (\S+)(.*)$")
_WORDS = re.compile(r"(?:\$.|[^ ])+")
_COMPILED = re.compile(r"_COMPILER__|_(?:STATIC|SHARED|MODULE)_LIBRARY_LINKER__")


def pruned(manifest: str) -> str:
    """Return the manifest without the order-only inputs of custom commands that are objects and libraries."""
    lines = manifest.split("\n")
    edges = [(number, edge) for number, line in enumerate(lines) if (edge := _EDGE.match(line))]
    compiled: set[str] = set()
    aliases: dict[str, list[str]] = {}
    for _, edge in edges:
        outputs = [word for word in _WORDS.findall(edge[1]) if word != "|"]
        if _COMPILED.search(edge[2]):
            compiled.update(outputs)
        elif edge[2] == "phony" and edge[3].strip():
            aliases.update(dict.fromkeys(outputs, _WORDS.findall(edge[3])))
    compiled.update(name for name, inputs in aliases.items() if compiled.issuperset(inputs))
    for number, edge in edges:
        before, mark, order = edge[3].partition(" || ")
        if edge[2] == "CUSTOM_COMMAND" and mark:
            left = " ".join(word for word in _WORDS.findall(order) if word not in compiled)
            lines[number] = f"build {edge[1]}: {edge[2]}{before}" + (f"{mark}{left}" if left else "")
    return "\n".join(lines)


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(pruned(Path(sys.argv[1]).read_text()))

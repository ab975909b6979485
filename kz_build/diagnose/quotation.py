"""A log that is only a quotation: the line or two that a person copied, which are the error even if no word of them says so."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kz_build.diagnose.error_lines import Candidate, search_words
from kz_build.diagnose.error_words import form, goes_on, is_ordinary, is_warning, rank
from kz_build.diagnose.log_line import prefix, trimmed
from kz_build.diagnose.signature import ErrorLine
from kz_build.diagnose.wrapped_error import named, undecorated

QUOTED = 3
"""Lines of a log that is no more than a quotation of one."""
SPOKEN = 2
"""A line of fewer words says too little to be an error."""
MOST = 60
"""Lines that are read of a string that was printed as one."""
_NO_ERROR = form("no_error")
"""What is no error in a line that no word marks as one."""


def quoted(lines: Iterable[str]) -> Iterator[Candidate]:
    """Yield the lines of a quotation as they are, and as if their program had called them errors.

    A line that was printed as a string of Python or JSON has the lines of that string.
    """
    warned = False
    for number, line in enumerate(lines):
        warned = is_warning(line) or (warned and line[:1].isspace())  # CMake's warning goes on in indented lines
        for part in () if warned else line.split("\\n")[:MOST]:
            message = prefix(part).message
            sure = 0 <= rank(part) <= 1
            words = undecorated(message)
            said = sure or not (_NO_ERROR.search(message) or _NO_ERROR.search(words))
            if said and len(message.split()) >= SPOKEN and not (is_ordinary(part) or goes_on(part)):
                shown = ErrorLine(number + 1, trimmed(part), search_words(message))
                marked = () if sure else dict.fromkeys((named(words), f"error: {words}"))
                yield from (Candidate(1, shown, text) for text in (message, *marked))


_COLOUR = re.compile(rb"(?:\x1b|\\u001b)(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
"""Colours of a terminal, and those that a notebook writes as text."""


def unmarked(block: bytes) -> bytes:
    """Return a block without colours and without quotation marks at its lines, of which it keeps the number."""
    if b"\x1b" in block or b"\\u001b[" in block:
        block = _COLOUR.sub(b"", block)
    return _unquoted(block) if block[:2] in (b"> ", b"# ") else block


def _unquoted(block: bytes) -> bytes:
    """Take off the mark of a mail, of Markdown or of a comment (`> `, `# `) if each of several lines begins with it.

    A single line may be Gradle's, which begins lines with `> ` itself.
    """
    mark = block[:1]
    lines = block.split(b"\n")
    marked = [line[:2] == mark + b" " for line in lines if line.strip() not in (b"", mark)]
    if len(marked) < SPOKEN or not all(marked):
        return block
    return b"\n".join(line[2:] for line in lines)

"""The lines of a quilt series."""

from __future__ import annotations

import re

_COMMENT = re.compile(r"(^|[ \t]+)#.*")


def series_rows(text: str) -> list[tuple[str, list[str]]]:
    """Return each line of a series with its words, as quilt reads them: a name and options, none in a comment.

    Only a newline ends a line, and only spaces and tabs separate words. A carriage return before the newline is left out.
    """
    rows = [row.removesuffix("\r") for row in text.removesuffix("\n").split("\n")] if text else []
    return [(row, [word for word in re.split("[ \t]+", _COMMENT.sub("", row)) if word]) for row in rows]

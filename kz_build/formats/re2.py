"""What RE2 refuses in a regular expression, of all that Oniguruma and PCRE2 take (https://github.com/google/re2/wiki/Syntax)."""

from __future__ import annotations

import re
from collections.abc import Iterator

_REPEAT = r"(?:[*+?]|\{\d+(?:,\d*)?\})"
_TOKEN = re.compile(
    rf"""(?P<quoted> \\Q.*?(?:\\E|\Z) )
    | (?P<escape> \\(?:[pPx]\{{[^}}]*\}}|[0-7]+|.) )
    | (?P<set> \[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\] )
    | (?P<group> \(\?(?:P?<[A-Za-z_]\w*>|<?[=!]|[imsU-]*[:)]|.?) )
    | (?P<repeat> {_REPEAT}\??(?P<again>{_REPEAT})? )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = frozenset("aftnrvxAbBCdDsSwWzQEpP")
_GROUP = re.compile(r"\(\?(?:P?<[A-Za-z_]\w*>|[imsU-]*[:)])")
_LOOK = {"(?=": "lookahead", "(?!": "lookahead", "(?<=": "lookbehind", "(?<!": "lookbehind", "(?>": "atomic group"}
_MOST_REPEATS = 1000


def refused(expression: str) -> str:
    """Return what RE2 refuses first in an expression, as in `lookahead (?!`; '' where nothing is known of."""
    return next(_refused(expression), "")


def _refused(expression: str) -> Iterator[str]:
    for match in _TOKEN.finditer(expression):
        text = match[0]
        if match["escape"] and not _escape(text):
            yield f"escape {text}"
        elif match["set"]:
            yield from (f"escape {one}" for one in re.findall(r"\\.", text, re.DOTALL) if not _escape(one))
        elif match["group"] and not _GROUP.fullmatch(text):
            yield f"{_LOOK.get(text, 'group')} {text}"
        elif match["again"]:
            yield f"possessive or doubled quantifier {text}"
        elif match["repeat"] and any(int(n[:9]) > _MOST_REPEATS for n in re.findall(r"\d+", text)):
            yield f"repetition {text[:20]}"


def _escape(text: str) -> bool:
    """Return whether RE2 takes an escape: a single digit but 0 is a reference back."""
    first = text[1]
    if first.isdigit():
        return first == "0" or (first in "1234567" and len(text) > 2)
    return first in _ESCAPES or not (first.isascii() and first.isalnum())

"""A log that is only a quotation: the line or two that a person copied, which are the error even if no word of them says so."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kz_build.diagnose.error_lines import Candidate, search_words
from kz_build.diagnose.error_words import goes_on, is_ordinary, is_warning, rank
from kz_build.diagnose.log_line import prefix, trimmed, undecorated
from kz_build.diagnose.signature import ErrorLine

QUOTED = 3
"""Lines of a log that is no more than a quotation of one."""
SPOKEN = 2
"""A line of fewer words says too little to be an error."""
MOST = 60
"""Lines that are read of a string that was printed as one."""
_EXCEPTIONS = (
    ("ModuleNotFoundError", re.compile(r"^No module named ")),
    ("ImportError", re.compile(r"^cannot import name ")),
    ("AttributeError", re.compile(r" has no attribute '")),
    ("TypeError", re.compile(r"\(\) (?:got an unexpected|missing \d|takes )| object is not |^unsupported operand ")),
)
"""Kinds of Python's exceptions whose words are quoted without them."""
_NO_ERROR = re.compile(
    r"""(?xi)
    # it goes on, with something else
      \b(?:defaulting|defaults?)\ to\b | [;,]\ (?:using|trying|use\ the\ default|connected)\b | \bwill\ be\ (?:created|ignored|skipped|disabled)\b
    | \battention\ mask\ is\ not\ set | ^debconf:\ \( | \bnot\ (?:set|installed)\ by\ default\b | ^(?:attempt|retry)\ \d | ^waiting\ for\b
    | \bfalls?\ back\ to\b | [,;]\ [^,;]*\b(?:disabled|off|slower|anonymous\ access|are\ used)\s*$ | \bare\ unavailable\b
    | [;,]\ (?:rebuilding|downloading)\b | ^for\ better\ performance\b | ^you\ are\ using\ an?\ old
    # it went well
    | \.\.\.\ ?(?:ok|no|yes|passed)\s*$ | ^\s*(?:pass(?:ed)?|ok|usage|verified)\s?[:\]] | ^checking\ (?:for|whether)\b
    | \bno\ (?:checksum\ mismatch|corruption) | ^0\ files\b | [(]?ignored[)]\s*$ | :\ pass\s*$
    # a setting, a step or a list of a report
    | ^\#?\ ?CONFIG_\w+\ is\ not\ set | ^\s*[✗✘]\ (?!error|fail) | ^diff:[ ] | ^\[\ - | ^(?:-\ )?(?:name|label|title|summary|description|run|uses):[ ]
    | :\ \[\][,\s] | ^[A-Z][a-z]+:\ not\ found$
    # code
    | ^[-+\s]*(?:echo|printf|print|assert|if|elif|while|case|select)\b[^:]*$ | ^[-+\s]*(?:throw|raise|return|await)\ \w | ^\s*[\w.]+\.\w+\(["']
    | <\w+\ name= | \);\s*$ | ^\#\s?error\b | ^msg(?:id|str)\b | ^message\(
    # a server's record
    | ^[\d.]+\ \S+\ \S+\ \[ | ^(?:GET|POST|PUT|HEAD)\ / | ^<\ HTTP/
    # a change or its title
    | ^commit\ [0-9a-f]{3,40}\b | ^(?:fix|feat|docs?|chore|ci|tests?|refactor|build|perf|style)(?:\([^()]*\))?!?:\ (?!error)
    | ^(?:revert|merge|bump|avoid|handle|don't|fix(?:es|ed)?|improve|clarify|refactor)[ ] | \(?\#\d+\)?\s*$
    | ^\[(?:bug|bug\ report|feature|feature\ request|question|rfc|docs?|discussion|help)\]
    # a test's name
    | ^(?:skipped|xfail|xpass)\b | ^(?:throws|returns|rejects|raises)\ \w | ^(?:it|describe|test)\(['"]
    # a question, a person's words
    | ^thanks?\b | \bthat\ fixed\ it\b | ^(?:how|why|what|when|where|which|who|is|are|can|could(?!\ not)|does|has|have|should|any)\b.*\?\s*$ | ^in\ case\b
    | ^this\ happens\b | ^please\ (?:install\ the\ latest\ version|provide\ (?:a\ )?(?:minimal|full|reproducible))\b
    # documentation
    | ^prerequisites?\b | ^important: | \b(?:is|are)\ shown\b | ^requires?\b | ^this\ (?:option|flag|feature|setting)\ (?:requires|needs)\b
    | \bmust\ be\ installed\ before\b
    """
)
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
                kinds = (kind for kind, form in _EXCEPTIONS if form.search(words))
                marked = () if sure else (f"{kind}: {words}" for kind in (*kinds, "error"))
                yield from (Candidate(1, shown, text) for text in (message, *marked))

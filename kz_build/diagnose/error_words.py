"""The words by which a line of a log looks like an error, and how much it does."""

from __future__ import annotations

import re
from pathlib import Path

from kz_build.diagnose.log_line import Prefix, is_prompt, prefix
from kz_build.diagnose.tables import table

EXIT = 4
"""The rank of lines that only say that something failed."""
TRACEBACK = b"Traceback (most recent"
GRADLE = b"What went wrong:"
TASK = b"Execution failed for task "
PROBLEM = b"A problem occurred "
CMAKE, CMAKE_IN = b"CMake Error at ", b"CMake Error in "
BACKTRACE, FRAME_0, FRAME_00 = b"backtrace:", b"#00 pc ", b"#00  pc "
FORMS = table(Path(__file__).with_suffix(".yaml"))
"""By which words a line looks like an error: error_words.yaml has a line for each form."""
ANY_CASE = {"ordinary", "goes_on", "no_error"}
"""The kinds of forms that match in capitals, too."""
TEXTS = frozenset(text.encode() for text in FORMS["texts"])
"""What a line must contain to be looked at: plain texts, for only those are fast."""


def form(kind: str) -> re.Pattern[str]:
    """Return the expression for all forms of a kind."""
    return re.compile("|".join(row["match"] for row in FORMS[kind]), re.IGNORECASE if kind in ANY_CASE else 0)


_EXCEPTION = re.compile(
    r"^(?:E\s{2,}|\[?rank\d+\]?:\s*|[|│]\s*|(?:→ )?Caused by: |Unhandled Exception: |Exception has occurred: |Fatal Exception: |Exception in thread \"[^\"]*\" |Pending exception )*"
    rf"(?:(?:[\w$]+\.)*(?:[A-Z][\w$]*(?:Error|Exception|Interrupt|Exit|Exceeded|Failure|LimitHit)|{'|'.join(FORMS['exceptions'])})\b(?::|\s*$)"
    r"|InvalidArchiveError\(|(?:[a-z_]\w*\.){2,}[A-Z]\w+: |Exception: |Abort message: |Unsupported: )"
)
_FATAL = form("fatal")
_ERROR = form("error")
_UNMARKED = form("unmarked")
_FAILED = form("failed")
_FOLLOWS = form("follows")
_EXIT = form("exit")
_ORDINARY = form("ordinary")
_CODE = form("code")
_LESS = re.compile(r"(?i)^[WIDV][ /]|^\s{0,8}(?-i:w: )|\bwarn(?:ing)?\b")
_NAMES = re.compile(
    r"(?i)executorch|qnn|htp|fastrpc|adsprpc|cdsp|tokenizers|xnnpack|vulkan|androidruntime|linker|etlogging|llama|litert|tflite|genie|snpe"
)
_UNRELATED_TAGS = frozenset({"DEBUG", "audit", "tombstoned", "crash_dump64"})
_SERVICES = re.compile(
    r"(?i)^(?:gms|google|firebase|fa(?:-\w+)?$|crashlytics|finsky|ads$|chromium$|volley$|dynamite|phenotype|clearcut|sqlitelog$)"
)
"""Tags of Google's services, whose exceptions stand in nearly every log of a device and hinder no app."""

STACKS = "System.err"
"""The tag under which Android shows the exceptions that Java code prints, as warnings."""


def rank(line: str) -> int:
    """Return how likely a line is the error: 0 is the best, -1 is no error at all."""
    level, tag, message = prefix(line)
    if is_prompt(line):
        return -1
    if not message or _CODE.search(message) or tag in _UNRELATED_TAGS and not _FATAL.search(message):
        return -1
    if _FOLLOWS.search(message):
        return EXIT
    less = _is_less(level)
    if _EXCEPTION.match(message):
        return 3 if _SERVICES.match(tag) or less and tag != STACKS else 0
    if less or _ORDINARY.search(message):
        return -1
    if _FATAL.search(message):
        return 0
    return _lesser(Prefix(level, tag, message))


_GOES_ON = form("goes_on")


def goes_on(line: str) -> bool:
    """Return whether a line that no word marks as an error says that its program goes on."""
    return bool(_GOES_ON.search(line))


def is_warning(line: str) -> bool:
    """Return whether a line calls itself a warning."""
    return bool(_LESS.search(line))


def _is_less(level: str) -> bool:
    """Return whether a level of logcat is less than an error."""
    return bool(level) and level not in "EFA"


def is_ordinary(line: str) -> bool:
    """Return whether a line is code, a command, or one that its program calls less than an error."""
    level, _, message = prefix(line)
    less = _is_less(level) or is_warning(line)
    return is_prompt(line) or less or bool(_CODE.search(message) or _ORDINARY.search(message))


def _lesser(line: Prefix) -> int:
    known = bool(_NAMES.search(line.tag or line.message))
    if line.level:
        return 1 if known or line.level != "E" else 3
    if _ERROR.search(line.message) or _UNMARKED.search(line.message):
        return 1 if not _EXIT.search(line.message) else 4
    if _EXIT.search(line.message):
        return 4
    return 2 if _FAILED.search(line.message) else -1


BARE_REASON = re.compile(r"^[\w.-]+: [A-Z][a-z ]+\.?$")
"""A program and the system's reason, without what it did."""
ENDS_WELL = form("ends_well")
"""Words of success: a log that has them in its last lines, and no error behind them, ends well."""
STAYS = form("stays")
"""What stays wrong although its program tells of success below it."""
_REASON = form("reason")


_ASSERTS = re.compile(
    r"(?i)(?:^|\bAssertionError: )assert |\bexpect(?:ed|s|ing)?\b[^\n]{0,120}\b(?:but|got|to (?:be|equal|include|contain|match|throw|raise))\b"
)
"""A test's assertion: the error in it is one that it expected, or did not expect."""


def speaks(rank: int, line: str) -> bool:
    """Return whether an error's own words may be taken for the cause.

    Those of Android's services may not: they tell many errors that hinder nothing. Nor may those of a test's assertion. A line that
    has no mark of an error must end with the system's reason, or begin with what failed or is not found.
    """
    level, tag, message = prefix(line)
    if _ASSERTS.search(message):
        return False
    if rank == 0:
        return level in ("", *"EFA")
    return not (level and tag) and (rank == 1 or (rank == 2 and bool(_REASON.search(message))))

"""An error inside other text: after the words of a logger, a task or another exception, in quotes, or without its exception's name."""

from __future__ import annotations

import re

from kz_build.diagnose.log_line import prefix

_DECORATION = re.compile(
    r"^(?:\s*(?:[>•*-]\s|(?:error|Error|ERROR):[ \t]*\n|\[(?:ERROR|FATAL|Error|error|E)\]:?\s|##\[error\]"
    r"|\[?\d{4}[-/]\d\d[-/]\d\d[ T]\d\d:\d\d:\d\d[.,\d]*Z?\]?:?\s|\d{1,5}\s*\|\s|(?:ERROR|FATAL|CRITICAL)\s{1,4}(?=\S)))+"
)
_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "‘": "’"}
_BEFORE = r"(?:[:\])=>^-] ?|\bor:)[\[\"'`(]?"
"""The marks between such words and the error."""
_OUTER = re.compile(
    r"(?![VDIW] [^\n:]{1,40}: |.*(?i:\bwarn|\bignor|\bskip|\bretry|\bcaught\b))[^\n]{0,200}?"
    + _BEFORE
    + r"(?=(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): \S)"
)
_NAMELESS = {
    "ModuleNotFoundError": r"No module named ",
    "ImportError": r"cannot import name ",
    "AttributeError": r"(?:module|type object|partially initialized module)? ?'[^'\n]{1,100}'(?: object)? has no attribute '|can't set attribute",
    "TypeError": r"[\w.<>]{1,80}\(\) (?:got an unexpected|missing \d|takes )|'[\w.]{1,60}' object is not |unsupported operand type|cannot unpack non-iterable",
    "NameError": r"name '\w{1,60}' is not defined",
    "UnboundLocalError": r"(?:local variable|cannot access local variable) '\w",
    "IndexError": r"(?:list )?index out of range\b",
    "ValueError": r"could not convert string to float|(?:not enough|too many) values to unpack",
}
"""How Python words its own exceptions: programs often print these words without the exception's name."""
_WORDS = re.compile(
    rf"(?:^|{_BEFORE})(?P<words>{'|'.join(f'(?P<{kind}>{words})' for kind, words in _NAMELESS.items())})"
)
_ALONE = re.compile(r"(?:Exception has occurred: )?((?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception))[ \t]*\n\s*(?=\S)")


def joined(text: str) -> str:
    """Return an error with exception and message on one line, if the exception stands alone above its message, as in an editor's debugger."""
    return _ALONE.sub(r"\1: ", text, count=1) if _ALONE.match(text) else text


def undecorated(text: str) -> str:
    """Return an error without what a person, an editor or a service puts before its first line, and without quotes around it."""
    text = _DECORATION.sub("", text, count=1)
    end = _QUOTES.get(text[:1], "")
    within = text[1:].rstrip().removesuffix(end)
    return within if end and end not in within else text


def unframed(line: str) -> str:
    """Return the message of a line without all that stands before it; '' if nothing does, or if the line is logcat's."""
    level, _, message = prefix(line)
    plain = undecorated(message)
    return plain if plain != line.strip() and not level else ""


def inner(text: str) -> str:
    """Return an error without the words on its first line that come before an exception."""
    return _OUTER.sub("", text, count=1) if _OUTER.match(text) else text


def named(text: str) -> str:
    """Return an error with the exception's name put before Python's words for it; unchanged if it has no such words."""
    found = _WORDS.search(text.split("\n", 1)[0])
    kind = next((kind for kind in _NAMELESS if found[kind]), "") if found else ""
    return f"{kind}: {text[found.start('words') :]}" if found else text

"""The sentence in which an error says what is wrong: who says it, where, and its words without the marks around them."""

from __future__ import annotations

import re
from typing import NamedTuple

LONGEST = 240
"""Characters of the words, or of what a family takes out of a passage: two or three sentences."""
READ = 1000
"""Characters of a line that are searched for marks."""


class Sentence(NamedTuple):
    """Who says it ('the program' where no name stands before it), the file and line that it names or '', and its words."""

    who: str
    place: str
    words: str


_CMAKE = re.compile(r"CMake Error (?:at (?P<place>[^\n]{1,300}?:\d+) \(\w+\)|in [^\n:]+|\(dev\)[^\n:]*):")
_GRADLE = re.compile(
    r"[^\n]*(?:What went wrong:|Execution failed for task |A problem occurred )[^\n]*\n|[^\n]*> A failure occurred while[^\n]*\n"
)
_HEADS = re.compile(
    r"""(?x)
      (?:(?:\w+\ ){1,4}failed:\s+)?Cause:\s+|(?:\w+\ ){1,4}failed:\s+(?=[A-Z])
    | (?:Caused\ by|Exception\ in\ thread\ "[^"]*"|Pending\ exception)[:\s]\s*
    | [EF]\ (?P<tag>[^\s:]+):\ *
    | \[?\ ?(?:ERROR|FATAL|error|E|FAIL)\ ?\]:?\s+(?:\[[^\]\n]*\]:?\s+)*(?:\w+\ +<E>\s+)?
    | \[Qnn\ ExecuTorch\]:?\s+
    | (?:ERRO|FATA)\[\d+\]\s+
    | (?:\w{2,}:)?(?P<place>(?:[A-Za-z]:)?[^\s:()]*[\w)]\.\w+(?::\d+(?::\d+)?|\(\d+(?:,\d+)?\)))\]?:?\s+
    | e:\ (?:file://)?
    | Error:(?:\(\d+(?:,\ \d+)?\)\s)?
    | (?P<tool>(?![\w.$]*(?:Error|Exception|Interrupt|Exit|WithDiagnostic):)(?!(?i:error|fatal|failed|failure|err|exception)\b)[\w./+\\-]*[A-Za-z][\w.+-]*)(?:\[\d+\])?:\s+(?=(?:fatal\ |internal\ )?(?:error|Error|ERROR|fatal|FATAL|cannot|can't|unknown|Unknown|invalid|unrecognized|illegal|failed|could)\b)
    | (?:CMake|[Ff]atal|[Ii]nternal)?\ ?(?:error|Error|ERROR|fatal|FATAL|err|Failed|FAILURE|FAIL)(?:\[\w+\]|\ [A-Z]{1,4}\d{2,5})?:(?:\s|$)+
    | (?:ERROR|FATAL)\s+(?:\d{4}-\S+\s+)?(?:[\w:.]+:\s+)?-?\s*
    | (?:[\w$]+\.)*(?:[A-Z][\w$]*(?:Error|Exception|Interrupt|Exit|WithDiagnostic)|Exception):\s
    """
)
_STOP = re.compile(
    r"\s*(?:\*\s|>\s|Call Stack|-- |CMake |at \S+\(|Traceback|raised in |The above exception|During handling|FAILED|ninja|g?make\b|make\[|Try(?: running)?:"
    r"|\d+ errors? |\[|#\d|(?:[\w.]+)?(?:Error|Exception): |\S+:\d+:\d+: )"
)
_FRAME = re.compile(r"^raised in File \"(?P<file>[^\"]+)\", line (?P<line>\d+)", re.M)


def sentence(passage: str) -> Sentence:
    """Return what an error says about itself; `passage` is its line and those below it.

    Of CMake that is the message below the head, of Gradle the innermost reason; the lines into which either breaks it are joined.
    """
    cmake = _CMAKE.match(passage)
    if cmake:
        return Sentence("CMake", cmake["place"] or "", _joined(passage[cmake.end() :].splitlines(), blank=True))
    head = _GRADLE.match(passage)
    if head:
        lines = passage[head.end() :].splitlines()
        end = next((n for n, line in enumerate(lines) if line.lstrip().startswith("* ")), len(lines))
        inner = max((n for n, line in enumerate(lines[:end]) if line.lstrip().startswith("> ")), default=0)
        lines = [lines[inner].lstrip(" >"), *lines[inner + 1 : end]] if lines else []
        return _plain(lines)._replace(who="Gradle")
    frame = _FRAME.search(passage)
    plain = _plain(passage.splitlines())
    return plain if plain.place or not frame else plain._replace(place=f"{frame['file']}:{frame['line']}")


def _plain(lines: list[str]) -> Sentence:
    """Take the marks off the first line, and join the lines that go on with it."""
    who, place, rest = "", "", lines[0][:READ].strip() if lines else ""
    mark = _HEADS.match(rest)
    while mark and mark.end():
        named = mark.groupdict()
        who = named["tool"] or named["tag"] or who
        place = place or named["place"] or ""
        rest = rest[mark.end() :]
        mark = _HEADS.match(rest)
    more = lines[1:]
    if not rest and more:
        rest, more = more[0].strip(), more[1:]
    return Sentence(
        who.rsplit("/", 1)[-1] or "the program",
        place,
        _joined([rest, *more]) if rest.endswith((":", ",")) else rest[:LONGEST],
    )


def _joined(lines: list[str], *, blank: bool = False) -> str:
    """Join the lines of one message; blank ones end it, but for those of a message in paragraphs."""
    words: list[str] = []
    for line in lines:
        if words and (_STOP.match(line) or (not line.strip() and not blank)):
            break
        words += line.split()
    return " ".join(words)[:LONGEST]

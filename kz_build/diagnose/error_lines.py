"""The lines of a log that look like its error, for logs in which no signature is found: ranked, and few."""

from __future__ import annotations

import re
from typing import NamedTuple

from kz_build.diagnose.error_words import (
    BACKTRACE,
    CMAKE,
    CMAKE_IN,
    EXIT,
    FRAME_0,
    FRAME_00,
    GRADLE,
    PROBLEM,
    TASK,
    TEXTS,
    TRACEBACK,
    goes_on,
    rank,
)
from kz_build.diagnose.log_line import Found, around, bare, prefix, trimmed
from kz_build.diagnose.signature import ErrorLine

MOST = 5
LIMIT = 10_000
"""Lines with one of the texts after which that text is no longer searched for."""

PASSAGE, PASSAGE_LINES, WIDTH = 3000, 16, 400
"""Bytes and lines of an error that are kept for the families, and characters of a line."""
PHRASE = 100
"""Characters of a phrase to search for: searches refuse long ones."""
FRAME = 4
"""Lines between an exception's last frame and itself."""


class Candidate(NamedTuple):
    """A line that may be the error, how likely it is (rank), and the lines around it that belong to it."""

    rank: int
    line: ErrorLine
    passage: str


class ErrorLines:
    """Show it the texts in the blocks of a log, then ask `best`. It keeps a few lines of each rank."""

    def __init__(self) -> None:
        self.texts = TEXTS
        self._seen: dict[bytes, int] = {}
        self._kept: dict[int, Candidate] = {}
        self._full: set[int] = set()
        self._said: set[str] = set()

    def look_at(self, block: bytes) -> None:
        """Look at every line of a block."""
        for text in self.texts:
            at = block.find(text)
            while at >= 0:
                self.look(block, 0, text, at)
                at = block.find(text, at + 1)
        self.trim()

    def look(self, block: bytes, before: int, text: bytes, at: int) -> None:
        """Look at the line around a text of TEXTS; `before` is the number of lines before the block."""
        if text not in self.texts:
            return
        found = _last(block, at, text) if text in _HEADS else around(block, at)
        head = around(block, at).start if text in _OF_GRADLE else at if text in (CMAKE, CMAKE_IN) else found.start
        self._note(block, before, head, found, sure=text in _HEADS)
        self._seen[text] = self._seen.get(text, 0) + 1
        if self._seen[text] >= LIMIT:
            self.texts -= {text}

    def _note(self, block: bytes, before: int, head: int, found: Found, *, sure: bool) -> None:
        value = rank(found.text)
        if value == 2 and found.text.startswith("  "):
            value = 3  # it goes on with what another line says, perhaps a warning
        if sure and found.text.strip() and value < EXIT:
            value = 0
        if value < 0 or stops_nothing(block, found.end) or (sure and _WARNS.search(found.text)):
            return
        if value == 0 and _is_ignored(block, found.start):
            return
        if value == 0 and (block.find(_WRAPPED, found.end, found.end + 400) >= 0 or _has_cause(block, found.end)):
            value = 1
        if value == 0 and _LOOKUP.search(found.text) and block.find(_HANDLED, found.end, found.end + 400) >= 0:
            value = 1
        if value == 0 and not found.text[:1].isspace() and is_handled(block, found.end):
            value = 1
        # What trim would drop is not made at all: in a large log that is nearly every line.
        if value in self._full:
            return
        words = search_words(prefix(found.text).message)
        if words in self._said:
            return
        number = before + block.count(b"\n", 0, found.start) + 1
        old = self._kept.get(number)
        passage = _passage(block, head)
        if not old or (value, -len(passage)) < (old.rank, -len(old.passage)):
            self._kept[number] = Candidate(value, ErrorLine(number, trimmed(found.text), words), passage)

    def stop(self) -> None:
        """Look at no more lines: those that were seen stay."""
        self.texts = frozenset()

    def trim(self) -> None:
        """Keep the first lines of each rank, each text once; with enough of the best, search no more."""
        counts: dict[int, int] = {}
        seen: set[str] = set()
        for number, (value, line, _) in sorted(self._kept.items()):
            counts[value] = counts.get(value, 0) + 1
            if counts[value] > MOST or line.search in seen:
                counts[value] -= 1
                del self._kept[number]
            seen.add(line.search)
        self._full = {value for value, count in counts.items() if count >= MOST}
        self._said = {one.line.search for one in self._kept.values()}
        if counts.get(0, 0) >= MOST:
            self.texts = frozenset()

    def add(self, later: ErrorLines, before: int) -> None:
        """Add what another found in the part of the log that begins after `before` lines."""
        for value, line, passage in later._kept.values():
            number = line.line + before
            self._kept[number] = Candidate(value, ErrorLine(number, line.text, line.search), passage)
        self.trim()

    def best(self) -> tuple[Candidate, ...]:
        """Return the likeliest lines, the best first."""
        return tuple(sorted(self._kept.values(), key=lambda one: (one.rank, one.line.line))[:MOST])


_IN_NOTEBOOK = re.compile(r"File |Cell In|\[?<ipython-input|\[?[~/]\S+ in |\[?[~/]\S+\]\(")
"""How a frame of a notebook begins, which is not indented."""
_FRAME = re.compile(r"#\d+\s+pc ")
_SYSTEM = re.compile(
    r" /(?:apex|system|vendor|odm|product)/|\blib(?:c|m|dl|c\+\+_shared|art\w*)\.so\b|\[vdso\]|<anonymous|\[anon|jit-cache"
    r"|base\.(?:vdex|odex|oat)"
)
_WRAPPED = b"The above exception was the direct cause of"
"""Python's words between an exception and the one that was made of it, which says more."""
_HANDLED = b"During handling of the above exception"
"""Python's words between an exception that was caught and one that came while the program went on."""
_LOOKUP = re.compile(r"^(?:[\w.|│ ]+)?\b(?:Attribute|Key|Index|Type|Lookup)Error\b|^StopIteration\b")
"""Exceptions by which code asks whether something is there, to go on in another way."""
JAVA_FRAMES = 12_000
"""Bytes below a Java exception in which its "Caused by" is looked for."""
_WARNS = re.compile(r"^\S+:\d+: [A-Z]\w*Warning: ")
"""What Python prints of a warning, which may stand below a traceback that C code showed."""
_OF_GRADLE = (GRADLE, TASK, PROBLEM)
_HEADS = (TRACEBACK, *_OF_GRADLE, CMAKE, CMAKE_IN, BACKTRACE, FRAME_0, FRAME_00)
"""Heads of several lines, of which another says what is wrong."""


_AGAIN, _NEAR = b"Will retry", 160
"""What curl prints below an error after which it tries again, and within how many bytes."""
IGNORED = (b"Exception ignored in", b"--- Logging error ---")
"""Python's words above the traceback of an exception that stops nothing."""


_TEST_OK, _TEST_ENDS = b"\n[       OK ]", (b"\n[  FAILED  ]", b"\n[ RUN      ]")
"""How GoogleTest says that a test passed, and what ends it in another way."""
_WITHOUT = re.compile(r"(?i)\bnot available\b|\bunavailable\b|\bdisabled\b")


def stops_nothing(block: bytes, end: int) -> bool:
    """Return whether curl tries again after the line that ends at `end`, or the GoogleTest that prints it passes: it made the error itself."""
    below = block[end : end + PASSAGE]
    passed = below.find(_TEST_OK)
    return _AGAIN in below[:_NEAR] or (passed >= 0 and not any(0 <= below.find(text) < passed for text in _TEST_ENDS))


def is_handled(block: bytes, end: int) -> bool:
    """Return whether the line below an exception that ends at `end` says that the program goes on without what failed."""
    below = around(block, end + 1).text if end + 1 < len(block) else ""
    return not below[:1].isspace() and rank(below) != 0 and (goes_on(below) or bool(_WITHOUT.search(below)))


def _is_ignored(block: bytes, start: int) -> bool:
    """Return whether the exception that begins at `start` is one that Python only shows and goes on."""
    head = block.rfind(TRACEBACK, max(0, start - PASSAGE), start)
    line = block.rfind(b"\n", 0, max(head, 0)) + 1
    above = block[max(0, line - WIDTH) : line].rstrip(b"\n").rsplit(b"\n", 1)[-1]
    if head < 0 or not any(words in above for words in IGNORED):
        return False
    frames = block[head:start].split(b"\n")[1:-1]
    return all(frame[:1] in (b" ", b"\t", b"\r") for frame in frames)


def _has_cause(block: bytes, end: int) -> bool:
    """Return whether a "Caused by" stands below a Java exception's frames, which end at the first line that is none."""
    for line in block[end + 1 : end + JAVA_FRAMES].split(b"\n"):
        if b"Caused by: " in line:
            return True
        if b"at " not in line and b"... " not in line:
            return False
    return False


def _last(block: bytes, at: int, head: bytes) -> Found:
    """Return the line below a head that says what is wrong.

    Of a traceback it is the first that is not indented, of Gradle the innermost `>`, of CMake the first, of a crash on
    Android the first frame outside of the system. In a notebook the frames are not indented: there the line of the
    exception is found by itself.
    """
    found = around(block, at)
    column = at - found.start if head == TRACEBACK else 0
    below = Found(found.start, found.end, "")
    crash = head in (BACKTRACE, FRAME_0, FRAME_00)
    if crash and _FRAME.search(found.text) and not _SYSTEM.search(found.text):
        return found
    while found.end + 1 < len(block):
        found = around(block, found.end + 1)
        text = bare(found.text).strip()
        if head == TRACEBACK and (text.startswith("---") or _IN_NOTEBOOK.match(found.text[column:])):
            break
        if crash and not _FRAME.search(text):
            break
        if head in _OF_GRADLE and text.startswith("at "):
            break  # it stood in the stack trace of an exception
        if crash and not _SYSTEM.search(text):
            return found
        if (head == TRACEBACK and found.text[column : column + 1].strip()) or (head in (CMAKE, CMAKE_IN) and text):
            return found
        if head in _OF_GRADLE and text.startswith("* "):
            return below
        nested = bare(below.text).lstrip().startswith(">")
        if head in _OF_GRADLE and text and nested and not text.startswith(">"):
            return below
        below = found if text else below
    return below if head in _OF_GRADLE else Found(below.start, below.end, "")


_GAP = re.compile(r"(?<=\S) {3,}")


def _narrow(line: str) -> str:
    """Return a line that is not too long: of one that names a long C++ function before its error, the error, else head and tail.

    The spaces of a table, or of lines that were joined to one, count as one.
    """
    line = _GAP.sub(" ", line)
    at = line.rfind("error: ")
    if len(line) > WIDTH and at > WIDTH // 2:
        return line[at : at + WIDTH]
    return line if len(line) <= WIDTH else f"{line[: WIDTH // 2]} {line[-WIDTH // 2 :]}"


def _passage(block: bytes, start: int) -> str:
    """Return an error and the lines below it, without times and ids, and the last frame of a Python exception below those."""
    lines = block[start : start + PASSAGE].decode("utf-8", "replace").splitlines()[:PASSAGE_LINES]
    parts = [(prefix(line), line) for line in lines]
    shown = [f"{p.level} {p.tag}: {p.message}" if p.tag else p.message if p.level else bare(line) for p, line in parts]
    passage = "\n".join(_narrow(line).rstrip() for line in shown).strip()
    frame = block.rfind(b'File "', max(0, start - 800), start)
    if frame >= 0 and block.count(b"\n", frame, start) <= FRAME:
        code = (bare(line).strip() for line in block[frame:start].decode("utf-8", "replace").splitlines())
        passage += "\nraised in " + "\n".join(code)
    return passage


_VARIABLE = re.compile(
    r"\S*[/\\]\S*|\S+@\S+|\b0x[0-9a-fA-F]+\b|\b(?=\w*\d)[0-9a-fA-F]{8,}(?:-[0-9a-fA-F]{4,})*\b"
    r"|(?<![\w.])[-+]?\d[\d.,:]*(?:[kKMG]?i?B|ms|us|s|%)?(?!\w)|(?<=\w):\d+\]?"
)
_PYTEST = re.compile(r"^E\s{2,}")
_BREAK = re.compile(r"[\0\[\](){}<>\"“”‘’|;,=*│]+|(?<!\w)['`]+|['`]+(?!\w)|\s:\s|:{3,}")


def search_words(message: str) -> str:
    """Return what to search for: the longest phrases of a message, without paths, addresses, numbers and times."""
    runs = [
        " ".join(run.split()[:8])[:PHRASE].strip(" .:-")
        for run in _BREAK.split(_VARIABLE.sub("\0", _PYTEST.sub("", message[:WIDTH])))
    ]
    runs = [run for run in dict.fromkeys(runs) if sum(map(str.isalpha, run)) > 3]
    longest = sorted(runs, key=len, reverse=True)[:2]
    return " ".join(f'"{run}"' for run in runs if run in longest)

"""What reaches a terminal, a page, a log: text of others with its control characters escaped, addresses without passwords."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TextIO, cast

if TYPE_CHECKING:
    from kz_build.core.heartbeat import Heartbeat

WIDTH, WIDEST = 80, 120
"""How wide text is that people read, where no terminal is narrower; and at most, where one is wider."""
_COLUMN = re.compile(r" {2,}(?=\S)")
_TO_PASTE = re.compile(r"\s*(\d+ +)?(-> |\$ )")
_UNSEEN = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
"""Characters that Unicode calls letters, marks or symbols, and that no font draws."""
_COMMAND = re.compile(r"(?m)^\s*:(?=:)|#(?=#\[)")
"""The start of a command to GitHub's runner, in both of its forms."""


_SECRETS = re.compile(
    r"""(?ix) \b( (?!ssh) [a-z][a-z0-9+.-]{0,15} :// ) [^\s/?\#'"<>]+ @
    | \b( ssh:// [^\s/?\#'"<>:@]+ ) : [^\s/?\#'"<>]* @
    | ( [?&] [^\s=&?]{0,64} (?: token | sig | secret | passw | pwd | key | auth | credential ) [^\s=&?]{0,64} = ) [^\s&\#'"<>)]+"""
)
"""The user and password in an address, and what a signed address has in its query."""


def without_secrets(text: str) -> str:
    """Return text with the passwords and signatures of the addresses in it as `***`: for messages, logs and records."""
    if "://" not in text and "?" not in text and "&" not in text:
        return text
    return _SECRETS.sub(lambda m: f"{m[1] or m[2]}***@" if m[1] else f"{m[2]}:***@" if m[2] else f"{m[3]}***", text)


def escaped(text: str) -> str:
    r"""Return text with each character that a terminal obeys or hides as `\uXXXX`, as JSON writes it; newline and tab stay.

    These are control, bidirectional and other format characters, lone surrogates, and what Unicode has not assigned.
    Addresses in it lose their secrets.
    """
    return without_secrets(text).translate(_ESCAPES)


def one_line(text: str) -> str:
    """Return text as part of one row: escaped, its newlines and tabs too."""
    return escaped(text).replace("\n", "\\n").replace("\t", "\\t")


def wrapped(text: str, later: str = "", width: int = 0) -> str:
    """Return text in lines of at most `width` (0: `text_width`), if its words allow: none ends inside a word, a number or a path.
    Each but the first begins with `later`."""
    import textwrap  # 4 ms

    return textwrap.fill(
        text,
        width or text_width(),
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
        expand_tabs=False,
    )


def wrap(text: str, indent: str, more: str = "  ") -> list[str]:
    """Wrap text at the terminal's width, or 80 columns, with lines after the first indented by `more` too; words stay whole."""
    return wrapped(indent + text, indent + more).splitlines()


def fitted(text: str, columns: int) -> str:
    """Return text in which no line is longer than a terminal's, which would break it inside a word or a number.

    What follows begins below the line's last column. Commands, after `->` or `$`, stay whole: they are there to paste. What
    is prose after `->` ends at a comma, a semicolon or a full stop.
    """
    return "\n".join(
        line if len(line) <= columns else _parts(line, columns) or wrapped(line, _below(line, columns), columns)
        for line in text.split("\n")
    )


def _parts(line: str, columns: int) -> str:
    """Return a line that begins like a command, broken at its punctuation alone; '' for any other line."""
    if not (mark := _TO_PASTE.match(line)):
        return ""
    rows = [""]
    for part in [line] if mark[2] == "$ " else re.split(r"(?<=[;,.]) ", line):
        if rows[-1] and len(rows[-1]) + 1 + len(part) > columns:
            rows.append(" " * mark.end() + part)
        else:
            rows[-1] += f" {part}" if rows[-1] else part
    return "\n".join(rows)


def _below(line: str, columns: int) -> str:
    """Return the indentation of a line's last column that leaves room for every word; else a little more than the line's own."""
    most = min(columns // 2, columns - max(map(len, line.split())))
    ends = [match.end() for match in _COLUMN.finditer(line, 1) if match.end() <= most]
    return " " * (ends[-1] if ends else len(line) - len(line.lstrip()) + 2)


def fit(text: str, stream: TextIO | None) -> str:
    """Return text as it fits a stream, None for one that is closed: `fitted` to a terminal, else as it is."""
    return fitted(text, terminal_columns(stream)) if stream and stream.isatty() else text


def terminal_columns(stream: TextIO) -> int:
    """Return the width of a terminal."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or WIDTH
    except (OSError, ValueError):  # gone, or none that has a size
        return WIDTH


def text_width() -> int:
    """Return how wide text for people is: as standard output's terminal, from 80 to 120 columns."""
    try:
        columns = terminal_columns(sys.stdout) if sys.stdout and sys.stdout.isatty() else WIDTH
    except ValueError:  # closed
        columns = WIDTH
    return min(max(columns, WIDTH), WIDEST)


def size(count: float, digits: int = 1) -> str:
    """Return a number of bytes for people."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:,.{digits}f} {unit}"
    return f"{count:.0f} B"


def code(text: str) -> str:
    """Return text as a code span of Markdown: one line, in which nothing is a mention, a link, a tag or markup."""
    text = one_line(text)
    ticks = "`" * (_longest_ticks(text) + 1)
    pad = " " if text.startswith(("`", " ")) or text.endswith(("`", " ")) else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def cell(text: str) -> str:
    """Return text as a code span in a table of Markdown, where a `|` would begin the next cell even in a code span."""
    return code(text.replace("|", "\\u007c"))


def code_block(text: str, language: str) -> list[str]:
    """Return text as the lines of a fenced block of Markdown, which no line of it ends."""
    ticks = "`" * max(3, _longest_ticks(text) + 1)
    return [f"{ticks}{language}", *escaped(text).rstrip("\n").split("\n"), ticks]


def _longest_ticks(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


class _Escapes(dict[int, str]):
    """The escape of each character, computed when it is first seen."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if not _shown(character):
            units = character.encode("utf-16-be", "surrogatepass")
            character = "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
        self[code] = character
        return character


def _shown(character: str) -> bool:
    if character in "\n\t":
        return True
    if character in _UNSEEN or "\U000e0100" <= character <= "\U000e01ef":
        return False
    if character.isprintable():
        return True
    import unicodedata

    return unicodedata.category(character) == "Zs"  # such as the wide space of Japanese


_ESCAPES = _Escapes()


class _Stream:
    """A text stream that changes what is written to it, and tells the heartbeat of the terminal first."""

    def __init__(self, stream: TextIO, change: Callable[[str], str], heartbeat: Heartbeat | None) -> None:
        self.stream, self.heartbeat = stream, heartbeat
        self._change = change

    def write(self, text: str) -> int:
        """Write the changed text."""
        if self.heartbeat:
            self.heartbeat.written()
        self.stream.write(self._change(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> object:
        return getattr(self.stream, name)


@contextlib.contextmanager
def escaped_streams(*, in_workflow: bool = False, heartbeat: Heartbeat | None = None) -> Iterator[None]:
    """Escape what the block writes to standard output and standard error; kz's own control sequences go to `unescaped`."""
    streams = sys.stdout, sys.stderr
    change = _no_command if in_workflow else escaped
    with contextlib.ExitStack() as stack:
        # Closed ones are None: to such a standard error `print` would write into standard output, which a program reads.
        errors = sys.stderr or stack.enter_context(open(os.devnull, "w"))
        sys.stdout, sys.stderr = (
            cast(TextIO, stream and _Stream(stream, change, heartbeat)) for stream in (sys.stdout, errors)
        )
        try:
            yield
        finally:
            sys.stdout, sys.stderr = streams


def unescaped(stream: TextIO) -> TextIO:
    """Return the stream below an escaped one: for control sequences and workflow commands of kz itself, with text of
    others in them escaped."""
    return cast(TextIO, _Stream(stream.stream, str, stream.heartbeat)) if isinstance(stream, _Stream) else stream


@contextlib.contextmanager
def without_heartbeat() -> Iterator[None]:
    """Show no sign of life while the block waits for a person."""
    heartbeat = sys.stderr.heartbeat if isinstance(sys.stderr, _Stream) else None
    with heartbeat.paused() if heartbeat else contextlib.nullcontext():
        yield


def _no_command(text: str) -> str:
    """Return escaped text in which nothing is a command to GitHub's runner."""
    return _COMMAND.sub(lambda match: f"{match[0][:-1]}\\u{ord(match[0][-1]):04x}", escaped(text))

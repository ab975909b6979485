"""One line of a log: where it begins and ends in a block, what its prefix says, and how it is shown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from kz_build.diagnose.tables import table

WINDOW = 2048
"""Bytes of a line that are searched, to each side of a matching text."""

SHOWN = 300
"""Characters of a line that are kept."""

_TIME = r"(?:(?:\d{4}-)?\d\d-\d\d\s)?\d\d:\d\d:\d\d[.,]\d+:?"
_PREFIX = re.compile(
    rf"""(?x) ^\s*(?:
      (?:{_TIME}\s+(?:\w+\s+)?)?\d+\s+\d+\s (?P<threadtime>[VDIWEFA])\s (?P<tag1>.*?)\s*:\s
    | {_TIME}\s+\d+-\d+\s+ (?P<tag2>\S+)\s+ \S+\s+ (?P<studio>[VDIWEFA])\s+
    | {_TIME}\s+ (?P<tag5>\S+)\s+ (?P<compact>[VDIWEFA])\s{{2}}
    | (?:{_TIME}\s+)? (?:\d+-\d+/\S+\s+)? (?P<brief>[VDIWEFA])/(?P<tag3>[^(:]*?)\s*(?:\(\s*\d+\))?:\s?
    | (?P<executorch>[DIWEF])\s (?:\d\d:\d\d:\d\d\.\d+\s+)? (?=\w+:\w+\.\w+:\d+\]\s|\[Qnn\ ExecuTorch\])
    | (?P<short>[VDIWEFA])\s (?P<tag4>[A-Z]\w+|\w+_\w+)\s*:\s
    | (?P<glog>[IWEF])\d{{4}}\s\d\d:\d\d:[\d.]+\s+\d+\s+
    )"""
)


class Prefix(NamedTuple):
    """The level of a line ('' if it has none: what a program prints), its tag, and the message after both."""

    level: str
    tag: str
    message: str


MARGINS: list[dict[str, str]] = table(Path(__file__).with_suffix(".yaml"))["margins"]
"""What another program writes before a line: log_line.yaml has a line for each form."""
_MARGIN = re.compile(f"^(?:{'|'.join(row['match'] for row in MARGINS)})+")
_BOARD = re.compile(r"\[executorch:(\w+\.\w+:\d+) \w+\(\)\](?= )")


def usual(line: str) -> str:
    """Return a line of ExecuTorch on a board without a system, which names the function too, in the form of all others."""
    return _BOARD.sub(r"executorch:\1]", line) if "[executorch:" in line else line


def bare(line: str) -> str:
    """Return a line without what another program writes before it: pytest, torchrun, docker, flutter, QNN's tools, a CI service."""
    return usual(_MARGIN.sub("", line))


def prefix(line: str) -> Prefix:
    """Part the prefix from a line of logcat, in each of its formats, of ExecuTorch or of glog."""
    line = bare(line)
    match = _PREFIX.match(line)
    if not match:
        return Prefix("", "", line.strip())
    named = match.groupdict()
    level = next(
        (
            named[key]
            for key in ("threadtime", "studio", "compact", "brief", "executorch", "glog", "short")
            if named[key]
        ),
        "",
    )
    tag = named["tag1"] or named["tag2"] or named["tag3"] or named["tag4"] or named["tag5"] or ""
    return Prefix(level, tag, line[match.end() :].strip())


_PROMPT = re.compile(
    r"""(?x) ^\s*(?:
      (?:\([^()\n]{1,40}\)\s*)? (?:\d{1,3}\|)?(?:\[?[\w.-]{1,40}@[\w.-]{1,60}[:\s][^$\#%:\n]{0,120}|[~/][\w./~-]{0,120}\s?|[\w.-]{1,60}:[~/][\w./~-]{0,120}\s?)[$\#%]\s
    | (?:\([^()\n]{1,40}\)\s*)? [$❯➜]\s
    | (?:\([^()\n]{1,40}\)\s*)? (?:PS\s[A-Z]:\\[^<>:"|\n]{0,160}>\s?|[A-Z]:\\[^<>:"|\n]{0,160}>)
    | \++\s(?=[\w./-]+(?:\s|$))(?!\d)
    | (?:\d{4}-\d\d-\d\dT[\d:.]+Z\s)?\#\#\[group\]Run\s
    ) (?=\S)"""
)
PROMPTS = (b"$ ", b"% ", b"# ", b":\\", b"+ ", b"##[group]Run ", "❯ ".encode(), "➜ ".encode())
"""What a line in which a person or a script starts a command contains."""


def is_prompt(line: str) -> bool:
    """Return whether a line is a command that a person types at a prompt, that `set -x` shows, or that a CI service runs."""
    return bool(_PROMPT.match(line))


_RAISE = re.compile(r"^\s*(?:raise|throw)\s+\w")


def is_raise(line: str) -> bool:
    """Return whether a line is code of a traceback that raises an exception: its message may still have placeholders."""
    return bool(_RAISE.match(line))


def typed(line: str) -> str:
    """Return the command in a line of a prompt, without the prompt; '' if it is none."""
    match = _PROMPT.match(line)
    return line[match.end() :].strip() if match else ""


class Found(NamedTuple):
    """The line around a text: from `start` to `end` of the block, and its text."""

    start: int
    end: int
    text: str


def around(block: bytes, at: int) -> Found:
    """Return the line around a text; of a very long one, what is near."""
    start = block.rfind(b"\n", max(0, at - WINDOW), at) + 1 or max(0, at - WINDOW)
    end = block.find(b"\n", at, at + WINDOW)
    end = min(len(block), at + WINDOW) if end < 0 else end
    # A progress bar rewrites its line: only its last text before the match counts.
    line = block[start:end].rstrip(b"\r")
    line = line[line.rfind(b"\r", 0, at - start) + 1 :].split(b"\r", 1)[0]
    return Found(start, end, line.decode("utf-8", "replace"))


def trimmed(line: str, texts: tuple[str, ...] = ()) -> str:
    """Return a line without what does not print, and of a long one what is near one of `texts`."""
    line = "".join(c if c.isprintable() else " " for c in line).strip()
    if len(line) <= SHOWN:
        return line
    at = min((p for p in (line.find(text) for text in texts) if p >= 0), default=0)
    start = max(0, min(at - SHOWN // 4, len(line) - SHOWN))
    return ("…" if start else "") + line[start : start + SHOWN] + ("…" if start + SHOWN < len(line) else "")

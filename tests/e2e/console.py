"""The `console` blocks of a page: what is typed in them, what is shown, and how both are tried."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.kz import Kz

BLOCK = re.compile(r"^(?:<!-- not run: (?P<reason>[^\n]+) -->\n)?```console\n(?P<text>.*?)^```", re.M | re.S)
TYPED = re.compile(r"[^\n]*<<(\w+)\n.*?^\1$|(?:[^\n]*\\\n)*[^\n]*", re.M | re.S)
"""A command: with the lines of its here-document, or those that a backslash joins."""
ENDED = re.compile(r"^kz: exit (\d+) \(", re.M)


class Command(NamedTuple):
    """One command of a page: its line there, what is typed, what is shown, and why no test runs it ("" if one does)."""

    line: int
    typed: str
    shown: str
    reason: str


def commands(text: str) -> Iterator[Command]:
    """Read a page's commands, in order."""
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start("text")) + 1
        body = block["text"]
        if not body.startswith("$ "):
            raise ValueError(f"line {line}: a console block begins with `$ `")
        for part in re.split(r"^\$ ", body, flags=re.M)[1:]:
            typed = TYPED.match(part)
            assert typed
            yield Command(line, typed[0], part[typed.end() :].strip("\n"), block["reason"] or "")
            line += part.count("\n")


def kz_commands(typed: str) -> Iterator[list[str]]:
    """Find each `kz …` of a shell command, as words."""
    words = shlex.shlex(typed.replace("\\\n", " "), posix=True, punctuation_chars=True)
    words.commenters = "#"
    words.whitespace_split = True  # else a colon ends a word
    one: list[str] = []
    for word in [*words, ";"]:
        if not set(word) <= set("();<>|&"):
            one.append(word)
            continue
        if one and one[0] in ("kz", ".venv/bin/kz"):
            yield one[1:]
        one = []


def pattern(shown: str) -> re.Pattern[str]:
    """Make a pattern of what a page shows: `…` alone on a line is any lines, within one any text."""
    rows = []
    for row in shown.split("\n"):
        if row.strip() == "…":
            rows.append(r"(?:.*\n)*?")
        else:
            rows.append(".*?".join(re.escape(part) for part in row.rstrip().split("…")) + r"[ ]*\n")
    return re.compile("".join(rows))


@dataclass
class Shell:
    """A shell that a page's commands are typed into. What it runs of kz alone runs in this process."""

    folder: Path
    environment: dict[str, str]
    kz: Kz

    def run(self, command: Command) -> None:
        """Run a command. Raises AssertionError if it ends, or prints, otherwise than the page shows."""
        words = shlex.split(command.typed, comments=True)
        if words[0] == "cd" and len(words) == 2:
            self.folder = (self.folder / words[1]).resolve(strict=True)
            return
        if words[0] == "export":
            self.environment |= dict(word.split("=", 1) for word in words[1:])
            return
        if words[0] == "kz" and not re.search(r"[|&;<>$`~]", command.typed):
            result = self.kz(*words[1:], cwd=self.folder, **self.environment)
        else:
            result = subprocess.run(
                ["bash", "-c", command.typed],
                cwd=self.folder,
                env=self.environment,
                capture_output=True,
                text=True,
                timeout=600,
            )
        said = ENDED.search(command.shown)
        about = f"line {command.line}: $ {command.typed}\nexit {result.returncode}\n{result.stdout}{result.stderr}"
        assert result.returncode == (int(said[1]) if said else 0), about
        # A terminal shows progress first and the error last: both orders are right.
        outputs = (result.stdout + result.stderr, result.stderr + result.stdout)
        wanted = pattern(command.shown)
        assert not command.shown or any(wanted.fullmatch(one) for one in outputs), (
            f"{about}\nthe page:\n{command.shown}"
        )


def shell(folder: Path, environment: Mapping[str, str], kz: Kz, programs: Path) -> Shell:
    """Return a shell in a folder, with `kz` on its path and an empty home."""
    programs.mkdir()
    script = programs / "kz"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kz_build "$@"\n')
    script.chmod(0o755)
    home = programs.parent / "home"
    home.mkdir()
    own = {"HOME": str(home), "LC_ALL": "C.UTF-8", "KZ_CONFIG": str(home / "config")}
    for role in ("AUTHOR", "COMMITTER"):
        own |= {f"GIT_{role}_NAME": "You", f"GIT_{role}_EMAIL": "you@example.com"}
    return Shell(folder, {**environment, **own, "PATH": f"{programs}:{environment['PATH']}"}, kz)

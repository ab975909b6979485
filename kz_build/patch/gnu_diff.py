"""A reader of other people's patch files, by GNU patch's rules (patch(1), and intuit_diff_type and another_hunk of its pch.c).

Any text may stand around a diff, and a diff may be indented. A header's last word on a name counts, wherever it stands
before the first hunk. What GNU patch leaves out, such as binary files without data, is collected in `left_out`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kz_build.core.errors import ConfigError
from kz_build.core.rules import unsafe_path
from kz_build.patch.binary import Binary
from kz_build.patch.change import FileChange, Hunk
from kz_build.patch.diff import LineReader
from kz_build.patch.gnu_names import best_name

_HUNK = re.compile(rb"@@ -(\d{1,18})(?:,(\d{1,18}))? ?\+(\d{1,18})(?:,(\d{1,18}))? ?@@?")
_QUOTED = re.compile(rb'"((?:[^"\\]|\\(?:[abfnrtv"\\]|[0-3][0-7]{2}))*)"')
_WORD = re.compile(rb"\S+")
_FACT = re.compile(rb"((?:old|new|new file|deleted file) mode|(?:rename|copy) (?:from|to)|index) (.*)", re.DOTALL)
_INDEX = re.compile(rb"([0-9a-f]+)\.\.([0-9a-f]+)(?:\s+(\S+))?\s*")
_MODE = re.compile(rb"\s*([0-7]{6})\s*")
_DIFFER = re.compile(rb"Binary files .+ and .+ differ\r?\n")
_COMMAND = re.compile(rb"\d[\d,]*[acd][\d,]*[ \t]*\r?\n")
"""A command of ed, and of a normal diff."""
_ISO = re.compile(
    r"(1969-12-31|1970-01-0[12])[ T](\d\d):(\d\d)(?::(\d\d))?(?:[.,]\d+)?\s*(?:([-+])(\d\d):?(\d\d)|Z|UTC|GMT)?"
)
_DAYS = {"1969-12-31": -1, "1970-01-01": 0, "1970-01-02": 1}
OLD, NEW, INDEX = 0, 1, 2


@dataclass
class _Header:
    """What is known of a diff before its first hunk; lists have the old side and the new one.

    `refused` says why names were not taken. Before the first hunk GNU patch has `---` as the new name and `+++` as the old one.
    """

    names: list[str | None] = field(default_factory=lambda: [None, None, None])
    refused: list[str] = field(default_factory=list)
    epoch: list[bool] = field(default_factory=lambda: [False, False])
    absent: list[bool] = field(default_factory=lambda: [False, False])
    modes: list[str] = field(default_factory=lambda: ["", ""])
    marks: set[bytes] = field(default_factory=set)
    ids: tuple[str, str] = ("", "")
    line: int = 0
    git: bool = False
    extended: bool = False
    binary: bool = False

    def begin(self, hunk: bytes) -> None:
        """Take the first hunk's header: if a side has no lines, its name or time says whether there is such a file."""
        self.names[:2] = self.names[1::-1]
        self.epoch.reverse()
        for side, sign in ((OLD, rb"@@ -0(?!\d)"), (NEW, rb"@@ -\S+ +\+0(?!\d)")):
            if re.match(sign, hunk):
                self.absent[side] = self.epoch[side]


class GnuReader(LineReader):
    """Read a patch file as GNU patch does. `strip` is how many folders paths lose."""

    def __init__(self, name: str, lines: list[bytes], *, strip: int = 1) -> None:
        super().__init__(name, lines)
        self.strip = strip
        self.crlf = False
        self.left_out: list[str] = []

    def files(self) -> tuple[FileChange, ...]:
        """Read all diffs. Raises ConfigError for what GNU patch does not take, and for diffs that are not unified."""
        changes = []
        while header := self._header():
            indent = len(self.peek()) - len(self.peek().lstrip(b" \tX"))
            changes.append(self._change(header, () if header.binary else self._hunks(_columns(self.peek()[:indent]))))
        return tuple(changes)

    def _header(self) -> _Header | None:
        """Read up to the first hunk of the next diff, or past a diff without hunks; None if there is no further one."""
        header = _Header()
        before, command = b"", 0
        while line := self._line():
            text = line.lstrip(b" \tX")
            if text.startswith(b"@@ -"):
                if header.line:
                    header.begin(text)
                    return header
                self.left_out.append(f"a hunk in line {self.at + 1} is of no file")
            if text.startswith(b"diff --git ") and header.extended:
                return header
            if kind := _other_kind(before, text, command):
                if header.line:
                    raise self._unsupported(kind)
                self.left_out.append(f"{kind} in line {self.at + 1} is of no file")
            command = command or (self.at + 1 if _COMMAND.fullmatch(text) else 0)
            self._take(header, text)
            before = text
            self.at += 1
            if header.binary:
                return header
        if command and header.line:
            raise self._unsupported("an ed script", command)
        return header if header.extended else None

    def _unsupported(self, kind: str, line: int | None = None) -> ConfigError:
        return self.fail(f"{kind} is not supported: `quilt refresh -u` makes it a unified diff", line)

    def _line(self) -> bytes:
        """Return the next line that is no comment, b'' at the end: GNU patch drops a last line without a newline."""
        while self.peek().startswith(b"#"):
            self.at += 1
        return self.peek() if self.peek().endswith(b"\n") else b""

    def _take(self, header: _Header, text: bytes) -> None:
        """Take what one line before the first hunk says."""
        if text.startswith(b"diff --git "):
            header.git, header.line = True, self.at + 1
            header.names[:2] = self._git_names(header, text[11:])
        elif text.startswith(b"--- "):
            header.line = header.line if header.git else self.at + 1
            self._name(header, NEW, text[4:])
            self.crlf = text.endswith(b"\r\n")
        elif text.startswith((b"+++ ", b"*** ")):
            header.line = header.line or self.at + 1
            self._name(header, OLD, text[4:])
            self.crlf = text.endswith(b"\r\n") if text.startswith(b"+++ ") else self.crlf
        elif text.startswith(b"Index:"):
            header.line = header.line or self.at + 1
            self.crlf = text.endswith(b"\r\n")
            name = text[6:].strip()
            if text.endswith(name + b"\n"):
                header.names[INDEX] = self._path(header, name)
        elif header.git and text.startswith(b"GIT binary patch"):
            header.binary = True
        elif header.git and (fact := _FACT.match(text)):
            self._fact(header, fact[1], fact[2])
        elif _DIFFER.fullmatch(text):
            self.left_out.append(text.decode("utf-8", "replace").strip())

    def _git_names(self, header: _Header, text: bytes) -> list[str | None]:
        names = []
        rest = text.lstrip()
        for _ in range(2):
            word = _QUOTED.match(rest) if rest.startswith(b'"') else _WORD.match(rest)
            names.append(self._path(header, word[0]) if word else None)
            rest = rest[word.end() :].lstrip() if word else rest
        return [None, None] if rest or None in names else [*names]

    def _name(self, header: _Header, side: int, text: bytes) -> None:
        """Take the name of a `---` or `+++` line. As with GNU patch, one that is not taken leaves that of the git header."""
        text = text.lstrip().rstrip(b"\r\n")
        if text.startswith(b'"'):
            quoted = _QUOTED.match(text)
            name, stamp = (quoted[0], text[quoted.end() :]) if quoted else (b"", b"")
        else:  # a name has blanks only if a tab ends it
            name, _, stamp = text.partition(b"\t") if b"\t" in text else text.partition(b" ")
            name = name.rstrip()
        header.epoch[side] = name == b"/dev/null" or _is_epoch(stamp)
        if name != b"/dev/null" and (path := self._path(header, name)):
            header.names[side] = path

    def _path(self, header: _Header, name: bytes) -> str | None:
        """Return a path without the folders to strip; None, and why, if GNU patch would not take it."""
        if quoted := _QUOTED.fullmatch(name):
            name = quoted[1].decode("unicode_escape").encode("latin-1")
        parts = re.sub(rb"/+", b"/", name).split(b"/", self.strip)
        shown = name.decode("utf-8", "replace")
        if len(parts) <= self.strip or not parts[-1]:
            header.refused.append(f"the path {shown!r} has fewer than {self.strip} folders")
            return None
        path = "/".join(part for part in parts[-1].decode("utf-8", "surrogateescape").split("/") if part != ".")
        if reason := unsafe_path(path):
            header.refused.append(f"the path {shown!r} {reason}")
            return None
        return path

    def _fact(self, header: _Header, key: bytes, value: bytes) -> None:
        """Take a line of git's extended header."""
        ids = _INDEX.fullmatch(value) if key == b"index" else None
        header.extended = header.extended or key != b"index" or bool(ids)
        if ids:
            header.ids = (ids[1].decode(), ids[2].decode())
            header.absent = [not oid.strip(b"0") for oid in ids.groups()[:2]]
            header.modes = [self._six_digits(ids[3])] * 2 if ids[3] else header.modes
        elif key in (b"old mode", b"deleted file mode"):
            header.modes[OLD] = self._six_digits(value)
        elif key in (b"new mode", b"new file mode"):
            header.modes[NEW] = self._six_digits(value)
        header.absent[OLD] = header.absent[OLD] or key == b"new file mode"
        header.absent[NEW] = header.absent[NEW] or key == b"deleted file mode"
        header.marks.add(key)

    def _six_digits(self, value: bytes) -> str:
        return self.mode(found[1], self.at + 1) if (found := _MODE.fullmatch(value)) else ""

    def _change(self, header: _Header, hunks: tuple[Hunk, ...]) -> FileChange:
        old, new, index = header.names
        names = tuple(dict.fromkeys(name for name in (old, new) if name)) or ((index,) if index else ())
        moves, copies = ({kind + b" from", kind + b" to"} <= header.marks for kind in (b"rename", b"copy"))
        if not names or ((moves or copies) and not (old and new)):
            raise self.fail(header.refused[0] if header.refused else "it names no file", header.line)
        before, after = header.modes
        source = old if (moves or copies) and old and old != new else ""
        return FileChange(
            new if source and new else best_name(names),
            hunks,
            mode=after if after != before else "",
            creates=header.absent[OLD],
            deletes=header.absent[NEW],
            source=source,
            copies=bool(source) and copies,
            old_mode=before,
            binary=Binary(header.ids[0], header.ids[1], None, None) if header.binary else None,
            line=header.line,
            made_for=header.ids[0] if len(header.ids[0]) == 40 else "",
            names=names if len(names) > 1 else (),
        )

    def _hunks(self, indent: int) -> tuple[Hunk, ...]:
        hunks: list[Hunk] = []
        while True:
            start = self.at
            header = self._hunk_line(indent)
            if not header.startswith(b"@@ -"):
                self.at = start
                return tuple(hunks)
            hunks.append(self._hunk(header, indent))

    def _hunk_line(self, indent: int) -> bytes:
        """Return the next line of a hunk without its indentation, b'' at the end."""
        while self.peek().endswith(b"\n"):
            line = _outdented(self.peek(), indent) if indent else self.peek()
            self.at += 1
            if not line.startswith(b"#"):
                return line[:-2] + b"\n" if self.crlf and line.endswith(b"\r\n") else line
        return b""

    def _hunk(self, header: bytes, indent: int) -> Hunk:
        line = self.at
        match = _HUNK.match(header)
        if not match:
            raise self.fail("is not a hunk header", line)
        left = [int(match[i]) if match[i] else 1 for i in (2, 4)]
        sides: tuple[list[bytes], list[bytes]] = ([], [])
        kinds = bytearray()
        while any(left):
            text = self._hunk_line(indent)
            if not text and left[NEW] > 3:
                raise self.fail("the patch ends before the lines that its last hunk counts", line)
            # Editors remove empty lines at the end, mailers the blank of an empty context line.
            text = text or b" \n"
            kind, body = (b" ", text) if text[:1] in (b"\t", b"\n") else (text[:1].replace(b"=", b" "), text[1:])
            on = [side for side, other in ((OLD, b"+"), (NEW, b"-")) if kind != other]
            if kind not in (b" ", b"-", b"+") or not all(left[side] for side in on):
                raise self.fail("the hunk has other lines than its header counts", self.at)
            if self.peek().startswith(b"\\") and any(left[side] == 1 for side in on):
                body = body[:-1]
                self.at += 1
                if not body:
                    raise self.fail("an empty line that ends in no newline is no line", self.at)
            for side in on:
                sides[side].append(body)
                left[side] -= 1
            kinds += kind
        if not kinds.strip(b" "):
            raise self.fail("the hunk changes nothing", line)
        leading, trailing = len(kinds) - len(kinds.lstrip(b" ")), len(kinds) - len(kinds.rstrip(b" "))
        before, after = (tuple(side) for side in sides)
        return Hunk(int(match[1]), int(match[3]), before, after, leading, trailing, line, header[match.end() :].strip())


def _other_kind(before: bytes, text: bytes, command: int) -> str:
    """Return what other diff than a unified one GNU patch takes these lines for, '' for none."""
    if before.startswith(b"********") and text.startswith(b"*** "):
        return "a context diff"
    if _COMMAND.fullmatch(before) and text.startswith((b"< ", b"> ")):
        return "a normal diff"
    return "an ed script" if command and text == b".\n" else ""


def _columns(indentation: bytes) -> int:
    """Return the width of an indentation; a tab leads to the next column of eight."""
    return len(indentation.expandtabs(8))


def _outdented(line: bytes, columns: int) -> bytes:
    """Return a line without as many columns of blanks, tabs and X, where it has them."""
    at = 0
    while _columns(line[:at]) < columns and line[at] in b" \tX":
        at += 1
    return line[at:]


def _is_epoch(stamp: bytes) -> bool:
    """Return whether a time is that of no file: the first second of 1970 in any zone, so within about a day of it."""
    if b"1970" not in stamp and b"1969" not in stamp:
        return False
    text = stamp.decode("utf-8", "replace").strip()
    if match := _ISO.fullmatch(text):
        seconds = _DAYS[match[1]] * 86400 + int(match[2]) * 3600 + int(match[3]) * 60 + int(match[4] or 0)
        zone = int(match[6] or 0) * 3600 + int(match[7] or 0) * 60
        seconds -= -zone if match[5] == "-" else zone
    else:
        from email.utils import mktime_tz, parsedate_tz  # few patches need it

        parsed = parsedate_tz(text)
        if not parsed or parsed[0] not in (1969, 1970):
            return False
        seconds = mktime_tz((*parsed[:9], parsed[9] or 0))
    return -25 * 3600 < seconds < 26 * 3600

"""A reader of git's own diffs. `gnu_diff` reads those of others."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from kz_build.core.errors import ConfigError, Problem
from kz_build.core.rules import unsafe_path
from kz_build.git.object_types import FILE, LINK, SUBMODULE
from kz_build.patch.change import FileChange, Hunk

if TYPE_CHECKING:
    from kz_build.patch.binary import Binary

_HUNK = re.compile(rb"^@@ -(\d{1,18})(?:,(\d{1,18}))? \+(\d{1,18})(?:,(\d{1,18}))? @@")
_FACT = re.compile(
    rb"((?:old|new|new file|deleted file) mode|(?:rename|copy) (?:from|to)|(?:dis)?similarity index|index|---|\+\+\+) (.*)",
    re.DOTALL,
)
_DIFFER = re.compile(rb"(?:Binary files|Files) .* differ", re.DOTALL)
_NOTHING = b"/dev/null"
_QUOTED = re.compile(rb'"(?:[^"\\]|\\(?:[abfnrtv"\\]|[0-3][0-7]{2}))*"')
_INDEX = re.compile(rb"([0-9a-f]+)\.\.[0-9a-f]+(?: ([0-7]{6}))?")
_TOGETHER = (
    *((b"old mode", b"new mode"), (b"rename from", b"rename to"), (b"copy from", b"copy to"), (b"---", b"+++")),
)


class LineReader:
    """The lines of a patch file, and where reading is."""

    hint = ""

    def __init__(self, name: str, lines: list[bytes]) -> None:
        self.name, self.lines = name, lines
        self.at = 0

    def fail(self, text: str, line: int | None = None) -> ConfigError:
        """Return an error at a line, by default at the line being read."""
        number = self.at + 1 if line is None else line
        return ConfigError("a patch cannot be read", (Problem(self.name, number, text),), hint=self.hint)

    def peek(self) -> bytes:
        """Return the line being read, b'' at the end."""
        return self.lines[self.at] if self.at < len(self.lines) else b""

    def mode(self, text: bytes | None, line: int) -> str:
        """Return a mode as git stores it, '' for none. Raises ConfigError for one that is neither a file's nor a link's."""
        if text is None:
            return ""
        bits = int(text, 8) if re.fullmatch(rb"[0-7]{1,6}", text) else 0
        if bits >> 12 == 0o12:
            return LINK
        if text == SUBMODULE.encode():
            raise self.fail("it changes a submodule, which has a source and a stack of its own (`submodule:`)", line)
        if bits >> 12 != 0o10:
            raise self.fail(f"mode {text.decode('utf-8', 'replace')} is not supported", line)
        return "100755" if bits & 0o100 else FILE


class DiffReader(LineReader):
    """Read git's diffs strictly: what git could misread is refused."""

    hint = "make patch files with `git format-patch --full-index --binary`"

    def files(self) -> tuple[FileChange, ...]:
        """Read the changes from here to the end. Raises ConfigError."""
        changes = []
        while self.at < len(self.lines):
            if self.peek().startswith(b"diff --git "):
                changes.append(self._git())
            elif self.peek().startswith(b"@@ -"):
                raise self.fail("a hunk without a file")
            elif changes and self.peek().strip():
                break
            else:
                self.at += 1
        if self.peek() and self.peek().rstrip(b"\n") not in (b"-- ", b"--"):
            raise self.fail("is not part of a diff")
        for number, line in enumerate(self.lines[self.at :], self.at + 1):  # a mail's signature
            if line.startswith((b"diff --git ", b"--- ", b"@@ -")):
                raise self.fail("there is a diff after the mail's end", number)
        return tuple(changes)

    def _git(self) -> FileChange:
        start = self.at + 1
        header = self.peek().rstrip(b"\r\n")[len(b"diff --git ") :]
        facts: dict[bytes, bytes] = {}
        self.at += 1
        while True:
            line = self.peek().rstrip(b"\n")
            fact = _FACT.fullmatch(line)
            if fact and (fact[1] in facts or not self.peek().endswith(b"\n")):
                raise self.fail("appears twice" if fact[1] in facts else "is cut off")
            if fact:
                facts[fact[1]] = fact[2]
            elif _DIFFER.fullmatch(line):
                facts[b"binary"] = b""
                self.at += 1
                break
            else:
                break
            self.at += 1
        change = self._change(header, facts, start)
        if b"binary" in facts or self.peek() == b"GIT binary patch\n":
            change = replace(change, binary=self._binary(facts))
        else:
            change = replace(change, hunks=self._hunks())
        if damage := self._damage(header, facts, change):
            raise self.fail(damage, start)
        return change

    def _damage(self, header: bytes, facts: dict[bytes, bytes], change: FileChange) -> str:
        """Return what is wrong with a git diff, '' for nothing: git might still read some meaning into it, nobody should."""
        for one, other in _TOGETHER:
            if (one in facts) != (other in facts):
                return f"its header has only one of {one.decode()!r} and {other.decode()!r}"
        if len(facts.keys() & {b"new file mode", b"deleted file mode", b"rename from", b"copy from"}) > 1:
            return "its header contradicts itself"
        half = header[: len(header) // 2]
        twice = half + b" " + half.replace(b"a/", b"b/", 1)
        if not change.source and (header != twice or self._path(half, change.line) != change.path):
            return "its first line names other paths"
        if b"---" in facts:
            nothing = [facts[key].rstrip(b"\t") == _NOTHING for key in (b"---", b"+++")]
            if nothing != [change.creates, change.deletes]:
                return "its header contradicts itself"
        elif change.hunks:
            return "its hunks have no header with --- and +++"
        if not (change.hunks or change.binary or change.creates or change.deletes or change.source or change.mode):
            return "it changes nothing"
        return ""

    def _change(self, header: bytes, facts: dict[bytes, bytes], line: int) -> FileChange:
        """Read the header, without the content."""
        creates, deletes = b"new file mode" in facts, b"deleted file mode" in facts
        source = facts.get(b"rename from", facts.get(b"copy from", b""))
        target = facts.get(b"rename to", facts.get(b"copy to", b""))
        named = [facts.get(key, _NOTHING) for key in (b"---", b"+++")]
        paths = [self._path(p, line) for p in named if p.rstrip(b"\t") != _NOTHING]
        if source or target:
            old, new = (self._path(p, line, prefixed=False) for p in (source, target))
        else:
            # A change of mode alone, or an empty file, has no ---/+++: both halves of the header are then the same path.
            old = new = paths[0] if paths else self._path(header[: len(header) // 2], line)
        if paths and (paths[0], paths[-1]) != (old, new):
            raise self.fail(f"it names {paths[0]!r} and {paths[-1]!r}, but is not a rename of one to the other", line)
        index = _INDEX.fullmatch(facts.get(b"index", b"0..0"))
        if not index:
            raise self.fail("its index line is damaged", line)
        before = facts.get(b"deleted file mode", facts.get(b"old mode", index[2] if index else None))
        after = facts.get(b"new file mode", facts.get(b"new mode"))
        mode, old_mode = self.mode(after, line), self.mode(before, line)
        source_path, copies = (old if old != new else ""), b"copy from" in facts
        made_for = index[1].decode() if index and len(index[1]) == 40 else ""
        return FileChange(new, (), mode, creates, deletes, source_path, copies, old_mode, line=line, made_for=made_for)

    def _path(self, raw: bytes, line: int, *, prefixed: bool = True) -> str:
        name = raw.rstrip(b"\t")
        if name.startswith(b'"'):
            if not _QUOTED.fullmatch(name):
                raise self.fail("the quoting of a path is damaged", line)
            name = name[1:-1].decode("unicode_escape").encode("latin-1")
        if prefixed and name[:2] not in (b"a/", b"b/"):
            raise self.fail("paths must have git's a/ and b/ prefixes", line)
        path = name[2 * prefixed :].decode("utf-8", "surrogateescape")
        if reason := unsafe_path(path):
            raise self.fail(f"the path {path!r} {reason}", line)
        return path

    def _binary(self, facts: dict[bytes, bytes]) -> Binary:
        from kz_build.patch.binary import Binary, BinaryError, read_binary  # few patches need it

        ids = facts.get(b"index", b"").split(b" ")[0].decode("ascii", "replace")
        old, _, new = ids.partition("..")
        if b"binary" in facts:
            return Binary(old, new, None, None)
        self.at += 1
        try:
            forward, self.at = read_binary(self.lines, self.at)
            if forward is None:
                raise BinaryError("the binary data is missing")
            backward, self.at = read_binary(self.lines, self.at)
        except BinaryError as error:
            raise self.fail(str(error)) from error
        return Binary(old, new, forward, backward)

    def _hunks(self) -> tuple[Hunk, ...]:
        hunks = []
        while self.peek().startswith(b"@@ "):
            hunks.append(self._hunk())
        return tuple(hunks)

    def _hunk(self) -> Hunk:
        line = self.at + 1
        match = _HUNK.match(self.peek())
        if not match:
            raise self.fail("is not a hunk header")
        old_left, new_left = (int(match[i]) if match[i] else 1 for i in (2, 4))
        sides: tuple[list[bytes], list[bytes]] = ([], [])
        kinds = bytearray()
        self.at += 1
        while old_left > 0 or new_left > 0:
            text = self.peek()
            if not text.endswith(b"\n"):
                raise self.fail("the hunk ends before the lines its header counts")
            kind = text[:1]
            if kind == b"\n":  # some mailers strip the blank of an empty context line
                kind, text = b" ", b" \n"
            if kind not in (b" ", b"-", b"+"):
                raise self.fail("the hunk ends before the lines its header counts")
            body = text[1:]
            self.at += 1
            if self.peek().startswith(b"\\ ") and len(self.peek()) >= 12:  # in any language
                if not body[:-1]:
                    raise self.fail("an empty line that ends in no newline is no line")
                body = body[:-1]
                self.at += 1
            if kind != b"+":
                sides[0].append(body)
                old_left -= 1
            if kind != b"-":
                sides[1].append(body)
                new_left -= 1
            kinds += kind
        if old_left < 0 or new_left < 0:
            raise self.fail("the hunk has more lines than its header counts", line)
        if not kinds.strip(b" "):
            raise self.fail("the hunk changes nothing", line)
        leading = len(kinds) - len(kinds.lstrip(b" "))
        trailing = len(kinds) - len(kinds.rstrip(b" "))
        section = self.lines[line - 1][match.end() :].strip()
        return Hunk(int(match[1]), int(match[3]), tuple(sides[0]), tuple(sides[1]), leading, trailing, line, section)

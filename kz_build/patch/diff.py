"""A reader of diffs: git's own, and the plain ones that GNU patch takes for other people's stacks."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from kz_build.core.errors import ConfigError, Problem
from kz_build.core.rules import unsafe_path
from kz_build.git.object_types import FILE, LINK
from kz_build.patch.change import FileChange, Hunk

if TYPE_CHECKING:
    from kz_build.patch.binary import Binary

_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_FACT = re.compile(
    rb"((?:old|new|new file|deleted file) mode|(?:rename|copy) (?:from|to)|(?:dis)?similarity index|index|---|\+\+\+) (.*)",
    re.DOTALL,
)
_DIFFER = re.compile(rb"(?:Binary files|Files) .* differ", re.DOTALL)
_EPOCH = re.compile(rb"19(?:70-01-01|69-12-31) (\d\d):(\d\d):00(?:\.0+)? ([-+]\d\d):?(\d\d)$")
_NOTHING = b"/dev/null"
_QUOTED = re.compile(rb'"(?:[^"\\]|\\(?:[abfnrtv"\\]|[0-3][0-7]{2}))*"')
_INDEX = re.compile(rb"([0-9a-f]+)\.\.[0-9a-f]+(?: ([0-7]{6}))?")
_TOGETHER = (
    *((b"old mode", b"new mode"), (b"rename from", b"rename to"), (b"copy from", b"copy to"), (b"---", b"+++")),
)


class DiffReader:
    """Read the lines of a patch file. `strip` is how many folders paths lose; `gnu` accepts what GNU patch accepts."""

    def __init__(self, name: str, lines: list[bytes], *, strip: int = 1, gnu: bool = False) -> None:
        self.name, self.lines, self.strip, self.gnu = name, lines, strip, gnu
        self.at = 0
        self.crlf = False

    def fail(self, text: str, line: int | None = None) -> ConfigError:
        """Return an error at a line, by default at the line being read."""
        number = self.at + 1 if line is None else line
        hint = "" if self.gnu else "make patch files with `git format-patch --full-index --binary`"
        return ConfigError("a patch cannot be read", (Problem(self.name, number, text),), hint=hint)

    def peek(self) -> bytes:
        """Return the line being read, b'' at the end."""
        return self.lines[self.at] if self.at < len(self.lines) else b""

    def starts(self) -> bool:
        """Return whether a diff begins here."""
        line = self.peek()
        if line.startswith(b"diff --git "):
            return True
        after = self.lines[self.at + 1] if self.at + 1 < len(self.lines) else b""
        if self.gnu and line.startswith(b"*** ") and after.startswith(b"--- "):
            raise self.fail("context diffs are not supported: `quilt refresh -u` makes it a unified one")
        if line.startswith(b"@@ -"):
            raise self.fail("a hunk without a file")
        return self.gnu and line.startswith(b"--- ") and after.startswith(b"+++ ")

    def files(self) -> tuple[FileChange, ...]:
        """Read the changes from here to the end. Raises ConfigError."""
        changes = []
        while self.at < len(self.lines):
            if self.starts():
                change = self._git() if self.peek().startswith(b"diff --git ") else self._plain()
                # GNU patch skips a binary change that git left out.
                if not (self.gnu and change.binary and not change.binary.forward):
                    changes.append(change)
            elif not self.gnu and changes and self.peek().strip():
                break
            else:
                self.at += 1
        if self.peek() and self.peek() not in (b"-- \n", b"--\n"):
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
            line = self.peek().rstrip(b"\r\n" if self.gnu else b"\n")
            fact = _FACT.fullmatch(line)
            if fact and not self.gnu and (fact[1] in facts or not self.peek().endswith(b"\n")):
                raise self.fail("appears twice" if fact[1] in facts else "is cut off")
            if fact:
                facts[fact[1]] = fact[2]
                self.crlf = self.peek().endswith(b"\r\n")
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
        if not self.gnu and (damage := self._damage(header, facts, change)):
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
            old, new = (self._path(p, line, self.strip - 1) for p in (source, target))
        else:
            # A change of mode alone, or an empty file, has no ---/+++: both halves of the header are then the same path.
            old = new = _likely(paths) if paths else self._path(header[: len(header) // 2], line)
        if not self.gnu and paths and (paths[0], paths[-1]) != (old, new):
            raise self.fail(f"it names {paths[0]!r} and {paths[-1]!r}, but is not a rename of one to the other", line)
        index = _INDEX.fullmatch(facts.get(b"index", b"0..0"))
        if not index and not self.gnu:
            raise self.fail("its index line is damaged", line)
        before = facts.get(b"deleted file mode", facts.get(b"old mode", index[2] if index else None))
        after = facts.get(b"new file mode", facts.get(b"new mode"))
        mode, old_mode = self._mode(after, line), self._mode(before, line)
        source_path, copies = (old if old != new else ""), b"copy from" in facts
        made_for = index[1].decode() if index and len(index[1]) == 40 else ""
        return FileChange(new, (), mode, creates, deletes, source_path, copies, old_mode, line=line, made_for=made_for)

    def _mode(self, text: bytes | None, line: int) -> str:
        if text is None:
            return ""
        bits = int(text, 8) if re.fullmatch(rb"[0-7]{1,6}", text) else 0
        if bits >> 12 == 0o12:
            return LINK
        if bits >> 12 != 0o10:
            raise self.fail(f"mode {text.decode('utf-8', 'replace')} is not supported", line)
        return "100755" if bits & 0o100 else FILE

    def _path(self, raw: bytes, line: int, strip: int | None = None) -> str:
        name = raw.rstrip(b"\t")
        if self.gnu:
            name = name.split(b"\t")[0]
        if name.startswith(b'"'):
            if not _QUOTED.fullmatch(name):
                raise self.fail("the quoting of a path is damaged", line)
            name = name[1:-1].decode("unicode_escape").encode("latin-1")
        count = max(self.strip if strip is None else strip, 0)
        if self.gnu:
            name = re.sub(rb"/+", b"/", name)
        elif strip is None and name[:2] not in (b"a/", b"b/"):
            raise self.fail("paths must have git's a/ and b/ prefixes", line)
        parts = name.split(b"/", count)
        if len(parts) <= count:
            raise self.fail(f"the path {name.decode('utf-8', 'replace')!r} has fewer than {count} folders", line)
        path = parts[count].decode("utf-8", "surrogateescape")
        if reason := unsafe_path(path):
            raise self.fail(f"the path {path!r} {reason}", line)
        return path

    def _plain(self) -> FileChange:
        """Read a diff without git's header."""
        start = self.at + 1
        sides = []
        for _ in range(2):
            raw = self.peek()[4:].rstrip(b"\r\n")
            self.crlf = self.peek().endswith(b"\r\n")
            name, _, stamp = raw.partition(b"\t") if b"\t" in raw else raw.partition(b" ")
            sides.append((name, name == _NOTHING or _is_epoch(stamp)))
            self.at += 1
        (old, none_before), (new, none_after) = sides
        paths = [self._path(name, start) for name in (old, new) if name != _NOTHING]
        if not paths:
            raise self.fail("it names no file", start)
        hunks = self._hunks()
        if not hunks:
            raise self.fail("there are no hunks in it", start)
        creates = none_before and hunks[0].old_start == 0 and not hunks[0].before
        deletes = none_after and hunks[0].new_start == 0 and not hunks[0].after
        return FileChange(_likely(paths), hunks, "", creates, deletes, line=start)

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
            if self.crlf and self.gnu and text.endswith(b"\r\n"):  # as in the header: GNU patch removes it
                text = text[:-2] + b"\n"
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
                body = body.rstrip(b"\n")
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


def _likely(paths: list[str]) -> str:
    """Choose between two names of one file as GNU patch does: fewest folders, then the shortest names, then the first."""
    return min(paths, key=lambda p: (p.count("/"), len(p.rpartition("/")[2]), len(p)))


def _is_epoch(stamp: bytes) -> bool:
    """Return whether a timestamp is the first second of 1970: the file is not there."""
    match = _EPOCH.search(stamp.strip())
    if not match:
        return False
    sign = -1 if match[3][:1] == b"-" else 1
    minutes = int(match[1]) * 60 + int(match[2]) - sign * (abs(int(match[3])) * 60 + int(match[4]))
    return minutes % (24 * 60) == 0

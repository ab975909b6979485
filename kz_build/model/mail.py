"""Reading patch mails, as `git format-patch` writes them."""

from __future__ import annotations

import re

from kz_build.model.errors import ConfigError, Problem
from kz_build.model.patch import FileChange, Hunk, Patch, split_lines

_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_OCTAL = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_ESCAPES = {
    b"n": b"\n",
    b"t": b"\t",
    b"r": b"\r",
    b'"': b'"',
    b"\\": b"\\",
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"v": b"\v",
}


def parse_patch(name: str, data: bytes) -> Patch:
    """Read a mail of `git format-patch`. Raises ConfigError naming file and line for what kz does not take."""
    return _Reader(name, data).read()


def unquote(raw: bytes) -> bytes:
    """Undo git's C-style quoting of a path."""
    if not (raw.startswith(b'"') and raw.endswith(b'"') and len(raw) > 1):
        return raw
    return _OCTAL.sub(lambda m: _ESCAPES.get(m[1]) or bytes([int(m[1], 8)]), raw[1:-1])


def unsafe_path(path: str) -> str:
    """Why a path must not be written ('' where it may): it leaves its folder or reaches into `.git`."""
    parts = path.split("/")
    if not path or path.startswith("/") or "\0" in path or "\\" in path:
        return "is not a relative path"
    if any(part in ("", ".", "..") for part in parts):
        return "climbs out of its folder"
    if any(part.lower().rstrip(" .") in (".git", "git~1") for part in parts):
        return "reaches into .git"
    return ""


class _Reader:
    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        self.lines = split_lines(data)
        self.at = 0

    def fail(self, text: str, line: int | None = None) -> ConfigError:
        number = self.at + 1 if line is None else line
        return ConfigError(
            "a patch cannot be read",
            (Problem(self.name, number, text),),
            hint="make patch files with `git format-patch --no-renames --full-index`",
        )

    def peek(self) -> bytes:
        return self.lines[self.at] if self.at < len(self.lines) else b""

    def read(self) -> Patch:
        headers = self.headers()
        message = self.message(headers["subject"])
        files = []
        while self.at < len(self.lines):
            if self.peek().startswith(b"diff --git "):
                files.append(self.file())
            elif self.peek().startswith((b"-- \n", b"--\n")):
                break
            else:
                self.at += 1
        if not files:
            raise self.fail("there is no `diff --git` in it", 1)
        return Patch(self.name, headers["from"], headers["date"], message, tuple(files))

    def headers(self) -> dict[str, str]:
        found: dict[str, str] = {}
        last = ""
        if self.peek().startswith(b"From "):
            self.at += 1
        while self.at < len(self.lines) and self.peek().strip():
            line = self.peek().rstrip(b"\r\n").decode("utf-8", "replace")
            if line[0] in " \t" and last:
                found[last] += " " + line.strip()
            elif ":" in line:
                last, value = line.split(":", 1)
                last = last.strip().lower()
                found[last] = value.strip()
            else:
                raise self.fail("is not a mail: a header line `From:`, `Date:` or `Subject:` is expected here")
            self.at += 1
        for needed in ("from", "date", "subject"):
            if needed not in found:
                raise self.fail(f"is not a mail of git format-patch: it has no `{needed.title()}:` header", 1)
        if found.get("content-transfer-encoding", "8bit").lower() not in ("8bit", "7bit", "binary"):
            raise self.fail("is encoded as " + found["content-transfer-encoding"] + "; kz takes 8bit mails", 1)
        return {key: _decoded(found[key]) for key in ("from", "date", "subject")}

    def message(self, subject: str) -> str:
        body = []
        self.at += 1
        while self.at < len(self.lines) and not self.peek().startswith(b"diff --git "):
            line = self.peek().rstrip()
            if line == b"---":
                break
            body.append(line.decode("utf-8", "replace"))
            self.at += 1
        title = re.sub(r"^(\[[^\]]*\]\s*)+", "", subject)
        return (title + "\n\n" + "\n".join(body).strip("\n")).rstrip("\n") + "\n"

    def file(self) -> FileChange:
        start = self.at + 1
        header = self.peek().rstrip(b"\n")[len(b"diff --git ") :]
        self.at += 1
        facts: dict[bytes, bytes] = {}
        while self.at < len(self.lines) and not self.peek().startswith((b"@@ ", b"diff --git ", b"-- \n", b"--\n")):
            line = self.peek().rstrip(b"\n")
            for key in (b"new file mode ", b"deleted file mode ", b"new mode ", b"old mode ", b"--- ", b"+++ "):
                if line.startswith(key):
                    facts[key.strip()] = line[len(key) :]
            if line.startswith((b"rename ", b"copy ")):
                raise self.fail("renames and copies are not taken: write the patch with --no-renames")
            if line.startswith((b"GIT binary patch", b"Binary files ")):
                raise self.fail("binary changes are not taken")
            self.at += 1
        path = self.path(header, facts, start)
        hunks = []
        while self.peek().startswith(b"@@ "):
            hunks.append(self.hunk())
        mode = facts.get(b"new file mode", facts.get(b"new mode", b"")).decode()
        if mode and mode not in ("100644", "100755", "120000"):
            raise self.fail(f"mode {mode} is not taken", start)
        return FileChange(path, tuple(hunks), mode, b"new file mode" in facts, b"deleted file mode" in facts)

    def path(self, header: bytes, facts: dict[bytes, bytes], line: int) -> str:
        old, new = facts.get(b"---", b""), facts.get(b"+++", b"")
        chosen = old if new in (b"", b"/dev/null") else new
        if not chosen:
            # A change of mode alone, or an empty file, has no ---/+++: both halves of the header are then the same path.
            half = header[: len(header) // 2]
            chosen = half
        raw = unquote(chosen.rstrip(b"\t"))
        if raw[:2] not in (b"a/", b"b/"):
            raise self.fail("paths must have git's a/ and b/ prefixes", line)
        path = raw[2:].decode("utf-8", "surrogateescape")
        for part in {raw[2:], *(unquote(f.rstrip(b"\t"))[2:] for f in (old, new) if f not in (b"", b"/dev/null"))}:
            text = part.decode("utf-8", "surrogateescape")
            if reason := unsafe_path(text):
                raise self.fail(f"the path {text!r} {reason}", line)
            if text != path:
                raise self.fail("renames are not taken: write the patch with --no-renames", line)
        return path

    def hunk(self) -> Hunk:
        line = self.at + 1
        match = _HUNK.match(self.peek())
        if not match:
            raise self.fail("is not a hunk header")
        old_start, new_start = int(match[1]), int(match[3])
        old_left, new_left = int(match[2] or 1), int(match[4] or 1)
        before: list[bytes] = []
        after: list[bytes] = []
        kinds = bytearray()
        self.at += 1
        while old_left > 0 or new_left > 0:
            text = self.peek()
            kind = text[:1]
            if kind == b"\n":  # some mailers strip the blank of an empty context line
                kind, text = b" ", b" \n"
            if kind not in (b" ", b"-", b"+"):
                raise self.fail("the hunk ends before the lines its header counts")
            body = text[1:]
            self.at += 1
            if self.peek().startswith(b"\\ "):
                body = body.rstrip(b"\n")
                self.at += 1
            if kind != b"+":
                before.append(body)
                old_left -= 1
            if kind != b"-":
                after.append(body)
                new_left -= 1
            kinds += kind
        if old_left < 0 or new_left < 0:
            raise self.fail("the hunk has more lines than its header counts", line)
        leading = len(kinds) - len(kinds.lstrip(b" "))
        trailing = len(kinds) - len(kinds.rstrip(b" "))
        return Hunk(old_start, new_start, tuple(before), tuple(after), leading, trailing, line)


def _decoded(value: str) -> str:
    if "=?" not in value:
        return value
    from email.header import decode_header, make_header  # 20 ms that few patches need

    return str(make_header(decode_header(value)))

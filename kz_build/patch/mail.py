"""A reader of patch mails, as `git format-patch` writes them."""

from __future__ import annotations

import binascii
import re

from kz_build.patch.change import Patch, split_lines
from kz_build.patch.diff import DiffReader

_ENCODED = re.compile(r"=\?([\w-]+)(?:\*[\w-]*)?\?([QqBb])\?([!->@-~]*)\?=")
_SPACES = re.compile(r"[\0\t-\r]+")
_IDENTITY = re.compile(r"(?:[^<>]* )?<[^<>]*>")  # what git takes as an author
DATE = re.compile(
    r"(?:\w{3},? +)?(?:0?[1-9]|[12]\d|3[01]) (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) (?:19[7-9]\d|20\d\d)"
    r" (?:[01]\d|2[0-3]):[0-5]\d(?::[0-6]\d)? (?:[-+]\d{4}|[A-Z]+)"
)
"""What git takes as a date."""


def parse_patch(name: str, data: bytes) -> Patch:
    """Read a mail of `git format-patch`. Raises ConfigError with file and line for what kz does not accept."""
    return _Reader(name, split_lines(data)).read()


class _Reader(DiffReader):
    def read(self) -> Patch:
        headers = self.headers()
        message = self.message(headers["subject"])
        files = self.files()
        if not files:
            raise self.fail("there is no `diff --git` in it", 1)
        return Patch(self.name, headers["from"], headers["date"], message, files)

    def headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        last = ""
        if self.peek().startswith(b"From "):
            self.at += 1
        while self.peek().strip():
            line = self.peek().decode("utf-8", "replace")
            if line[0] in " \t" and last:
                headers[last] += " " + line.strip()
            elif ":" in line:
                last, value = line.split(":", 1)
                last = last.strip().lower()
                headers[last] = value.strip()
            else:
                raise self.fail("is not a mail: a header line `From:`, `Date:` or `Subject:` is expected here")
            self.at += 1
        for needed in ("from", "date", "subject"):
            if needed not in headers:
                raise self.fail(f"is not a mail of git format-patch: it has no `{needed.title()}:` header", 1)
        if headers.get("content-transfer-encoding", "8bit").lower() not in ("8bit", "7bit", "binary"):
            raise self.fail("is encoded as " + headers["content-transfer-encoding"] + "; kz accepts 8bit mails", 1)
        for key, form in (("from", _IDENTITY), ("date", DATE), ("subject", None)):
            try:
                headers[key] = decoded(headers[key])
            except ValueError as error:
                raise self.fail(f"its `{key.title()}:` cannot be decoded: {error}", 1) from error
            if form and not form.fullmatch(headers[key]):
                raise self.fail(f"its `{key.title()}:` is not what git writes: {headers[key]!r}", 1)
        return headers

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


def decoded(value: str) -> str:
    """Return a header's value without the encoding of RFC 2047, also where other text is not ASCII, as git writes it.

    Raises ValueError for a character set that is unknown, or bytes that are not of it.
    """
    parts: list[tuple[str, bytes]] = []  # of each charset, '' for plain text
    end = 0
    for match in _ENCODED.finditer(value):
        between = value[end : match.start()]
        end = match.end()
        if between.strip() or not (parts and parts[-1][0]):  # white space between two encoded words is none
            parts.append(("", between.encode()))
        charset, kind, text = match[1].lower(), match[2].lower(), match[3].encode()
        data = binascii.a2b_base64(text + b"==") if kind == "b" else binascii.a2b_qp(text, header=True)
        if parts[-1][0] == charset:  # a character may be in two words
            data = parts.pop()[1] + data
        parts.append((charset, data))
    parts.append(("", value[end:].encode()))
    try:
        text = "".join(data.decode(charset or "utf-8") for charset, data in parts)
        text.encode()  # UTF-7 has halves of characters
    except LookupError as error:
        raise ValueError(str(error)) from error
    return _SPACES.sub(" ", text)

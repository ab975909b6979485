"""A reader of patch mails, as `git format-patch` writes them."""

from __future__ import annotations

import binascii
import codecs
import re
import shlex
from collections.abc import Callable, Mapping

from kz_build.patch.change import Patch, split_lines
from kz_build.patch.diff import DiffReader

_ENCODED = re.compile(r"=\?([\w-]+)(?:\*[\w-]*)?\?([QqBb])\?([!->@-~]*)\?=")
_CHARSET = re.compile(r"charset=\"?([^\"; \t]+)", re.IGNORECASE)
_NOT_OF_MAILS = ("idna", "punycode", "unicode_escape", "raw_unicode_escape")
"""What Python decodes, but iconv, and so git, does not."""
_DECODERS: Mapping[str, Callable[[bytes], bytes]] = {"quoted-printable": binascii.a2b_qp, "base64": binascii.a2b_base64}
_LATIN_1 = {0xDC00 + byte: byte for byte in range(0x80, 0x100)}
_SPACES = re.compile(r"[\0\t-\r]+")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"?')
_TAGS = re.compile(r"^(?:\[[^\]]*\]|re:(?!$)|[ :])+", re.IGNORECASE)
"""What git takes away from the beginning of a subject."""
_IDENTITY = re.compile(r"(?:[^<>]* )?<[^<>]*>")  # what git takes as an author
DATE = re.compile(
    r"(?:\w{3},? +)?(?:0?[1-9]|[12]\d|3[01]) (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) (?:19[7-9]\d|20\d\d)"
    r" (?:[01]\d|2[0-3]):[0-5]\d(?::[0-6]\d)? (?:[-+]\d{4}|[A-Z]+)"
)
"""What git takes as a date."""
_FORMS = {"from": _IDENTITY, "date": DATE, "subject": None}
_END_FOR_GIT = re.compile(rb"diff -|Index: |--- \S")
"""A line of a message at which git begins to look for the diff."""
_IN_BODY = re.compile(r"(from|date|subject):(.*)", re.IGNORECASE)


def parse_patch(name: str, data: bytes) -> Patch:
    """Read a mail of `git format-patch`. Raises ConfigError with file and line for what kz does not accept."""
    return _Reader(name, split_lines(data)).read()


class _Reader(DiffReader):
    def read(self) -> Patch:
        headers = self.headers()
        message = self.message(headers)
        files = self.files()
        if not files:
            raise self.fail("there is no `diff --git` in it", 1)
        return Patch(self.name, headers["from"], headers["date"], message, files)

    charset = ""

    def headers(self) -> dict[str, str]:
        fields: dict[str, bytes] = {}
        last = ""
        if self.lines and all(line.endswith(b"\r\n") for line in self.lines):
            raise self.fail(
                f"its lines end in CR LF, as Windows and mail programs write them: sed -i 's/\\r$//' {shlex.quote(self.name)}",
                1,
            )
        if self.peek().startswith(b"From "):
            self.at += 1
        while self.peek().strip():
            line = self.peek()
            if line[:1] in b" \t" and last:
                fields[last] += b" " + line.strip()
            elif b":" in line:
                name, value = line.split(b":", 1)
                last = name.decode("latin-1").strip().lower()
                fields[last] = value.strip()
            else:
                raise self.fail("is not a mail: a header line `From:`, `Date:` or `Subject:` is expected here")
            self.at += 1
        for needed in ("from", "date", "subject"):
            if needed not in fields:
                raise self.fail(f"is not a mail of git format-patch: it has no `{needed.title()}:` header", 1)
        headers = {key: text_of(value) for key, value in fields.items()}
        self._decode_body(headers.get("content-type", ""), headers.get("content-transfer-encoding", "8bit"))
        return {key: self._header(key, headers[key], 1) for key in _FORMS}

    def _header(self, key: str, value: str, line: int) -> str:
        """Return the decoded value of a header. Raises ConfigError for one that git would not take."""
        try:
            text = re.sub(" +", " ", decoded(value)).strip(" ")
        except ValueError as error:
            raise self.fail(f"its `{key.title()}:` cannot be decoded: {error}", line) from error
        if key == "from":  # git quotes "J. Doe"
            text = _QUOTED.sub(lambda name: re.sub(r"\\(.)", r"\1", name[1]), text).strip(" ")
        if (form := _FORMS[key]) and not form.fullmatch(text):
            raise self.fail(f"its `{key.title()}:` is not what git writes: {text!r}", line)
        return text

    def _decode_body(self, kind: str, encoding: str) -> None:
        """Undo what a mail program did to the text below the headers, as `git am` does: its encoding, not its character set."""
        self.charset = match[1].lower() if (match := _CHARSET.search(kind)) else ""
        for word, what in (("boundary=", "has several parts"), ("format=flowed", "is wrapped (format=flowed)")):
            if word in kind.lower():
                raise self.fail(f"{what}: save the patch itself, or send it with `git send-email`", 1)
        if encoding.lower() in ("8bit", "7bit", "binary"):
            return
        body = b"".join(self.lines[self.at + 1 :])
        try:
            data = _DECODERS[encoding.lower()](body)
        except KeyError:
            raise self.fail(f"is encoded as {encoding}, which git does not decode", 1) from None
        except binascii.Error as error:
            raise self.fail(f"cannot be decoded as {encoding}: {error}", 1) from error
        self.lines[self.at + 1 :] = split_lines(data)

    def message(self, headers: dict[str, str]) -> str:
        """Read the message. Headers at its beginning replace those of the mail, as in `git am`.

        `git format-patch --from` and `git send-email` write the author there when somebody else sends the patch.
        """
        self.at += 1
        first = self.at
        body = self._body()
        while body and not body[0]:
            del body[0]
            first += 1
        in_body: dict[str, tuple[str, int]] = {}
        last = ""
        while body:
            match = _IN_BODY.fullmatch(body[0])
            if last and body[0][:1] in (" ", "\t"):
                value, line = in_body[last]
                in_body[last] = (f"{value} {body[0].strip()}", line)
            elif match and (key := match[1].lower()) not in in_body:
                last = key
                in_body[key] = (match[2].strip(), first + 1)
            else:
                break
            del body[0]
            first += 1
        headers.update({key: self._header(key, value, line) for key, (value, line) in in_body.items()})
        title = _TAGS.sub("", headers["subject"])
        text = re.sub(r"\n{3,}", "\n\n", "\n".join(body).strip("\n"))
        return f"{title}\n\n{text}".rstrip("\n") + "\n"

    def _body(self) -> list[str]:
        lines = []
        ended = False
        while self.at < len(self.lines) and not self.peek().startswith(b"diff --git "):
            line = self.peek().rstrip()
            if line == b"---":
                break
            ended = ended or bool(_END_FOR_GIT.match(line))
            if ended and line.startswith(b"@@ -"):
                raise self.fail("is a diff in the message, and git am would apply it: indent its lines")
            try:
                lines.append(text_of(line, self.charset))
            except ValueError as error:
                raise self.fail(f"cannot be decoded: {error}") from error
            self.at += 1
        return lines


def text_of(data: bytes, charset: str = "") -> str:
    """Return text in a character set, else UTF-8, as git stores it: a byte that is not UTF-8 is taken for Latin 1.

    Raises ValueError for another character set that is unknown, or bytes that are not of it.
    """
    if charset in ("", "utf-8", "utf8"):
        return data.decode("utf-8", "surrogateescape").translate(_LATIN_1)
    try:
        if codecs.lookup(charset).name in _NOT_OF_MAILS:
            raise LookupError(f"unknown encoding: {charset}")
        text = data.decode(charset)
        text.encode()  # UTF-7 has halves of characters
    except LookupError as error:
        raise ValueError(str(error)) from error
    return text


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
    return _SPACES.sub(" ", "".join(text_of(data, charset) for charset, data in parts))

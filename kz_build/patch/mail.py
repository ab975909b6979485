"""A reader of patch mails, as `git format-patch` writes them."""

from __future__ import annotations

import re

from kz_build.patch.change import Patch, split_lines
from kz_build.patch.diff import DiffReader


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
        return {key: decoded(headers[key]) for key in ("from", "date", "subject")}

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
    """Return a header's value without the encoding of RFC 2047."""
    if "=?" not in value:
        return value
    from email.header import decode_header, make_header  # 20 ms that few patches need

    return str(make_header(decode_header(value)))

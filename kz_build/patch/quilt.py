"""A reader of other people's quilt stacks, such as a Debian package's: series with comments and options, DEP-3 or no headers."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, replace

from kz_build.core.errors import ConfigError, Problem
from kz_build.core.rules import unsafe_path
from kz_build.patch.change import Patch, split_lines
from kz_build.patch.gnu_diff import GnuReader
from kz_build.patch.mail import DATE, decoded
from kz_build.patch.series import series_rows

NOBODY, NO_DATE = "unknown <unknown>", "Thu, 01 Jan 1970 00:00:00 +0000"
"""Author and date of a patch that names neither."""

_FIELD = re.compile(
    r"(description|subject|from|author|date|origin|bug(?:-\w+)?|forwarded|applied-upstream|last-update|reviewed-by"
    r"|acked-by|signed-off-by|upstream-status|upstream-pr)\s*:\s*(.*)",
    re.IGNORECASE,
)
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_ADDRESS = re.compile(r"\s*([^<>]*?)\s*<([^<>]*)>")
_HEADER = ("description", "subject", "from", "author", "date", "last-update")


@dataclass(frozen=True)
class SeriesEntry:
    """A patch of a series: its path below the series' folder, how many folders its paths lose, whether it is reversed."""

    name: str
    strip: int = 1
    reverse: bool = False


def read_series(text: str, shown: str) -> tuple[SeriesEntry, ...]:
    """Read a series file as quilt does. Raises ConfigError with every line that kz does not support."""
    entries: dict[str, SeriesEntry] = {}
    problems = []
    for number, (_, words) in enumerate(series_rows(text), 1):
        if not words:
            continue
        name, options = words[0], " ".join(words[1:])
        levels = re.findall(r"-p ?(\d{1,3})(?!\S)", options)
        rest = re.sub(r"-p ?\d{1,3}(?!\S)|-R(?!\S)", "", options).strip()
        if rest:
            problems.append(Problem(shown, number, f"{name}: the option {rest} is not supported, only -pN and -R"))
        wrong = "climbs out of its folder" if ".." in name.split("/") else unsafe_path(posixpath.normpath(name))
        if name in entries or wrong:
            problems.append(Problem(shown, number, f"{name}: {wrong or 'appears twice'}"))
        entries[name] = SeriesEntry(name, int(levels[-1]) if levels else 1, "-R" in words[1:])
    if problems:
        raise ConfigError(f"{shown} is wrong:", tuple(problems))
    return tuple(entries.values())


def parse_foreign(entry: SeriesEntry, shown: str, data: bytes) -> Patch:
    """Read a patch file as GNU patch would. The file name stands in for a missing header. Raises ConfigError."""
    lines = split_lines(data)
    reader = GnuReader(shown, lines, strip=entry.strip)
    files = reader.files()
    if data and not files:  # quilt treats an empty file as a patch that does nothing
        raise reader.fail("there is no diff in it", 1)
    head = lines[: files[0].line - 1] if files else []
    fields, free = _header([line.decode("utf-8", "replace").rstrip() for line in head])
    named = {name.lower(): value for name, value in fields}
    author, message, left_out = _author(named), _message(entry, fields, free), tuple(reader.left_out)
    patch = Patch(entry.name, author, _date(named), message, files, gnu=True, left_out=left_out)
    return replace(patch, files=patch.reverse().files[::-1]) if entry.reverse else patch  # GNU patch keeps the order


def _header(lines: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the fields, names as they are written, and the free text."""
    fields: list[tuple[str, str]] = []
    free: list[str] = []
    last = ""
    for line in lines:
        if line == "---" or line.startswith(("Index: ", "diff ", "=====")):
            break
        match = _FIELD.fullmatch(line)
        if match:
            last = match[1]
            fields.append((last, match[2].strip()))
        elif line[:1] in (" ", "\t") and last:
            fields[-1] = (last, fields[-1][1] + "\n" + ("" if line.strip() == "." else line.strip()))
        elif not line.startswith("From "):
            last = ""
            free.append(line)
    return fields, free


def _author(fields: dict[str, str]) -> str:
    text = _decoded(fields.get("from", fields.get("author", "")).split("\n")[0])
    if match := _ADDRESS.match(text):
        name = match[1].strip(' "') or match[2]
        return f"{name} <{match[2]}>"
    text = re.sub(r"[<>]", "", text).strip()
    return (f"{text} <{text}>" if "@" in text else f"{text} <unknown>") if text else NOBODY


def _decoded(value: str) -> str:
    """Return a header's value without its encoding; as it is where that is unknown, for quilt reads no headers."""
    try:
        return "\n".join(map(decoded, value.split("\n")))
    except ValueError:
        return value


def _date(fields: dict[str, str]) -> str:
    text = fields.get("date", "")
    if DATE.fullmatch(text):
        return text
    if match := _ISO_DATE.match(text or fields.get("last-update", "")):
        from datetime import date  # few patches need it

        try:
            written = date.fromisoformat(match[0]).strftime("%a, %d %b %Y 00:00:00 +0000")
            return written if DATE.fullmatch(written) else NO_DATE
        except ValueError:
            pass
    return NO_DATE


def _message(entry: SeriesEntry, all_fields: list[tuple[str, str]], free: list[str]) -> str:
    """Join title, text and the other fields as trailers."""
    fields = {name.lower(): value for name, value in all_fields}
    text = "\n".join(free).strip("\n")
    subject = fields.get("subject", "")
    if (
        "date" in fields
    ):  # a mail, whose long title continues on the next line; DEP-3 has a text there, and no such field
        subject = " ".join(subject.split("\n"))
    heading = _decoded(fields.get("description") or subject).strip()
    if not heading:
        heading, text = text, ""
    title, _, rest = heading.partition("\n")
    title = re.sub(r"^(\[[^\]]*\]\s*)+", "", title).strip() or re.sub(r"\.\w+$", "", entry.name)
    used = _HEADER if "date" not in fields else _HEADER[:-1]
    trailers = [f"{name}: {value}" for name, value in all_fields if name.lower() not in used]
    parts = [title, rest.strip("\n"), text.strip("\n"), "\n".join(trailers)]
    return "\n\n".join(part for part in parts if part) + "\n"

"""Reading the mails of git format-patch: headers, message, and what is refused."""

from __future__ import annotations

import base64
import os
import quopri
import subprocess
from pathlib import Path

import pytest

from kz_build.core.errors import ConfigError
from kz_build.git.format_patch import format_mails, one_mail
from kz_build.git.repository import Repository
from kz_build.patch.change import Patch
from kz_build.patch.mail import decoded, parse_patch
from tests.patch.test_diff import GOOD, fault, read

TOP = b"From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001\n"
FROM, DATE = b"From: A B <a@b>\n", b"Date: Thu, 15 Jan 2026 12:00:00 +0000\n"
SUBJECT = b"Subject: [PATCH 1/2] Fix it\n"
BODY = b"\nWhy it was wrong.\n\nUpstream-Status: Pending\n---\n f | 2 +-\n\n" + GOOD + b"-- \n2.43.0\n\n"


def parse(data: bytes) -> Patch:
    return parse_patch("0001-x.patch", data)


def message(headers: bytes, body: bytes = BODY) -> str:
    return parse(FROM + DATE + headers + body).message


def test_a_mail_of_format_patch() -> None:
    text = "Fix it\n\nWhy it was wrong.\n\nUpstream-Status: Pending\n"
    data = TOP + FROM + DATE + SUBJECT + BODY
    patch = parse(data)
    assert patch == Patch("0001-x.patch", "A B <a@b>", "Thu, 15 Jan 2026 12:00:00 +0000", text, patch.files)
    assert [(f.path, f.line, f.hunks) for f in patch.files] == [("f", 12, patch.files[0].hunks)]
    assert patch.files[0].hunks[0].before == read(GOOD)[0].hunks[0].before
    assert not patch.gnu
    assert parse(data.replace(b"\n", b"\r\n", 4)).message == patch.message
    with pytest.raises(ConfigError, match="its lines end in CR LF, .*sed -i"):
        parse(data.replace(b"\n", b"\r\n"))
    assert parse(data.removeprefix(TOP)).author == "A B <a@b>"
    assert parse(b"From somewhere\n" + data.removeprefix(TOP)).author == "A B <a@b>"
    others = parse(b"X-One: 1\n" + FROM + b"X-Two: 2\n" + DATE + b"X-Three: 3\n" + SUBJECT + BODY)
    assert (others.author, others.date, others.message) == (patch.author, patch.date, patch.message)


@pytest.mark.parametrize(
    ("subject", "title"),
    [
        (b"Subject: plain\n", "plain"),
        (b"Subject: [PATCH] one\n two\n", "one two"),
        (b"Subject: [PATCH] one\n\ttwo\n three\n", "one two three"),
        (b"Subject: [PATCH] Support MLX\n", "Support MLX"),
        (b"subject: [PATCH v2 3/4][RFC] [et-1.2] one [two]\n", "one [two]"),
        (b"SUBJECT :   wide  \n", "wide"),
        (b"Subject: kernel: fix: it\n", "kernel: fix: it"),
        (b"X-Other: x\nSubject: one\nMIME-Version: 1.0\n continued\n", "one"),
        (b"Subject: =?UTF-8?q?J=C3=B6rg?= and =?utf-8?B?w7w=?=\n", "J\u00f6rg and \u00fc"),
        (b"Subject: raw \xc3\xbc\n", "raw \u00fc"),
        (b"Subject: raw \xc3\xbc \xff\n", "raw \u00fc \u00ff"),
        (b"Content-Transfer-Encoding: 8bit\nSubject: one\n", "one"),
        (b"Content-Transfer-Encoding: 7BIT\nSubject: one\n", "one"),
        (b"Content-Transfer-Encoding: Binary\nSubject: one\n", "one"),
    ],
)
def test_the_title_is_the_subject_without_its_tags(subject: bytes, title: str) -> None:
    assert message(subject).split("\n")[0] == title


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (b"\n---\n\n" + GOOD, "T\n"),
        (b"\n\n\nText.\n\n\n---\n" + GOOD, "T\n\nText.\n"),
        (b"\nText.\n\n\n \nMore.\n---\n" + GOOD, "T\n\nText.\n\nMore.\n"),
        (b"\nText.  \n  indented\n" + GOOD, "T\n\nText.\n  indented\n"),
        (b"\nText.\n----\nmore\r\n--- \nnot this\n" + GOOD, "T\n\nText.\n----\nmore\n"),
        (b"\n\xc3\xbc \xff\n---\n" + GOOD, "T\n\n\u00fc \u00ff\n"),
        (b"\n  indented\nText for MLX\n---\n" + GOOD, "T\n\n  indented\nText for MLX\n"),
        (b"\nXNNPACK too.\n---\n" + GOOD, "T\n\nXNNPACK too.\n"),
        (b"\nText.\n---\nA note for the list.\n" + GOOD, "T\n\nText.\n"),
    ],
)
def test_the_message_ends_at_the_line_of_three_dashes(body: bytes, wanted: str) -> None:
    assert message(b"Subject: T\n", body) == wanted


def test_a_line_of_three_dashes_does_not_hide_what_follows_a_bare_diff() -> None:
    patch = parse(FROM + DATE + b"Subject: T\n\nText.\n" + GOOD)
    assert [f.line for f in patch.files] == [6]


@pytest.mark.parametrize(
    ("data", "line", "text"),
    [
        (GOOD, 1, "is not a mail: a header line `From:`, `Date:` or `Subject:` is expected here"),
        (FROM + b"no header\n", 2, "is not a mail: a header line `From:`, `Date:` or `Subject:` is expected here"),
        (b" folded\n" + FROM, 1, "is not a mail: a header line `From:`, `Date:` or `Subject:` is expected here"),
        (b"", 1, "is not a mail of git format-patch: it has no `From:` header"),
        (DATE + SUBJECT + BODY, 1, "is not a mail of git format-patch: it has no `From:` header"),
        (FROM + SUBJECT + BODY, 1, "is not a mail of git format-patch: it has no `Date:` header"),
        (TOP + FROM + DATE + BODY, 1, "is not a mail of git format-patch: it has no `Subject:` header"),
        (FROM + DATE + SUBJECT + b"\nText\n---\n", 1, "there is no `diff --git` in it"),
        (DATE + SUBJECT + b"From: me\n" + BODY, 1, "its `From:` is not what git writes: 'me'"),
        (DATE + SUBJECT + b"From: a <b> <c>\n" + BODY, 1, "its `From:` is not what git writes: 'a <b> <c>'"),
        (FROM + SUBJECT + b"Date: tomorrow\n" + BODY, 1, "its `Date:` is not what git writes: 'tomorrow'"),
        (
            FROM + SUBJECT + DATE.replace(b"15", b"32") + BODY,
            1,
            "its `Date:` is not what git writes: 'Thu, 32 Jan 2026 12:00:00 +0000'",
        ),
        (FROM + DATE + b"Subject: =?x-y?q?a?=\n" + BODY, 1, "its `Subject:` cannot be decoded: unknown encoding: x-y"),
        (
            FROM + b"Content-Transfer-Encoding: x-uuencode\n" + DATE + SUBJECT + BODY,
            1,
            "is encoded as x-uuencode, which git does not decode",
        ),
        (
            FROM + b"Content-Type: multipart/mixed; boundary=x\n" + DATE + SUBJECT + BODY,
            1,
            "has several parts: save the patch itself, or send it with `git send-email`",
        ),
        (
            FROM + b"Content-Type: text/plain; Format=Flowed\n" + DATE + SUBJECT + BODY,
            1,
            "is wrapped (format=flowed): save the patch itself, or send it with `git send-email`",
        ),
        (
            FROM + b"Content-Type: text/plain; charset=us-ascii\n" + DATE + SUBJECT + b"\na\n\xfc\n---\n" + GOOD,
            7,
            "cannot be decoded: 'ascii' codec can't decode byte 0xfc in position 0: ordinal not in range(128)",
        ),
        (
            FROM + b"Content-Type: text/plain; charset=punycode\n" + DATE + SUBJECT + BODY,
            6,
            "cannot be decoded: unknown encoding: punycode",
        ),
    ],
)
def test_what_is_no_mail_of_format_patch(data: bytes, line: int, text: str) -> None:
    assert fault(lambda: parse(data)) == (line, text)


def test_a_fault_in_the_diff_has_its_line_in_the_mail() -> None:
    with pytest.raises(ConfigError) as caught:
        parse(TOP + FROM + DATE + SUBJECT + BODY.replace(b"+++ b/f", b"+++ b/g"))
    assert (
        str(caught.value).splitlines()[1]
        == "  0001-x.patch:12: it names 'f' and 'g', but is not a rename of one to the other"
    )


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("plain = ?text", "plain = ?text"),
        ("=?iso-8859-1?q?=FC?= <u@x>", "\u00fc <u@x>"),
        ("=?utf-8?q?J=C3=B6rg_M?=", "J\u00f6rg M"),
        ("=?UTF-8?q?J=C3=B6rg?= <j@ex\u00e4mple.org>", "J\u00f6rg <j@ex\u00e4mple.org>"),
        ("=?utf-8?q?J=C3?= =?utf-8?q?=B6?=  =?iso-8859-1?q?=FC?= x", "J\u00f6\u00fc x"),
        ("=?utf-8?b?w7w?= =?utf-8?q?a=0Ab=00c?=", "\u00fca b c"),
        ("=?utf-8?q?a?= =?no word?= b", "a =?no word?= b"),
    ],
)
def test_encoded_headers(value: str, wanted: str) -> None:
    assert decoded(value) == wanted


def test_only_ascii_white_space_goes_from_the_end_of_a_message() -> None:
    wide = BODY.replace(b"Pending\n", "Pending\u3000 \n\n".encode())
    assert parse(FROM + DATE + SUBJECT + wide).message.endswith(" Pending\u3000\n")


def test_a_diff_in_the_message_that_git_am_would_apply_is_refused() -> None:
    inside = b"\nWhy.\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+y\n" + BODY
    line, text = fault(lambda: parse(FROM + DATE + SUBJECT + inside))
    assert (line, text) == (8, "is a diff in the message, and git am would apply it: indent its lines")
    assert "@@ -1" in message(SUBJECT, inside.replace(b"--- a/f\n+++ b/f\n", b"", 1)), "git takes this for text"


SOMEONE = dict(os.environ) | {
    f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
}
"""The environment of git on a machine where nobody has set a name."""


def test_what_git_writes_for_an_address_that_is_not_ascii(tmp_path: Path) -> None:
    """An encoded name beside a raw address: git does not encode the latter. The author's name must not add a line to what git reads."""
    environment = {**SOMEONE, "GIT_AUTHOR_NAME": "Jörg Ünique", "GIT_AUTHOR_EMAIL": "j@exämple.org"}
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "Füge ä hinzu"]):
        (tmp_path / "f").write_text("x\n")
        subprocess.run(["git", *words], cwd=tmp_path, env=environment, check=True)
    mail = subprocess.run(
        ["git", "format-patch", "--root", "--stdout", "HEAD"], cwd=tmp_path, stdout=subprocess.PIPE, check=True
    )
    patch = parse(mail.stdout)
    assert (patch.author, patch.subject) == ("Jörg Ünique <j@exämple.org>", "Füge ä hinzu")


@pytest.mark.parametrize("name", ["John Q. Public", 'Ann "Q" B', "a \\ b", "Doe, Jane (x)"])
def test_an_author_whose_name_git_quotes(tmp_path: Path, name: str) -> None:
    environment = {**SOMEONE, "GIT_AUTHOR_NAME": name}
    for words in (
        ["init", "-q"],
        ["commit", "-q", "-m", "base", "--allow-empty"],
        ["add", "."],
        ["commit", "-q", "-m", "x"],
    ):
        (tmp_path / "f").write_text("x\n")
        subprocess.run(["git", *words], cwd=tmp_path, env=environment, check=True)
    repository = Repository(tmp_path / ".git")
    mails = [*format_mails(repository, "HEAD~", "HEAD"), one_mail(repository, "HEAD~", "HEAD", "HEAD")]
    assert [parse(mail).author for _, mail in mails] == [f"{name} <a@example.org>"] * 2


@pytest.mark.parametrize(
    "subject", ["Re: [PATCH] t", "[PATCH] re: [x] : t", "[PATCH]  t  u", "Re:", "Reach: t", "[x t"]
)
def test_a_title_is_the_one_that_git_am_makes(tmp_path: Path, subject: str) -> None:
    data = FROM + DATE + f"Subject: {subject}\n".encode() + BODY
    assert parse(data).message == mailinfo(tmp_path, data)[2]


KINDS = (
    ("8bit", "iso-8859-1"), ("8bit", "utf-8"), ("8bit", ""), ("8bit", "windows-1252"), ("quoted-printable", "utf-8"),
    ("Quoted-Printable", '"ISO-8859-15"'), ("base64", "utf-8"), ("base64", "koi8-r"), ("BASE64", ""),
)  # fmt: skip


@pytest.mark.parametrize(("encoding", "charset"), KINDS)
def test_what_mail_programs_do_to_a_body_is_undone_as_git_does(tmp_path: Path, encoding: str, charset: str) -> None:
    """The message is of the mail's character set; the diff's bytes are not touched by it."""
    codec = charset.strip('"') or "latin-1"
    words = "привет" if codec == "koi8-r" else "Größe \u20ac" if codec in ("windows-1252", "ISO-8859-15") else "Größe"
    diff = GOOD.replace(b"-b\n", "-größe\n".encode()).replace(b"+B\n", b"+gr\xf6\xdfe = 1" + b"x" * 100 + b"\n")
    body = (
        f"Why {words}=3D.\n".encode(codec)
        + (b"" if charset else "Ä\n".encode())
        + b"---\n f | 2 +-\n\n"
        + diff
        + b"-- \n2.43.0\n"
    )
    encode = {"8bit": bytes, "quoted-printable": quopri.encodestring, "base64": base64.encodebytes}[encoding.lower()]
    kind = f"Content-Type: text/plain{f'; charset={charset}' if charset else ''}\n"
    headers = kind.encode() + f"Content-Transfer-Encoding: {encoding}\n".encode()
    mail = TOP + FROM + DATE + headers + "Subject: [PATCH] Ä\n\n".encode("latin-1" if encoding == "8bit" else "utf-8")
    mail += encode(body)  # type: ignore[operator]
    (tmp_path / "f").write_bytes("a\ngröße\nc\n".encode())
    for argv in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"], ["am", "-q"]):
        run_git(tmp_path, *argv, data=mail)
    patch = parse(mail)
    assert run_git(tmp_path, "log", "-1", "--format=%B").rstrip() == patch.message.encode().rstrip()
    assert (tmp_path / "f").read_bytes() == b"".join(patch.files[0].hunks[0].after)


def run_git(folder: Path, *words: str, data: bytes = b"") -> bytes:
    return subprocess.run(
        ["git", *words], input=data, cwd=folder, env=SOMEONE, stdout=subprocess.PIPE, check=True
    ).stdout


@pytest.mark.parametrize(
    "body",
    [
        b"From: Orig <o@x>\n\nWhy.\n",
        b"\n\nfrom: =?UTF-8?q?J=C3=B6rg?= <o@x>\nDate: Thu, 01 Jan 2015 00:00:00 +0000\nSubject: [PATCH] other\n title\n\nWhy.\n",
        b"From: One <o@x>\nFrom: Two <t@x>\n\nWhy.\n",
        b"Why.\n\nFrom: Orig <o@x>\n",
        b"Cc: Orig <o@x>\nFrom: Orig <o@x>\n",
        b"From: Orig <o@x>\nWhy.\n",
        b" indented\nFrom: Orig <o@x>\n",
    ],
)
def test_headers_in_the_body_are_those_that_git_takes(tmp_path: Path, body: bytes) -> None:
    data = TOP + FROM + DATE + SUBJECT + b"\n" + body + b"---\n f | 2 +-\n\n" + GOOD + b"-- \n2.43.0\n\n"
    patch = parse(data)
    assert (patch.author, patch.date, patch.message) == mailinfo(tmp_path, data)


def mailinfo(folder: Path, data: bytes) -> tuple[str, str, str]:
    """Author, date and message as `git am` reads them."""
    argv = ["git", "mailinfo", str(folder / "m"), str(folder / "p")]
    done = subprocess.run(argv, input=data, capture_output=True, check=True, cwd=folder)
    info = dict(line.split(": ", 1) for line in done.stdout.decode().splitlines() if line)
    text = f"{info.get('Subject', '')}\n\n{(folder / 'm').read_text()}".rstrip("\n") + "\n"
    return f"{info['Author']} <{info['Email']}>", info["Date"].strip(), text

"""Commits as patch mails, in the one form that the stacks use. Files that the clone lacks are fetched first."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kz_build.core.locks import scratch_folder
from kz_build.git.blobs import changed_blobs
from kz_build.git.repository import Repository


def format_mails(repository: Repository, base: str, tip: str, paths: Sequence[str] = ()) -> list[tuple[str, bytes]]:
    """Return (slug, mail) of each commit of base..tip, oldest first; the slug is git's own name for it, without number."""
    repository.fetch_blobs(changed_blobs(repository, base, tip, paths))
    span = ("--end-of-options", f"{base}..{tip}", "--", *paths)
    bodies = repository.git("log", "--reverse", "--no-merges", "-z", "--format=%b", *span)
    with scratch_folder() as folder:
        repository.git(
            "format-patch",
            "--quiet",
            "--zero-commit",
            "--no-signature",
            "--no-stat",
            "--full-index",
            "--binary",
            "--no-renames",
            "--no-numbered",
            "--diff-algorithm=myers",
            f"--output-directory={folder}",
            *span,
        )
        files = sorted(folder.iterdir())
        slugs = [file.name.split("-", 1)[1].removesuffix(".patch") for file in files]
        mails = [file.read_bytes() for file in files]
        texts = bodies.split(b"\0")[:-1] if bodies else []
        return [(slug, _mail(*both)) for slug, *both in zip(slugs, mails, texts, strict=True)]


def _mail(mail: bytes, body: bytes) -> bytes:
    """Return a mail of git format-patch whose message, with this body, git am and kz read to its end."""
    headers, _, rest = mail.partition(b"\n\n")
    body = b"\n".join(line.rstrip(b" \t\r") for line in body.split(b"\n")).strip(b"\n")  # as git writes it
    text, diff = (rest[: len(body)], rest[len(body) :]) if rest.startswith(body) else (b"", rest)
    return headers + b"\n\n" + _indented(text) + diff


def _indented(body: bytes) -> bytes:
    """Indent lines of a message's body that a reader of mails, such as git am, would take for its end or for a header."""
    body = re.sub(rb"(?i)\A(?=(from|date|subject):|\[patch\]\s|>from\s)", b" ", body.lstrip(b"\n"))
    return re.sub(rb"(?m)^(?=diff -|Index: |From |---[^\S\n]*$|--- \S)", b" ", body)


def one_mail(
    repository: Repository, base: str, tip: str, message_of: str, paths: Sequence[str] = ()
) -> tuple[str, bytes]:
    """Return (slug, mail) of all changes from `base` to `tip`, by the author of `tip`, with the message of commit `message_of`."""
    repository.fetch_blobs(changed_blobs(repository, base, tip, paths))
    head = repository.git("log", "-1", "--format=%an%n<%ae>%nDate: %aD", "--end-of-options", tip)
    name, _, rest = head.partition(b"\n")
    if b'"' in name:
        name = b'"%b"' % re.sub(rb'(["\\])', rb"\\\1", name)
    head = b"From: %b %b" % (name, rest)
    message = repository.git("log", "-1", "--format=%s%n%b", "--end-of-options", message_of).decode("utf-8", "replace")
    subject, _, body = message.partition("\n")
    words = ("--binary", "--full-index", "--no-renames", "--diff-algorithm=myers", "--no-ext-diff", "--no-color")
    diff = repository.git("diff", *words, "--end-of-options", base, tip, "--", *paths)
    slug = re.sub(r"[^A-Za-z0-9._]+", "-", subject)[:52].strip("-.")
    text = _indented(body.strip().encode())
    return slug, head + f"Subject: [PATCH] {subject}\n\n".encode() + text + b"\n\n---\n" + diff

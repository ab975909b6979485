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
            "--end-of-options",
            f"{base}..{tip}",
            "--",
            *paths,
        )
        files = sorted(folder.iterdir())
        mails = ((file.name.split("-", 1)[1].removesuffix(".patch"), file.read_bytes()) for file in files)
        return [(slug, _without_header_in_body(mail)) for slug, mail in mails]


def _without_header_in_body(mail: bytes) -> bytes:
    """Indent a first line of the message's text that a reader of mails, such as git am, would take for a header."""
    headers, _, text = mail.partition(b"\n\n")
    if re.match(rb"\n*(?:from|date|subject):", text, re.IGNORECASE):
        text = b" " + text.lstrip(b"\n")
    return headers + b"\n\n" + text


def one_mail(
    repository: Repository, base: str, tip: str, message_of: str, paths: Sequence[str] = ()
) -> tuple[str, bytes]:
    """Return (slug, mail) of all changes from `base` to `tip`, by the author of `tip`, with the message of commit `message_of`."""
    repository.fetch_blobs(changed_blobs(repository, base, tip, paths))
    head = repository.git("log", "-1", "--format=From: %an <%ae>%nDate: %aD", "--end-of-options", tip)
    message = repository.git("log", "-1", "--format=%s%n%b", "--end-of-options", message_of).decode("utf-8", "replace")
    subject, _, body = message.partition("\n")
    words = ("--binary", "--full-index", "--no-renames", "--diff-algorithm=myers", "--no-ext-diff", "--no-color")
    diff = repository.git("diff", *words, "--end-of-options", base, tip, "--", *paths)
    slug = re.sub(r"[^A-Za-z0-9._]+", "-", subject)[:52].strip("-.")
    # A line of the body that would end the message for a reader of mails is indented.
    text = re.sub(r"^(---|diff --git |Index: )", r" \1", body.strip(), flags=re.MULTILINE)
    mail = head + f"Subject: [PATCH] {subject}\n\n{text}\n\n---\n".encode() + diff
    return slug, _without_header_in_body(mail)

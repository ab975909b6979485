"""Commits as patch mails, in the one form that the stacks keep."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kz_build.adapters.git import Repository


def format_mails(repository: Repository, base: str, tip: str, paths: Sequence[str] = ()) -> list[tuple[str, bytes]]:
    """(slug, mail) of each commit of base..tip, oldest first; the slug is git's own name for it, without number."""
    with tempfile.TemporaryDirectory(prefix="kz-mails-") as folder:
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
            f"{base}..{tip}",
            "--",
            *paths,
        )
        files = sorted(Path(folder).iterdir())
        return [(file.name.split("-", 1)[1].removesuffix(".patch"), file.read_bytes()) for file in files]


def one_mail(repository: Repository, base: str, tip: str, subject: str, paths: Sequence[str] = ()) -> tuple[str, bytes]:
    """(slug, mail) of everything that `tip` has over `base`, by the author of its last commit."""
    head = repository.git("log", "-1", "--format=From: %an <%ae>%nDate: %aD", tip)
    words = ("--binary", "--full-index", "--no-renames", "--diff-algorithm=myers", "--no-ext-diff", "--no-color")
    diff = repository.git("diff", *words, base, tip, "--", *paths)
    slug = re.sub(r"[^A-Za-z0-9._]+", "-", subject).strip("-")
    return slug, head + f"Subject: [PATCH] {subject}\n\n---\n".encode() + diff

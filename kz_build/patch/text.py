"""One verdict on a patch, in words."""

from __future__ import annotations

import textwrap

from kz_build.patch.judgement import Judgement, Verdict
from kz_build.patch.place import shown

WIDTH = 80


def cell(judgement: Judgement) -> str:
    """A verdict in a word."""
    if judgement.verdict.holds and judgement.intents:
        return "intent"
    return f"{judgement.offset:+d}" if judgement.verdict is Verdict.OFFSET else judgement.verdict.value


def explained(judgement: Judgement) -> list[str]:
    """What a judgement says, in sentences."""
    rows = []
    if not judgement.verdict.holds:
        hunk = judgement.line and judgement.verdict is not Verdict.MISSING
        where = f" (hunk at line {judgement.line} of the patch)" if hunk else ""
        rows.append(f"{judgement.path}: {judgement.reason}{where}")
        rows += [f"its lines stand at {shown(judgement.there)}"] if judgement.there else []
    elif judgement.verdict is Verdict.UPSTREAMED:
        rows.append(f"{upstreamed(judgement)}; drop the patch there")
    rows += [f"intent: {text}" for text in judgement.intents]
    if judgement.without:
        rows.append(without(judgement))
    return rows


def upstreamed(judgement: Judgement) -> str:
    """Where what a patch changes is there already."""
    return f"{judgement.reason}, at {shown(judgement.there)}"


def without(judgement: Judgement) -> str:
    """Which earlier patches a judgement leaves out, by their numbers."""
    return f"judged without {', '.join(name.split('-', 1)[0] for name in judgement.without)}"


def wrapped(text: str, indent: str, more: str = "  ") -> list[str]:
    """Text as lines of at most 80 columns, those after the first indented by `more` too; words stay whole."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + more,
        break_long_words=False,
        break_on_hyphens=False,
    )

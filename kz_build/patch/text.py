"""One verdict on a patch, as text."""

from __future__ import annotations

from kz_build.patch.place import places_text
from kz_build.patch.verdict import Judgement, Verdict


def cell(judgement: Judgement) -> str:
    """Return a verdict as one word."""
    if judgement.verdict.holds and judgement.intents:
        return "intent"
    return f"{judgement.offset:+d}" if judgement.verdict is Verdict.OFFSET else judgement.verdict.value


def explanation(judgement: Judgement) -> list[str]:
    """Explain a judgement in sentences."""
    rows = []
    if not judgement.verdict.holds:
        hunk = judgement.line and judgement.verdict is not Verdict.MISSING
        where = f" (hunk at line {judgement.line} of the patch)" if hunk else ""
        rows.append(f"{judgement.path}: {judgement.reason}{where}")
        rows += [f"its lines are at {places_text(judgement.there)}"] if judgement.there else []
    elif judgement.verdict is Verdict.UPSTREAMED:
        rows.append(f"{upstreamed(judgement)}; drop the patch there")
    elif judgement.reason:
        rows.append(judgement.reason)
    rows += [f"intent: {text}" for text in judgement.intents]
    if judgement.without:
        rows.append(without(judgement))
    return rows


def upstreamed(judgement: Judgement) -> str:
    """Say where upstream has the change of a patch."""
    return f"{judgement.reason}, at {places_text(judgement.there)}"


def without(judgement: Judgement) -> str:
    """Name the earlier patches that a judgement leaves out, by their numbers if they have any."""
    numbers = [number if (number := name.split("-", 1)[0]).isdigit() else name for name in judgement.without]
    return f"judged without {', '.join(numbers)}"

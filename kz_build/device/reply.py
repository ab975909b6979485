"""What a model replied: whether it can be an answer at all, and whether it is the host's. Plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kz_build.core.check import Check, failed, passed

SHORT = 16
"""Characters below which a reply is too short to judge by its repetition."""
SAME, COMMON, PRINTABLE = 0.9, 0.5, 0.9
"""Shares: of characters that repeat those before them, of the most common one, and of those that can be printed. A wrong width of
the KV cache gives 64 times `!`, Qwen's token 0; in prose the most common letter has 13 %."""
_LONGEST = 16
"""Characters of what may not be repeated: a small model that works says whole sentences again, without its chat template."""
_SHOWN = 60


@dataclass(frozen=True)
class Greedy:
    """What the host's rehearsal of the same .pte said: the most likely token at each step, and its text."""

    prompt: str
    tokens: tuple[int, ...]
    pieces: tuple[str, ...]


def greedy(decode: Mapping[str, Any]) -> Greedy | None:
    """Read a rehearsal from the decode check in an export's record; None if it has none."""
    try:
        data = decode["greedy"]
        tokens, pieces = tuple(map(int, data["tokens"])), tuple(map(str, data["pieces"]))
        return Greedy(str(data["prompt"]), tokens, pieces) if tokens and len(tokens) == len(pieces) else None
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def senseless(text: str) -> str:
    """Return why a text is no answer of a model that works, '' if it may be one."""
    shown = text[:_SHOWN] + ("…" if len(text) > _SHOWN else "")
    good = sum(one.isprintable() or one.isspace() for one in text) - text.count("\N{REPLACEMENT CHARACTER}")
    if good < PRINTABLE * len(text):
        return f"{good / len(text):.0%} of its characters are printable: {shown}"
    dense = "".join(text.split())
    if len(dense) < SHORT:
        return ""
    for length in range(1, min(_LONGEST, len(dense) // 4) + 1):
        same = sum(one == other for one, other in zip(dense, dense[length:], strict=False))
        if same >= SAME * (len(dense) - length):
            return f"it repeats {dense[-length:]!r} {len(dense) // length} times: {shown}"
    letter, count = Counter(dense).most_common(1)[0]
    return f"{count / len(dense):.0%} of it is {letter!r}: {shown}" if count > COMMON * len(dense) else ""


def judged(text: str, expected: str, prompt: str, rehearsal: Greedy | None, *, sensible: bool = True) -> Check:
    """Judge a reply: its characters, the recipe's answer, and the host's tokens if they follow from the same prompt.

    `sensible` is False for a model of random weights, of which nothing but the host's tokens is expected.
    """
    if sensible and (why := senseless(text)):
        return failed(why)
    if expected and expected.casefold() not in text.casefold():
        return failed(f"the recipe expects {expected!r} in it: {text[:_SHOWN]}")
    evidence = (
        ["neither repetition nor unprintable text"] if sensible else ["random weights: nothing sensible is expected"]
    )
    evidence += [f"it has {expected!r}"] if expected else []
    if rehearsal and rehearsal.prompt == prompt:
        if why := first_difference(text, rehearsal):
            return failed(why)
        evidence.append(f"the device says what the host's rehearsal said, {len(rehearsal.tokens)} tokens")
    elif rehearsal:
        evidence.append("the host's rehearsal had another prompt")
    return passed("; ".join(evidence))


def first_difference(text: str, rehearsal: Greedy) -> str:
    """Return where a text leaves the host's tokens, '' if it follows all of them, or ends within them."""
    left = _whole(text).lstrip()
    for at, (token, piece) in enumerate(zip(rehearsal.tokens, rehearsal.pieces, strict=True)):
        piece = _whole(piece)
        if not "".join(rehearsal.pieces[:at]).strip():
            piece = piece.lstrip()  # the runner's text is stripped
        if not left:
            return "" if at else "the device said nothing"
        if not left.startswith(piece) and not piece.startswith(left):
            return f"token {at + 1} of {len(rehearsal.tokens)}: the host said {token} {piece!r}, the device {_same_token(left, rehearsal)}"
        left = left[len(piece) :]
    return ""


def _whole(text: str) -> str:
    """Return a text without what stands for broken characters: host and device have other numbers of them for the same bytes."""
    return text.replace("\N{REPLACEMENT CHARACTER}", "")


def _same_token(text: str, rehearsal: Greedy) -> str:
    """Name the token that a text begins with, as far as the host said it anywhere; else show the text."""
    known = {piece: token for token, piece in zip(rehearsal.tokens, rehearsal.pieces, strict=True) if piece.strip()}
    longest = max((piece for piece in known if text.startswith(piece)), key=len, default="")
    return f"{known[longest]} {longest!r}" if longest else f"{text[:12]!r}"

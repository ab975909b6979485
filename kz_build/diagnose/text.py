"""The diagnosis of a log, for people."""

from __future__ import annotations

from kz_build.core.escape import wrapped
from kz_build.diagnose.signature import Diagnosis, Finding

ATTACH = (
    "the whole log: of a device `adb logcat -d -b all > log.txt`, of a command `COMMAND 2>&1 | tee log.txt`",
    "the command line, and `kz report --json` of the line",
    "the file: `kz pte FILE --json`",
    "the device: `adb shell getprop | grep -E 'ro.(soc.model|product.model|build.fingerprint)'`",
)

MOST = 3
"""Causes or lines that are shown beside the error of a failed command."""


def text(diagnosis: Diagnosis) -> str:
    """Show cause, evidence and next step of each problem, what follows from it below it, what is only possible, and what is harmless last."""
    lines = f"{diagnosis.lines:,} line{'s' if diagnosis.lines != 1 else ''}"
    causes = diagnosis.causes
    rows = [f"{len(causes)} recognised in {lines}"]
    if not causes:
        rows = [f"nothing recognised in {lines} ({diagnosis.signatures} signatures)"]
    for number, one in enumerate(causes, 1):
        rows += _finding(diagnosis, one, f"{number}. ")
    if diagnosis.possible:
        rows += ["", "possible, but not sure; these say what happened rather than why:"]
    for one in diagnosis.possible:
        rows += _finding(diagnosis, one, "- ", "maybe")
    if diagnosis.not_recognised:
        rows += ["", "not recognised, but these look like the error; the likeliest first:"]
    for line in diagnosis.not_recognised:
        rows += [f"   line {line.line}: {line.text}", *([f"     search  {line.search}"] if line.search else [])]
    if not causes:
        rows += ["", "Attach to a report:", *(f"  - {item}" for item in ATTACH)]
    for one in diagnosis.found:
        if one.harmless and not one.follows:
            rows += ["", f"harmless: {one.title}  [{one.id}]", _evidence(one, "   ")]
            rows += _said(one, "why")
    return "\n".join(rows)


def _finding(diagnosis: Diagnosis, one: Finding, mark: str, cause: str = "cause") -> list[str]:
    """Show one finding, and what follows from it below it."""
    rows = ["", f"{mark}{one.title}  [{one.id}]", _evidence(one, "   ")]
    rows += _said(one, cause)
    after = [other for other in diagnosis.found if other.follows == one.id]
    return rows + (["   consequences", *(_evidence(other, "     ") for other in after)] if after else [])


def _said(one: Finding, cause: str) -> list[str]:
    reasons = [wrapped(f"          - {reason}", " " * 12) for reason in one.reasons]
    return [
        _wrapped(cause, one.cause),
        *(["   often  one of these, or a rarer reason:", *reasons] if reasons else []),
        _wrapped("next", one.next),
        *(f"   seen   {at}" for at in one.at[:1]),
    ]


def short(diagnosis: Diagnosis) -> str:
    """Show what the log of a failed command says beside its error: cause and next step, or what is possible and looks like the error."""
    rows = []
    for one in diagnosis.causes[:MOST]:
        rows += [f"{one.title}  [{one.id}]", _evidence(one, "  "), f"  cause: {one.cause}"]
        rows += [*(f"    often: {reason}" for reason in one.reasons), f"  -> {one.next}"]
    for one in () if rows else diagnosis.possible[:MOST]:
        rows += [f"possible: {one.title}  [{one.id}]", _evidence(one, "  "), f"  -> {one.next}"]
    if diagnosis.not_recognised:
        rows.append(f"{'' if rows else 'its log has no known problem; '}the lines that look most like the error:")
        rows += [f"  line {line.line}: {line.text}" for line in diagnosis.not_recognised[:MOST]]
    return "\n".join(rows)


def _evidence(one: Finding, indent: str) -> str:
    times = "" if one.times == 1 else f"  ({'over ' if one.more else ''}{one.times:,} times)"
    return f"{indent}line {one.line}: {one.text}{times}"


def _wrapped(label: str, text: str) -> str:
    return wrapped(f"   {label:6} {text}", " " * 10)

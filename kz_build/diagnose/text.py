"""What a log says, for people."""

from __future__ import annotations

import textwrap

from kz_build.diagnose.signature import Diagnosis, Found

ATTACH = (
    "the whole log: of a device `adb logcat -d -b all > log.txt`, of a command `COMMAND 2>&1 | tee log.txt`",
    "the command line, and `kz report --json` of the line",
    "the file: `kz pte FILE --json`",
    "the device: `adb shell getprop | grep -E 'ro.(soc.model|product.model|build.fingerprint)'`",
)


def text(found: Diagnosis) -> str:
    """Cause, evidence, next step of each trouble; what follows from it below it."""
    lines = f"{found.lines:,} line{'s' if found.lines != 1 else ''}"
    if not found.found:
        return "\n".join(
            [
                f"nothing recognised in {lines} ({found.signatures} signatures). Attach to a report:",
                *(f"  - {item}" for item in ATTACH),
            ]
        )
    causes = [one for one in found.found if not one.follows]
    rows = [f"{len(causes)} recognised in {lines}"]
    for number, one in enumerate(causes, 1):
        rows += ["", f"{number}. {one.title}  [{one.id}]", _evidence(one, "   ")]
        rows += [_wrapped("cause", one.cause), _wrapped("next", one.next), f"   seen   {one.at[0]}"]
        after = [other for other in found.found if other.follows == one.id]
        if after:
            rows.append("   from that follows")
            rows += [_evidence(other, "     ") for other in after]
    return "\n".join(rows)


def _evidence(one: Found, indent: str) -> str:
    times = "" if one.times == 1 else f"  ({'over ' if one.more else ''}{one.times:,} times)"
    return f"{indent}line {one.line}: {one.text}{times}"


def _wrapped(label: str, said: str) -> str:
    return textwrap.fill(
        said,
        110,
        initial_indent=f"   {label:6} ",
        subsequent_indent=" " * 10,
        break_long_words=False,
        break_on_hyphens=False,
    )

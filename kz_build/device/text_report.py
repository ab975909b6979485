"""The report of a run on a device, as text of 80 columns."""

from __future__ import annotations

from kz_build.core.escape import wrapped
from kz_build.device.metrics import METRICS
from kz_build.device.trial import Measured, Report


def report(result: Report) -> str:
    """Describe a device: what it is, what was pushed, each check, and the figures of runs."""
    emulated = "  EMULATED: no figure of it stands for a device" if result.emulated else ""
    soc = " ".join(filter(None, (result.soc, result.arch)))
    sent = result.pushed
    subject = f" {result.subject}" if result.subject else ""
    rows = [
        f"{result.serial}  {result.device}" + (f" ({soc})" if soc and soc not in result.device else ""),
        *([emulated] if emulated else []),
        f"  {result.line} {result.target}{subject}",
        f"  {sent.folder}",
        f"  {len(sent.sent)} files sent ({sent.bytes / 1e6:,.1f} MB), {sent.kept} were there",
    ]
    width = max(len(check.name) for check in result.checks)
    for check in sorted(result.checks, key=lambda c: c.failed):
        rows.append(_wrapped(f"{check.status.value:5} {check.name:{width}} ", check.evidence))
    if result.run:
        rows += _measured(result.run)
    rows.append(f"  log: {result.log}")
    if result.in_app:
        rows += ["", f"in an app of {report(result.in_app)}"]
    return "\n".join(rows)


def _measured(run: Measured) -> list[str]:
    rows = [f"  {len(run.samples)} runs after {run.warmup} of warm-up, each in a process of its own"]
    rows.append(f"  {'':14}{'min':>12}{'median':>12}{'max':>12}")
    for metric in METRICS:
        if metric.name in run.spreads:
            low, middle, high, _ = run.spreads[metric.name]
            rows.append(f"  {metric.title:14}{low:>12,.2f}{middle:>12,.2f}{high:>12,.2f} {metric.unit}")
    before, after = (state or "unknown" for state in run.thermal)
    rows.append(f"  thermal: {before} before, {after} after" + ("; THROTTLED" if run.throttled else ""))
    titles = {metric.name: metric for metric in METRICS}
    for row in run.compared:
        title, unit = titles[row.metric].title, titles[row.metric].unit
        text = f"{title} {row.now:,.2f} {unit}, {row.change:+.1f} % from {row.before:,.2f} of {row.against}"
        rows.append(_wrapped("FAIL  " if row.worse else "PASS  ", text))
    return [*rows, *(_wrapped("  ", note) for note in run.notes)]


def _wrapped(head: str, text: str) -> str:
    return wrapped(head + text, " " * len(head))

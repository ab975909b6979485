"""The report of a run on a device, as text of 80 columns."""

from __future__ import annotations

from kz_build.core.escape import wrapped
from kz_build.device.metrics import MEMORY, METRICS
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
        for series in (result.run, *result.lengths):
            rows += _measured(series)
    rows.append(f"  log: {result.log}")
    if result.in_app:
        rows += ["", f"in an app of {report(result.in_app)}"]
    return "\n".join(rows)


def _measured(run: Measured) -> list[str]:
    prompt = f", a prompt of {run.words} words" if run.words else ""
    rows = [
        _wrapped("  ", f"{len(run.samples)} runs after {run.warmup} of warm-up, each in a process of its own{prompt}")
    ]
    rows.append(f"  {'':13}{'min':>12}{'median':>12}{'±MAD':>11}{'max':>12}")
    for metric in METRICS:
        if metric.name in run.spreads:
            low, middle, high, away = run.spreads[metric.name]
            rows.append(f"  {metric.title:13}{low:>12,.2f}{middle:>12,.2f}{away:>11,.2f}{high:>12,.2f} {metric.unit}")
    if run.memory:
        known = ((metric, getattr(run.memory, metric.name)) for metric in MEMORY)
        sizes = (f"{value:,.2f} MB {metric.title.removeprefix('PSS ')}" for metric, value in known if value is not None)
        rows.append(_wrapped("  PSS: ", ", ".join(sizes)))
    if run.retention is not None:
        rows.append(f"  retention: {run.retention:.0%} of the first fifth's decode in the last")
    rows.append(_wrapped("  ", _heat(run)))
    titles = {metric.name: metric for metric in (*METRICS, *MEMORY)}
    for row in run.compared:
        title, unit = titles[row.metric].title, titles[row.metric].unit
        text = f"{title} {row.now:,.2f} {unit}, {row.change:+.1f} % from {row.before:,.2f} of {row.against}"
        text += "" if row.noise is None else f", whose noise is {row.noise:g} %"
        rows.append(_wrapped("FAIL  " if row.worse else "PASS  ", text))
    if run.refused:
        rows.append(_wrapped("NOT A BASELINE  ", run.refused))
    return [*rows, *(_wrapped("  ", note) for note in run.notes)]


def _heat(run: Measured) -> str:
    before, after = (state or "unknown" for state in run.thermal)
    text = f"thermal: {before} before, {after} after" + ("; THROTTLED" if run.throttled else "")
    degrees = [f"{one:g} °C" for one in run.celsius if one is not None]
    return (
        text
        + (f"; battery {' to '.join(degrees)}" if degrees else "")
        + ("; clocks fixed" if run.fixed_performance else "")
    )


def _wrapped(head: str, text: str) -> str:
    return wrapped(head + text, " " * len(head))

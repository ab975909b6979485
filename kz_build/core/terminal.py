"""Results as lines for people, at most 80 columns if possible."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kz_build.core.check import Check
from kz_build.core.env import variable
from kz_build.core.escape import escaped, fit, one_line, size, terminal_columns, unescaped
from kz_build.core.progress import Event

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


def checks(found: Sequence[Check]) -> str:
    """The audit as a table, failures last, where the eye ends up."""
    width = max((len(c.subject) for c in found), default=0)
    order = sorted(found, key=lambda c: c.failed)
    return "\n".join(f"{c.status.value:5} {c.subject:{width}} {c.name:12} {c.evidence}" for c in order)


def artifacts(outputs: dict[str, Any], folder: str) -> str:
    """Return the files of a build with size and digest."""
    width = max(len(name) for name in outputs)
    digits = max(len(f"{facts['size']:,}") for facts in outputs.values())
    rows = [
        f"  {name:{width}} {facts['size']:>{digits},} {facts['sha256'][:12]}" for name, facts in sorted(outputs.items())
    ]
    return "\n".join([f"{folder}/", *rows])


def release_files(unlicensed: Sequence[str], *, signed: bool) -> str:
    """Say what lies beside the artifacts, and which licences to look for by hand."""
    summary = "release files: provenance, SBOM, notices, SHA256SUMS" + (", signed" if signed else "")
    return summary + (f"\n  no licence file in: {', '.join(unlicensed)}" if unlicensed else "")


def report(found: dict[str, Any]) -> str:
    """Return all that is known of a line."""
    rows = [
        f"line {found['line']}: " + ", ".join(f"{k} {v}" for k, v in found["pins"].items()),
        f"canonical: {str(found['canonical']).lower()}",
        *(f"  {o['where']}: {o['value']}" for o in found["overrides"]),
    ]
    if found["single_source"]:
        rows.append(f"digest published by a single source: {', '.join(found['single_source'])}")
    for target, record in found.get("build", {}).items():
        rows += [
            f"build {target}: {record['seconds']:g} s, network {record['network']}",
            f"  engine {record['engine']}" + (f": {why}" if (why := record.get("engine_why")) else ""),
            artifacts(record["files"], f"dist/{found['line']}/{target}"),
        ]
    for target, record in found.get("audit", {}).items():
        gone = found.get("build", {}).get(target, {}).get("changed")
        rows.append(
            f"audit {target}: "
            + (f"{gone} was changed or removed since: kz build" if gone else _counts(record["checks"]))
        )
    for target, record in found.get("reproduce", {}).items():
        varied = ", ".join(v["name"] for v in record["variations"] if not v["absent"])
        rows.append(f"reproduce {target}: {'the same bytes' if record['same'] else 'DIFFERS'}, varied: {varied}")
    for target, record in found.get("package", {}).items():
        rows.append(f"package {target}: {record['path']} {record['sha256'][:12]}, {record['coordinates']}")
        if record["qnn"]:
            rows.append(f"  QNN {record['qnn']}, on Maven: {record['qnn_runtime'] or 'unknown'}")
    for model, record in found.get("export", {}).items():
        rows.append(f"export {model}: {record['sha256'][:12]}, {_counts(record['checks'])}")
    for record in found.get("device", {}).values():
        tried = record["report"]
        subject = " ".join(filter(None, (tried["target"], tried["subject"])))
        rows.append(f"device {tried['serial']} ({tried['device']}) {subject}: {_counts(tried['checks'])}")
    return "\n".join(rows)


def _counts(checks: Sequence[dict[str, Any]]) -> str:
    states = [check["status"] for check in checks]
    return ", ".join(f"{states.count(s)} {s}" for s in ("PASS", "FAIL", "SKIP", "ERROR") if s in states)


class Live:
    """Progress of one command: a bar or a changing line on a terminal, an occasional line in a log."""

    EVERY_SECONDS = 15.0
    STATUS_SECONDS = 60.0

    def __init__(self) -> None:
        self.bar: Progress | None = None
        self.task: TaskID | None = None
        self.phase = ""
        self.shown_at = self.started_at = 0.0
        self.counts_bytes = False
        self.width = 0
        self.folded = False

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._unfold()

    def stop(self) -> None:
        """Remove the bar or line; another event shows it again."""
        if self.width:
            print(f"\r{'':{self.width}}\r", end="", file=unescaped(sys.stderr), flush=True)
            self.width = 0
        if self.bar:
            self.bar.stop()
            self.bar = self.task = None
            self.phase = ""

    def note(self, text: str) -> None:
        """Print a line that stays."""
        if self.bar:
            shown = fit(escaped(text), sys.stderr)
            self.bar.console.print(shown, highlight=False, markup=False, soft_wrap=True)
        else:
            print(fit(text, sys.stderr), file=sys.stderr, flush=True)

    def head(self, stage: str) -> None:
        """Begin the output of a stage with a line that stays."""
        self.fold(stage)
        self.note(f"== {stage}")

    def fold(self, stage: str) -> None:
        """Put what follows into a fold of GitHub's log, which the next one ends, or the end of all; elsewhere do nothing."""
        self.stop()
        self._unfold()
        if variable("GITHUB_ACTIONS") == "true":
            print(f"::group::{one_line(stage)}", file=unescaped(sys.stderr), flush=True)
            self.folded = True

    def _unfold(self) -> None:
        if self.folded:
            print("::endgroup::", file=unescaped(sys.stderr), flush=True)
            self.folded = False

    def event(self, event: Event) -> None:
        """Show progress of a build or a fetch."""
        if event.text:
            if not event.phase:
                self.note(event.text)
            return
        phase, done, total = event.phase, event.done, event.total
        if not (sys.stderr and sys.stderr.isatty()):
            self._log(event)
            return
        if event.status:
            if self.bar:
                self.stop()
            status = f"  {escaped(event.status)}"
            status = status[: terminal_columns(sys.stderr) - 1]  # a second line would stay
            print(f"\r{status:{self.width}}", end="", file=unescaped(sys.stderr), flush=True)
            self.width = len(status)
            return
        if event.bytes != self.counts_bytes or self.width:
            self.stop()
        if self.bar is None:
            self.bar, self.counts_bytes = _progress_bar(event.bytes), event.bytes
            self.bar.start()
        if phase != self.phase or self.task is None:
            if self.task is not None:
                self.bar.remove_task(self.task)
            self.task, self.phase = self.bar.add_task(escaped(phase)[:30], total=total or None), phase
        self.bar.update(self.task, completed=done, total=total or None)
        if event.bytes and done >= total > 0:  # the next step may take long without any progress
            self.stop()

    def _log(self, event: Event) -> None:
        """Print a line for a new phase, and now and then; for a download also when it is done, with its size and time."""
        phase, done, total, now = event.phase, event.done, event.total, time.monotonic()
        begins = phase != self.phase
        if begins:
            self.phase, self.started_at = phase, now
        line = f"  {event.status or phase}"
        if event.bytes and done >= total > 0:
            line += f" done: {size(done)} in {now - self.started_at:.1f} s"
            self.phase = ""
        elif begins or now - self.shown_at > (self.STATUS_SECONDS if event.status else self.EVERY_SECONDS):
            amount = f" {size(done)} of {size(total)}" if event.bytes else f" {done}/{total}"
            line += amount if total else ""
        else:
            return
        print(line, file=sys.stderr, flush=True)
        self.shown_at = now


def _progress_bar(counts_bytes: bool) -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    count = DownloadColumn() if counts_bytes else MofNCompleteColumn()
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        count,
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(file=unescaped(sys.stderr)),
        transient=True,
        redirect_stdout=False,  # to the console, which escapes nothing
        redirect_stderr=False,
    )

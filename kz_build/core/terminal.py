"""Progress on standard error: a bar or a changing line on a terminal, an occasional line in a log."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from kz_build.core.env import variable
from kz_build.core.escape import escaped, fit, one_line, size, terminal_columns, unescaped
from kz_build.core.progress import Event

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Live:
    """Progress of one command."""

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

"""What the page of a report is made from: what stages recorded, and what the store knows of stacks and pins. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kz_build.core.check import Check

if TYPE_CHECKING:
    from kz_build.export.phases import Phase
    from kz_build.upstream.verify import Version


class Change(NamedTuple):
    """An upstream commit. `tag` is the first release with it, '' for none yet."""

    id: str
    date: str
    subject: str
    tag: str = ""


class Cell(NamedTuple):
    """A patch on one version: `state` is one of `STATES`, `word` the verdict, `change` the commit that broke it, if known."""

    state: str
    word: str = ""
    details: tuple[str, ...] = ()
    change: Change | None = None


STATES = ("applies", "moved", "upstreamed", "merged", "broken", "unknown")
"""Applies as it is, with an offset, is upstream already, by a three-way merge only, does not hold, or was not judged yet."""
FAILING = ("merged", "broken")
"""The states of a patch that does not hold."""


class Span(NamedTuple):
    """A patch's verdict on upstream's branch between two dates; `since` is the commit that it begins with."""

    start: str
    end: str
    cell: Cell
    since: Change | None


class PatchFacts(NamedTuple):
    """A patch: its verdict on each version of its stack, and over upstream's branch. `slug` is its name in every line, `text`
    its mail."""

    name: str
    subject: str
    status: str
    cells: tuple[Cell, ...]
    spans: tuple[Span, ...] = ()
    slug: str = ""
    text: str = ""


class StackFacts(NamedTuple):
    """A stack. `trunk` is the tip of upstream's branch as the store has it, None if it has none; `lacks` are sentences of
    what is not known, each with the command that finds it."""

    line: str
    source: str
    pin: str
    versions: tuple[Version, ...]
    patches: tuple[PatchFacts, ...]
    trunk: Version | None = None
    commits: int = 0
    lacks: tuple[str, ...] = ()

    def at_pin(self, patch: PatchFacts) -> Cell:
        """Return a patch's verdict on the version that the stack is pinned to."""
        pinned = (cell for version, cell in zip(self.versions, patch.cells, strict=False) if version.name == self.pin)
        return next(pinned, Cell("unknown"))

    def on_trunk(self, patch: PatchFacts) -> Cell:
        """Return a patch's verdict on upstream's branch."""
        return patch.cells[-1] if self.trunk and patch.cells else Cell("unknown")

    def ends(self, patch: PatchFacts) -> tuple[str, str]:
        """Return the states of a patch at its pin and on upstream's branch."""
        return self.at_pin(patch).state, self.on_trunk(patch).state


class PullFacts(NamedTuple):
    """An open pull request and one patch that it would break: the patch on the request's own base, and once it is merged.
    `conflicts`: it no longer merges without conflict, and was judged as it is."""

    number: int
    title: str
    conflicts: bool
    patch: str
    before: Cell
    after: Cell


class RadarFacts(NamedTuple):
    """The open pull requests against a stack, as GitHub had them when it was `asked`; `heads` were looked at. They were
    merged into `to`, which was `commit` of `date`."""

    line: str
    source: str
    asked: str
    to: str
    commit: str
    date: str
    heads: int
    pulls: tuple[PullFacts, ...]


class File(NamedTuple):
    """A file of a build; `sections` (name, bytes) are None if it is no ELF file, or not there any more. `parts` are the
    folders of sources that its code comes from, with their bytes, the largest first."""

    name: str
    profile: str
    size: int
    sections: tuple[tuple[str, int], ...] | None
    parts: tuple[tuple[str, int], ...] = ()


class BuildFacts(NamedTuple):
    """The last build of a target. `stages` are (name, result, seconds or None) of `kz all`, `phases` (name, seconds)."""

    line: str
    target: str
    engine: str
    network: str
    key: str
    seconds: float
    phases: tuple[tuple[str, float], ...]
    cache: tuple[int, int] | None
    """Compilations that the compile cache had, and those that it had not; None if it was not used, or nobody counted."""
    files: tuple[File, ...]
    stages: tuple[tuple[str, str, float | None], ...]
    checks: tuple[Check, ...]
    signed: bool | None
    licences: Mapping[str, tuple[str, ...]]


class ExportFacts(NamedTuple):
    """A published model. `phases` are each with its stage. `least` and `most` are the bytes of memory that the recipe says it needs; None if it says nothing."""

    line: str
    recipe: str
    file: str
    size: int
    seconds: float
    phases: tuple[tuple[str, Phase], ...]
    least: float | None
    most: float | None
    soc: str
    qnn: str
    checks: tuple[Check, ...]


class Figure(NamedTuple):
    """A figure of a device: its runs, and the band (low, high) that its baseline allows, None without one. `result` is
    `worse`, `not worse` or `not compared`."""

    title: str
    unit: str
    less: bool
    runs: tuple[float, ...]
    median: float
    band: tuple[float, float] | None
    result: str


class DeviceFacts(NamedTuple):
    """The last report of a device."""

    line: str
    target: str
    subject: str
    serial: str
    device: str
    soc: str
    process: str
    emulated: bool
    checks: tuple[Check, ...]
    figures: tuple[Figure, ...]
    notes: tuple[str, ...]

    @property
    def name(self) -> str:
        """What figures of the same device, files and kind of process are remembered by."""
        return " ".join(filter(None, (self.device, self.target, self.subject, self.process)))


class PairFacts(NamedTuple):
    """A library with a model on a QNN and an SoC. `state` is PASS, FAIL or '' for unknown, `details` say why. `untried` is the
    command that tries it on a device, '' if one did; the state is what the files say until then."""

    line: str
    target: str
    model: str
    qnn: str
    soc: str
    state: str
    emulated: bool
    details: tuple[str, ...]
    untried: str = ""


class PinFacts(NamedTuple):
    """A pin, and the lines that have it. `newest` is the newest release that the store knows, '' if it knows none; `origin` says what its digest rests on."""

    lines: tuple[str, ...]
    source: str
    kind: str
    version: str
    date: str
    newest: str
    newest_date: str
    origin: str
    single: bool
    licences: tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    """All of it. `reports` are those of `kz report --json` by line."""

    kz: str
    lines: tuple[str, ...]
    overrides: tuple[tuple[str, str], ...]
    stacks: tuple[StackFacts, ...] = ()
    radars: tuple[RadarFacts, ...] = ()
    builds: tuple[BuildFacts, ...] = ()
    exports: tuple[ExportFacts, ...] = ()
    devices: tuple[DeviceFacts, ...] = ()
    pairs: tuple[PairFacts, ...] = ()
    pins: tuple[PinFacts, ...] = ()
    reproduced: tuple[tuple[str, str, bool], ...] = ()
    """(line, target, whether a second build gave the same bytes)."""
    builds_nothing: bool = False
    """Whether the project has patches alone: no target and no recipe."""
    reports: Mapping[str, Mapping[str, object]] = field(default_factory=dict)

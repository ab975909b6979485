"""What changed between two reports: which answers got worse, and which facts are others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from kz_build.core.check import Check
from kz_build.core.errors import AuditError, ConfigError, DeviceError
from kz_build.core.escape import one_line
from kz_build.device.metrics import METRICS
from kz_build.patch.verdict import Verdict

STAGES = ("build", "audit", "papers", "reproduce", "package", "export", "device", "all")
"""The stages of a report whose records are compared."""
_ON_DEVICES = ("export", "device", "in-app")
_BROKEN = {verdict.value for verdict in Verdict if not verdict.holds} | {"intent"}
_SECONDS, _SHARE = 2.0, 0.25  # builds of the same take as much more or less time
_FIGURES = 0.05
_T = TypeVar("_T")


class Kind(str, Enum):
    """What a change means: only what got worse fails."""

    WORSE = "newly failing"
    FIXED = "newly passing"
    STILL = "still failing"
    CHANGED = "changed"


class Change(NamedTuple):
    """One row. `what` is a check, a file, a patch or a figure of `stage` on `where`: a target, a device, a model, a line.
    `before` and `now` are '' where the other report alone has it."""

    kind: Kind
    stage: str
    where: str
    what: str
    before: str
    now: str
    evidence: str = ""


@dataclass(frozen=True)
class ReportDiff:
    """Two reports compared: `old` and `new` are their lines, `exit_code` is 7 or 8 if something got worse."""

    old: str
    new: str
    changes: tuple[Change, ...]

    @property
    def worse(self) -> tuple[Change, ...]:
        """What fails now and did not, or is gone."""
        return tuple(change for change in self.changes if change.kind is Kind.WORSE)

    @property
    def exit_code(self) -> int:
        """7 if a build or an audit got worse, 8 if only exports or devices did, else 0."""
        if not self.worse:
            return 0
        on_devices = ((c.what if c.stage == "all" else c.stage) in _ON_DEVICES for c in self.worse)
        return DeviceError.exit_code if all(on_devices) else AuditError.exit_code


class _Key(NamedTuple):
    stage: str
    where: str
    what: str


class _Answer(NamedTuple):
    """What passes or fails. `gone` is what it means if the new report does not have it."""

    text: str
    failed: bool
    evidence: str = ""
    gone: Kind = Kind.CHANGED


class _Fact(NamedTuple):
    """What is neither good nor bad: a text, or a number between `low` and `high`, which changed if it left that band."""

    text: str
    low: float | None = None
    high: float | None = None

    def differs(self, other: _Fact) -> bool:
        """Return whether this is more than noise."""
        if None in (self.low, self.high, other.low, other.high):
            return self.text != other.text
        return bool(self.high < other.low or other.high < self.low)  # type: ignore[operator]


class _Facts(NamedTuple):
    answers: dict[_Key, _Answer]
    facts: dict[_Key, _Fact]

    def answer(self, key: _Key, answer: _Answer) -> None:
        """Add an answer; of two with one name the failed one counts."""
        if key not in self.answers or answer.failed:
            self.answers[key] = answer


def compare(old: Mapping[str, Any], new: Mapping[str, Any], name: str = "the old report") -> ReportDiff:
    """Compare two reports, as report.json has them; what got worse comes first.

    Raises ConfigError if one is no report; `name` is what the old one is called there.
    """
    before, now = _read(old, name), _read(new, "the new report")
    rows = (*_answers(before.answers, now.answers), *_changed(before, now))
    return ReportDiff(old["line"], new["line"], tuple(sorted(rows, key=lambda row: list(Kind).index(row.kind))))


def _answers(before: Mapping[_Key, _Answer], now: Mapping[_Key, _Answer]) -> Iterator[Change]:
    for key in _both(before, now):
        was, is_now = before.get(key), now.get(key)
        if is_now is None:
            if was and (not key.what or _recorded(now, key)):
                yield Change(was.gone, *key, was.text, "")
        elif is_now.failed:
            kind = Kind.STILL if was and was.failed else Kind.WORSE
            yield Change(kind, *key, was.text if was else "", is_now.text, is_now.evidence)
        elif was is None:
            if not key.what or _recorded(before, key):
                yield Change(Kind.CHANGED, *key, "", is_now.text, is_now.evidence)
        elif was.failed or was.text != is_now.text:
            kind = Kind.FIXED if was.failed else Kind.CHANGED
            yield Change(kind, *key, was.text, is_now.text, is_now.evidence)


def _changed(before: _Facts, now: _Facts) -> Iterator[Change]:
    for key in _both(before.facts, now.facts):
        was, is_now = before.facts.get(key), now.facts.get(key)
        if was and is_now:
            if was.differs(is_now):
                yield Change(Kind.CHANGED, *key, was.text, is_now.text)
        elif _recorded(before.answers, key) and _recorded(now.answers, key):
            yield Change(Kind.CHANGED, *key, was.text if was else "", is_now.text if is_now else "")


def _both(before: Mapping[_Key, _T], now: Mapping[_Key, _T]) -> list[_Key]:
    return sorted({*before, *now}, key=lambda key: ((*STAGES, key.stage).index(key.stage), key))


def _recorded(answers: Mapping[_Key, _Answer], key: _Key) -> bool:
    """Return whether a report has the record that something is part of: what is gone with its record needs no row."""
    return key.stage not in STAGES or _Key(key.stage, key.where, "") in answers


def _read(report: Mapping[str, Any], name: str) -> _Facts:
    """Return what a report says, by names that a later one has too. Raises ConfigError."""
    facts = _Facts({}, {})
    try:
        if not isinstance(report["kz"], str):
            raise TypeError("`kz` is no version")
        for key, fact in _about_line(report, _text(report["line"])):
            facts.facts[key] = fact
        for one in report["overrides"]:
            key = _Key("overrides", "", _text(one["where"]))
            facts.answer(key, _Answer(_text(one["value"]), True, gone=Kind.FIXED))
        for stage in STAGES:
            for where, record in report.get(stage, {}).items():
                _record(facts, stage, where, record)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ConfigError(
            f"{name} is not a report of kz: {one_line(f'{type(error).__name__}: {error}')[:200]}",
            hint="kz build and kz all write one to out/report/report.json",
        ) from None
    return facts


def _about_line(report: Mapping[str, Any], line: str) -> Iterator[tuple[_Key, _Fact]]:
    yield _Key("line", "", "line"), _Fact(line)
    for source, version in report["pins"].items():
        yield _Key("pins", "", source), _Fact(_text(version))
    for source in report["single_source"]:
        yield _Key("digests", "", _text(source)), _Fact("published by a single source")


def _record(facts: _Facts, stage: str, where: str, record: Mapping[str, Any]) -> None:
    if stage == "device":
        _device(facts, record)
        return
    facts.answer(_Key(stage, where, ""), _Answer("recorded", False, gone=Kind.WORSE))
    _checks(facts, stage, where, record.get("checks", ()))
    files = {**record.get("files", {}), **({record.get("path", where): record} if "sha256" in record else {})}
    for file, output in files.items():
        facts.facts[_Key(stage, where, _text(file))] = _file(output)
    if stage == "build":
        facts.facts[_Key(stage, where, "seconds")] = _seconds(record["seconds"])
        for stack in record["stacks"]:
            _patches(facts, where, stack)
    if stage == "reproduce":
        same = record["same"] is True
        facts.answer(_Key(stage, where, "bytes"), _Answer("the same" if same else "DIFFER", not same))
    for row in record["stages"] if stage == "all" else ():
        if row["status"] != "SKIP":  # what was run and is not now is gone
            answer = _Answer(_text(row["status"]), row["status"] == "FAIL", _text(row["report"]), Kind.WORSE)
            facts.answer(_Key(stage, where, _text(row["stage"])), answer)


def _patches(facts: _Facts, where: str, stack: Mapping[str, Any]) -> None:
    facts.facts[_Key("build", where, f"tree of {_text(stack['source'])}")] = _Fact(_text(stack["tree"])[:12])
    for patch, verdict in stack["patches"].items():
        key = _Key("build", where, f"{stack['source']} {patch.removesuffix('.patch')}")
        facts.answer(key, _Answer(_text(verdict), verdict in _BROKEN))


def _device(facts: _Facts, record: Mapping[str, Any]) -> None:
    """Read what a device said. An emulated one has another port on another machine, and its figures stand for no device."""
    report = record["report"]
    serial = _text(report["serial"])
    names = (_text(report["device"]), *(() if report["emulated"] else (serial,)))
    for tried, how in ((report, ()), (report["in_app"], ("in an app",))):
        if tried is None:
            continue
        where = " ".join(filter(None, (*names, _text(tried["target"]), _text(tried["subject"]), *how)))
        facts.answer(_Key("device", where, ""), _Answer("recorded", False, gone=Kind.WORSE))
        _checks(facts, "device", where, [{**row, "file": row["file"].replace(serial, "")} for row in tried["checks"]])
    for run in () if report["emulated"] else record["runs"].values():
        where = " ".join(filter(None, (*names, _text(run["target"]), _text(run["subject"]))))
        for metric in METRICS:
            if spread := run["spreads"].get(metric.name):
                what = " ".join(
                    filter(None, (metric.title, "" if run["process"] == "shell" else _text(run["process"])))
                )
                facts.facts[_Key("device", where, what)] = _spread(spread, metric.unit)


def _checks(facts: _Facts, stage: str, where: str, rows: Sequence[Mapping[str, Any]]) -> None:
    for row in rows:
        check = Check.from_json(row)
        what = f"{check.subject}: {check.name}" if check.subject else check.name
        facts.answer(_Key(stage, where, what), _Answer(check.status.value, check.failed, check.evidence))


def _file(output: str | Mapping[str, Any]) -> _Fact:
    if isinstance(output, str):
        return _Fact(output[:12])
    size = output.get("size")
    return _Fact(" ".join(filter(None, ("" if size is None else f"{_number(size):,} bytes", output["sha256"][:12]))))


def _seconds(value: object) -> _Fact:
    seconds = _number(value)
    return _Fact(f"{seconds:,.1f} s", seconds * (1 - _SHARE) - _SECONDS, seconds * (1 + _SHARE) + _SECONDS)


def _spread(spread: Mapping[str, Any], unit: str) -> _Fact:
    low, middle, high = (_number(spread[name]) for name in ("min", "median", "max"))
    return _Fact(f"{middle:,.2f} {unit}", low * (1 - _FIGURES), high * (1 + _FIGURES))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r:.40} is no number")
    return value

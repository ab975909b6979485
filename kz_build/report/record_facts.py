"""What builds, exports and devices recorded in out/ and dist/."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from kz_build.core import plain_json
from kz_build.core.check import Check, Status
from kz_build.core.errors import AuditError, ConfigError
from kz_build.core.hash_cache import cached_sha256
from kz_build.core.paths import files_at
from kz_build.core.stage_record import Output, StageRecord, changed, load_any
from kz_build.device.baseline import Baseline, baseline
from kz_build.device.metrics import MEMORY, METRICS
from kz_build.device.properties import known_soc
from kz_build.export.load import recipes
from kz_build.export.phases import Phase
from kz_build.export.preflight_rules import GB
from kz_build.export.recipe import Recipe
from kz_build.formats.elf import section_sizes
from kz_build.pins.project import RECORD, Project
from kz_build.release.statement import SBOM, SIGNATURE, SUMS
from kz_build.report.facts import BuildFacts, DeviceFacts, ExportFacts, Figure, File
from kz_build.report.report import MOST_BYTES, device_report


def build_facts(project: Project, line: str) -> list[BuildFacts]:
    """Return the last build of each target of a line."""
    return [_build(project, line, record) for record in records(project, "build", line)]


def records(project: Project, stage: str, line: str) -> list[StageRecord]:
    """Return the records that a stage left for a line."""
    paths = files_at(project.out(stage, line), f"*/{RECORD}")
    return [record for path in paths if (record := load_any(path))]


def _build(project: Project, line: str, record: StageRecord) -> BuildFacts:
    target = record.path.parent.name
    dist = project.dist_folder(line, target)
    audit, whole = (load_any(project.record(stage, line, target)) for stage in ("audit", "all"))
    plain = record.plain()
    stages = whole.get("stages", list) if whole else ()
    counted, parts = plain.get("ccache"), plain.get("code", {})
    return BuildFacts(
        line=line,
        target=target,
        engine=record.get("engine", str),
        network=record.get("network", str),
        key=record.key,
        seconds=float(plain["seconds"]),
        phases=tuple((name, float(seconds)) for name, seconds in plain.get("phases", {}).items()),
        cache=(int(counted["hits"]), int(counted["misses"])) if counted else None,
        files=tuple(_file(project, dist, name, output, parts.get(name, {})) for name, output in record.outputs.items()),
        stages=tuple((row["stage"], row["status"], row["seconds"]) for row in stages),
        checks=_checks(project, dist, record, audit) if audit else (),
        signed=(dist / SIGNATURE).is_file() if (dist / SUMS).is_file() else None,
        licences=_licences(dist / SBOM),
    )  # fmt: skip


def _checks(project: Project, dist: Path, record: StageRecord, audit: StageRecord) -> tuple[Check, ...]:
    """Return the audit's checks, if they are about the files that are there."""
    if gone := changed(dist, record.outputs, partial(cached_sha256, project.store)):
        what = "is not the file that was built and audited" if gone.is_file() else "was removed since it was built"
        return (Check(gone.name, "dist", Status.FAIL, f"it {what}"),)
    return tuple(Check.from_json(row) for row in audit.get("checks", list))


def _file(project: Project, dist: Path, name: str, output: Output, parts: Mapping[str, int]) -> File:
    """Read the sections of a file, if it is still the one that was built."""
    path = dist / name
    sections = None
    try:
        if path.is_file() and cached_sha256(project.store, path) == output.sha256:
            sections = tuple(section_sizes(path).items())
    except (AuditError, FileNotFoundError):  # a build may be replacing it
        pass
    largest = sorted(parts.items(), key=lambda part: (-part[1], part[0]))
    return File(name, output.profile, output.size or 0, sections, tuple(largest))


def _licences(path: Path) -> Mapping[str, tuple[str, ...]]:
    """Return component -> the SPDX ids, or names, of its licences, from a bill of materials; none where it is missing or damaged."""
    known: dict[str, tuple[str, ...]] = {}
    try:
        for one in plain_json.read(path, MOST_BYTES).get("components", []):
            if "/" not in str(one.get("bom-ref", "")):
                rows = [row.get("license", {}) for row in one.get("licenses", ())]
                known[str(one["name"])] = tuple(str(row.get("id") or row.get("name") or "unknown") for row in rows)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
    return known


def export_facts(project: Project, line: str) -> list[ExportFacts]:
    """Return each published model of a line that has its record beside it."""
    try:
        known = {recipe.name: recipe for recipe in recipes(project.root, project.pins)}
    except ConfigError:  # `kz export` says what is wrong with a recipe
        known = {}
    paths = files_at(project.dist_folder(line), "*.json")
    records = [record for path in paths if (record := load_any(path)) and "recipe" in record.inputs]
    return [_export(line, record, known.get(record.get("recipe", str))) for record in records]


def _export(line: str, record: StageRecord, recipe: Recipe | None) -> ExportFacts:
    plain = record.plain()
    contract = record.get("contract", dict)
    file = record.path.name.removesuffix(".json")
    phases = tuple(
        (stage, Phase(str(one["name"]), float(one["seconds"]), int(one["ram"]), int(one["swap"])))
        for stage, facts in plain["stages"].items()
        for one in facts["phases"]
    )
    need = recipe.needs.memory if recipe else None
    return ExportFacts(
        line=line,
        recipe=record.get("recipe", str),
        file=file,
        size=record.outputs[""].size or 0,
        seconds=float(plain["seconds"]),
        phases=phases,
        least=need.low * GB if need else None,
        most=need.high * GB if need and need.high is not None else None,
        soc=str(contract.get("soc", "")),
        qnn=str(contract.get("qnn", "")),
        checks=tuple(Check.from_json(row, file) for row in record.get("checks", list)),
    )


def device_facts(project: Project, line: str) -> list[DeviceFacts]:
    """Return the last report of each device, and of the app on it."""
    rows = []
    for record in records(project, "device", line):
        report = device_report(record)
        rows += [_device(project, one) for one in (report, report["in_app"]) if one]
    return rows


def _device(project: Project, report: Mapping[str, Any]) -> DeviceFacts:
    run = report["run"] or {}
    series = [one for one in (run, *report.get("lengths", ())) if one]
    known = None if report["emulated"] else _baseline(project, report)
    return DeviceFacts(
        line=report["line"],
        target=report["target"],
        subject=report["subject"],
        serial=report["serial"],
        device=report["device"],
        soc=report["soc"],
        process=report["process"],
        emulated=bool(report["emulated"]),
        checks=tuple(Check.from_json(row, report["serial"]) for row in report["checks"]),
        figures=tuple(figure for one in series for figure in _figures(one, known, report)),
        notes=(*run.get("notes", ()), *filter(None, [run.get("refused")])),
    )


def _baseline(project: Project, report: Mapping[str, Any]) -> Baseline | None:
    try:
        return baseline(project.root, str(report["device"]), known_soc(str(report["soc"])))
    except ConfigError:  # `kz device run` says what is wrong with it
        return None


def _figures(run: Mapping[str, Any], known: Baseline | None, report: Mapping[str, Any]) -> Iterable[Figure]:
    same = [
        one
        for one in (known.figures if known else ())
        if one.recipe == report["subject"] and one.process == report["process"]
    ]
    worse: dict[str, bool] = {}
    for row in run.get("compared", ()):
        worse[row["metric"]] = worse.get(row["metric"], False) or row["worse"]
    results = {None: "not compared", True: "worse", False: "not worse"}
    words = f", {run['words']} words" if run.get("words") else ""
    for metric in METRICS:
        runs = tuple(float(value) for one in run.get("samples", ()) if (value := one[metric.name]) is not None)
        if metric.name not in run.get("spreads", {}) or not runs:
            continue
        band = None
        if known and same and not words and (value := getattr(same[0], metric.name)):
            share = known.tolerance / 100
            band = (value * (1 - share), value * (1 + share))
        title, median = f"{metric.title}{words}", float(run["spreads"][metric.name]["median"])
        yield Figure(title, metric.unit, metric.less, runs, median, band, results[worse.get(metric.name)])
    for metric in MEMORY:
        if (value := (run.get("memory") or {}).get(metric.name)) is not None:
            once = float(value)
            yield Figure(metric.title, metric.unit, metric.less, (once,), once, None, results[worse.get(metric.name)])

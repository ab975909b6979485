"""The report of a line: every stage's record, in one JSON, and the file of it, which somebody may have kept."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import kz_build
from kz_build.core import files, plain_json
from kz_build.core.errors import ConfigError, LockError
from kz_build.core.hash_cache import cached_sha256
from kz_build.core.paths import files_at
from kz_build.core.stage_record import StageRecord, changed, load_any
from kz_build.device.history import IN_APP, RUNS, last_figures
from kz_build.pins.project import RECORD, Project
from kz_build.sources.overrides import overrides

MOST_BYTES = 64 << 20
"""A larger file is no report: those of real lines have some hundred kilobytes."""
_HINT = "kz build and kz all write one to out/report/report.json"
STAGES = ("build", "audit", "papers", "reproduce", "package", "device", "all")
"""The stages that leave a record for each target, of which a report is made."""


def report(project: Project, line: str) -> dict[str, object]:
    """Return all records of a line. `canonical` is false if anything on this machine differs from the pins;
    `single_source` names the sources whose digest in the lock is published in one place alone. A build's `changed` is the first
    file of dist that is not the one that was built."""
    records: dict[str, dict[str, dict[str, object]]] = {}
    own = {json.dumps(o._asdict(), sort_keys=True) for o in overrides(project, line)}
    for stage in STAGES:
        folder = project.out(stage, line)
        for path in files_at(folder, f"*/{RECORD}"):
            record = load_any(path)
            if not record:
                raise LockError(f"{path} was not written by kz", hint="remove that file, and run its stage again")
            records.setdefault(stage, {})[path.parent.name] = record.plain()
            if stage == "device":
                runs = last_figures(path.with_name(RUNS))
                records[stage][path.parent.name] |= {"report": device_report(record), "runs": runs}
            if stage == "build":
                dist = project.dist_folder(line, path.parent.name)
                if gone := changed(dist, record.outputs, partial(cached_sha256, project.store)):
                    records[stage][path.parent.name]["changed"] = gone.relative_to(dist).as_posix()
                own |= {json.dumps(o, sort_keys=True) for o in record.get("overrides", list)}
    if exports := _exports(project, line):
        records["export"] = exports
    return {
        "kz": kz_build.__version__,
        "line": line,
        "pins": project.pins.line(line),
        "canonical": not own,
        "overrides": sorted((json.loads(o) for o in own), key=lambda o: (o["where"], o["value"])),
        "single_source": sorted(n for n, e in project.lock.lines.get(line, {}).items() if e.get("sources") == 1),
        **records,
    }


def device_report(record: StageRecord) -> dict[str, Any]:
    """Return the report in a device's record, with the last one of the app on it (`in_app`): that has a record of its own."""
    app = load_any(record.path.parent / IN_APP / RECORD)
    return {**record.get("report", dict), "in_app": app.get("report", dict) if app else None}


def _exports(project: Project, line: str) -> dict[str, dict[str, object]]:
    """Return the records of the line's models, by their files; `kz export` leaves each beside its model."""
    records = {path.stem: load_any(path) for path in files_at(project.dist_folder(line), "*.json")}
    return {name: record.plain() for name, record in records.items() if record and "recipe" in record.inputs}


def write(project: Project, line: str) -> Path:
    """Write out/report/report.json and return its path."""
    data = json.dumps(report(project, line), indent=1, sort_keys=True).encode() + b"\n"
    path = project.out("report", "report.json")
    files.write_atomic(path, data)
    return path


def read(path: Path) -> dict[str, Any]:
    """Return the content of a report.json. Raises ConfigError if it is absent, too large, or no JSON object."""
    if not path.is_file():
        raise ConfigError(f"{path} is not a file", hint=_HINT)
    try:
        report = plain_json.read(path, MOST_BYTES)
    except ValueError as error:
        raise ConfigError(f"{path} is not a report of kz: {str(error)[:200]}", hint=_HINT) from None
    if not isinstance(report, dict):
        raise ConfigError(f"{path} is not a report of kz: it holds no JSON object", hint=_HINT)
    return report

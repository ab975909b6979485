"""report: what every stage left, in one JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import kz_build
from kz_build.core import files
from kz_build.pins.project import Project


def report(project: Project, line: str) -> dict[str, Any]:
    """All manifests of a line. `canonical` is false as soon as anything on this machine differs from the pins."""
    found: dict[str, Any] = {}
    for stage in ("build", "audit", "papers", "reproduce", "package", "device", "all"):
        folder = project.out(stage, line)
        for manifest in sorted(folder.glob("*/manifest.json")) if folder.is_dir() else ():
            found.setdefault(stage, {})[manifest.parent.name] = json.loads(manifest.read_bytes())
    overrides = {json.dumps(o, sort_keys=True) for m in found.get("build", {}).values() for o in m["overrides"]}
    overrides |= {json.dumps({"where": o.where, "value": o.value}, sort_keys=True) for o in project.pins.overrides}
    return {
        "kz": kz_build.__version__,
        "line": line,
        "pins": project.pins.line(line),
        "canonical": not overrides,
        "overrides": [json.loads(o) for o in sorted(overrides)],
        **found,
    }


def write(project: Project, line: str) -> Path:
    """Write out/report/report.json; gives its path."""
    data = json.dumps(report(project, line), indent=1, sort_keys=True).encode() + b"\n"
    path = project.out("report", "report.json")
    files.write_atomic(path, data)
    return path

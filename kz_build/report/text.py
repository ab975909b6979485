"""The report of a line as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kz_build.core.check import Status


def table(report: Mapping[str, Any]) -> str:
    """Return all that is known of a line."""
    rows = [
        f"line {report['line']}: " + ", ".join(f"{k} {v}" for k, v in report["pins"].items()),
        f"canonical: {str(report['canonical']).lower()}",
        *(f"  {o['where']}: {o['value']}" for o in report["overrides"]),
    ]
    if report["single_source"]:
        rows.append(f"digest published by a single source: {', '.join(report['single_source'])}")
    for target, record in report.get("build", {}).items():
        rows += [
            f"build {target}: {record['seconds']:g} s, network {record['network']}",
            f"  engine {record['engine']}" + (f": {why}" if (why := record.get("engine_why")) else ""),
            artifacts(record["files"], f"dist/{report['line']}/{target}"),
        ]
    for target, record in report.get("audit", {}).items():
        gone = report.get("build", {}).get(target, {}).get("changed")
        rows.append(
            f"audit {target}: "
            + (f"{gone} was changed or removed since: kz build" if gone else _counts(record["checks"]))
        )
    for target, record in report.get("reproduce", {}).items():
        varied = ", ".join(v["name"] for v in record["variations"] if not v["absent"])
        rows.append(f"reproduce {target}: {'the same bytes' if record['same'] else 'DIFFERS'}, varied: {varied}")
    for target, record in report.get("package", {}).items():
        rows.append(f"package {target}: {record['path']} {record['sha256'][:12]}, {record['coordinates']}")
        if record["qnn"]:
            rows.append(f"  QNN {record['qnn']}, on Maven: {record['qnn_runtime'] or 'unknown'}")
    for model, record in report.get("export", {}).items():
        rows.append(f"export {model}: {record['sha256'][:12]}, {_counts(record['checks'])}")
    for record in report.get("device", {}).values():
        for tried, how in ((record["report"], ""), (record["report"]["in_app"], " in an app")):
            if tried:
                subject = " ".join(filter(None, (tried["target"], tried["subject"])))
                rows.append(f"device {tried['serial']} ({tried['device']}) {subject}{how}: {_counts(tried['checks'])}")
    return "\n".join(rows)


def artifacts(outputs: Mapping[str, Any], folder: str) -> str:
    """Return the files of a build with size and digest."""
    width = max(len(name) for name in outputs)
    digits = max(len(f"{facts['size']:,}") for facts in outputs.values())
    rows = [
        f"  {name:{width}} {facts['size']:>{digits},} {facts['sha256'][:12]}" for name, facts in sorted(outputs.items())
    ]
    return "\n".join([f"{folder}/", *rows])


def _counts(checks: Sequence[Mapping[str, Any]]) -> str:
    states = [check["status"] for check in checks]
    return ", ".join(f"{states.count(s.value)} {s.value}" for s in Status if s.value in states)

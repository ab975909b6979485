"""kz report --diff: what got worse between two reports fails, the rest is told."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from kz_build.core.errors import ConfigError
from kz_build.report import report as stage
from kz_build.report.diff import Kind, ReportDiff, compare
from kz_build.report.text_diff import markdown, table
from tests.conftest import Kz


def check(name: str, status: str = "PASS", file: str = "liba.so", required: bool = True) -> dict[str, object]:
    return {"file": file, "check": name, "status": status, "evidence": f"{name} is {status}", "required": required}


def device(serial: str, *, emulated: bool, tps: float = 10.0) -> dict[str, Any]:
    """The record of a device, whose decoding has this rate."""
    tried = {"device": "Phone", "serial": serial, "emulated": emulated, "target": "t", "subject": "m.pte"}
    spread = {"min": tps - 0.1, "median": tps, "max": tps + 0.1}
    run = {"target": "t", "subject": "m.pte", "process": "shell", "spreads": {"decode_tps": spread}}
    return {
        "key": "k",
        "report": {**tried, "checks": [check("loads", file=serial), check("page-size", file=serial)], "in_app": None},
        "runs": {"1": run},
    }


REPORT: dict[str, Any] = {
    "kz": "0.1.0",
    "line": "l",
    "pins": {"up": "v1"},
    "canonical": True,
    "overrides": [],
    "single_source": [],
    "build": {
        "t": {
            "key": "k",
            "seconds": 100.0,
            "files": {"liba.so": {"sha256": "a" * 64, "size": 1000, "profile": "ours"}},
            "stacks": [{"source": "up", "tree": "b" * 40, "patches": {"0001-x.patch": "clean"}}],
        }
    },
    "audit": {"t": {"key": "k", "checks": [check("elf"), check("pages-16k"), check("debug", "WARN")]}},
    "reproduce": {"t": {"key": "k", "same": True, "variations": []}},
    "package": {"t": {"key": "k", "path": "a.aar", "sha256": "c" * 64, "size": 10}},
    "export": {"m": {"key": "k", "sha256": "d" * 64, "size": 10, "checks": [{**check("inputs"), "file": "m.pte"}]}},
    "device": {"R5": device("R5", emulated=False)},
    "all": {"t": {"key": "k", "stages": [{"stage": "device", "status": "PASS", "report": "r", "exit_code": 0}]}},
}
Change = Callable[[dict[str, Any]], object]


def changed(change: Change, old: dict[str, Any] = REPORT) -> ReportDiff:
    """Compare a report with a copy of it after this change."""
    new = copy.deepcopy(old)
    change(new)
    return compare(old, new)


WORSE: dict[str, tuple[int, str, Change]] = {
    "a check fails": (7, "audit t liba.so: elf", lambda r: r["audit"]["t"]["checks"][0].update(status="FAIL")),
    "a required one is skipped": (7, "liba.so: elf", lambda r: r["audit"]["t"]["checks"][0].update(status="SKIP")),
    "a new check fails": (7, "audit t jni", lambda r: r["audit"]["t"]["checks"].append(check("jni", "ERROR", ""))),
    "other bytes": (7, "reproduce t bytes", lambda r: r["reproduce"]["t"].update(same=False)),
    "a patch": (7, "up 0001-x", lambda r: r["build"]["t"]["stacks"][0]["patches"].update({"0001-x.patch": "content"})),
    "an override": (7, "overrides ndk", lambda r: r["overrides"].append({"where": "ndk", "value": "folder /x"})),
    "a stage is gone": (7, "package t", lambda r: r.pop("package")),
    "a target is gone": (7, "audit t", lambda r: r["audit"].pop("t")),
    "a stage of kz all did not run": (8, "all t device", lambda r: r["all"]["t"]["stages"][0].update(status="SKIP")),
    "a model": (8, "export m m.pte: inputs", lambda r: r["export"]["m"]["checks"][0].update(status="FAIL")),
    "a device": (8, "m.pte loads", lambda r: r["device"]["R5"]["report"]["checks"][0].update(status="FAIL")),
    "the device is gone": (8, "device Phone R5 t m.pte", lambda r: r["device"].pop("R5")),
}


@pytest.mark.parametrize("name", WORSE)
def test_what_got_worse_fails_and_was_better_the_other_way_round(name: str) -> None:
    code, subject, change = WORSE[name]
    diff = changed(change)
    assert (diff.exit_code, [one.kind for one in diff.changes]) == (code, [Kind.WORSE])
    assert subject in table(diff) and subject in markdown(diff, "old")
    new = copy.deepcopy(REPORT)
    change(new)
    back = compare(new, REPORT)
    assert back.exit_code == 0 and len(back.changes) == 1
    assert not compare(REPORT, REPORT).changes
    assert {one.kind for one in compare(new, new).changes} <= {Kind.STILL}, "it was known"


TOLD: dict[str, Change] = {
    "a WARN": lambda r: r["audit"]["t"]["checks"][0].update(status="WARN"),
    "a skipped check that may be": lambda r: r["audit"]["t"]["checks"][2].update(status="SKIP", required=False),
    "a check nobody asks any more": lambda r: r["audit"]["t"]["checks"].pop(),
    "a patch that moved": lambda r: r["build"]["t"]["stacks"][0]["patches"].update({"0001-x.patch": "+3"}),
    "a size": lambda r: r["build"]["t"]["files"]["liba.so"].update(size=1001, sha256="e" * 64),
    "a slow build": lambda r: r["build"]["t"].update(seconds=200.0),
    "a slow device": lambda r: r["device"].update(R5=device("R5", emulated=False, tps=8.0)),
    "a pin": lambda r: r["pins"].update(up="v2"),
    "a digest of one source": lambda r: r["single_source"].append("ndk"),
    "a line": lambda r: r.update(line="m"),
}


@pytest.mark.parametrize("name", TOLD)
def test_the_rest_is_told(name: str) -> None:
    diff = changed(TOLD[name])
    assert diff.exit_code == 0 and [one.kind for one in diff.changes] == [Kind.CHANGED]


def test_noise_is_not_told() -> None:
    def noise(report: dict[str, Any]) -> None:
        report["build"]["t"]["seconds"] = 140.0
        report["device"]["R5"] = device("R5", emulated=False, tps=9.3)

    assert not changed(noise).changes


def test_an_emulated_device_may_have_another_port_and_its_figures_are_none() -> None:
    old = {**REPORT, "device": {"a": device("127.0.0.1:1", emulated=True)}}
    new = {**REPORT, "device": {"b": device("127.0.0.1:2", emulated=True, tps=1.0)}}
    assert not compare(old, new).changes


def test_both_ways_of_getting_worse_end_with_7() -> None:
    def both(report: dict[str, Any]) -> None:
        WORSE["a device"][2](report)
        WORSE["a check fails"][2](report)

    assert changed(both).exit_code == 7


def test_evidence_is_no_markup_and_lines_have_80_columns() -> None:
    bad = "<img src=evil> | `x` @evil\n# evil\x1b[2J " * 20
    diff = changed(lambda r: r["audit"]["t"]["checks"][0].update(status="FAIL", evidence=bad))
    assert max(map(len, table(diff).splitlines())) <= 80 and "\x1b" not in table(diff)
    parser = MarkdownIt().enable("table")
    parser.add_render_rule("code_inline", lambda *_: "")
    page = str(parser.render(markdown(diff, "OLD|`.json")))
    assert page.count("<tr>") == 2 and "evil" not in page and "OLD" not in page


VALUES: tuple[Any, ...] = (
    None,
    True,
    3,
    -1.5,
    float("nan"),
    10**400,
    "",
    "x",
    [],
    ["x"],
    {},
    {"x": 1},
    [[]],
    {"x": {"x": {}}},
)


@given(st.data())
def test_a_damaged_report_is_refused_with_a_sentence(data: st.DataObject) -> None:
    old = copy.deepcopy(REPORT)
    at: Any = old
    while True:
        key = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
        if not at[key] or not isinstance(at[key], dict | list) or data.draw(st.booleans()):
            break
        at = at[key]
    at[key] = data.draw(st.sampled_from(VALUES))
    try:
        diff = compare(old, REPORT, "OLD.json")
    except ConfigError as error:
        assert str(error).startswith("OLD.json is not a report of kz: ") and "\n" not in str(error)
    else:
        assert table(diff) and markdown(diff, "old") and diff.exit_code in (0, 7, 8)


def test_the_verb_fails_by_what_got_worse_and_writes_the_job_summary(built: Path, kz: Kz, tmp_path: Path) -> None:
    old = json.loads(kz("-C", built, "report", "--json").stdout)
    record = old["audit"]["linux-arm64"]
    record["checks"] = [one for one in record["checks"] if one["check"] != "elf"]
    for one in record["checks"]:
        one["status"] = "FAIL" if one["check"] == "pages-16k" else one["status"]
    kept, summary = tmp_path / "OLD.json", tmp_path / "summary.md"
    kept.write_text(json.dumps(old))
    done = kz("-C", built, "report", "--diff", kept, GITHUB_STEP_SUMMARY=str(summary))
    assert done.returncode == 0 and "newly passing:" in done.stdout and ": elf" in done.stdout
    assert "| newly passing | `audit linux-arm64 " in summary.read_text()

    old["audit"]["other"] = record
    kept.write_text(json.dumps(old))
    done = kz("-C", built, "report", "--diff", kept, "--json")
    assert done.returncode == 7 and "kz: exit 7 (audit)" in done.stderr and "1 newly failing since" in done.stderr
    row = json.loads(done.stdout)["changes"][0]
    assert (row["kind"], row["where"], row["before"]) == ("newly failing", "other", "recorded")


def test_what_is_no_report_is_refused(built: Path, kz: Kz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "MOST_BYTES", 1 << 20)
    kept = tmp_path / "OLD.json"
    for content, sentence in {
        b"{": "Expecting property name",
        b"\xff\xfe\x00": "not a report of kz",
        b"[]": "holds no JSON object",
        b"[" * 100_000: "not a report of kz",
        b'{"version": 3}': "'kz'",
        b" " * (1 << 20) + b"{}": "larger than 1 MB",
    }.items():
        kept.write_bytes(content)
        done = kz("-C", built, "report", "--diff", kept)
        assert done.returncode == 2 and sentence in done.stderr and not done.stdout, done.stderr
    for path in (tmp_path, tmp_path / "none.json"):
        done = kz("-C", built, "report", "--diff", path)
        assert done.returncode == 2 and "is not a file" in done.stderr


def test_a_model_that_fails_its_contract_is_compared(sample: Path, kz: Kz, tmp_path: Path) -> None:
    record = {"key": "k", "recipe": "r", "sources": [], "sha256": "a" * 64, "size": 5}
    dist = sample / "dist/sample-0.1"
    dist.mkdir(parents=True)
    (dist / "probe.json").write_text(json.dumps({"key": "k"}))
    kept = tmp_path / "OLD.json"
    for code, status in ((0, "PASS"), (8, "FAIL")):
        rows = [{name: value for name, value in check("inputs", status).items() if name != "file"}]
        (dist / "m.pte.json").write_text(json.dumps({**record, "checks": rows}))
        if not code:
            kept.write_text(kz("-C", sample, "report", "--json").stdout)
        assert f"export m.pte: aaaaaaaaaaaa, 1 {status}" in kz("-C", sample, "report").stdout
        done = kz("-C", sample, "report", "--diff", kept)
        assert done.returncode == code and ("export m.pte inputs" in done.stdout) == bool(code), (
            done.stdout + done.stderr
        )

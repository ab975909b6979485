"""The workflows: what GitHub would refuse, and what a stranger's pull request must not get."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from check_jsonschema import main as check_jsonschema

from tests.conftest import ROOT, Kz

WORKFLOWS = sorted((ROOT / ".github" / "workflows").iterdir())
FOR_OTHERS = "matrix.yml"
"""The workflow that other projects call: it runs an installed kz."""
SIGNS = f"{FOR_OTHERS}: attest"
PINNED = re.compile(r"uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")


def read(path: Path) -> dict[str, Any]:
    loaded = yaml.load(path.read_text(), Loader=yaml.BaseLoader)  # the safe one takes the key `on` for True
    assert isinstance(loaded, dict)
    return loaded


def jobs() -> list[tuple[str, dict[str, Any]]]:
    return [(f"{path.name}: {name}", job) for path in WORKFLOWS for name, job in read(path)["jobs"].items()]


def sessions() -> set[str]:
    """Functions of noxfile.py that are sessions."""
    functions = [
        node for node in ast.parse((ROOT / "noxfile.py").read_text()).body if isinstance(node, ast.FunctionDef)
    ]
    return {f.name for f in functions if any("nox.session" in ast.unparse(d) for d in f.decorator_list)}


def schema_accepts(*files: Path, schema: str = "github-workflows") -> bool:
    """Whether files are workflows by a schema of check-jsonschema; nothing is downloaded."""
    with pytest.raises(SystemExit) as ended:
        check_jsonschema(["--quiet", "--builtin-schema", f"vendor.{schema}", *map(str, files)])
    return ended.value.code == 0


def test_github_takes_them() -> None:
    assert {path.name for path in WORKFLOWS} == {"matrix.yml", "nightly.yml", "verify.yml"}
    assert schema_accepts(*WORKFLOWS)


def test_gitlab_takes_the_pipeline_and_the_one_that_it_makes(kz: Kz, tmp_path: Path) -> None:
    cells = tmp_path / "cells.yml"
    cells.write_text(kz("-C", str(ROOT), "matrix", "--format", "gitlab").stdout)
    assert schema_accepts(ROOT / ".gitlab" / "matrix.yml", cells, schema="gitlab-ci")
    jobs = read(cells)
    for stage in ("build", "attest"):
        rows = [row for name, job in jobs.items() if name.startswith(f"{stage} ") for row in job["parallel"]["matrix"]]
        pairs = [{"line": row["LINE"], "target": target} for row in rows for target in row["TARGET"]]
        assert pairs == json.loads(kz("-C", str(ROOT), "matrix").stdout)["include"], stage
    assert [name for name, job in jobs.items() if ("id_tokens" in job) != name.startswith("attest ")] == []
    cells.write_text(cells.read_text().replace('"script"', '"scripts"'))
    assert not schema_accepts(cells, schema="gitlab-ci")


def test_the_schema_is_asked(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(WORKFLOWS[0].read_text().replace("runs-on:", "runs_on:", 1))
    assert not schema_accepts(wrong)


def test_each_job_is_one_nox_session() -> None:
    ran = set()
    for name, job in jobs():
        if name.startswith(FOR_OTHERS):
            continue
        commands = [step["run"] for step in job["steps"] if re.search(r"\bnox\b", step.get("run", ""))]
        assert len(commands) == 1, name
        session = re.fullmatch(r"nox -s (\w+)( -- -C examples/sample --emulate)?", commands[0])
        assert session, f"{name}: {commands[0]}"
        ran.add(session[1])
    assert ran == {"all", "lint", "typecheck", "docs", "tests", "verify_patches", "nightly", "audit_requirements"}
    missing = ran - sessions()
    assert not missing, f"noxfile.py has no session {missing}"


def test_actions_are_pinned_by_commit() -> None:
    versions = set()
    for path in WORKFLOWS:
        lines = [
            line.strip("- ") for line in path.read_text().splitlines() if "uses:" in line and "#   jobs:" not in line
        ]
        assert lines
        for line in lines:
            assert PINNED.fullmatch(line), f"{path.name}: {line}"
        versions |= set(lines)
    names = [line.partition("@")[0] for line in versions]
    assert len(names) == len(set(names)), f"one action, two versions: {sorted(versions)}"


def test_permissions_are_the_least() -> None:
    granted = {path.name: read(path)["permissions"] for path in WORKFLOWS if path.name != FOR_OTHERS}
    assert granted == {"verify.yml": {"contents": "read"}, "nightly.yml": {}}
    own = {name: job["permissions"] for name, job in jobs() if "permissions" in job}
    assert own == {"nightly.yml: nightly": {"contents": "write", "issues": "write", "pull-requests": "write"}} | dict.fromkeys(
        ("matrix.yml: plan", "matrix.yml: build", "matrix.yml: report"), {"contents": "read"}
    )  # fmt: skip
    for name, job in jobs():
        holders = [step for step in job["steps"] if "github.token" in str(step)]
        assert holders == ([job["steps"][-1]] if name in ("nightly.yml: nightly", SIGNS) else []), (
            "only kz itself gets the token, and the command that stores a signature"
        )


def test_a_cell_is_signed_where_the_caller_grants_it_and_no_build_can_sign() -> None:
    workflow = read(ROOT / ".github/workflows" / FOR_OTHERS)
    assert workflow["on"]["workflow_call"]["inputs"]["attest"]["default"] == "false"
    assert "permissions" not in workflow, "they would be the most that the signing job can have"
    job = workflow["jobs"]["attest"]
    assert job["if"] == "${{ inputs.attest }}" and "permissions" not in job and "build" in job["needs"]
    signing = [name for name, job in jobs() if "kz attest" in str(job)]
    assert signing == [SIGNS] and not [step for step in job["steps"] if "kz build" in step.get("run", "")]


def test_a_pull_request_gets_no_secret() -> None:
    for path in WORKFLOWS:
        assert "pull_request_target" not in read(path)["on"] and "workflow_run" not in read(path)["on"]
        assert "secrets." not in path.read_text()
        assert ("github.token" in path.read_text()) == (path.name in ("nightly.yml", FOR_OTHERS))
    for name, job in jobs():
        checkouts = [step for step in job["steps"] if step.get("uses", "").startswith("actions/checkout@")]
        assert [step["with"]["persist-credentials"] for step in checkouts] == ["false"] * (name != SIGNS), name
        for step in job["steps"]:
            assert "${{" not in step.get("run", ""), f"{name}: what a stranger names would be run by the shell"


def test_runs_end_and_do_not_pile_up() -> None:
    for path in WORKFLOWS:
        assert path.name == FOR_OTHERS or read(path)["concurrency"]["group"], path  # there its caller's group holds
    for name, job in jobs():
        assert 0 < int(job["timeout-minutes"]) <= (180 if name == f"{FOR_OTHERS}: build" else 60), name


def test_the_store_is_kept_by_the_lock() -> None:
    for name, job in jobs():
        kept = [step["with"] for step in job["steps"] if step.get("uses", "").startswith("actions/cache@")]
        used = [step["env"]["KZ_CACHE"] for step in job["steps"] if "KZ_CACHE" in step.get("env", {})]
        assert all("pins.lock')" in entry["key"] for entry in kept), name
        if name.startswith(FOR_OTHERS):
            assert bool(kept) == (name == f"{FOR_OTHERS}: build"), name
            continue
        assert [entry["path"] for entry in kept] == used, name
        assert bool(used) == (name in ("verify.yml: verify", "nightly.yml: nightly")), name


def test_the_workflow_in_the_docs_of_matrix_is_one(tmp_path: Path) -> None:
    text = (ROOT / "docs/reference/verbs/matrix.md").read_text().split("```")[1].removeprefix("yaml\n")
    file = tmp_path / "ci.yml"
    file.write_text("name: x\non: push\n" + text.replace("- … #", "- run: echo #"))
    assert schema_accepts(file)

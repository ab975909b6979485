"""export: run a recipe's stages, check the contract, and only then publish to dist/."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypedDict, cast

from kz_build.build import engine
from kz_build.checks.pte import check_contract
from kz_build.core import files, locks, process_group
from kz_build.core.check import KEYS, Check
from kz_build.core.command_log import Commands, new_log_folder
from kz_build.core.errors import ConfigError, DeviceError, LockError
from kz_build.core.progress import Watch, quiet
from kz_build.core.stage_record import Output, StageRecord, beside, changed, load, load_any
from kz_build.export import run_stage, weights
from kz_build.export.bill import bill
from kz_build.export.environment import Environment, prepare
from kz_build.export.phases import Phase, estimate
from kz_build.export.plan import ExportPlan
from kz_build.export.preflight import preflight, smoke_check
from kz_build.export.preflight_rules import Preflight
from kz_build.export.recipe import Recipe, Stage
from kz_build.formats.pte import read_pte
from kz_build.pins.pins import digest_of
from kz_build.pins.project import Project
from kz_build.sources.folder_tree import folder_tree
from kz_build.sources.installed_sdk import installed

CACHE_EPOCH = 1
"""Raise it if stages run in another way."""


class DecodeStep(TypedDict):
    """A step of a recipe's decode check, against eager torch; its command may add more."""

    cosine: float
    same: bool


class Decode(TypedDict, total=False):
    """The decode check of an export; empty if the recipe has none."""

    steps: list[DecodeStep]


@dataclass(frozen=True)
class Exported:
    """A .pte in dist that met its contract. `phases` are those of the stages that made it; `fresh` if some ran now."""

    recipe: str
    path: Path
    sha256: str
    size: int
    seconds: float
    phases: tuple[Phase, ...]
    checks: tuple[Check, ...]
    decode: Decode
    fresh: bool


def export_model(
    project: Project,
    plan: ExportPlan,
    watch: Watch = quiet,
    note: Callable[[str], None] = lambda text: None,
    *,
    again_from: str = "",
) -> tuple[Exported | None, Preflight]:
    """Return (the model, or None if this machine is not ready for it; the preflight).

    Runs the stages that are out of date, or all from `again_from` on. On any failure dist stays as it was. Raises
    CommandError for a stage that fails, DeviceError for a result that does not meet the contract.
    """
    ready = preflight(project, plan)
    if ready.failed:
        return None, ready
    for check in ready.checks:
        if check.status == "WARN":
            note(f"WARN  {check.name}: {check.evidence}")
    commands = Commands(new_log_folder(project.out("log")))
    environment = prepare(project, plan.recipe, commands, watch)
    if not again_from and (existing := existing_export(plan, keys(project, plan.recipe, environment)[1])):
        return existing, ready
    ready = replace(ready, checks=(*ready.checks, *smoke_check(plan.recipe, environment)))
    if ready.failed:
        return None, ready
    return _run(project, plan, environment, commands, watch, again_from), ready


def existing_export(plan: ExportPlan, key: str) -> Exported | None:
    """Return the export of this recipe with these inputs, if it is there and unchanged."""
    path = Path(plan.output)
    record = load(beside(path), key)
    there = record and _bill(path).is_file() and not changed(path, record.outputs)
    return _exported(plan, record, fresh=False) if record and there else None


def _bill(path: Path) -> Path:
    return path.with_name(f"{path.name}.cdx.json")


def keys(project: Project, recipe: Recipe, environment: Environment) -> tuple[dict[str, str], str]:
    """Return (stage -> key, key of the whole): digests of all inputs, each stage's with those before it."""
    inputs: list[object] = [
        CACHE_EPOCH,
        environment.key,
        weights.identity(project, recipe),
        sorted(recipe.environment.items()),
    ]
    inputs += [sorted(recipe.needs.sdk.items()), _sdks(project, recipe)]
    by_stage: dict[str, str] = {}
    for one in _here(recipe):
        by_stage[one.name] = digest_of([*inputs, one.run, one.makes, one.inside])
        inputs = [by_stage[one.name]]
    whole = [*inputs, asdict(recipe.contract), recipe.decode, recipe.cosine, recipe.output]
    return by_stage, digest_of(whole)


def _sdks(project: Project, recipe: Recipe) -> list[str]:
    """Return the identity of every pinned SDK: its version, or what is in the folder that the user has."""
    identities = []
    for name in sorted(name for name, wanted in recipe.needs.sdk.items() if wanted == "pinned"):
        own = installed(project, recipe.line, project.pins.source(name))
        version = project.pins.line(recipe.line)[name]
        identities.append(folder_tree(project.store, own.folder) if own else version)
    return identities


def _here(recipe: Recipe) -> tuple[Stage, ...]:
    """Return the stages that run on this machine."""
    return tuple(one for one in recipe.command if one.where == "host")


def _run(
    project: Project, plan: ExportPlan, environment: Environment, commands: Commands, watch: Watch, again_from: str
) -> Exported:
    recipe = plan.recipe
    out = environment.places["out"]
    of_stage, whole = keys(project, recipe, environment)
    if again_from and again_from not in of_stage:
        raise ConfigError(f"{recipe.name} has no stage {again_from}", hint=f"its stages: {', '.join(of_stage)}")
    with files.disk_errors(out):
        out.mkdir(parents=True, exist_ok=True)
    with locks.lock(project.store, f"export-{hashlib.sha256(bytes(out)).hexdigest()[:12]}"):
        if not again_from and (existing := existing_export(plan, whole)):
            return existing
        process_group.end_noted(out / process_group.RUNNING)
        weights.place(project, recipe, environment, commands, watch)
        records = _stages(plan, environment, of_stage, again_from, commands, watch)
        result = _result(recipe, environment)
        checks = tuple(check_contract(read_pte(result), recipe.contract, None, "")) if result.suffix == ".pte" else ()
        decode = _decode(recipe, environment, commands, watch)
        _require_contract(recipe, result, checks, decode)
        of_materials = bill(project, recipe, environment, files.sha256_file(result))
        return _publish(plan, whole, result, of_materials, records, checks, decode)


def _stages(
    plan: ExportPlan,
    environment: Environment,
    of_stage: Mapping[str, str],
    again_from: str,
    commands: Commands,
    watch: Watch,
) -> dict[str, StageRecord]:
    """Run the stages whose inputs changed, and all after the first of them. Returns the record of each."""
    records: dict[str, StageRecord] = {}
    stale = False
    earlier = _earlier_seconds(Path(plan.output))
    for one in _here(plan.recipe):
        stale = stale or one.name == again_from
        filled = run_stage.filled(one, environment.fill)
        record = None if stale else run_stage.recorded(environment, filled, of_stage[one.name])
        if record is None:
            stale = True
            seconds = earlier.get(one.name, {})
            record = run_stage.run_stage(plan.recipe, filled, environment, of_stage[one.name], seconds, commands, watch)
        records[one.name] = record
    return records


def _result(recipe: Recipe, environment: Environment) -> Path:
    makes = [path for one in _here(recipe) for path in one.makes]
    if not makes:
        raise ConfigError(f"{recipe.name} has no stage with `makes`, so there is nothing to check and publish")
    return Path(environment.fill(makes[-1]))


def _decode(recipe: Recipe, environment: Environment, commands: Commands, watch: Watch) -> Decode:
    """Run the recipe's own check of decode steps."""
    if not recipe.decode:
        return {}
    output: list[str] = []
    argv = [*engine.no_network_prefix(), *map(environment.fill, recipe.decode)]
    work = run_stage.work_folder(environment, "decode")
    monitor = run_stage.StageMonitor("decode", {}, watch)
    out, env = environment.places["out"], environment.variables
    run_stage.run_watched(out, monitor, commands, argv, cwd=work, env=env, line=output.append)
    try:
        result = json.loads(output[-1])
        steps = result["steps"]
        whole = bool(steps) and all(isinstance(one["cosine"], int | float) and "same" in one for one in steps)
    except (ValueError, IndexError, KeyError, TypeError):
        whole = False
    if not whole:
        raise ConfigError(
            f"the decode check of {recipe.name} does not end with a JSON object that has `steps`, each with `cosine` and `same`: {output[-1][:200] if output else ''}",
            hint="kz's docs/reference/recipes.md says what such a command prints",
        )
    return cast(Decode, result)


def _require_contract(recipe: Recipe, result: Path, checks: tuple[Check, ...], decode: Decode) -> None:
    wrong = [f"{c.name}: {c.evidence}" for c in checks if c.failed]
    for number, step in enumerate(decode.get("steps", ()), 1):
        if not (step["cosine"] > recipe.cosine and step["same"]):  # NaN is no cosine that is large enough
            token = "the same token" if step["same"] else "another token"
            wrong.append(
                f"decode: step {number} of {len(decode['steps'])} has cosine {step['cosine']:.4f} with eager torch, and {token}"
            )
    if wrong:
        raise DeviceError(
            "\n".join([f"{result.name} does not meet the contract of {recipe.name}:", *(f"  {w}" for w in wrong)]),
            hint=f"it stays in {result.parent}, dist is unchanged; kz pte {result} shows the file",
        )


def _publish(
    plan: ExportPlan,
    key: str,
    result: Path,
    of_materials: bytes,
    records: Mapping[str, StageRecord],
    checks: tuple[Check, ...],
    decode: Decode,
) -> Exported:
    """Move the file to dist. The old record is removed first, so that it never describes another file; the new one comes last."""
    to = Path(plan.output)
    digest = files.sha256_file(result)
    inputs = {"recipe": plan.recipe.name, "sources": plan.sources, "contract": asdict(plan.recipe.contract)}
    outputs = {"": Output(digest, result.stat().st_size)}
    facts = {
        "line": plan.recipe.line,
        "seconds": round(sum(record.get("seconds", float) for record in records.values()), 1),
        "stages": {name: record.plain() for name, record in records.items()},
        "checks": [c.as_json(KEYS[1:]) for c in checks],
        "decode": decode,
    }
    with files.disk_errors(to):
        beside(to).unlink(missing_ok=True)
        part = to.with_name(f".{to.name}.part")
        part.unlink(missing_ok=True)
        files.hardlink_or_copy(result, part)  # a later stage may need it where it was made
        os.replace(part, to)
        part.unlink(missing_ok=True)  # rename(2) leaves both names where they are one file: what was published before
    files.write_atomic(to.with_name(f"{to.name}.sha256"), f"{digest}  {to.name}\n".encode())
    files.write_atomic(_bill(to), of_materials)
    record = StageRecord(beside(to), key, inputs, outputs, facts)
    record.save()
    return _exported(plan, record, fresh=True)


def _earlier_seconds(output: Path) -> dict[str, dict[str, float]]:
    """Return stage -> phase -> seconds of the last export, whatever its inputs were."""
    last = load_any(beside(output))
    try:
        return (
            {
                name: estimate(Phase(**phase) for phase in facts["phases"])
                for name, facts in last.get("stages", dict).items()
            }
            if last
            else {}
        )
    except (LockError, KeyError, TypeError):  # of an export by another kz
        return {}


def _exported(plan: ExportPlan, record: StageRecord, *, fresh: bool) -> Exported:
    phases = tuple(Phase(**phase) for stage in record.get("stages", dict).values() for phase in stage["phases"])
    checks = tuple(Check.from_json(row, Path(plan.output).name) for row in record.get("checks", list))
    return Exported(
        plan.recipe.name,
        Path(plan.output),
        record.outputs[""].sha256,
        record.outputs[""].size or 0,
        record.get("seconds", float),
        phases,
        checks,
        cast(Decode, record.get("decode", dict)),
        fresh,
    )

"""Recipes, plans and exports as text."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kz_build.checks.contract import Contract
from kz_build.core.escape import wrap
from kz_build.export.recipe import Amount, Recipe

if TYPE_CHECKING:
    from kz_build.export.environment import Environment
    from kz_build.export.plan import ExportPlan
    from kz_build.export.preflight_rules import Preflight
    from kz_build.export.run import Exported


def listing(recipes: Sequence[Recipe]) -> str:
    if not recipes:
        return "this project has no recipes"
    width = max(len(one.name) for one in recipes)
    wide = max(len(amount(one.needs.memory)) for one in recipes)
    return "\n".join(
        f"{one.name:{width}}  {one.line or 'own':6}  {amount(one.needs.memory):>{wide}}  {one.about}" for one in recipes
    )


def shown(one: Recipe) -> str:
    needs = one.needs
    rows = [one.name, *wrap(one.about, "  "), ""]
    rows += [f"  upstream  {one.upstream.git} at {one.upstream.commit[:12]}"] if one.upstream else []
    rows += [f"  line      {one.line}"] if one.line else []
    rows += [f"  runs with {one.requirements}  (kz env {one.name})"] if one.requirements else []
    rows += [f"  output    {one.output}", "", "  needs"]
    rows.append(f"    RAM + swap  {amount(needs.memory)}  ({needs.memory.source})")
    rows += [f"    disk        {amount(of)} in {folder}  ({of.source})" for folder, of in needs.disk.items()]
    rows += [f"    time        {_minutes(one)}"] if needs.minutes else []
    rows += [f"    sdk         {name}: {version}" for name, version in needs.sdk.items()]
    rows += [f"    python      {needs.python}"] if needs.python else []
    rows += [f"    glibc       {needs.glibc} or newer"] if needs.glibc else []
    rows += [f"    {name}: {what}" for name, what in needs.tools.items()]
    rows += ["", "  weights", *_weights(one)]
    rows += ["", "  contract", *(f"    {key:15} {_value(value)}" for key, value in _keys_set(one.contract))]
    for stage in one.command:
        rows += ["", f"  {stage.name}, on the {stage.where}, in {{{stage.inside}}}", *_argv(stage.run, "    ")]
    if one.decode:
        rows += ["", "  decode check", *_argv(one.decode, "    ")]
    if one.environment:
        rows += ["", "  environment", *(f"    {key}={value}" for key, value in one.environment.items())]
    if one.device:
        width = max(map(len, one.device.values()))
        rows += ["", "  on the device", *(f"    {name:{width}}  {path}" for path, name in one.device.items())]
    for trap in one.traps:
        rows += ["", *wrap(f"! {trap.text} ({trap.source})", "  ")]
    return "\n".join(rows)


def plan(planned: ExportPlan) -> str:
    """Describe a plan: its commands, their inputs, and their outputs."""
    one = planned.recipe
    rows = [f"plan of {one.name}: {one.about}", ""]
    rows += [f"  {name} {version}" for name, version in sorted(planned.sources.items())]
    rows += ["", *(f"  export {key}={shlex.quote(value)}" for key, value in planned.environment.items())]
    for number, step in enumerate(planned.steps, 1):
        rows += ["", f"  {number}. {step.name} (on the {step.where})", f"  cd {step.cwd}", *_argv(step.argv, "  ")]
        rows += [f"  # makes {path}" for path in step.makes]
    rows += ["", f"  needs {amount(one.needs.memory)} of RAM + swap, " + _minutes(one)]
    rows += [f"        {amount(of)} of disk in {where}" for where, of in one.needs.disk.items()]
    rows += [f"  result: {planned.output}"]
    if planned.unpinned:
        rows += ["", f"  {len(planned.unpinned)} digests of weights are null: not computed yet"]
    return "\n".join(rows)


def preflight(report: Preflight) -> str:
    """Return the checks of a machine, failures last, each with its fix."""
    order = sorted(report.checks, key=lambda check: ("PASS", "SKIP", "WARN", "FAIL", "ERROR").index(check.status))
    width = max(len(check.name) for check in order)
    rows = []
    for check in order:
        rows.append(f"{check.status.value:4}  {check.name:{width}}  {check.evidence}")
        rows += [f"      {' ' * width}  -> {line}" for line in check.fix]
    return "\n".join(rows)


def exported(export: Exported, path: str) -> str:
    """Describe an export: its file, its phases, and the checks of its contract."""
    rows = [f"{path}  {export.size:,} B", f"  sha256 {export.sha256}"]
    if not export.fresh:
        rows.insert(0, f"{export.recipe}: nothing to do, it is there")
    width = max((len(phase.name) for phase in export.phases), default=0)
    for phase in export.phases:
        swap = f" + {phase.swap / 10**9:.1f} swap" if phase.swap else ""
        rows.append(f"  {phase.name:{width}}  {clock(phase.seconds):>7}  {phase.ram / 10**9:5.1f} GB{swap}")
    rows += [f"  {check.status.value:4}  {check.name}: {check.evidence}" for check in export.checks]
    if steps := export.decode.get("steps"):
        least = min(step["cosine"] for step in steps)
        rows.append(f"  PASS  decode: {len(steps)} steps as eager torch, same tokens, cosine at least {least:.5f}")
    return "\n".join(rows)


def progress(
    stage: str, phase: str, times: tuple[float, float], before: tuple[float, float], ram: int, swap: int
) -> str:
    """Return the progress of a stage as `export: lower 0:23 of ~0:40, all 0:45 of ~1:02, 0.9 GB`.

    `times` are seconds since the phase and the stage began, `before` those of earlier runs (0: unknown), memory in bytes.
    """
    in_phase, in_all = (
        clock(now) + (f" of ~{clock(known)}" if known else "") for now, known in zip(times, before, strict=True)
    )
    memory = f"{ram / 10**9:.1f} GB" + (f" + {swap / 10**9:.1f} swap" if swap else "")
    return f"{stage}: {phase} {in_phase}, all {in_all}, {memory}"


def clock(seconds: float) -> str:
    """Return seconds as `0:42` or `1:02:03`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"


def amount(of: Amount) -> str:
    """Return an amount as `46-59 GB`, or `16+ GB` if nobody measured the most."""
    if of.high is None:
        return f"{of.low:g}+ GB"
    return f"{of.low:g} GB" if of.low == of.high else f"{of.low:g}-{of.high:g} GB"


def _minutes(one: Recipe) -> str:
    return f"{' to '.join(map(str, one.needs.minutes))} minutes" if one.needs.minutes else "time not measured"


def _weights(one: Recipe) -> list[str]:
    rows = []
    for name, of in one.weights.items():
        if of.repository:
            rows.append(
                f"    {name}: {of.repository} at {of.revision or 'no pinned revision'}"
                + (f", {of.licence}" if of.licence else "")
            )
            rows += [f"      {file}  {digest or 'sha256 not computed yet'}" for file, digest in of.digests.items()]
        elif of.random:
            rows.append(f"    {name}: random, seed {of.random.seed}, in the shape of {of.random.shape}")
        else:
            rows.append(f"    {name}: " + ("a tokenizer that kz trains" if of.tokenizer else "written by kz"))
    return rows


def _argv(argv: Sequence[str], indent: str) -> list[str]:
    words = [word if word.startswith("{") else shlex.quote(word) for word in argv]
    if sum(map(len, words)) < 80:
        return [indent + " ".join(words)]
    head = 1 + next((i for i, word in enumerate(argv[1:], 1) if not word.startswith("-")), 0)
    lines = [" ".join(words[:head])]
    for word in words[head:]:
        before = lines[-1].rsplit(" ", 1)[-1]
        if not word.startswith("-") and before.startswith("-") and "=" not in before and len(lines) > 1:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return [indent + (" \\\n" + indent + "    ").join(lines)]


def _keys_set(contract: Contract) -> list[tuple[str, object]]:
    keys = ((field.name, getattr(contract, field.name)) for field in dataclasses.fields(contract))
    return [(name, value) for name, value in keys if value not in ("", 0, (), None) or value is False]


def _value(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


# A shell has these already: its own folders are searched after the environment's.
_SEARCHED = ("PATH",)
_NOT_FOR_SHELLS = ("HOME", "USER", "LOGNAME", "TERM", "LC_ALL", "LANG", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR")


def environment(recipe: str, made: Environment) -> str:
    """Describe an environment: its folder, its contents, and how to use it."""
    width = max(map(len, made.holds))
    rows = [
        f"environment of {recipe}: " + ("made" if made.fresh else "there already"),
        f"  {made.folder}",
    ]
    rows += [f"  {name:{width}}  {text}" for name, text in made.holds.items()]
    return "\n".join([*rows, f"next: kz export {recipe}", f'  or: eval "$(kz env {recipe} --shell)"'])


def shell(made: Environment) -> str:
    """Return `export` lines for a POSIX shell."""
    rows = []
    for name, value in made.variables.items():
        if name in _SEARCHED:
            rows.append(f'export {name}={shlex.quote(str(made.folder / "bin"))}:"${name}"')
        elif name not in _NOT_FOR_SHELLS:
            rows.append(f"export {name}={shlex.quote(value)}")
    return "\n".join(rows)

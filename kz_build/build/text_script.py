"""A plan as a shell script to read, paste and run."""

from __future__ import annotations

import shlex

from kz_build.build.steps import Checkout, Command, Copy, Plan


def script(plan: Plan) -> str:
    lines = [f"# {plan.line} {plan.target}: {len(plan.steps)} steps, key {plan.key[:16]}", "set -e"]
    folders = sorted(
        {str(plan.build / "home"), str(plan.stage / "symbols"), *(str(plan.stage / a.folder) for a in plan.artifacts)}
    )
    lines.append("mkdir -p " + shlex.join(folders))
    for step in plan.steps:
        if isinstance(step, Checkout):
            without = " ".join(
                shlex.quote(f":(exclude,glob){p}**" if p.endswith("/") else f":(exclude,glob)**/{p}")
                for p in step.exclude
            )
            lines.append(
                f"mkdir -p {shlex.quote(str(step.folder))} && git --git-dir={shlex.quote(str(step.repository))} archive {step.tree}"
                + (f" -- . {without}" if without else "")
                + f" | tar -x -C {shlex.quote(str(step.folder))}"
            )
        elif isinstance(step, Copy):
            lines.append(f"install -D {shlex.quote(str(step.source))} {shlex.quote(str(step.to))}")
        else:
            lines.append(_command(step))
    lines.append(f"# then {plan.stage} becomes {plan.dist}, symbols filed by build-id")
    return "\n".join(lines)


def _command(step: Command) -> str:
    env = " ".join(f"{key}={shlex.quote(value)}" for key, value in step.env)
    return f"(cd {shlex.quote(str(step.cwd))} && env -i {env} {shlex.join(step.argv)})"

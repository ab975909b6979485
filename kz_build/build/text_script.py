"""A plan as a shell script to read, paste and run."""

from __future__ import annotations

import shlex

from kz_build.build.steps import Checkout, Command, Copy, Plan

_CHECKOUT = """\
checkout() ( # REPOSITORY TREE FOLDER [PATHSPEC...]: as it is, `git archive` leaves out what upstream marks with export-ignore
  export GIT_DIR="$1" GIT_WORK_TREE="$3" GIT_INDEX_FILE="$3/.kz-index" GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
  mkdir -p "$3" && cd "$3" && git read-tree "$2" && shift 3
  git ls-files -z -- . "$@" | git checkout-index -z --stdin --force && rm .kz-index
)"""


def script(plan: Plan) -> str:
    lines = [f"# {plan.line} {plan.target}: {len(plan.steps)} steps, key {plan.key[:16]}", "set -e", _CHECKOUT]
    folders = sorted(
        {str(plan.build / "home"), str(plan.stage / "symbols"), *(str(plan.stage / a.folder) for a in plan.artifacts)}
    )
    lines.append("mkdir -p " + shlex.join(folders))
    for step in plan.steps:
        if isinstance(step, Checkout):
            without = (f":(exclude,glob){p}**" if p.endswith("/") else f":(exclude,glob)**/{p}" for p in step.exclude)
            lines.append(shlex.join(["checkout", str(step.repository), step.tree, str(step.folder), *without]))
        elif isinstance(step, Copy):
            lines.append(f"install -D {shlex.quote(str(step.source))} {shlex.quote(str(step.to))}")
        else:
            lines.append(_command(step))
    lines.append(f"# then {plan.stage} becomes {plan.dist}, symbols filed by build-id")
    return "\n".join(lines)


def _command(step: Command) -> str:
    env = " ".join(f"{key}={shlex.quote(value)}" for key, value in step.env)
    return f"(cd {shlex.quote(str(step.cwd))} && env -i {env} {shlex.join(step.argv)})"

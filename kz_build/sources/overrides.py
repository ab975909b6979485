"""What pins.local.yaml changes of a line or a target: what a result there has of this machine."""

from __future__ import annotations

from collections.abc import Collection

from kz_build.pins.pins import REPLACING, Override
from kz_build.pins.project import Project
from kz_build.sources.request import deviates


def overrides(project: Project, line: str, target: str = "") -> tuple[Override, ...]:
    """Return the values of pins.local.yaml that a line has, or its target alone. Another place of what the lock proves is none."""
    used = set(project.pins.line(line))
    omit: tuple[str, ...] = ()
    if target:
        wanted = project.pins.target(target, line)
        used &= {*wanted["sources"], *filter(None, [(wanted["container"] or {}).get("base")])}
        omit = tuple(wanted["omit"])
    names = {*used, *(f"{name}/{path}" for name in used for path in project.pins.replaced_submodules(name))}
    return tuple(one for one in project.pins.overrides if _counts(project, line, target, one.where, names, omit))


def _counts(project: Project, line: str, target: str, where: str, used: Collection[str], omit: tuple[str, ...]) -> bool:
    section, _, rest = where.partition(".")
    if section == "targets":
        return not target or rest.startswith(f"{target}.")
    if section == "lines":
        return any(rest == f"{line}.{name}" for name in used)
    if section != "sources":
        return False
    # Names may have dots: the longest that fits is meant.
    every = {*project.pins.data["sources"], *project.pins.replacements}
    name = max((name for name in every if rest.startswith(f"{name}.")), key=len, default="")
    if name not in used or f"{name}/".startswith(omit):
        return False
    return deviates(project, line, name) if rest[len(name) + 1 :] in REPLACING else True

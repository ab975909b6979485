"""Preflight: everything that would stop a recipe on this machine, at once, before hours are spent."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from shlex import quote

from kz_build.core import host
from kz_build.core.check import Answer, Check, ask, failed, passed, skipped, warned
from kz_build.core.errors import ConfigError, LockError, MissingError
from kz_build.core.hash_cache import cached_sha256
from kz_build.core.process import find, run
from kz_build.export import environment as env
from kz_build.export import preflight_rules as rules
from kz_build.export import sdks
from kz_build.export.environment import Environment
from kz_build.export.environment_spec import ADAPTOR_TARGET, spec_of
from kz_build.export.plan import ExportPlan, folder, weights_folder
from kz_build.export.preflight_rules import Preflight
from kz_build.export.recipe import Recipe, Stage, Weights
from kz_build.export.run_stage import filled, work_folder
from kz_build.pins.project import Project

_HERE, _ENTRY = "this machine", "upstream script"


def preflight(project: Project, plan: ExportPlan) -> Preflight:
    """Run every check for a recipe; nothing is changed."""
    questions = {name: partial(question, project) for name, question in _QUESTIONS.items()}
    return Preflight(plan.recipe.name, ask(plan.recipe, questions, _HERE))


def smoke_checks(project: Project, recipe: Recipe) -> tuple[Check, ...]:
    """Smoke checks of upstream's scripts, if the environment is there already."""
    if not _llama(recipe):
        return ()
    environment = env.existing(project, recipe)
    if environment is None:
        fix = (f"kz env {recipe.name}",)
        return (skipped("its environment is not made yet", name=_ENTRY, fix=fix),)
    return smoke_check(recipe, environment)


def smoke_check(recipe: Recipe, environment: Environment) -> tuple[Check, ...]:
    """Check that upstream's script starts with the stack applied, and knows the recipe's decoder.

    Half of all failures are imports: torchtune beside torchao, a decoder that no released version has.
    """
    checks = []
    for one in _llama(recipe):
        argv = tuple(word for word in filled(one, environment.fill).run if not word.startswith("--"))
        wanted = next((word.partition("=")[2] for word in one.run if word.startswith("--decoder_model=")), "")
        done = run([*argv, "--help"], env=environment.variables, cwd=work_folder(environment, "help", one.inside))
        choices = re.search(r"--decoder_model\s+\{([^}]*)\}", done.stdout.decode("utf-8", "replace"))
        known = [name.strip() for name in choices[1].split(",")] if choices else []
        if done.code != 0 or not known:
            last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no output"]
            checks.append(failed(f"llama.py --help ended with {done.code}: {last[0][:200]}", name=_ENTRY))
        elif wanted not in known:
            fix = (f"kz verify --line {recipe.line}   # does the stack with the decoder apply?",)
            checks.append(failed(f"llama.py does not know the decoder {wanted}", name=_ENTRY, fix=fix))
        else:
            checks.append(passed(f"llama.py starts and knows {wanted} among {len(known)} decoders", name=_ENTRY))
    return tuple(checks)


def _llama(recipe: Recipe) -> list[Stage]:
    """Return the stages that run Qualcomm's llama.py."""
    return [one for one in recipe.command if any("oss_scripts" in word and "llama" in word for word in one.run)]


def _memory(project: Project, recipe: Recipe) -> Check:
    have = host.memory()
    place = host.disk(project.root)
    return rules.memory(recipe.needs.memory, have.ram, have.swap, place.mount, place.free)


def _disks(project: Project, recipe: Recipe) -> list[Check]:
    places = {
        "{out}": (folder(project, recipe), "-C DIR"),
        "{weights}": (weights_folder(project), "KZ_CACHE"),
    }
    checks = []
    for name, need in recipe.needs.disk.items():
        path, variable = places.get(name, (Path(name), "TMPDIR"))
        checks.append(rules.disk(name, need, *host.disk(path), variable))
    return checks


def _tools(project: Project, recipe: Recipe) -> list[Check]:
    own = project.dist_folder(recipe.line or "upstream", ADAPTOR_TARGET) / "bin"
    checks = []
    for name, remedy in recipe.needs.tools.items():
        title = f"tool {name}"
        if "/" in name or "." in name:
            checks.append(skipped("it is in upstream's tree", name=title, fix=(remedy,)))
        elif program := find(name) or (str(own / name) if (own / name).is_file() else ""):
            checks.append(passed(program, name=title))
        else:
            checks.append(failed("not on PATH", name=title, fix=(remedy,)))
    return checks


def _weight(project: Project, recipe: Recipe, name: str, of: Weights) -> Check:
    title = f"weights {name}"
    if not of.repository:
        return passed("kz makes it", name=title)
    place, fetch = weights_place(project, recipe, name, of)
    if missing := [file for file in of.digests if not (place / file).is_file()]:
        why = f"not in {place}: {', '.join(missing)}" + (f" ({of.licence})" if of.licence else "")
        return failed(why, name=title, fix=(fetch,))
    if wrong := [f for f, digest in of.digests.items() if digest and cached_sha256(project.store, place / f) != digest]:
        return failed(
            f"{', '.join(wrong)}: not the files of the recipe", name=title, fix=(f"rm -r {quote(str(place))}", fetch)
        )
    if unknown := sum(digest is None for digest in of.digests.values()):
        return warned(f"there; {unknown} of {len(of.digests)} digests are null in the recipe", name=title)
    return passed(f"{len(of.digests)} files, as in the recipe", name=title)


def _requirements(project: Project, recipe: Recipe) -> Check | None:
    """Check that its environment is there, or can be made."""
    if not recipe.requirements:
        return None
    if environment := env.existing(project, recipe):
        return passed(f"there: {environment.folder.name} in the store")
    try:
        spec = spec_of(project, recipe)
    except (ConfigError, LockError) as error:
        return failed(str(error), fix=tuple(filter(None, (error.hint,))))
    except MissingError:
        return None  # no Python fits: the check `python` says so
    return passed(f"not there yet; kz makes it: {len(spec.packages)} packages of {spec.base}.txt")


def weights_place(project: Project, recipe: Recipe, name: str, of: Weights) -> tuple[Path, str]:
    """Return the folder of a model repository's files for a recipe, and the command that downloads them.

    A recipe that sets HF_HOME makes upstream look into the cache of huggingface_hub, by snapshot; others name files.
    """
    weights = weights_folder(project)
    revision = f" --revision {of.revision}" if of.revision else ""
    if "HF_HOME" not in recipe.environment:
        return weights / name, f"hf download {of.repository}{revision} --local-dir {quote(str(weights / name))}"
    snapshots = weights / "hub" / f"models--{of.repository.replace('/', '--')}" / "snapshots"
    there = sorted(path.name for path in snapshots.iterdir()) if snapshots.is_dir() else []
    snapshot = of.revision or (there[-1] if there else "REVISION")
    return snapshots / snapshot, f"HF_HOME={quote(str(weights))} hf download {of.repository}{revision}"


_QUESTIONS: Mapping[str, Callable[[Project, Recipe], Answer]] = {
    "memory": _memory, "disk": _disks, "machine": lambda project, recipe: sdks.machine_checks(recipe),
    "python": lambda project, recipe: rules.python(recipe.needs.python, host.pythons()) if recipe.needs.python else None,
    "sdk": sdks.checks, "tool": _tools, "weights": lambda project, recipe: [_weight(project, recipe, *one) for one in recipe.weights.items()], "environment": _requirements,
}  # fmt: skip

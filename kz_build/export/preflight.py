"""Everything that keeps a recipe from running on this machine, at once, before an hour is spent."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from kz_build.core import host
from kz_build.core.check import Answer, Check, ask, failed, passed, skipped, warned
from kz_build.core.errors import ConfigError, LockError, MissingError
from kz_build.core.files import sha256_file
from kz_build.core.process import find, run
from kz_build.export import environment as env
from kz_build.export import preflight_rules as rules
from kz_build.export import sdks
from kz_build.export.environment import Environment
from kz_build.export.environment_spec import ADAPTOR_TARGET, chosen
from kz_build.export.plan import ExportPlan, folder, weights_folder
from kz_build.export.preflight_rules import Preflight
from kz_build.export.recipe import Recipe, Stage, Weights
from kz_build.export.run import fill
from kz_build.export.run_stage import filled, work_folder
from kz_build.pins.project import Project

_HERE, _ENTRY = "this machine", "ports of entry"


def preflight(project: Project, plan: ExportPlan) -> Preflight:
    """Ask every question of a recipe; nothing is changed."""
    questions = {name: partial(question, project) for name, question in _QUESTIONS.items()}
    return Preflight(plan.recipe.name, ask(plan.recipe, questions, _HERE))


def entries(project: Project, recipe: Recipe) -> tuple[Check, ...]:
    """Ports of entry, where the environment is there already."""
    if not _llama(recipe):
        return ()
    environment = env.made(project, recipe)
    if environment is None:
        fix = (f"kz env {recipe.name}",)
        return (skipped("its environment is not made yet", name=_ENTRY, fix=fix),)
    return entry(recipe, environment)


def entry(recipe: Recipe, environment: Environment) -> tuple[Check, ...]:
    """Does upstream's own script start with the stack applied, and know the recipe's decoder?

    Half of the ways to fail are imports: torchtune beside torchao, a decoder that no released version has.
    """
    found = []
    for one in _llama(recipe):
        argv = tuple(word for word in filled(one, fill(environment)).run if not word.startswith("--"))
        wanted = next((word.partition("=")[2] for word in one.run if word.startswith("--decoder_model=")), "")
        done = run([*argv, "--help"], env=environment.variables, cwd=work_folder(environment, "help", one.inside))
        choices = re.search(r"--decoder_model\s+\{([^}]*)\}", done.stdout.decode("utf-8", "replace"))
        known = [name.strip() for name in choices[1].split(",")] if choices else []
        if done.code != 0 or not known:
            last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["it says nothing"]
            found.append(failed(f"llama.py --help ended with {done.code}: {last[0][:200]}", name=_ENTRY))
        elif wanted not in known:
            fix = (f"kz verify --line {recipe.line}   # is the stack with the decoder in it?",)
            found.append(failed(f"llama.py does not know the decoder {wanted}", name=_ENTRY, fix=fix))
        else:
            found.append(passed(f"llama.py starts and knows {wanted} among {len(known)} decoders", name=_ENTRY))
    return tuple(found)


def _llama(recipe: Recipe) -> list[Stage]:
    """Stages that run Qualcomm's llama.py."""
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
    found = []
    for name, need in recipe.needs.disk.items():
        path, variable = places.get(name, (Path(name), "TMPDIR"))
        found.append(rules.disk(name, need, *host.disk(path), variable))
    return found


def _machine(_: Project, recipe: Recipe) -> tuple[Check, ...]:
    return sdks.machine_checks(recipe)


def _python(_: Project, recipe: Recipe) -> Check | None:
    return rules.python(recipe.needs.python, host.pythons()) if recipe.needs.python else None


def _tools(project: Project, recipe: Recipe) -> list[Check]:
    own = project.dist_folder(recipe.line or "upstream", ADAPTOR_TARGET) / "bin"
    found = []
    for name, brings in recipe.needs.tools.items():
        title = f"tool {name}"
        if "/" in name or "." in name:
            found.append(skipped("lies in upstream's tree", name=title, fix=(brings,)))
        elif program := find(name) or (str(own / name) if (own / name).is_file() else ""):
            found.append(passed(program, name=title))
        else:
            found.append(failed("not on PATH", name=title, fix=(brings,)))
    return found


def _weights(project: Project, recipe: Recipe) -> list[Check]:
    return [_weight(project, recipe, name, of) for name, of in recipe.weights.items()]


def _weight(project: Project, recipe: Recipe, name: str, of: Weights) -> Check:
    title = f"weights {name}"
    if not of.repository:
        return passed("kz makes it", name=title)
    place, fetch = _place(project, recipe, name, of)
    if missing := [file for file in of.digests if not (place / file).is_file()]:
        said = f"not in {place}: {', '.join(missing)}" + (f" ({of.licence})" if of.licence else "")
        return failed(said, name=title, fix=(fetch,))
    if wrong := [f for f, digest in of.digests.items() if digest and sha256_file(place / f) != digest]:
        return failed(f"{', '.join(wrong)}: not the bytes of the recipe", name=title, fix=(f"rm -r {place}", fetch))
    if unknown := sum(digest is None for digest in of.digests.values()):
        return warned(f"there; {unknown} of {len(of.digests)} digests are null in the recipe", name=title)
    return passed(f"{len(of.digests)} files, bytes as in the recipe", name=title)


def _requirements(project: Project, recipe: Recipe) -> Check | None:
    """Is its environment there, or can it be made?"""
    if not recipe.requirements:
        return None
    if environment := env.made(project, recipe):
        return passed(f"there: {environment.folder.name} in the store")
    try:
        found = chosen(project, recipe)
    except (ConfigError, LockError) as error:
        return failed(str(error), fix=tuple(filter(None, (error.hint,))))
    except MissingError:
        return None  # no Python that fits: the check of that says it
    return passed(f"not there yet; kz makes it: {len(found.packages)} packages of {found.base}.txt")


def _place(project: Project, recipe: Recipe, name: str, of: Weights) -> tuple[Path, str]:
    """Where the files of a repository of models lie for a recipe, and the command that brings them there.

    A recipe that sets HF_HOME lets upstream look into the cache of huggingface_hub, by snapshot; others name files.
    """
    weights = weights_folder(project)
    revision = f" --revision {of.revision}" if of.revision else ""
    if "HF_HOME" not in recipe.environment:
        return weights / name, f"hf download {of.repository}{revision} --local-dir {weights / name}"
    snapshots = weights / "hub" / f"models--{of.repository.replace('/', '--')}" / "snapshots"
    there = sorted(path.name for path in snapshots.iterdir()) if snapshots.is_dir() else []
    snapshot = of.revision or (there[-1] if there else "REVISION")
    return snapshots / snapshot, f"HF_HOME={weights} hf download {of.repository}{revision}"


_QUESTIONS: Mapping[str, Callable[[Project, Recipe], Answer]] = {
    "memory": _memory,
    "disk": _disks,
    "machine": _machine,
    "python": _python,
    "sdk": sdks.checks,
    "tool": _tools,
    "weights": _weights,
    "environment": _requirements,
}

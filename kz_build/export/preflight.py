"""Everything that keeps a recipe from running on this machine, at once, before an hour is spent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from kz_build.core import host
from kz_build.core.errors import ConfigError, LockError, MissingError
from kz_build.core.files import sha256_file
from kz_build.core.process import find, run
from kz_build.export import environment as env
from kz_build.export import preflight_rules as ask
from kz_build.export import sdks
from kz_build.export.environment import Environment
from kz_build.export.environment_spec import ADAPTOR_TARGET, chosen
from kz_build.export.plan import ExportPlan, folder, weights_folder
from kz_build.export.preflight_rules import Check, Preflight
from kz_build.export.recipe import Recipe, Stage, Weights
from kz_build.export.run import fill
from kz_build.export.run_stage import filled, work_folder
from kz_build.pins.project import Project


def preflight(project: Project, plan: ExportPlan) -> Preflight:
    """Ask every question of a recipe; nothing is changed."""
    recipe = plan.recipe
    checks = [
        _memory(project, recipe),
        *_disks(project, recipe),
        *sdks.machine_checks(recipe),
        *([ask.python(recipe.needs.python, host.pythons())] if recipe.needs.python else []),
        *sdks.checks(project, recipe),
        *_tools(project, recipe),
        *_weights(project, recipe),
        *_requirements(project, recipe),
    ]
    return Preflight(recipe.name, tuple(checks))


def entries(project: Project, recipe: Recipe) -> tuple[Check, ...]:
    """Ports of entry, where the environment is there already."""
    if not _llama(recipe):
        return ()
    environment = env.made(project, recipe)
    if environment is None:
        return (Check("ports of entry", "SKIP", "its environment is not made yet", (f"kz env {recipe.name}",)),)
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
            found.append(Check("ports of entry", "FAIL", f"llama.py --help ended with {done.code}: {last[0][:200]}"))
        elif wanted not in known:
            fix = (f"kz verify --line {recipe.line}   # is the stack with the decoder in it?",)
            found.append(Check("ports of entry", "FAIL", f"llama.py does not know the decoder {wanted}", fix))
        else:
            found.append(
                Check("ports of entry", "PASS", f"llama.py starts and knows {wanted} among {len(known)} decoders")
            )
    return tuple(found)


def _llama(recipe: Recipe) -> list[Stage]:
    """Stages that run Qualcomm's llama.py."""
    return [one for one in recipe.command if any("oss_scripts" in word and "llama" in word for word in one.run)]


def _memory(project: Project, recipe: Recipe) -> Check:
    have = host.memory()
    place = host.disk(project.root)
    return ask.memory(recipe.needs.memory, have.ram, have.swap, place.mount, place.free)


def _disks(project: Project, recipe: Recipe) -> Iterator[Check]:
    places = {
        "{out}": (folder(project, recipe), "-C DIR"),
        "{weights}": (weights_folder(project), "KZ_CACHE"),
    }
    for name, need in recipe.needs.disk.items():
        path, variable = places.get(name, (Path(name), "TMPDIR"))
        yield ask.disk(name, need, *host.disk(path), variable)


def _tools(project: Project, recipe: Recipe) -> Iterator[Check]:
    own = project.dist_folder(recipe.line or "upstream", ADAPTOR_TARGET) / "bin"
    for name, brings in recipe.needs.tools.items():
        if "/" in name or "." in name:
            yield Check(f"tool {name}", "SKIP", "lies in upstream's tree", (brings,))
        elif program := find(name) or (str(own / name) if (own / name).is_file() else ""):
            yield Check(f"tool {name}", "PASS", program)
        else:
            yield Check(f"tool {name}", "FAIL", "not on PATH", (brings,))


def _weights(project: Project, recipe: Recipe) -> Iterator[Check]:
    for name, of in recipe.weights.items():
        if not of.repository:
            yield Check(f"weights {name}", "PASS", "kz makes it")
            continue
        place, fetch = _place(project, recipe, name, of)
        missing = [file for file in of.digests if not (place / file).is_file()]
        if missing:
            said = f"not in {place}: {', '.join(missing)}" + (f" ({of.licence})" if of.licence else "")
            yield Check(f"weights {name}", "FAIL", said, (fetch,))
            continue
        wrong = [f for f, digest in of.digests.items() if digest and sha256_file(place / f) != digest]
        unknown = sum(digest is None for digest in of.digests.values())
        if wrong:
            yield Check(
                f"weights {name}", "FAIL", f"{', '.join(wrong)}: not the bytes of the recipe", (f"rm -r {place}", fetch)
            )
        elif unknown:
            yield Check(
                f"weights {name}", "WARN", f"there; {unknown} of {len(of.digests)} digests are null in the recipe"
            )
        else:
            yield Check(f"weights {name}", "PASS", f"{len(of.digests)} files, bytes as in the recipe")


def _requirements(project: Project, recipe: Recipe) -> Iterator[Check]:
    """Is its environment there, or can it be made?"""
    if not recipe.requirements:
        return
    if environment := env.made(project, recipe):
        yield Check("environment", "PASS", f"there: {environment.folder.name} in the store")
        return
    try:
        found = chosen(project, recipe)
    except (ConfigError, LockError) as error:
        yield Check("environment", "FAIL", str(error), tuple(filter(None, (error.hint,))))
    except MissingError:
        return  # no Python that fits: the check of that says it
    else:
        yield Check(
            "environment", "PASS", f"not there yet; kz makes it: {len(found.packages)} packages of {found.base}.txt"
        )


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

"""export: the plan of a recipe: its commands, their inputs and their outputs. `run` executes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kz_build.export.load import named
from kz_build.export.recipe import PLACEHOLDER, Recipe
from kz_build.export.venv import SCRIPTS
from kz_build.pins.project import Project


@dataclass(frozen=True)
class Step:
    """One command of a plan. `cwd` and `argv` may hold sources in braces, whose folders are known when the recipe runs."""

    name: str
    where: str
    cwd: str
    argv: tuple[str, ...]
    makes: tuple[str, ...]


@dataclass(frozen=True)
class ExportPlan:
    """The plan of a recipe on this machine."""

    recipe: Recipe
    steps: tuple[Step, ...]
    environment: dict[str, str]
    sources: dict[str, str]
    unpinned: tuple[str, ...]
    output: str


def plan(project: Project, name: str) -> ExportPlan:
    """Plan a recipe. Raises ConfigError if there is none of that name, or it is wrong."""
    recipe = named(project.root, project.pins, name)
    pins = (
        project.pins.line(recipe.line)
        if recipe.line
        else {"upstream": recipe.upstream.commit if recipe.upstream else ""}
    )
    names = {name: str(path) for name, path in own_placeholders(project, recipe).items()}

    def fill(text: str) -> str:
        return PLACEHOLDER.sub(lambda m: names.get(m[1], m[0]), text)

    steps = tuple(
        Step(
            stage.name,
            stage.where,
            "{" + stage.inside + "}",
            tuple(map(fill, stage.run)),
            tuple(map(fill, stage.makes)),
        )
        for stage in recipe.command
    )
    used = {
        name
        for stage in recipe.command
        for word in (*stage.run, f"{{{stage.inside}}}")
        for name in PLACEHOLDER.findall(word)
    }
    used |= {name for value in recipe.environment.values() for name in PLACEHOLDER.findall(value)}
    unpinned = [
        f"{name}/{file}" for name, of in recipe.weights.items() for file, digest in of.digests.items() if digest is None
    ]
    unpinned += [
        f"{name}: revision of {of.repository}"
        for name, of in recipe.weights.items()
        if of.repository and not of.revision
    ]
    return ExportPlan(
        recipe,
        steps,
        {key: fill(value) for key, value in recipe.environment.items()},
        {name: version for name, version in pins.items() if name in used},
        tuple(unpinned),
        str(project.dist_folder(recipe.line or recipe.name) / recipe.output),
    )


def folder(project: Project, recipe: Recipe) -> Path:
    """Return the folder that a recipe writes to."""
    return project.out("export", recipe.line or "upstream", recipe.name)


def own_placeholders(project: Project, recipe: Recipe) -> dict[str, Path]:
    """Return the values of the placeholders that every recipe has, except `{python}`.

    Weights that kz makes are in the recipe's output folder, with links to those in the store if a recipe has both.
    """
    made_here = any(not of.repository for of in recipe.weights.values())
    weights = folder(project, recipe) / "weights" if made_here else weights_folder(project)
    return {"out": folder(project, recipe), "weights": weights, "kz": SCRIPTS}


def weights_folder(project: Project) -> Path:
    """Return the folder of downloaded weights: in the store, shared by every recipe and project."""
    return project.store / "weights"

"""Where the SDKs that a recipe names lie on this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kz_build.adapters import sdk
from kz_build.model.errors import Missing, MissingError
from kz_build.model.project import Project
from kz_build.model.recipe import Recipe

HOST_LIBRARIES = "lib/x86_64-linux-clang"
"""Where Qualcomm's SDKs have their libraries for Linux."""
BROUGHT: dict[str, Callable[[Project], Path]] = {}
"""SDKs that pins.yaml does not have and kz can bring: name -> its folder, or MissingError with what brings it."""


def folders(project: Project, recipe: Recipe) -> dict[str, Path]:
    """Folder of every SDK that a recipe needs. Raises MissingError with all that are not here, and what brings each."""
    found: dict[str, Path] = {}
    missing: list[Missing] = []
    for name, wanted in recipe.needs.sdk.items():
        try:
            found[name] = BROUGHT[name](project) if name in BROUGHT else _installed(project, recipe, name, wanted)
        except MissingError as error:
            missing += error.missing
    if missing:
        raise MissingError(tuple(missing))
    return found


def _installed(project: Project, recipe: Recipe, name: str, wanted: str) -> Path:
    if wanted != "pinned":
        brings = f"the recipe says: {wanted}; kz does not bring it and knows no variable that names its folder"
        raise MissingError((Missing(name, f"{recipe.name} needs this SDK", brings),))
    version = project.pins.line(recipe.line)[name]
    options = project.pins.source(name).options.get("installed") or {"env": [], "identity": ""}
    place = sdk.installed_folder(options["env"])
    says = sdk.revision(place[1], options["identity"]) if place else ""
    if place is None or says != version:
        why = f"{place[0]}={place[1]} says it is {says or 'nothing'}" if place else f"{recipe.name} needs this SDK"
        brings = "".join(f"export {variable}=/path/to/{version}" for variable in options["env"][:1])
        raise MissingError((Missing(f"{name} {version}", why, brings),))
    return place[1]

"""The SDKs that a recipe names, on this machine."""

from __future__ import annotations

from pathlib import Path

from kz_build.core import host
from kz_build.core.check import Check, failed, passed
from kz_build.core.errors import ConfigError, Missing, MissingError
from kz_build.core.progress import Watch, quiet
from kz_build.export import preflight_rules
from kz_build.export.recipe import Recipe
from kz_build.pins.load import LOCAL
from kz_build.pins.project import Project
from kz_build.sources.accept import not_accepted
from kz_build.sources.fetch import fetch
from kz_build.sources.installed_sdk import installed
from kz_build.sources.preflight import missing_sources
from kz_build.sources.request import Request, file_entry
from kz_build.sources.store import stored_file

HOST_LIBRARIES = "lib/x86_64-linux-clang"
"""The folder of libraries for Linux in Qualcomm's SDKs."""


def missing(project: Project, recipe: Recipe) -> tuple[Missing, ...]:
    """Return what a recipe's SDKs lack here: the C library and other libraries, a licence that the user has not accepted, an
    SDK that is neither installed nor to be had. Nothing is downloaded to find out."""
    checks = (*machine_checks(recipe), *(_installed(project, recipe, name)[1] for name in _of_users(project, recipe)))
    lacking = [Missing(one.name, one.evidence, one.fix[0]) for one in checks if one.failed]
    if names := _fetched(project, recipe):
        request = Request(recipe.line, names)
        lacking += missing_sources(project, request)
    return tuple(lacking)


def machine_checks(recipe: Recipe) -> tuple[Check, ...]:
    """Check the C library, and the libraries that the linker must find."""
    glibc = [preflight_rules.glibc(recipe.needs.glibc, host.glibc())] if recipe.needs.glibc else []
    libraries = [
        preflight_rules.library(name, remedy, host.dlopen_error(name))
        for name, remedy in recipe.needs.libraries.items()
    ]
    return (*glibc, *libraries)


def checks(project: Project, recipe: Recipe) -> tuple[Check, ...]:
    """Check that every SDK of a recipe is here, or that kz can fetch it."""
    results = [_installed(project, recipe, name)[1] for name in _of_users(project, recipe)]
    for name in _fetched(project, recipe):
        version, title = project.pins.line(recipe.line)[name], f"sdk {name}"
        if lacking := not_accepted(project, Request(recipe.line, (name,))):
            why, fix = f"{version}; {lacking[0].what}: {lacking[0].why}", tuple(one.remedy for one in lacking)
            results.append(failed(why, name=title, fix=fix))
        else:
            there = "its licence is accepted" if project.pins.source(name).options.get("licence") else "kz fetches it"
            results.append(passed(f"{version}; {there}", name=title))
    return tuple(results)


def folders(project: Project, recipe: Recipe, watch: Watch = quiet) -> dict[str, Path]:
    """Return the folder of every SDK of a recipe; those that no user installed are fetched. Raises MissingError with all of `missing`."""
    if lacking := missing(project, recipe):
        raise MissingError(lacking)
    by_name = {name: _installed(project, recipe, name)[0] for name in _of_users(project, recipe)}
    for source in fetch(project, Request(recipe.line, _fetched(project, recipe), watch=watch)):
        by_name[source.name] = source.laid or source.folder
        if by_name[source.name] is None:
            raise ConfigError(
                f"{source.name} has no folder here", hint=f"name its folder or file, not `git`, in {LOCAL}"
            )
    return {name: place for name, place in by_name.items() if place}


def here(project: Project, recipe: Recipe) -> bool:
    """Whether every SDK of a recipe is on this machine already."""
    entries = [file_entry(project, recipe.line, project.pins.source(name)) for name in _fetched(project, recipe)]
    fetched = all(one and stored_file(project.store, str(one["sha256"])).exists() for one in entries)
    return fetched and not missing(project, recipe)


def of_wheels(project: Project, recipe: Recipe) -> tuple[str, ...]:
    """Return the SDKs that are wheels of the line."""
    return tuple(name for name in _fetched(project, recipe) if project.pins.source(name).kind == "wheel")


def _fetched(project: Project, recipe: Recipe) -> tuple[str, ...]:
    """Return the SDKs that kz fetches: those of the line that no variable names."""
    pinned = [name for name, wanted in recipe.needs.sdk.items() if wanted == "pinned"]
    return tuple(name for name in pinned if not installed(project, recipe.line, project.pins.source(name)))


def _of_users(project: Project, recipe: Recipe) -> tuple[str, ...]:
    """Return the SDKs that the user has installed, or must install."""
    fetched = _fetched(project, recipe)
    return tuple(name for name in recipe.needs.sdk if name not in fetched)


def _installed(project: Project, recipe: Recipe, name: str) -> tuple[Path | None, Check]:
    """Return (folder, check) of an SDK that the user has installed, or must install."""
    wanted, title = recipe.needs.sdk[name], f"sdk {name}"
    version = project.pins.line(recipe.line)[name] if wanted == "pinned" else ""
    own = installed(project, recipe.line, project.pins.source(name)) if version else None
    if own is None:
        remedy = f"# the recipe says: {wanted}; kz does not fetch it and knows no variable for its folder"
        return None, failed(f"not pinned here; needed: {wanted}", name=title, fix=(remedy,))
    if own.problem:
        fix = f"{own.remove}   # and kz fetches {version}"
        return own.folder, failed(f"{own.named_by}={own.folder} {own.problem}", name=title, fix=(fix,))
    return own.folder, passed(f"{own.named_by}={own.folder} is {own.revision}", name=title)

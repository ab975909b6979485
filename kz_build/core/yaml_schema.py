"""YAML files that people write, validated against a pydantic model: every problem at once, each with its line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kz_build.core.errors import ConfigError, Problem, similar

if TYPE_CHECKING:
    from kz_build.core.validation import Model
    from kz_build.core.yaml_lines import Place

Item = TypeVar("Item")


def load_all(folder: Path, read: Callable[[Path], Item], what: str) -> list[Item]:
    """Read every YAML file of a folder, by name. Raises ConfigError with every problem of every file; `what` as in `load`."""
    items: list[Item] = []
    problems: list[Problem] = []
    for path in sorted(folder.glob("*.yaml")):
        try:
            items.append(read(path))
        except ConfigError as error:
            problems += error.problems or (Problem(path.name, 0, str(error)),)
    if problems:
        raise wrong(what, problems)
    return items


def wrong(what: str, problems: Iterable[Problem]) -> ConfigError:
    """Return the error for files of a kind, with the page that is about them: docs/reference/<what>.md."""
    return ConfigError(f"{what} are wrong:", tuple(problems), hint=f"kz's docs/reference/{what}.md describes the form")


def load(path: Path, model: type[Model], what: str, shown: str = "") -> tuple[Model, Callable[[Place], int]]:
    """Return a file as an instance of its model, and a function from a place in it to its line.

    `what` names the kind of file in messages, and its page: docs/reference/<what>.md. Raises ConfigError.
    """
    from kz_build.core.validation import fields, validate
    from kz_build.core.yaml_lines import parse

    shown = shown or str(path)
    try:
        if path.exists() and not path.is_file():  # a link in somebody's branch may lead to a device without an end
            raise ConfigError(f"{shown} is not a regular file")
        data, lines = parse(path.read_bytes(), shown)
    except OSError as error:
        raise ConfigError(f"{shown} cannot be read: {error.strerror}") from error

    def where(place: Place) -> int:
        known = place
        while known and known not in lines:
            known = known[:-1]
        return lines.get(known, 0)

    value, errors = validate(model, data if data is not None else {})
    if value is None:
        known = sorted(fields(model))
        problems = {Problem(shown, where(place), _problem_text(place, text, bad, known)) for place, text, bad in errors}
        raise wrong(what, sorted(problems, key=lambda p: (p.line, p.text)))
    return value, where


def _problem_text(place: Place, text: str, bad: str, known: list[str]) -> str:
    return f"{'.'.join(map(str, place)) or 'file'}: {text}{similar(bad, known)}"

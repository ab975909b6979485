"""YAML files that people write, validated against a pydantic model: every problem at once, each with its line."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kz_build.core.errors import ConfigError, Problem

if TYPE_CHECKING:
    from kz_build.core.validation import Model
    from kz_build.core.yaml_lines import Place


def load(path: Path, model: type[Model], what: str, shown: str = "") -> tuple[Model, Callable[[Place], int]]:
    """Return a file as an instance of its model, and a function from a place in it to its line.

    `what` names the kind of file in messages; the hint is `docs/<what>.md`. Raises ConfigError.
    """
    from kz_build.core.validation import fields, validate
    from kz_build.core.yaml_lines import parse

    shown = shown or str(path)
    try:
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
        raise ConfigError(
            f"{what} are wrong:",
            tuple(sorted(problems, key=lambda p: (p.line, p.text))),
            hint=f"docs/{what}.md describes the form",
        )
    return value, where


def _problem_text(place: Place, text: str, bad: str, known: list[str]) -> str:
    similar = difflib.get_close_matches(bad, known, 1, 0.6) if bad else []
    return f"{'.'.join(map(str, place)) or 'file'}: {text}" + (f"; did you mean {similar[0]}?" if similar else "")

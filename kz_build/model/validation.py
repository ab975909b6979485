"""pydantic's errors as sentences with a place. Imported only where a file is validated (pydantic costs 100 ms)."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel, RootModel, ValidationError

from kz_build.model.schema import sentence

Place = tuple[str | int, ...]


def validate(model: type[BaseModel], data: object) -> tuple[dict[str, Any] | None, list[tuple[Place, str, str]]]:
    """The complete plain form of some data, or all its problems as (place, text, unknown key or '')."""
    try:
        return model.model_validate(data).model_dump(mode="json"), []
    except ValidationError as error:
        return None, [
            (
                tuple(p for p in item["loc"] if p != "[key]"),
                sentence(item),
                str(item["loc"][-1]) if item["type"] == "extra_forbidden" else "",
            )
            for item in error.errors(include_url=False)
        ]


def fields(model: type[BaseModel]) -> set[str]:
    """Every key that a model and the models in it know."""
    found: set[str] = set() if issubclass(model, RootModel) else set(model.model_fields)
    for field in model.model_fields.values():
        for inner in _models(field.annotation):
            found |= fields(inner)
    return found


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models(argument)]

"""pydantic's errors as sentences, each with its place. Imported only to validate a file (pydantic costs 100 ms)."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, RootModel, ValidationError

Model = TypeVar("Model", bound=BaseModel)
Place = tuple[str | int, ...]
UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")  # of a model, of a dataclass


def validate(model: type[Model], data: object) -> tuple[Model | None, list[tuple[Place, str, str]]]:
    """Return data as an instance of a model, or its problems as (place, text, unknown key or '')."""
    try:
        return model.model_validate(data), []
    except ValidationError as error:
        return None, [
            (
                tuple(p for p in item["loc"] if p != "[key]"),
                sentence(item),
                str(item["loc"][-1]) if item["type"] in UNKNOWN else "",
            )
            for item in error.errors(include_url=False)
        ]


def json_schema(model: type[BaseModel]) -> dict[str, object]:
    """Return the JSON schema of a file that people write, for editors."""
    return {**model.model_json_schema(), "$schema": "https://json-schema.org/draft/2020-12/schema"}


def fields(model: type[Any]) -> set[str]:
    """Return every key of a model, and of the models and dataclasses in it."""
    if dataclasses.is_dataclass(model):
        return {field.name for field in dataclasses.fields(model)}
    keys: set[str] = set() if issubclass(model, RootModel) else set(model.model_fields)
    for field in model.model_fields.values():
        for inner in _models(field.annotation):
            keys |= fields(inner)
    return keys


def _models(annotation: Any) -> list[type[Any]]:
    if isinstance(annotation, type) and (issubclass(annotation, BaseModel) or dataclasses.is_dataclass(annotation)):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models(argument)]


def sentence(item: Any) -> str:
    kind, value = item["type"], item.get("input")
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return "unknown key"
    if kind == "missing":
        return "is missing"
    if kind == "string_type":
        if isinstance(value, bool):
            return f'must be text: quote it ("{"ON" if value else "OFF"}"), YAML reads the bare word as a boolean'
        return f"must be text: quote it, YAML reads {value!r} as {type(value).__name__}"
    if kind in ("dict_type", "model_type", "dataclass_type"):
        return "must have keys (KEY: VALUE)" + ("; it is empty" if value in (None, "") else "")
    if kind in ("list_type", "tuple_type"):
        return "must be a list" + ("; it is empty" if value in (None, "") else "")
    if kind == "source_kind" and isinstance(value, dict):
        return str(item["msg"]) + (f"; it has: {', '.join(map(str, value))}" if value else "")
    text = re.sub(r"^Input should be", "must be", item["msg"].removeprefix("Value error, "))
    return text[:1].lower() + text[1:]

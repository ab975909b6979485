"""The schema of a file of signatures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field, RootModel, StringConstraints

from kz_build.diagnose.codes import TABLES
from kz_build.diagnose.error_lines import ErrorLines
from kz_build.diagnose.log_line import usual
from kz_build.diagnose.sentence import Sentence, sentence
from kz_build.diagnose.signature import PLACE
from kz_build.pins.source_schema import Strict, Text

Id = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]


class SeenLine(Strict):
    line: Text = Field(description="as the program prints it")
    at: Annotated[str, StringConstraints(pattern=r"^(https://\S+)?$")] = Field(
        default="",
        description="where it is public: an issue, a page of documentation, the source that prints it. A family may have none",
    )


class SignatureEntry(Strict):
    title: Text
    find: list[Annotated[str, StringConstraints(min_length=5, pattern=r"^[^\n]*$")]] = Field(
        default=[],
        description="plain texts, none longer than one line; a line that contains none of them is skipped. A family has none",
    )
    match: str = Field(
        default="",
        description="regular expression on that line; its named groups may be used in braces, as {group} or {group:table of numbers}",
    )
    cause: Text = Field(description="what such a line proves")
    reasons: list[Text] = Field(
        default=[],
        max_length=8,
        description="what was behind it where people met it, the most frequent first, if the line alone does not tell",
    )
    next: Text = Field(description="what to do")
    explains: list[Id] = Field(default=[], description="signatures that only follow from this one")
    consequence: bool = Field(
        default=False, description="only follows from the finding before it in a log, if there is one"
    )
    possible: bool = Field(
        default=False,
        description="tells what happened and not why: never claimed as the cause, but offered as possible where no cause is found",
    )
    warning: bool = Field(
        default=False,
        description="its program mostly goes on: only possible where another error of the log tells why it failed",
    )
    harmless: bool = Field(default=False, description="looks like an error and is none: shown last, never as the cause")
    family: bool = Field(
        default=False,
        description="a class of errors: `match` is held against the likeliest error and the lines below it, where nothing else matches",
    )
    sentence: bool = Field(
        default=False,
        description="a form in which programs say the cause themselves: `match` is searched in the words of the likeliest error, "
        "where no family fits; {who}, {place} and {words} are what is said",
    )
    seen: list[SeenLine] = Field(min_length=1, description="lines that must trigger it")
    near: list[Text] = Field(min_length=1, description="lines that look alike and must not trigger it")


class SignatureFile(RootModel[dict[Id, SignatureEntry]]):
    pass


def invalid_examples(plain: dict[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Check what a schema cannot: expressions that do not compile, examples that do not do their job."""
    for id, entry in plain.items():
        try:
            pattern = re.compile(entry["match"])
        except re.error as error:
            yield (id, "match"), f"{id}.match: not a regular expression: {error}"
            continue
        known = set(pattern.groupindex) | (set(Sentence._fields) if entry["sentence"] else set())
        for key in ("title", "cause", "reasons", "next"):
            for name, table in PLACE.findall(str(entry[key])):
                if name not in known:
                    yield (id, key), f"{id}.{key}: {{{name}}} is not a group of `match`"
                if table and table not in TABLES:
                    yield (id, key), f"{id}.{key}: no table of numbers {table!r}, but {', '.join(TABLES)}"
        if entry["harmless"] and entry["explains"]:
            yield (id, "explains"), f"{id}.explains: a harmless line is never the cause of another"
        general = entry["family"] or entry["sentence"]
        if (
            general == bool(entry["find"])
            or (general and not entry["match"])
            or (entry["family"] and entry["sentence"])
        ):
            yield (id, "find"), f"{id}.find: a family or a sentence has `match` alone, any other signature needs texts"
            continue
        if not general and any(not seen["at"] for seen in entry["seen"]):
            yield (id, "seen"), f"{id}.seen: say `at` which address the line is public"
        for i, seen in enumerate(entry["seen"]):
            if not _hits(entry, pattern, seen["line"]):
                yield (id, "seen", i), f"{id}.seen.{i}: does not trigger it"
        for i, line in enumerate(entry["near"]):
            if _hits(entry, pattern, line):
                yield (id, "near", i), f"{id}.near.{i}: triggers it"


def _hits(entry: dict[str, Any], pattern: re.Pattern[str], line: str) -> bool:
    if entry["family"] or entry["sentence"]:
        lines = ErrorLines()
        lines.look_at(line.encode())
        best = [one.passage for one in lines.best()[:1]]
        if entry["sentence"]:
            return any(pattern.search(sentence(passage).words) for passage in best)
        return any(re.match(entry["match"], passage, re.M) for passage in best)
    return any(text in line for text in entry["find"]) and bool(pattern.search(usual(line)))

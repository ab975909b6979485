"""The form of pins.lock: the allowed values of each key.

A lock arrives in a pull request like any other file, and its values reach git, the disk and the network. So nothing
of it is used before all of it is checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from kz_build.core.escape import one_line
from kz_build.core.rules import bad_address, bad_digest, bad_file_name, bad_folder, bad_id, bad_url, bad_version
from kz_build.pins.pins import NAME

Place = tuple[str, ...]
Fault = tuple[Place, str]
Rule = Callable[[Any], str]
"""Returns what is wrong with a value, '' for nothing."""
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[][{},\n]')
_SHOWN = 80


class _Each(NamedTuple):
    """A mapping with free keys: the rule for a key, and the form of every value."""

    key: Callable[[str], str]
    value: Any


class _Kinds(NamedTuple):
    """The entry of a source: the form for each `kind`."""

    forms: Mapping[str, Mapping[str, Any]]


def _text(rule: Callable[[str], str]) -> Rule:
    return lambda value: rule(value) if isinstance(value, str) else "must be text"


def _or_null(check: Rule) -> Rule:
    return lambda value: "" if value is None else check(value)


def _count(value: Any) -> str:
    right = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return "" if right else "must be a whole number, 0 or more"


def _origin(value: Any) -> str:
    return "" if value in _ORIGINS else f"must be one of: {', '.join(_ORIGINS)}"


def _name(text: str) -> str:
    return "" if re.fullmatch(NAME, text) else "must be letters, digits and . _ -, and begin with a letter or digit"


def _image(text: str) -> str:
    return bad_digest(text[7:]) if text.startswith("sha256:") else "must be `sha256:` and 64 hexadecimal digits"


_ID, _URL = _text(bad_id), _text(bad_url)
_PATCHED = {"commit": _ID, "tree": _ID}
_SUBMODULE = {"url": _text(bad_address), "commit": _ID, "tree": _or_null(_ID)}
_ORIGINS = ("computed", "index", "published")
"""Who states a digest: kz itself, which downloaded the file; the package index; or the sources that pins.yaml cites."""
_ORIGIN = {"origin?": _origin, "sources?": _count}
_FILE = {"sha256": _or_null(_text(bad_digest)), "size": _or_null(_count), **_ORIGIN}
# A key that ends with `?` may be absent.
_LINES = _Each(
    _name,
    _Each(
        _name,
        _Kinds(
            {
                "git": {
                    "commit": _or_null(_ID),
                    "tree": _or_null(_ID),
                    "url?": _text(bad_address),
                    "submodules": _Each(bad_folder, _SUBMODULE),
                    "patched?": _PATCHED,
                },
                "wheel": {
                    **_FILE,
                    "file?": _text(bad_file_name),
                    "index?": _URL,
                    "licence?": _or_null(_text(bad_digest)),
                    "commit?": _ID,
                    "tree?": _ID,
                    "patched?": _PATCHED,
                },
                "archive": {**_FILE, "url": _URL},
                "image": {"digest": _or_null(_text(_image)), **_ORIGIN},
            }
        ),
    ),
)


def faults(lines: object) -> Iterator[Fault]:
    """Yield all that is wrong with `lines` of a lock, each with its place."""
    yield from _faults(("lines",), lines, _LINES)


def _faults(place: Place, value: Any, form: Any) -> Iterator[Fault]:
    if callable(form):
        if wrong := form(value):
            yield place, f"{wrong} (it is {_shown(value)})"
    elif not isinstance(value, dict):
        yield place, f"must be a mapping (it is {_shown(value)})"
    elif isinstance(form, _Each):
        for key, below in value.items():
            if wrong := form.key(key):
                yield (*place, key), f"as a key, it {wrong}"
            yield from _faults((*place, key), below, form.value)
    elif isinstance(form, _Kinds):
        yield from _entry(place, value, form.forms)
    else:
        known = {key.removesuffix("?"): below for key, below in form.items()}
        yield from ((place, f"`{key}` is missing") for key in form if not key.endswith("?") and key not in value)
        yield from (((*place, key), "unknown key") for key in value if key not in known)
        for key in value.keys() & known.keys():
            yield from _faults((*place, key), value[key], known[key])


def _entry(place: Place, entry: Mapping[str, Any], forms: Mapping[str, Mapping[str, Any]]) -> Iterator[Fault]:
    kind = entry.get("kind")
    if not isinstance(kind, str) or kind not in forms:
        yield (*place, "kind"), f"must be one of: {', '.join(forms)} (it is {_shown(kind)})"
        return
    yield from _faults(place, entry, {"kind": lambda _: "", "version": _text(bad_version), **forms[kind]})
    if kind == "git" and entry.get("commit") and not entry.get("tree"):
        yield place, "`tree` must be known where `commit` is"
    if kind == "wheel" and entry.get("sha256") and "file" not in entry:
        yield place, "`file` must be known where `sha256` is"
    if kind != "git":
        digest = "digest" if kind == "image" else "sha256"
        if bool(entry.get(digest)) != ("origin" in entry):
            yield place, f"`origin` must be there where `{digest}` is known, and only there"
        if (entry.get("origin") == "published") != bool(entry.get("sources")):
            yield place, "`sources` must count those of a published digest, and only of one"


def _shown(value: Any) -> str:
    """Return a value on one line of a terminal, whatever it contains."""
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = ascii(value) if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def shown_place(place: Place) -> str:
    """Return a place as a dotted path, whatever its keys contain."""
    return ".".join(map(one_line, place))


def key_lines(text: str) -> list[tuple[Place, int]]:
    """Return every key of JSON text as its place, with its line from 1. A repeated key is listed each time."""
    places = []
    stack: list[str] = []
    keys: list[str | None] = []  # of each open bracket, the key that is being read
    line = 1
    for token in (match[0] for match in _TOKEN.finditer(text)):
        if token == "\n":
            line += 1
        elif token in "{[":
            stack.append(token)
            keys.append(None)
        elif token in "}]":
            stack.pop()
            keys.pop()
        elif token == ",":
            keys[-1] = None
        elif stack and stack[-1] == "{" and keys[-1] is None:
            keys[-1] = json.loads(token)
            places.append((tuple(key for key in keys if key is not None), line))
    return places

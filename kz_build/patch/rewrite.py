"""A mail that has rules beside it: they say what it is for, and the mail is what they gave on its own base."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from kz_build.git.object_types import LINK, Blob
from kz_build.patch.apply import Applied, Read, Refused, apply_patch, content


class Mismatch(NamedTuple):
    """Why rules do not give a result, in a sentence; where a rule found nothing, what it `wanted` in which `content`."""

    reason: str
    wanted: bytes = b""
    content: bytes = b""


class Rewrite(NamedTuple):
    """The rules beside a mail, in the file `name`. They replace its hunks in the files `paths`; its other files are taken from the mail.

    `generate` returns what the rules make of a path's content. `own`: the base is the mail's own, where both must agree.
    """

    name: str
    paths: frozenset[str]
    generate: Callable[[str, bytes], bytes | Mismatch]
    own: bool = False


def rewritten(by_text: Applied | Refused, read: Read) -> Applied | Refused:
    """Return what a patch with rules gives: its mail's own outcome `by_text` if the rules give the same, else theirs.

    On the mail's own base another result is refused: one of the two is out of date.
    """
    patch = by_text.patch
    if patch.rewrite is None or (isinstance(by_text, Refused) and by_text.upstreamed):
        return by_text
    rules = patch.rewrite
    others = tuple(change for change in patch.files if change.path not in rules.paths)
    rest = apply_patch(replace(patch, files=others), read)
    if isinstance(rest, Refused):
        return by_text
    generated = _generated(rules, read)
    if isinstance(generated, tuple):
        return Refused(patch, *generated, 0, by_rules=True)
    files = {**rest.files, **generated}
    if isinstance(by_text, Applied) and by_text.files == files:
        return by_text
    if rules.own:
        if isinstance(by_text, Refused):
            return by_text
        path = next(path for path in files if files[path] != by_text.files.get(path))
        return Refused(patch, path, f"{rules.name} makes something else of it than the mail", 0, by_rules=True)
    if all(read(path) == blob for path, blob in files.items()):
        return Refused(patch, min(rules.paths), f"{rules.name} changes nothing there", 0, by_rules=True)
    why = by_text.reason if isinstance(by_text, Refused) else "it gives something else"
    return Applied(patch, files, rest.moved, f"{rules.name} makes it again, for the mail is of another version: {why}")


def _generated(rules: Rewrite, read: Read) -> Mapping[str, Blob | None] | tuple[str, str]:
    """Return the files that the rules leave, or the first path with a reason why they leave none."""
    files: dict[str, Blob | None] = {}
    for path in sorted(rules.paths):
        blob = read(path)
        data = content(blob)
        if blob is None or data is None:
            return path, "the file is not there"
        if blob.mode == LINK:
            return path, "it is a symbolic link"
        result = rules.generate(path, data)
        if isinstance(result, Mismatch):
            return path, result.reason
        files[path] = Blob(blob.mode, result)
    return files

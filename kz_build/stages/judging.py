"""Judging a stack on many states of its files; verdicts are remembered by content, whatever commit brought it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from kz_build.adapters import git
from kz_build.adapters.files import write_atomic
from kz_build.adapters.history import merge_file, renamed
from kz_build.model.history import State
from kz_build.model.patch import Patch
from kz_build.model.stack import Applied, Blob, apply_patch
from kz_build.model.verdict import Judgement, Seen, Verdict, images, judge
from kz_build.stages.carried import Carried

RULES = "4"
"""Part of the name of every remembered verdict: a change of the rules that could change one must change it."""

Row = tuple[Judgement, ...]


def judged(
    held: Carried,
    store: Path,
    objects: git.Objects,
    states: Sequence[State],
    made: Callable[[str], bytes | None] = lambda oid: None,
) -> list[Row]:
    """Judge the whole stack on each state. Absent blobs are fetched in one request; known states read none.

    `made` gives the content of a blob that no commit has, by id.
    """
    memory = _Memory(store, held)
    keys = [_key(state) for state in states]
    unknown = {key: state for key, state in zip(keys, states, strict=True) if key not in memory.rows}
    if unknown:
        paths = held.stack.touched
        origin = git.read_ids(objects, [held.base], paths)[0]
        wanted = {at[1] for state in (origin, *unknown.values()) for at in state.values() if at}
        own = {oid: data for oid in wanted if (data := made(oid)) is not None}
        contents = {**read_blobs(held.repository, objects, wanted - set(own)), **own}
        blobs: dict[git.At, Blob] = {}
        seen: Seen = {}

        def reader(state: State) -> Mapping[str, Blob | None]:
            blobs.update({at: Blob(at[0], contents[at[1]]) for at in state.values() if at and at not in blobs})
            return {path: blobs[at] if at else None for path, at in state.items()}

        pinned = images(held.stack.patches, reader(origin).get)
        for key, state in unknown.items():
            memory.rows[key] = judge(held.stack, reader(state).get, pinned, merge_file, seen)
        memory.write()
    return [memory.rows[key] for key in keys]


def _key(state: State) -> str:
    text = "\0".join(f"{path} {at[0]} {at[1]}" if at else path for path, at in sorted(state.items()))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def read_blobs(repository: git.Repository, objects: git.Objects, ids: Collection[str]) -> dict[str, bytes]:
    """Contents of blobs; where one is absent, all are fetched in one request."""
    wanted = sorted(ids)
    try:
        return {oid: objects.content(oid) for oid in wanted}
    except git.ObjectsMissing:
        repository.fetch_blobs(wanted)
        with repository.objects() as again:
            return {oid: again.content(oid) for oid in wanted}


class _Memory:
    """What was judged before of one stack on one base."""

    def __init__(self, store: Path, held: Carried) -> None:
        self.file = store / "verdicts" / f"{RULES}-{held.base[:16]}-{held.stack.digest[:32]}.json"
        try:
            kept = json.loads(self.file.read_bytes())
        except (FileNotFoundError, ValueError):
            kept = {}
        self.rows: dict[str, Row] = {key: tuple(_judgement(j) for j in row) for key, row in kept.items()}

    def write(self) -> None:
        plain = {key: [_plain(j) for j in row] for key, row in self.rows.items()}
        write_atomic(self.file, json.dumps(plain, separators=(",", ":")).encode())


def _plain(judgement: Judgement) -> dict[str, object]:
    return {key: value for key, value in {**asdict(judgement), "verdict": judgement.verdict.value}.items() if value}


def _judgement(plain: dict[str, object]) -> Judgement:
    fields = {key: tuple(value) if isinstance(value, list) else value for key, value in plain.items()}
    return Judgement(**{**fields, "verdict": Verdict(plain["verdict"])})  # type: ignore[arg-type]


def followed(held: Carried, commit: str, judgement: Judgement) -> Judgement:
    """Say where a file that is missing at a commit went, and whether the patch would fit there."""
    if judgement.verdict is not Verdict.MISSING:
        return judgement
    went = renamed(held.repository, held.base, commit, judgement.path)
    if went is None:
        return judgement
    by, path = went
    if not path:
        return replace(judgement, reason=f"removed by {by.shown}")
    with held.repository.objects() as objects:
        there = git.read_ids(objects, [commit], [path])[0][path]
        blob = Blob(there[0], read_blobs(held.repository, objects, [there[1]])[there[1]]) if there else None
    patch = next(p for p in held.stack.patches if p.name == judgement.patch)
    fits = (
        "fits"
        if isinstance(apply_patch(_moved(patch, judgement.path, path), {path: blob}.get), Applied)
        else "does not fit"
    )
    return replace(judgement, reason=f"renamed to {path} by {by.shown}; the patch {fits} there")


def _moved(patch: Patch, old: str, new: str) -> Patch:
    there = [f for f in patch.files if f.origin == old]
    return replace(patch, files=tuple(replace(f, source=new) if f.source else replace(f, path=new) for f in there))

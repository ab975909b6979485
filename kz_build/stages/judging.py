"""Judging a stack on many states of its files; verdicts are remembered by content, whatever commit brought it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from kz_build.adapters import git
from kz_build.adapters.files import write_atomic
from kz_build.adapters.history import merge_file
from kz_build.model.history import State
from kz_build.model.stack import Blob
from kz_build.model.verdict import Judgement, Verdict, images, judge
from kz_build.stages.carried import Carried

RULES = "1"
"""Part of the name of every remembered verdict: a change of the rules that could change one must change it."""

Row = tuple[Judgement, ...]


def judged(held: Carried, store: Path, objects: git.Objects, states: Sequence[State]) -> list[Row]:
    """Judge the whole stack on each state. Absent blobs are fetched in one request; known states read none."""
    memory = _Memory(store, held)
    keys = [_key(state) for state in states]
    unknown = {key: state for key, state in zip(keys, states, strict=True) if key not in memory.rows}
    if unknown:
        paths = held.stack.touched
        origin = git.read_ids(objects, held.base, paths)
        contents = _contents(held.repository, objects, [origin, *unknown.values()])

        def reader(state: State) -> Mapping[str, Blob | None]:
            return {path: Blob(at[0], contents[at[1]]) if at else None for path, at in state.items()}

        made = images(held.stack.patches, reader(origin).get)
        for key, state in unknown.items():
            memory.rows[key] = judge(held.stack, reader(state).get, made, merge_file)
        memory.write()
    return [memory.rows[key] for key in keys]


def _key(state: State) -> str:
    text = "\0".join(f"{path} {at[0]} {at[1]}" if at else path for path, at in sorted(state.items()))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _contents(repository: git.Repository, objects: git.Objects, states: Sequence[State]) -> dict[str, bytes]:
    wanted = sorted({at[1] for state in states for at in state.values() if at})
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

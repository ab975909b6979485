"""Merging files of a pull request into upstream, by content: what was merged once is remembered by its ids."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from kz_build.core.files import write_atomic
from kz_build.git import repository as git
from kz_build.git.blobs import merge_file, merge_files
from kz_build.git.cat_file import Objects
from kz_build.git.object_types import FOLDER, Blob, State
from kz_build.stack.verdict_cache import read_blobs

Ask = tuple[State, State, Mapping[str, str]]
"""(ours, base, theirs); theirs as path -> blob id, '' for no file"""


class Merges:
    """Three-way merges in one repository. `content` gives what a merge made, by its blob id."""

    def __init__(self, store: Path, repository: git.Repository, objects: Objects) -> None:
        self.file = store / "radar" / f"merges-{repository.path.stem}.json"
        self.repository, self.objects = repository, objects
        try:
            self.known: dict[str, str] = json.loads(self.file.read_bytes())
        except (FileNotFoundError, ValueError):
            self.known = {}
        self.parts = {made: key for key, made in self.known.items() if made}

    def states(self, asked: Sequence[Ask]) -> list[tuple[State, bool]]:
        """(merged files, whether any conflicted) for each; a file that conflicts is taken as it is in theirs."""
        triples = {_triple(ask, path) for ask in asked for path in ask[2]} - {""}
        self._merge(sorted(triples - self.known.keys()))
        return [self._state(ask) for ask in asked]

    def content(self, oid: str) -> bytes | None:
        """Content of a blob that a merge made, None for others."""
        if oid not in self.parts:
            return None
        ours, base, theirs = self.parts[oid].split(" ")
        blobs = read_blobs(self.repository, self.objects, (ours, base, theirs))
        return merge_file(blobs[ours], blobs[base], blobs[theirs])

    def _merge(self, triples: Sequence[str]) -> None:
        blobs = read_blobs(self.repository, self.objects, {oid for triple in triples for oid in triple.split(" ")})
        parts = [(blobs[ours], blobs[base], blobs[theirs]) for ours, base, theirs in map(str.split, triples)]
        for triple, data in zip(triples, merge_files(parts), strict=True):
            made = "" if data is None else Blob("", data).id
            self.known[triple] = made
            if made:
                self.parts[made] = triple
        if triples:
            write_atomic(self.file, json.dumps(self.known, separators=(",", ":")).encode())

    def _state(self, ask: Ask) -> tuple[State, bool]:
        ours, base, theirs = ask
        state: dict[str, tuple[str, str] | None] = {}
        conflicts = False
        for path, oid in theirs.items():
            own, old = ours.get(path), base.get(path)
            # A change of mode alone hurts no patch.
            mode = next((at[0] for at in (own, old) if at and at[0] != FOLDER), "100644")
            if triple := _triple(ask, path):
                made = self.known[triple]
                conflicts |= not made
                state[path] = (mode, made or oid)
            elif oid == (old[1] if old else ""):
                state[path] = own
            else:
                state[path] = (mode, oid) if oid else None
        return state, conflicts


def _triple(ask: Ask, path: str) -> str:
    """`ours base theirs` where both sides changed a file that all three have, '' where nothing needs a merge."""
    own, old, oid = ask[0].get(path), ask[1].get(path), ask[2][path]
    if not (own and old and oid) or FOLDER in (own[0], old[0]) or oid in (own[1], old[1]) or own[1] == old[1]:
        return ""
    return f"{own[1]} {old[1]} {oid}"

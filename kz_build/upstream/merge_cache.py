"""Merges of a pull request's files into upstream, cached by the ids of their contents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from kz_build.core.hash_cache import read_cached, write_cached
from kz_build.git import repository as git
from kz_build.git.blobs import merge_file, merge_files
from kz_build.git.cat_file import Objects
from kz_build.git.object_types import FOLDER, Blob, State
from kz_build.stack.verdict_cache import read_blobs

MergeRequest = tuple[State, State, Mapping[str, str]]
"""(ours, base, theirs); theirs as path -> blob id, '' for no file"""


class MergeCache:
    """Three-way merges in one repository. `content` returns the result of a merge, by its blob id."""

    def __init__(self, store: Path, repository: git.Repository, objects: Objects) -> None:
        self.file = store / "radar" / f"merges-{repository.path.stem}.json"
        self.repository, self.objects = repository, objects
        self.known: dict[str, str] = read_cached(self.file) or {}
        self.parts = {merged: key for key, merged in self.known.items() if merged}

    def states(self, requests: Sequence[MergeRequest]) -> list[tuple[State, bool]]:
        """Return (merged files, whether any conflicted) for each request; a file that conflicts is taken from theirs."""
        triples = {_triple(request, path) for request in requests for path in request[2]} - {""}
        self._merge(sorted(triples - self.known.keys()))
        return [self._state(request) for request in requests]

    def content(self, oid: str) -> bytes | None:
        """Return the content of a blob that a merge made, None for other blobs."""
        if oid not in self.parts:
            return None
        ours, base, theirs = self.parts[oid].split(" ")
        blobs = read_blobs(self.repository, self.objects, (ours, base, theirs))
        return merge_file(blobs[ours], blobs[base], blobs[theirs])

    def _merge(self, triples: Sequence[str]) -> None:
        blobs = read_blobs(self.repository, self.objects, {oid for triple in triples for oid in triple.split(" ")})
        parts = [(blobs[ours], blobs[base], blobs[theirs]) for ours, base, theirs in map(str.split, triples)]
        for triple, data in zip(triples, merge_files(parts), strict=True):
            merged = "" if data is None else Blob("", data).id
            self.known[triple] = merged
            if merged:
                self.parts[merged] = triple
        if triples:
            write_cached(self.file, self.known)

    def _state(self, request: MergeRequest) -> tuple[State, bool]:
        ours, base, theirs = request
        state: dict[str, tuple[str, str] | None] = {}
        conflicts = False
        for path, oid in theirs.items():
            own, old = ours.get(path), base.get(path)
            # A change of mode alone breaks no patch.
            mode = next((at[0] for at in (own, old) if at and at[0] != FOLDER), "100644")
            if triple := _triple(request, path):
                merged = self.known[triple]
                conflicts |= not merged
                state[path] = (mode, merged or oid)
            elif oid == (old[1] if old else ""):
                state[path] = own
            else:
                conflicts |= (own[1] if own else "") not in (old[1] if old else "", oid)
                state[path] = (mode, oid) if oid else None
        return state, conflicts


def _triple(request: MergeRequest, path: str) -> str:
    """Return `ours base theirs` if both sides changed a file that all three have, '' if nothing must be merged."""
    own, old, oid = request[0].get(path), request[1].get(path), request[2][path]
    if not (own and old and oid) or FOLDER in (own[0], old[0]) or oid in (own[1], old[1]) or own[1] == old[1]:
        return ""
    return f"{own[1]} {old[1]} {oid}"

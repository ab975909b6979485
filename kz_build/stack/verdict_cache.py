"""Verdicts on a stack for many states of its files, cached by content, whatever commit has it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kz_build.core.hash_cache import read_cached, write_cached
from kz_build.git import repository as git
from kz_build.git import tree_lookup as trees
from kz_build.git.cat_file import Objects, ObjectsMissing
from kz_build.patch.verdict import Judgement, Verdict
from kz_build.stack.pinned import PinnedStack

if TYPE_CHECKING:
    from kz_build.git.object_types import Blob, State
    from kz_build.patch.judge import Memo

CACHE_EPOCH = "12"
"""Part of the name of every cached verdict: change it with any rule that could change a verdict."""

Row = tuple[Judgement, ...]


def judge_commits(
    pinned: PinnedStack, store: Path, objects: Objects, commits: Sequence[str], complete: Callable[[str, Row], Row]
) -> list[Row]:
    """Judge the whole stack on each commit. A commit does not change: one that was judged before is not even read.

    `complete` completes a commit's new row with what its content alone does not say; that is cached with it.
    """
    cache = _Cache(store, pinned)
    new = [commit for commit in dict.fromkeys(commits) if commit not in cache]
    if new:
        states = trees.read_ids(objects, new, pinned.stack.touched)
        _learn(cache, pinned, objects, states, lambda oid: None)
        for commit, state in zip(new, states, strict=True):
            cache.rows[commit] = complete(commit, cache[_key(state)])
        cache.write()
    return [cache[commit] for commit in commits]


def judge_states(
    pinned: PinnedStack,
    store: Path,
    objects: Objects,
    states: Sequence[State],
    merged_content: Callable[[str], bytes | None] = lambda oid: None,
) -> list[Row]:
    """Judge the whole stack on each state. Absent blobs are fetched in one request; cached states read none.

    `merged_content` returns the content of a blob that no commit has, by id.
    """
    cache = _Cache(store, pinned)
    if _learn(cache, pinned, objects, states, merged_content):
        cache.write()
    return [cache[_key(state)] for state in states]


def known_commits(pinned: PinnedStack, store: Path, commits: Sequence[str]) -> list[Row | None]:
    """Return the row of each commit that `judge_commits` has judged; nothing is judged or fetched now."""
    return _Cache(store, pinned).known(commits)


def known_states(pinned: PinnedStack, store: Path, states: Sequence[State]) -> list[Row | None]:
    """Return the row of each state that has been judged; nothing is judged or fetched now."""
    return _Cache(store, pinned).known([_key(state) for state in states])


def _learn(
    cache: _Cache,
    pinned: PinnedStack,
    objects: Objects,
    states: Sequence[State],
    merged_content: Callable[[str], bytes | None],
) -> bool:
    """Judge what is not cached yet; return whether there was any."""
    unknown = {key: state for state in states if (key := _key(state)) not in cache}
    if not unknown:
        return False
    from kz_build.git.blobs import merge_files
    from kz_build.git.object_types import Blob
    from kz_build.patch.judge import images, judge_without_merges, with_merges

    paths = pinned.stack.touched
    origin = trees.read_ids(objects, [pinned.base], paths)[0]
    wanted = {at[1] for state in (origin, *unknown.values()) for at in state.values() if at}
    merged = {oid: data for oid in wanted if (data := merged_content(oid)) is not None}
    blob_data = {**read_blobs(pinned.repository, objects, wanted - set(merged)), **merged}
    blobs: dict[trees.At, Blob] = {}
    memo: Memo = {}

    def reader(state: State) -> Mapping[str, Blob | None]:
        blobs.update({at: Blob(at[0], blob_data[at[1]]) for at in state.values() if at and at not in blobs})
        return {path: blobs[at] if at else None for path, at in state.items()}

    stack, own = pinned.stack, _key(origin)
    pinned_images = images(stack.mails.patches, reader(origin).get)
    rows = {
        key: judge_without_merges(stack, reader(state).get, pinned_images, memo)
        for key, state in unknown.items()
        if key != own
    }
    if own in unknown:
        rows[own] = judge_without_merges(stack.on_own_base, reader(origin).get, pinned_images, {})
    parts = list({three for row in rows.values() for _, merges in row for _, three in merges})
    results = dict(zip(parts, merge_files(parts), strict=True))
    cache.rows.update({key: with_merges(row, lambda *three: results[three], memo) for key, row in rows.items()})
    return True


def _key(state: State) -> str:
    text = "\0".join(f"{path} {at[0]} {at[1]}" if at else path for path, at in sorted(state.items()))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def read_blobs(repository: git.Repository, objects: Objects, ids: Collection[str]) -> dict[str, bytes]:
    """Return the contents of blobs; those that the clone lacks are fetched in one request."""
    wanted = sorted(ids)
    try:
        return {oid: objects.content(oid) for oid in wanted}
    except ObjectsMissing:
        repository.fetch_blobs(wanted)
        with repository.objects() as again:
            return {oid: again.content(oid) for oid in wanted}


def files_at(pinned: PinnedStack, commit: str, paths: Collection[str]) -> dict[str, Blob]:
    """Return the files of a commit that are there; those that the clone lacks are fetched in one request."""
    from kz_build.git.object_types import Blob  # cached verdicts need none

    with pinned.repository.objects() as objects:
        ids = {path: at for path, at in trees.read_ids(objects, [commit], paths)[0].items() if at}
        contents = read_blobs(pinned.repository, objects, {at[1] for at in ids.values()})
    return {path: Blob(at[0], contents[at[1]]) for path, at in ids.items()}


class _Cache:
    """The cached verdicts of one stack on one base: a row by its state's key, or by a commit's id.

    Thousands of rows have few different judgements; each is stored once, and decoded only for rows that are asked for.
    """

    def __init__(self, store: Path, pinned: PinnedStack) -> None:
        self.file = store / "verdicts" / f"{CACHE_EPOCH}-{pinned.base[:16]}-{pinned.files.digest[:32]}.json"
        kept = read_cached(self.file) or {"judgements": [], "rows": {}}
        self.judgements, self.numbers = kept["judgements"], kept["rows"]
        self.rows: dict[str, Row] = {}

    def __contains__(self, key: str) -> bool:
        return key in self.rows or key in self.numbers

    def __getitem__(self, key: str) -> Row:
        if key not in self.rows:
            self.rows[key] = tuple(judgement_of(self.judgements[i]) for i in self.numbers[key])
        return self.rows[key]

    def known(self, keys: Sequence[str]) -> list[Row | None]:
        rows = {key: self[key] for key in keys if key in self}
        return [rows.get(key) for key in keys]

    def write(self) -> None:
        """Write all rows, the old ones too."""
        places: dict[Judgement, int] = {}
        rows = {
            key: [places.setdefault(judgement, len(places)) for judgement in self[key]]
            for key in (*self.numbers, *self.rows)
        }
        write_cached(self.file, {"judgements": [_plain(judgement) for judgement in places], "rows": rows})


def _plain(judgement: Judgement) -> dict[str, object]:
    return {key: value for key, value in {**judgement._asdict(), "verdict": judgement.verdict.value}.items() if value}


def judgement_of(plain: dict[str, object]) -> Judgement:
    """Read a judgement from its plain values."""
    fields = {key: tuple(value) if isinstance(value, list) else value for key, value in plain.items()}
    return Judgement(**{**fields, "verdict": Verdict(plain["verdict"])})  # type: ignore[arg-type]

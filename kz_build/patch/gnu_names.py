"""Which of the files that a diff names GNU patch takes (patch(1), "multifile patches", and best_name of its pch.c)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kz_build.git.object_types import FOLDER, Blob
from kz_build.patch.change import FileChange, Patch, folders_above


def best_name(names: Sequence[str]) -> str:
    """Choose between names of one file: fewest folders, then the shortest file name, the shortest path, the first."""
    return min(names, key=lambda name: (name.count("/"), len(name.rpartition("/")[2]), len(name)))


def with_names_chosen(patch: Patch, read: Callable[[str], Blob | None]) -> Patch:
    """Fix the path of each change that names several, on these files: the best one that exists when it is its turn.

    If none exists and the change creates one, it is the best of those that need the fewest new folders.
    """
    if not any(change.names for change in patch.files):
        return patch
    changed: dict[str, bool] = {}

    def exists(path: str) -> bool:
        there = None if path in changed else read(path)
        return changed.get(path, there is not None and (there.mode != FOLDER or bool(there.data)))

    changes = []
    for change in patch.files:
        chosen = _chosen(change, exists) if change.names else change
        changes.append(chosen)
        if chosen.leaves:
            changed[chosen.origin] = False
        if not chosen.deletes:
            changed[chosen.path] = True
    return replace(patch, files=tuple(changes))


def _chosen(change: FileChange, exists: Callable[[str], bool]) -> FileChange:
    there = [name for name in change.names if exists(name)]
    if change.source:
        # The file may have its new name already: then it is changed there.
        renamed = bool(there) and best_name(there) == change.path
        return replace(change, names=(), source="" if renamed else change.source, copies=change.copies and not renamed)
    if there or not change.from_nothing:
        return replace(change, names=(), path=best_name(there or change.names))
    new = {name: sum(not exists(folder) for folder in folders_above(name)) for name in change.names}
    fewest = [name for name in change.names if new[name] == min(new.values())]
    return replace(change, names=(), path=best_name(fewest))

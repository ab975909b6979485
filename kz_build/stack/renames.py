"""Files that upstream moved or removed: where they went, and whether a patch fits there."""

from __future__ import annotations

from dataclasses import replace

from kz_build.git import log as history
from kz_build.git import tree_lookup as trees
from kz_build.git.object_types import Blob
from kz_build.patch.apply import Applied, apply_patch
from kz_build.patch.change import Patch
from kz_build.patch.verdict import Judgement, Verdict
from kz_build.stack.pinned import PinnedStack
from kz_build.stack.verdict_cache import read_blobs


def follow_rename(pinned: PinnedStack, commit: str, judgement: Judgement) -> Judgement:
    """Add to a judgement where a missing file went, and whether the patch fits there."""
    if judgement.verdict is not Verdict.MISSING:
        return judgement
    move = history.renamed(pinned.repository, pinned.base, commit, judgement.path)
    if move is None:
        return judgement
    by, path = move
    if not path:
        return judgement._replace(reason=f"removed by {by.shown}")
    with pinned.repository.objects() as objects:
        file = trees.read_ids(objects, [commit], [path])[0][path]
        blob = Blob(file[0], read_blobs(pinned.repository, objects, [file[1]])[file[1]]) if file else None
    patch = next(p for p in pinned.stack.patches if p.name == judgement.patch)
    fits = (
        "fits"
        if isinstance(apply_patch(_at_new_path(patch, judgement.path, path), {path: blob}.get), Applied)
        else "does not fit"
    )
    return judgement._replace(reason=f"renamed to {path} by {by.shown}; the patch {fits} there")


def _at_new_path(patch: Patch, old: str, new: str) -> Patch:
    file = [f for f in patch.files if f.origin == old]
    return replace(patch, files=tuple(replace(f, source=new) if f.source else replace(f, path=new) for f in file))

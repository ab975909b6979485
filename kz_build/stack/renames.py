"""Files that upstream moved or removed: where they went, and whether a patch would fit there."""

from __future__ import annotations

from dataclasses import replace

from kz_build.git import log as history
from kz_build.git import tree_lookup as trees
from kz_build.git.object_types import Blob
from kz_build.patch.apply import Applied, apply_patch
from kz_build.patch.change import Patch
from kz_build.patch.verdict import Judgement, Verdict
from kz_build.stack.pinned import Carried
from kz_build.stack.verdict_cache import read_blobs


def followed(held: Carried, commit: str, judgement: Judgement) -> Judgement:
    """Say where a file that is missing at a commit went, and whether the patch would fit there."""
    if judgement.verdict is not Verdict.MISSING:
        return judgement
    went = history.renamed(held.repository, held.base, commit, judgement.path)
    if went is None:
        return judgement
    by, path = went
    if not path:
        return judgement._replace(reason=f"removed by {by.shown}")
    with held.repository.objects() as objects:
        there = trees.read_ids(objects, [commit], [path])[0][path]
        blob = Blob(there[0], read_blobs(held.repository, objects, [there[1]])[there[1]]) if there else None
    patch = next(p for p in held.stack.patches if p.name == judgement.patch)
    fits = (
        "fits"
        if isinstance(apply_patch(_moved(patch, judgement.path, path), {path: blob}.get), Applied)
        else "does not fit"
    )
    return judgement._replace(reason=f"renamed to {path} by {by.shown}; the patch {fits} there")


def _moved(patch: Patch, old: str, new: str) -> Patch:
    there = [f for f in patch.files if f.origin == old]
    return replace(patch, files=tuple(replace(f, source=new) if f.source else replace(f, path=new) for f in there))

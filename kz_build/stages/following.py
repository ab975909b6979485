"""Files that upstream moved or removed: where they went, and whether a patch would fit there."""

from __future__ import annotations

from dataclasses import replace

from kz_build.adapters import git, history
from kz_build.model.judgement import Judgement
from kz_build.model.patch import Patch
from kz_build.model.stack import Applied, Blob, apply_patch
from kz_build.stages.carried import Carried


def followed(held: Carried, tip: str, judgement: Judgement) -> Judgement:
    """Say where a missing file went, and whether the patch would fit there."""
    went = history.renamed(held.repository, held.base, tip, judgement.path)
    if went is None:
        return judgement
    commit, path = went
    if not path:
        return replace(judgement, reason=f"removed by {commit.shown}")
    with held.repository.objects() as objects:
        there = git.read_ids(objects, [tip], [path])[0][path]
        blob = Blob(there[0], objects.content(there[1])) if there else None
    patch = next(p for p in held.stack.patches if p.name == judgement.patch)
    fits = (
        "fits"
        if isinstance(apply_patch(_moved(patch, judgement.path, path), {path: blob}.get), Applied)
        else "does not fit"
    )
    return replace(judgement, reason=f"renamed to {path} by {commit.shown}; the patch {fits} there")


def _moved(patch: Patch, old: str, new: str) -> Patch:
    return replace(patch, files=tuple(replace(f, path=new) for f in patch.files if f.path == old))

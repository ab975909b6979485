"""wheel: the patched tree of a wheel source -> a wheel that pip installs."""

from __future__ import annotations

import hashlib

from kz_build.build.wheel_types import Wheel, repack, zip_bytes
from kz_build.core import files
from kz_build.core.errors import ConfigError
from kz_build.git.object_types import Blob
from kz_build.git.repository import Repository
from kz_build.pins.project import Project
from kz_build.sources import integrity
from kz_build.stack.apply import apply_source


def wheel(project: Project, line: str, name: str) -> Wheel:
    """Write dist/<line>/wheels/<name>-<version>+kz.g<tree>-….whl.

    Raises ConfigError if the source is not a wheel with patches, LockError if the store's files do not match their ids.
    """
    source = project.pins.source(name)
    if source.kind != "wheel":
        raise ConfigError(f"{name} is not a wheel but: {source.kind}", hint="`kz build` builds what comes from git")
    tree, path = apply_source(project, line, name)
    integrity.prove_repository(project.store, path)
    repository = Repository(path)
    with repository.objects() as objects:
        content = {e.path: Blob(e.mode, objects.content(e.id)) for e in repository.entries(tree.tree)}
    file_name, version, members = repack(content, tree.tree)
    data = zip_bytes(members)
    to = project.dist_folder(line, "wheels") / file_name
    files.write_atomic(to, data)
    return Wheel(to, version, hashlib.sha256(data).hexdigest(), tree.tree)

"""Streams for `git fast-import`: they bring trees and commits into a partial clone without a look at other blobs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from kz_build.git.object_types import Blob

NewCommit = tuple[str, str, Mapping[str, Blob | None]]
"""(`Name <address> date` of author and committer, message, files with None where one is deleted)"""


def commits_stream(base: str, commits: Sequence[NewCommit], ref: str) -> bytes:
    """Return the fast-import stream that puts commits on `base`, one on the other."""
    out: list[bytes] = []
    for number, (author, text, files) in enumerate(commits, 1):
        who, message = author.encode(), text.encode()
        out += [
            b"commit " + ref.encode(),
            b"mark :%d" % number,
            b"author " + who,
            b"committer " + who,
            b"data %d" % len(message),
            message,
            b"from " + (base.encode() if number == 1 else b":%d" % (number - 1)),
        ]
        for path, blob in files.items():
            if blob is None:
                out.append(b"D " + _path(path))
            else:
                out += [b"M " + blob.mode.encode() + b" inline " + _path(path), b"data %d" % len(blob.data), blob.data]
        out += [b"", b"get-mark :%d" % number]
    out.append(b"done\n")
    return b"feature done\n" + b"\n".join(out)


def folder_stream(files: Mapping[str, Blob], message: str, ref: str) -> bytes:
    """Return the fast-import stream of one parentless commit with these files; the same files give the same commit anywhere."""
    who = b"kz_build <kz_build@localhost> Thu, 01 Jan 1970 00:00:00 +0000"
    text = message.encode()
    out = [
        b"reset " + ref.encode(),
        b"commit " + ref.encode(),
        b"mark :1",
        b"author " + who,
        b"committer " + who,
        b"data %d" % len(text),
        text,
    ]
    for path in sorted(files):
        out += [
            b"M " + files[path].mode.encode() + b" inline " + _path(path),
            b"data %d" % len(files[path].data),
            files[path].data,
        ]
    return b"feature done\n" + b"\n".join([*out, b"", b"get-mark :1", b"done\n"])


def _path(path: str) -> bytes:
    raw = os.fsencode(path)
    return b'"' + raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'

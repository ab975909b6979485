"""Streams for `git fast-import`: they bring trees and commits into a partial clone without a look at other blobs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from kz_build.git.object_types import Blob, FileOnDisk

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


def folder_stream(files: Mapping[str, Blob | FileOnDisk], message: str, ref: str) -> Iterator[bytes]:
    """Yield the fast-import stream of one parentless commit with these files, in pieces with one of them in memory; the same
    files give the same commit anywhere."""
    who = b"kz_build <kz_build@localhost> Thu, 01 Jan 1970 00:00:00 +0000"
    text = message.encode()
    yield b"feature done\nreset %b\ncommit %b\nmark :1\n" % (ref.encode(), ref.encode())
    yield b"author %b\ncommitter %b\ndata %d\n%b\n" % (who, who, len(text), text)
    for path in sorted(files):
        data = files[path].data
        yield b"M %b inline %b\ndata %d\n" % (files[path].mode.encode(), _path(path), len(data))
        yield data
        yield b"\n"
    yield b"\nget-mark :1\ndone\n"


def _path(path: str) -> bytes:
    raw = os.fsencode(path)
    return b'"' + raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'

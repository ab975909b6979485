"""Rules for text that reaches git, the disk or the network. Each function returns what is wrong, or ''."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_HELPER = re.compile(r"[A-Za-z0-9+.-]*::")
_LONGEST_NAME, _LONGEST_PATH = 255, 2048  # Linux allows 255 bytes, and 4,096 with the folder around it
_UNSEEN = dict.fromkeys((*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF))
_GITMODULES = re.compile(r"\.gitmodules|gitmod~[1-4]|gi7eba~[1-9]")  # and Windows' short names of it
_NOT_IN_VERSIONS = re.compile(r"[ ~^:?*\[\\]|\.\.|@\{")


def bad_id(text: str) -> str:
    """Check the full id of a commit or a tree."""
    return "" if _ID.fullmatch(text) else "must be 40 or 64 hexadecimal digits in lower case"


def bad_digest(text: str) -> str:
    """Check a sha256."""
    return "" if _DIGEST.fullmatch(text) else "must be 64 hexadecimal digits in lower case"


def bad_version(text: str) -> str:
    """Check a version: a tag, a branch, a commit id, or the version of a wheel, an archive or an image."""
    if _NOT_IN_VERSIONS.search(text):
        return "must not have spaces, `..`, `@{` or any of ~ ^ : ? * [ \\"
    return _bad_word(text)


def bad_address(text: str) -> str:
    """Check the address of a git repository: a URL, or a path. Git would run `COMMAND` of `ext::COMMAND`."""
    if _HELPER.match(text):
        return "must be a URL or a path: `NAME::` names a program for git to run"
    return _bad_word(text)


def bad_url(text: str) -> str:
    """Check the URL of a download or a package index."""
    return "must not have spaces" if " " in text else _bad_word(text)


CACHE_PORTS = {"http": 80, "https": 443, "redis": 6379, "rediss": 6379}
"""The kinds of a compile cache's server, and their ports."""


def bad_cache(text: str) -> str:
    """Check the address of a compile cache's server."""
    try:
        parts = urlsplit(text)
        right = parts.scheme in CACHE_PORTS and parts.hostname and parts.port != 0 and "|" not in text
    except ValueError:  # the port is no number
        right = False
    return bad_url(text) if right else f"must be an address of {', '.join(f'{name}://' for name in CACHE_PORTS)}"


def bad_path(text: str) -> str:
    """Check the path of a file or folder of this machine, or the address of a file."""
    return _bad_word(text)


def bad_file_name(text: str) -> str:
    """Check the name of a file without a folder."""
    if "/" in text or "\\" in text or text in (".", ".."):
        return "must be a file name without a folder"
    return _bad_word(text)


def bad_folder(text: str) -> str:
    """Check the path of a folder in a tree, such as that of a submodule."""
    return unsafe_path(text) or _bad_word(text)


def outside_path(path: str) -> str:
    """Return why a path may lead out of its folder on some system, or ''."""
    if not path or path.startswith("/"):
        return "is not a relative path"
    if "\0" in path or "\\" in path:
        return "has a backslash or a NUL"
    if any(part in ("", ".", "..") for part in path.split("/")):
        return "climbs out of its folder"
    return ""


def unsafe_path(path: str) -> str:
    """Return why a path must not be written, or '': it leaves its folder, is too long, or reaches into `.git`."""
    if wrong := outside_path(path):
        return wrong
    parts = path.split("/")
    if len(path) > _LONGEST_PATH or any(len(part.encode("utf-8", "surrogatepass")) > _LONGEST_NAME for part in parts):
        return "is longer than a disk allows"
    # Windows reads `.git::$INDEX_ALLOCATION`, and macOS a `.git` with characters in it that nobody sees, as `.git`.
    if any(_as_read(part) in (".git", "git~1") for part in parts):
        return "reaches into .git"
    return ""


def bad_link(path: str) -> str:
    """Return why no symbolic link may have a path, or ''. Git refuses one link alone; of .gitattributes and the like it only warns."""
    refused = any(_GITMODULES.fullmatch(_as_read(part)) for part in path.split("/"))
    return "git allows no symbolic link of that name (gitmodulesSymlink)" if refused else ""


def _as_read(name: str) -> str:
    """Return the name for which a file system may take a name."""
    return name.translate(_UNSEEN).lower().partition(":")[0].rstrip(" .")


def _bad_word(text: str) -> str:
    """Check what every word of a command line must obey."""
    if not text:
        return "must not be empty"
    if text.startswith("-"):
        return "must not begin with `-`"
    if not text.isprintable():
        return "must not have control characters"
    try:
        urlsplit(text)
    except ValueError as error:  # such as `https://[host/`
        return f"is no address: {error}"
    return ""

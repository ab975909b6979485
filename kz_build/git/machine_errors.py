"""Why git failed: by this machine or by a server, for both end it with exit code 128, and its own words."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

from kz_build.core.errors import CommandError, UnreachableError
from kz_build.core.files import disk_errors
from kz_build.core.process import Argv, Output, require_success

_ERRORS = {
    os.strerror(number): number
    for number in (
        *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE),
        *(errno.EACCES, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN),
    )
}
_ERROR = re.compile(f"(?m)^(?!remote:|cannot start ).*({'|'.join(_ERRORS)})$")
_OF_CHILD = re.compile(f"(?m)^(?!remote:).*(?:(?:{'|'.join(_ERRORS)})$|cannot exec |cannot run | died of signal )")
"""Lines by which git says that this machine failed it, or the programs that it starts to talk to a server."""


def require_answer(argv: Argv, output: Output) -> None:
    """Raise UnreachableError if a server failed git, CommandError if this machine did."""
    local = _OF_CHILD.search(output.stderr.decode("utf-8", "replace"))
    require_success(argv, output, CommandError if local else UnreachableError)


@contextlib.contextmanager
def git_disk_errors(path: Path) -> Iterator[None]:
    """As `disk_errors`, also for those that git meets."""
    with disk_errors(path):
        try:
            yield
        except CommandError as error:
            if match := _ERROR.search(str(error)):
                raise OSError(_ERRORS[match[1]], match[0].strip()) from error
            raise


def reason(error: Exception) -> str:
    """Return the line of an error that says why: git's own `fatal:` where there is one."""
    rows = str(error).splitlines()
    fatal = next((row.removeprefix("fatal: ") for row in rows if row.startswith("fatal: ")), "")
    return fatal or (rows[0] if len(rows) == 1 else f"{rows[0]}: {rows[-1].strip()}")

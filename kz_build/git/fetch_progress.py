"""The progress of a git fetch, read from git's messages.

This is all of GitPython that kz uses: it starts git with the whole environment of this process and cannot leave a variable out,
so that in a git hook GIT_OBJECT_DIRECTORY sends its fetches, and GIT_DIR its `init`, into another repository. Its clones
fetch a branch where kz wants one commit without files, and its fetches fail where git writes no FETCH_HEAD.
"""

from __future__ import annotations

from git import RemoteProgress

from kz_build.core.progress import Event, Watch


class FetchProgress(RemoteProgress):
    """Report the progress of a fetch of `name` to `watch`, in objects of git's current step."""

    def __init__(self, name: str, watch: Watch) -> None:
        super().__init__()
        self.name, self.watch = name, watch
        self.messages: list[str] = []
        """Git's lines other than progress, in its order."""

    def update(
        self, op_code: int, cur_count: str | float, max_count: str | float | None = None, message: str = ""
    ) -> None:
        """See RemoteProgress."""
        self.watch(Event(self.name, int(cur_count), int(max_count or 0)))

    def line(self, text: str) -> None:
        """Read one line of git's."""
        before = len(self.other_lines) + len(self.error_lines)
        self._parse_progress_line(text.rstrip())
        if len(self.other_lines) + len(self.error_lines) > before:
            self.messages.append(text.rstrip())

"""How far a fetch of git's is, read from what it says.

This is all of GitPython that kz uses: it starts git with the whole environment of this process and can leave no variable out,
so that in a hook of git's, GIT_OBJECT_DIRECTORY sends its fetches, and GIT_DIR its `init`, into another repository. Its clones
bring a branch where kz wants one commit without files, and its fetches end with an error where git writes no FETCH_HEAD.
"""

from __future__ import annotations

from git import RemoteProgress

from kz_build.core.progress import Event, Watch


class Told(RemoteProgress):
    """Tells `watch` how far a fetch of `name` is, in objects of whatever git is at."""

    def __init__(self, name: str, watch: Watch) -> None:
        super().__init__()
        self.name, self.watch = name, watch
        self.line = self.new_message_handler()

    def update(
        self, op_code: int, cur_count: str | float, max_count: str | float | None = None, message: str = ""
    ) -> None:
        """See RemoteProgress."""
        self.watch(Event(self.name, int(cur_count), int(max_count or 0)))

    @property
    def said(self) -> str:
        """What git said beside its progress."""
        return "\n".join([*self.other_lines, *self.error_lines])

"""How far a fetch of git's is, read from what it says."""

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

"""Servers, asked whether they answer: each address once, all at the same time."""

from __future__ import annotations

import threading
import time
from functools import partial

from kz_build.git import remote


class Hosts:
    """Answers of servers. One that says nothing for `seconds` counts as silent, whatever its name server does."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._answers: dict[str, str] = {}
        self._asked: dict[str, tuple[threading.Thread, float]] = {}

    def ask(self, url: str, *, git: bool) -> None:
        """Begin to ask a server, unless it was asked already."""
        if url not in self._asked:
            probe = partial(remote.reachable, url, self.seconds) if git else partial(_web, url, self.seconds)
            # A daemon: the search for a name has no time limit, and must not keep kz from its end.
            thread = threading.Thread(target=lambda: self._answers.update({url: probe()}), daemon=True)
            self._asked[url] = thread, time.monotonic()
            thread.start()

    def error(self, url: str) -> str:
        """Return why a server that was asked cannot be reached, '' if it answers."""
        thread, since = self._asked[url]
        thread.join(max(0.0, since + self.seconds + 1 - time.monotonic()))
        return self._answers.get(url, f"no answer in {self.seconds:g} s")


def _web(url: str, seconds: float) -> str:
    from kz_build.core import http  # requests costs 160 ms

    return http.reachable(url, seconds)

"""What servers and clones answer: each is asked once, all at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import partial
from typing import TypeVar

from kz_build.git import remote
from kz_build.git.repository import Repository

Key = TypeVar("Key")
Answer = TypeVar("Answer")
_IMPORTS_SECONDS = 2.0


class Answers:
    """Answers of servers and clones, for any number of threads. A server that says nothing for `seconds` is silent, whatever
    its name server does."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._lock = threading.Lock()
        self._errors: dict[str, Future[str]] = {}
        self._commits: dict[tuple[str, str], Future[bool]] = {}

    def has(self, repository: Repository, commit: str) -> bool:
        """Return whether a clone has a commit."""
        return self._once(self._commits, (str(repository.path), commit), partial(repository.has, commit)).result()

    def ask(self, url: str, *, git: bool) -> None:
        """Begin to ask a server, unless it was asked already."""
        probe = remote.reachable if git else _web
        self._once(self._errors, url, partial(probe, url, self.seconds))

    def error(self, url: str) -> str:
        """Return why a server that was asked cannot be reached, '' if it answers."""
        answer = self._errors[url]
        if wait((answer,), self.seconds + _IMPORTS_SECONDS).not_done:
            return f"no answer in {self.seconds:g} s"
        return answer.result()

    def _once(self, known: dict[Key, Future[Answer]], key: Key, ask: Callable[[], Answer]) -> Future[Answer]:
        with self._lock:
            future = known.get(key)
            if future is None:
                future = known[key] = Future()
                # A daemon: the search for a name has no time limit, and must not keep kz from its end.
                threading.Thread(target=_set, args=(future, ask), daemon=True).start()
            return future


def _set(future: Future[Answer], ask: Callable[[], Answer]) -> None:
    try:
        future.set_result(ask())
    except BaseException as error:
        future.set_exception(error)


def _web(url: str, seconds: float) -> str:
    from kz_build.core import http  # requests costs 160 ms

    return http.reachable(url, seconds)

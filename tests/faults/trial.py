"""One verb, disturbed at one point, and what its next run makes of that."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.faults import strace
from tests.faults.points import Point, chosen
from tests.faults.process import Ended, kz
from tests.faults.strace import ERRORS, NOT_IN_GIT
from tests.faults.world import Files, World

_GIT = """#!/bin/sh
n=0
while ! mkdir {calls}/$n 2>/dev/null; do n=$((n+1)); done
[ "$n" = {number} ] || [ {number} = all ] && exec {strace} {git} "$@"
exec {git} "$@"
"""
_ALL, _OF_GIT = tuple(ERRORS), tuple(name for name in ERRORS if name not in NOT_IN_GIT)
_EXEC = (Point("execve", 1, "EACCES"), Point("execve", 1, "EMFILE"), Point("execve", 2, "EAGAIN"))


class Verdict(NamedTuple):
    """What came of a point: how the disturbed run ended, and what is wrong, '' if nothing is."""

    point: Point
    code: int
    wrong: str
    hit: bool
    said: str = ""


@dataclass(frozen=True)
class Undisturbed:
    """How a verb ends when nothing disturbs it, once and again; with the files and names that it leaves."""

    codes: tuple[int, int]
    files: tuple[Files, Files]
    names: set[str]
    volatile: set[str]
    healthy: bool


class Trial:
    """A verb's command line in its prepared world, and the exit code with which it ends undisturbed."""

    def __init__(self, world: World, argv: Sequence[str], answers: Callable[[], str] = str, code: int = 0) -> None:
        self.world = world
        self.code = code
        self.argv = ["-C", str(world.project), *argv]
        self.answers = answers
        self.outside = ""
        git = shutil.which("git", path=world.env["PATH"])
        self.git = git or "git"
        self.calls = world.root / "calls"
        self.expected = self._undisturbed()

    def _undisturbed(self) -> Undisturbed:
        """Run the verb from its prepared state twice over: what differs between those runs is volatile."""
        first, again, files, names = self._twice()
        self.outside = self.answers()
        _, _, other, more = self._twice()
        volatile = {name for one, two in zip(files, other, strict=True) for name in one if one[name] != two.get(name)}
        if bad := [name for name in volatile if not name.startswith("out/") and not name.endswith(".pte.json")]:
            raise RuntimeError(f"{self.argv}: differs between undisturbed runs: {bad}")
        healthy = self._kz("store", "verify").code == 0
        return Undisturbed((first.code, again.code), files, names | more | self.world.names(), volatile, healthy)

    def _twice(self) -> tuple[Ended, Ended, tuple[Files, Files], set[str]]:
        self.world.restore()
        first = kz(self.world, self.argv)
        if first.code != self.code:
            raise RuntimeError(f"{self.argv}: {first}")
        files, names = self.world.files(), self.world.names()
        again = kz(self.world, self.argv)
        return first, again, (files, self.world.files()), names | self.world.names()

    def _kz(self, *words: str) -> Ended:
        return kz(self.world, ["-C", str(self.world.project), *words])

    def points(self, most: int, seed: int) -> list[Point]:
        """Choose the points: three quarters in kz itself, the rest in the git that it starts."""
        self.world.restore()
        log = self.world.root / "log"
        kz(self.world, self.argv, strace.argv(log, _ALL))
        own = strace.calls(log, self.world.root)
        self.world.restore()
        self._wrap("all", [*strace.argv(Path("LOG"), _OF_GIT), "-f"])
        kz(self.world, self.argv, env=self._wrapped())
        of_git = []
        for folder in sorted(self.calls.iterdir(), key=lambda path: int(path.name)):
            found = strace.calls(folder / "log", self.world.root)
            of_git.append(chosen(found, 12, seed, int(folder.name)))
        spread = [point for turn in range(12) for some in of_git for point in some[turn : turn + 1]]
        gits = spread[: most // 4]
        execs = list(_EXEC) if any(call.name == "vfork" for call in own) or of_git else []
        return [*chosen(own, max(most - len(gits) - len(execs), 1), seed), *execs, *gits]

    def _wrap(self, number: str, words: Sequence[str]) -> None:
        """Put a git first on PATH that strace watches: the one with this number, or all."""
        shutil.rmtree(self.calls, ignore_errors=True)
        self.calls.mkdir()
        line = " ".join(f"'{word}'" for word in words).replace("'LOG'", f"{self.calls}/$n/log")
        program = self.world.root / "bin" / "git"
        program.parent.mkdir(exist_ok=True)
        program.write_text(_GIT.format(calls=self.calls, number=number, strace=line, git=self.git))
        program.chmod(0o755)

    def _wrapped(self) -> dict[str, str]:
        return {"PATH": f"{self.world.root}/bin:{self.world.env['PATH']}"}

    def at(self, point: Point) -> Verdict:
        """Disturb the verb at a point, run it again, and compare."""
        self.world.restore()
        ended, hit = self._disturbed(point)
        reached = point.name != "connect" or "left unknown" not in ended.stdout
        wrong = self._bug(ended) or (self._not_done(ended) if reached else "")
        again = kz(self.world, self.argv)
        if not wrong:
            wrong = self._bug(again, "the next run ") or self._differs(again)
        said = (
            "\n".join(
                (ended.stdout[-500:], ended.stderr[-3000:], "--- again:", again.stdout[-500:], again.stderr[-3000:])
            )
            if wrong
            else ""
        )
        return Verdict(point, ended.code, wrong, hit, said)

    def _disturbed(self, point: Point) -> tuple[Ended, bool]:
        log = self.world.root / "log"
        log.unlink(missing_ok=True)
        if point.git is not None:
            self._wrap(str(point.git), [*strace.argv(Path("LOG"), (point.name,), point.inject), "-f"])
            ended = kz(self.world, self.argv, env=self._wrapped())
            log = self.calls / str(point.git) / "log"
        else:
            follow = ["-f"] if point.name == "execve" else []
            ended = kz(self.world, self.argv, [*strace.argv(log, (point.name,), point.inject), *follow])
        text = log.read_text(errors="replace") if log.exists() else ""
        return ended, ended.code == -9 or "(INJECTED)" in text or "+++ killed" in text or point.what == strace.KILL

    def _bug(self, ended: Ended, which: str = "") -> str:
        if ended.code in (1, 99) or "Traceback (most recent call last)" in ended.stderr:
            return f"{which}ended as a bug of kz: {_last(ended.stderr)}"
        return f"{which}hangs" if ended.code == 124 else ""

    def _not_done(self, ended: Ended) -> str:
        """Say what an exit code of 0 hides."""
        if ended.code or self.expected.codes[0]:
            return ""
        problem = _difference(self.world.files(), self.expected.files[0], self.expected.volatile)
        return f"ended with 0, and leaves other files: {problem}" if problem else ""

    def _differs(self, again: Ended) -> str:
        """Say how the state after the next run differs from the undisturbed one, '' if it does not."""
        expected = self.expected
        if again.code not in expected.codes:
            return f"the next run ended with {again.code}, not {expected.codes[0]}: {_last(again.stderr)}"
        found = self.world.files()
        problems = [_difference(found, files, expected.volatile) for files in expected.files]
        if all(problems):
            return f"the next run leaves other files: {problems[0]}"
        if self.outside and (answer := self.answers()) != self.outside:
            return f"elsewhere there is {answer}, not {self.outside}"
        if expected.healthy and (verified := self._kz("store", "verify")).code:
            return f"kz store verify says: {_last(verified.stderr)}"
        if (left := self.world.names() - expected.names) and "gc" not in self.argv:
            self.world.grow_older()
            self._kz("store", "gc", "--delete")
            left = self.world.names() - expected.names
        return f"left behind: {', '.join(sorted(left)[:5])}" if left else ""


def _difference(found: Files, files: Files, volatile: set[str]) -> str:
    names = [
        name for name in files.keys() | found.keys() if files.get(name) != found.get(name) and name not in volatile
    ]
    return ", ".join(f"{name} ({_how(found.get(name), files.get(name))})" for name in sorted(names)[:4])


def _how(found: bytes | str | None, wanted: bytes | str | None) -> str:
    return "missing" if found is None else "not wanted" if wanted is None else "other bytes"


def _last(text: str) -> str:
    rows = [row for row in re.sub(r"\n  -> .*", "", text).strip().splitlines() if row.strip() and "kz: exit" not in row]
    rows = [row for row in rows if "this is a bug of kz" not in row]
    return rows[-1] if rows else ""

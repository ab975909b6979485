"""What differs between two builds of the same inputs, and what they made of it."""

from __future__ import annotations

from dataclasses import dataclass

NOTHING, TOGETHER = "nothing", "together"

CAUSES = {
    "path": "embedded path: a folder of the build stands in it, or sorts it",
    "hostname": "the name of the machine stands in it",
    "uid": "the user who builds stands in it, or owns what is packed",
    "umask": "file modes of the build stand in it",
    "locale": "the locale sorts it, or chooses its text or characters",
    "timezone": "a local time stands in it",
    "cpus": "parallelism: the number of cores stands in it, or the order in which jobs end",
    "order": "file order: it takes files as the folder lists them; sort them",
    "clock": "timestamp: the time of the build stands in it",
    NOTHING: "it differs with nothing varied: random numbers, addresses, or a race",
    TOGETHER: "no single variation does it: several together, or chance",
}
"""Likely cause of a difference, by the variation that brings it."""


@dataclass(frozen=True)
class Variation:
    """One thing about a build's surroundings, as it is (`first`) and as the second build gets it.

    `argv` goes before each command, `env` over its environment. `absent` says why it cannot be varied here, and what
    would bring it; `note` says what falls short although it is varied.
    """

    name: str
    first: str
    second: str = ""
    argv: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    absent: str = ""
    note: str = ""


@dataclass(frozen=True)
class Difference:
    """A file that differs, and where in it: an ELF section, a member of a zip, '' for the file as such.

    `first` and `second` are what stands at the first byte that differs. `causes` are keys of CAUSES, empty for what
    only follows from other differences (a build-id).
    """

    file: str
    where: str
    first: str
    second: str
    causes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reproduced:
    """Outcome of building twice. `files` maps each file to its sha256 in the first build; `builds` each build to its seconds.

    `dist` is `same`, `differs` or `absent`: what `kz build` had left there before. `objects` are the intermediate files that
    differ, where the trouble starts.
    """

    line: str
    target: str
    variations: tuple[Variation, ...]
    files: dict[str, str]
    differences: tuple[Difference, ...]
    objects: tuple[str, ...]
    builds: dict[str, float]
    dist: str
    network: str

    @property
    def same(self) -> bool:
        """Whether every file came out the same, every time."""
        return not self.differences and self.dist != "differs"

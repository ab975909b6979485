"""Variations between two builds of the same inputs, and the differences that they cause."""

from __future__ import annotations

from dataclasses import dataclass

NOTHING, TOGETHER = "nothing", "together"

CAUSES = {
    "path": "embedded path: a folder of the build is in it, or decides an order",
    "hostname": "the name of the machine is in it",
    "uid": "the user who builds is in it, or owns what is packed",
    "umask": "file modes of the build are in it",
    "locale": "the locale decides an order, its text or its characters",
    "timezone": "a local time is in it",
    "cpus": "parallelism: the number of cores is in it, or the order in which jobs end",
    "order": "file order: it reads files in the folder's order; sort them",
    "clock": "timestamp: the time of the build is in it",
    NOTHING: "it differs with nothing varied: random numbers, addresses, or a race",
    TOGETHER: "no single variation causes it: several together, or chance",
}
"""Likely cause of a difference, by the variation that causes it."""


@dataclass(frozen=True)
class Variation:
    """One property of a build's surroundings, as it is (`first`) and for the second build.

    `argv` goes before each command, `env` over its environment. `absent` says why it cannot be varied here, and how
    to change that; `note` says what is not covered although it is varied.
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

    `first` and `second` are the content at the first byte that differs. `causes` are keys of CAUSES, empty for what
    only follows from other differences (a build-id).
    """

    file: str
    where: str
    first: str
    second: str
    causes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReproduceResult:
    """Result of building twice. `files` maps each file to its sha256 in the first build; `builds` each build to its seconds.

    `dist` is `same`, `differs` or `absent`: what `kz build` had left there. `objects` are the intermediate files that
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
        """Whether every file was the same, every time."""
        return not self.differences and self.dist != "differs"

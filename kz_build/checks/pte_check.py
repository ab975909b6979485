"""What a .pte is held against, and how its names are said."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kz_build.checks.contract import Contract
from kz_build.formats.library_types import Library
from kz_build.formats.pte_types import Pte, QnnSpec

_SHOWN = 5


@dataclass(frozen=True)
class Asked:
    """A file, and what it is held against: a recipe's contract, a library, the SoC of a device ('' without one)."""

    pte: Pte
    contract: Contract
    library: Library | None
    soc: str

    @property
    def specs(self) -> tuple[QnnSpec, ...]:
        """The distinct compile specs of its QNN delegates."""
        return tuple(dict.fromkeys(d.qnn for d in self.pte.delegates if d.qnn))


def listed(names: Iterable[str]) -> str:
    """Names in order, the first few."""
    found = sorted(names)
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more


def named(asked: Asked) -> str:
    """The library's name."""
    return asked.library.name if asked.library else ""

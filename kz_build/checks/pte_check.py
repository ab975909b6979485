"""A .pte with all that it is checked against, and names as messages show them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kz_build.checks.contract import Contract
from kz_build.formats.library_types import Library
from kz_build.formats.pte_types import Pte, QnnSpec

_SHOWN = 5


@dataclass(frozen=True)
class PteSubject:
    """A file and what it is checked against: a recipe's contract, a library, a device's SoC ('' without one)."""

    pte: Pte
    contract: Contract
    library: Library | None
    soc: str

    @property
    def specs(self) -> tuple[QnnSpec, ...]:
        """Return the distinct compile specs of its QNN delegates."""
        return tuple(dict.fromkeys(d.qnn for d in self.pte.delegates if d.qnn))


def listed(names: Iterable[str]) -> str:
    """Join the first few names, in order."""
    shown = sorted(names)
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return ", ".join(shown[:_SHOWN]) + more


def library_name(subject: PteSubject) -> str:
    """Return the library's name, '' without one."""
    return subject.library.name if subject.library else ""

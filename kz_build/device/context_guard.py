"""What a push must not bring to a device: a QNN context that the QNN there refuses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kz_build.core.errors import DeviceError
from kz_build.core.stage_record import beside, load_any
from kz_build.device.push_plan import Item
from kz_build.formats.library import QNN_HTP, qnn_version
from kz_build.formats.pte import read_pte
from kz_build.formats.pte_types import newer, version_key


def check_fit(found: Sequence[Item]) -> None:
    """Raise DeviceError for each .pte whose QNN context is newer than the QNN that goes along, or than the one that its own
    record says it is not for, where none goes along. A context loads on no older QNN than compiled it (err 5000)."""
    runtimes = {version for item in found if Path(item.name).name == QNN_HTP and (version := qnn_version(item.local))}
    wrong = []
    for item in found:
        if not item.name.endswith(".pte"):
            continue
        compiled = {context.sdk for _, context in read_pte(item.local).contexts if context.sdk}
        newest = max(compiled, key=version_key, default="")
        older = [version for version in runtimes if newest and newer(newest, version)]
        if older:
            wrong.append(f"{item.name}: QNN {newest} compiled it, and the {QNN_HTP} that goes along is {older[0]}")
        elif newest and not runtimes and (said := _not_for(item.local)) and newer(newest, said):
            wrong.append(f"{item.name}: QNN {newest} compiled it, and its contract says: never to a device with {said}")
    if wrong:
        raise DeviceError(
            "\n  ".join(["a device would refuse this (err 5000), so nothing was pushed:", *wrong]),
            hint=f"a context loads on the QNN that compiled it or a newer one: push that {QNN_HTP} along with it",
        )


def _not_for(path: Path) -> str:
    """The QNN that an exported file is not for, by the record that `kz export` left beside it; '' without one."""
    record = load_any(beside(path))
    contract = record.inputs.get("contract") if record else None
    return str(contract.get("newer_than") or "") if isinstance(contract, dict) else ""

"""A guard against the push of a QNN context that the device's QNN refuses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kz_build.core.errors import DeviceError
from kz_build.core.stage_record import beside, load_any
from kz_build.device.push_plan import Item
from kz_build.formats.library import QNN_HTP, qnn_version
from kz_build.formats.pte import read_pte
from kz_build.formats.pte_types import newer, version_key


def check_fit(items: Sequence[Item]) -> None:
    """Raise DeviceError for each .pte whose QNN context is newer than the QNN that is pushed with it, or, without one, than the
    QNN that its record says it is not for. A context does not load on a QNN older than the one that compiled it (err 5000)."""
    runtimes = {version for item in items if Path(item.name).name == QNN_HTP and (version := qnn_version(item.local))}
    wrong = []
    for item in items:
        if not item.name.endswith(".pte"):
            continue
        compiled = {context.sdk for _, context in read_pte(item.local).contexts if context.sdk}
        newest = max(compiled, key=version_key, default="")
        older = [version for version in runtimes if newest and newer(newest, version)]
        if older:
            wrong.append(f"{item.name}: QNN {newest} compiled it, and the {QNN_HTP} pushed with it is {older[0]}")
        elif newest and not runtimes and (refusing := _not_for(item.local)) and newer(newest, refusing):
            wrong.append(f"{item.name}: QNN {newest} compiled it, and its contract forbids devices with {refusing}")
    if wrong:
        raise DeviceError(
            "\n  ".join(["a device would refuse this (err 5000), so nothing was pushed:", *wrong]),
            hint=f"a context loads on the QNN that compiled it or a newer one: push that {QNN_HTP} with it",
        )


def _not_for(path: Path) -> str:
    """Return the QNN that an exported file is not for, from the record of `kz export` beside it; '' without one."""
    record = load_any(beside(path))
    contract = record.inputs.get("contract") if record else None
    return str(contract.get("newer_than") or "") if isinstance(contract, dict) else ""

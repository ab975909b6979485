"""Devices and pushes as text."""

from __future__ import annotations

from collections.abc import Sequence

from kz_build.device.properties import Attached, DeviceInfo, known_soc
from kz_build.device.push_plan import Pushed
from kz_build.formats.soc import SOCS, has_fp16, soc_id_note


def attached(facts: Sequence[Attached]) -> str:
    if not facts:
        return "no device"
    width = max(len(one.serial) for one in facts)
    return "\n".join(f"{one.serial:{width}}  {one.state:12}  {one.model}".rstrip() for one in facts)


def info(facts: DeviceInfo) -> str:
    ram, storage = _of(facts.ram_free, facts.ram_total), _of(facts.storage_free, facts.storage_total)
    warm = "" if facts.battery_celsius is None else f", {facts.battery_celsius:g} °C"
    rows = {
        "model": facts.model,
        "SoC": _soc(facts),
        "QNN": soc_id_note(facts.soc_id) if facts.soc_id is not None else "",
        "Android": " ".join(filter(None, (facts.android, f"(API {facts.sdk})" if facts.sdk else "", facts.abi))),
        "page size": "" if facts.page_size is None else f"{facts.page_size:,} bytes",
        "RAM": ram,
        "storage": storage,
        "SELinux": facts.selinux,
        "DSP daemons": ", ".join(f"{name} {state}" for name, state in facts.daemons.items()),
        "vendor's QNN": ", ".join(path.rpartition("/")[2] for path in facts.qnn),
        "thermal": facts.thermal,
        "battery": "" if facts.battery_percent is None else f"{facts.battery_percent} %{warm}",
    }
    head = f"{facts.serial}  EMULATED: no figure of it stands for a device" if facts.emulated else facts.serial
    lines = [head, *(f"  {name:13} {text}" for name, text in rows.items() if text)]
    return "\n".join([*lines, f"  {'not reported':13} {', '.join(facts.unsaid)}"] if facts.unsaid else lines)


def _soc(facts: DeviceInfo) -> str:
    if not facts.soc:
        return ""
    known = SOCS.get(known_soc(facts.soc))
    parts = [facts.soc, f"soc_id {facts.soc_id}" if facts.soc_id is not None else ""]
    if not known:
        return ", ".join(filter(None, (*parts, "HTP arch unknown to kz")))
    fp16 = "" if has_fp16(known_soc(facts.soc)) else "no FP16"
    return ", ".join(filter(None, (*parts, f"HTP {known.arch}", f"VTCM {known.vtcm_mb} MB", fp16)))


def _of(free: int | None, total: int | None) -> str:
    if free is None:
        return ""
    return f"{free / 1e9:.1f} GB free" + ("" if total is None else f" of {total / 1e9:.1f}")


def pushed(facts: Pushed) -> str:
    rate = f", {facts.bytes / 1e6 / facts.sending:,.0f} MB/s" if facts.sending else ""
    head = f"{facts.serial}{'  EMULATED' if facts.emulated else ''}  {facts.folder}"
    rows = [
        head,
        f"  {len(facts.sent)} files sent ({facts.bytes / 1e6:,.1f} MB in {facts.sending:.2f} s{rate}; "
        f"{facts.verifying:.2f} s more to verify), {facts.kept} were there, in {facts.seconds:.2f} s",
    ]
    if facts.removed:
        rows.append(f"  {len(facts.removed)} removed: {', '.join(facts.removed)}")
    return "\n".join(rows)

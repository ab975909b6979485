"""Devices as text."""

from __future__ import annotations

from collections.abc import Sequence

from kz_build.device.properties import Attached, DeviceInfo
from kz_build.device.push_plan import Pushed


def attached(found: Sequence[Attached]) -> str:
    """One line a device."""
    if not found:
        return "no device"
    width = max(len(one.serial) for one in found)
    return "\n".join(f"{one.serial:{width}}  {one.state:12}  {one.model}".rstrip() for one in found)


def info(found: DeviceInfo) -> str:
    """A device's report."""
    ram, storage = _of(found.ram_free, found.ram_total), _of(found.storage_free, found.storage_total)
    warm = "" if found.battery_celsius is None else f", {found.battery_celsius:g} °C"
    rows = {
        "model": found.model,
        "SoC": found.soc
        + (f", HTP {found.arch}" if found.arch else ", of no HTP arch that kz knows" if found.soc else ""),
        "Android": " ".join(filter(None, (found.android, f"(API {found.sdk})" if found.sdk else "", found.abi))),
        "page size": "" if found.page_size is None else f"{found.page_size:,} bytes",
        "RAM": ram,
        "storage": storage,
        "SELinux": found.selinux,
        "DSP daemons": ", ".join(f"{name} {state}" for name, state in found.daemons.items()),
        "vendor's QNN": ", ".join(path.rpartition("/")[2] for path in found.qnn),
        "thermal": found.thermal,
        "battery": "" if found.battery_percent is None else f"{found.battery_percent} %{warm}",
    }
    head = f"{found.serial}  EMULATED: no figure of it stands for a device" if found.emulated else found.serial
    lines = [head, *(f"  {name:13} {text}" for name, text in rows.items() if text)]
    return "\n".join([*lines, f"  {'does not say':13} {', '.join(found.unsaid)}"] if found.unsaid else lines)


def _of(free: int | None, total: int | None) -> str:
    if free is None:
        return ""
    return f"{free / 1e9:.1f} GB free" + ("" if total is None else f" of {total / 1e9:.1f}")


def pushed(found: Pushed) -> str:
    """What a push did."""
    rate = f", {found.bytes / 1e6 / found.sending:,.0f} MB/s" if found.sending else ""
    head = f"{found.serial}{'  EMULATED' if found.emulated else ''}  {found.folder}"
    rows = [
        head,
        f"  {len(found.sent)} files sent ({found.bytes / 1e6:,.1f} MB in {found.sending:.2f} s{rate}; "
        f"{found.verifying:.2f} s more to verify), {found.kept} were there, in {found.seconds:.2f} s",
    ]
    if found.removed:
        rows.append(f"  {len(found.removed)} removed: {', '.join(found.removed)}")
    return "\n".join(rows)

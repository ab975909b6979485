"""What is known of an Android device: how one is asked, what it said, and the properties of an emulated one. Plain data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from kz_build.pins.soc import ARCH

MARK = "@@kz "
QUESTIONS: dict[str, str] = {
    "props": "getprop",
    "page": "getconf PAGE_SIZE",
    "memory": "cat /proc/meminfo",
    "storage": "df -k /data/local/tmp",
    "selinux": "getenforce",
    "daemons": "for p in adsprpcd cdsprpcd; do pidof $p >/dev/null && echo $p; done",
    "qnn": "ls -d /vendor/lib64/libQnn* /vendor/lib64/hw/libQnn* /vendor/lib/rfsa/adsp/libQnn* /vendor/dsp/cdsp/libQnn*",
    "thermal": "dumpsys thermalservice",
    "battery": "dumpsys battery",
}
"""name -> command of a plain shell that answers it, without root"""

THERMAL = ("none", "light", "moderate", "severe", "critical", "emergency", "shutdown")
"""Android's thermal status by number (android.os.PowerManager.THERMAL_STATUS_*)."""


@dataclass(frozen=True)
class Attached:
    """A device that the adb server knows; `state` is adb's own word: device, offline, unauthorized, …"""

    serial: str
    state: str
    model: str = ""
    emulated: bool = False


@dataclass(frozen=True)
class DeviceInfo:
    """One device. Sizes in bytes; None or '' where the device did not tell, and then `unsaid` names it."""

    serial: str
    emulated: bool = False
    model: str = ""
    soc: str = ""
    arch: str = ""
    android: str = ""
    sdk: int | None = None
    abi: str = ""
    page_size: int | None = None
    ram_total: int | None = None
    ram_free: int | None = None
    storage_total: int | None = None
    storage_free: int | None = None
    selinux: str = ""
    daemons: Mapping[str, str] = field(default_factory=dict)
    qnn: tuple[str, ...] = ()
    thermal: str = ""
    battery_percent: int | None = None
    battery_celsius: float | None = None
    unsaid: tuple[str, ...] = ()


def question() -> str:
    """All questions as one command, so that a device is asked once."""
    parts = [f"echo '{MARK}{name}'; {{ {command}; }} 2>/dev/null </dev/null" for name, command in QUESTIONS.items()]
    return "; ".join([*parts, "true"])


def answers(text: str) -> dict[str, str]:
    """What a device answered to `question()`, by name."""
    found: dict[str, str] = {}
    for part in f"\n{text}".split(f"\n{MARK}")[1:]:
        name, _, said = part.partition("\n")
        found[name.strip()] = said.strip()
    return found


def properties(text: str) -> dict[str, str]:
    """`getprop`'s list as a mapping."""
    return dict(re.findall(r"^\[([^\]]+)\]: \[(.*?)\]$", text.replace("\r", ""), re.M | re.S))


def known_soc(said: str) -> str:
    """The SoC of our table that a device means: `SM8750-AB` and `SM8750P` are an SM8750; '' where it is none of them."""
    name = said.strip().upper()
    return next((soc for soc in ARCH if re.fullmatch(rf"{soc}(P|[-_ ].*)?", name)), "")


def understood(serial: str, text: str) -> DeviceInfo:
    """A device's answer as facts, with what it does not tell named."""
    said = answers(text)
    props = properties(said.get("props", ""))
    memory = {name: int(kib) * 1024 for name, kib in re.findall(r"^(\w+):\s+(\d+) kB", said.get("memory", ""), re.M)}
    total, free = free_storage(said.get("storage", ""))
    battery = dict(re.findall(r"^\s*(level|temperature): (-?\d+)", said.get("battery", ""), re.M))
    status = re.search(r"Thermal Status: (\d+)", said.get("thermal", ""))
    found = DeviceInfo(
        serial=serial,
        emulated=props.get("ro.kz.emulated") == "1",
        model=" ".join(filter(None, (props.get("ro.product.manufacturer"), props.get("ro.product.model")))),
        soc=props.get("ro.soc.model", ""),
        arch=ARCH.get(known_soc(props.get("ro.soc.model", "")), ""),
        android=props.get("ro.build.version.release", ""),
        sdk=_number(props.get("ro.build.version.sdk", "")),
        abi=props.get("ro.product.cpu.abi", ""),
        page_size=_number(said.get("page", "")),
        ram_total=memory.get("MemTotal"),
        ram_free=memory.get("MemAvailable"),
        storage_total=total,
        storage_free=free,
        selinux=said.get("selinux", ""),
        daemons=_daemons(props, said.get("daemons", "").split()),
        qnn=tuple(said.get("qnn", "").splitlines()),
        thermal=THERMAL[int(status[1])] if status and int(status[1]) < len(THERMAL) else "",
        battery_percent=_number(battery.get("level", "")),
        battery_celsius=int(battery["temperature"]) / 10 if "temperature" in battery else None,
    )
    return _with_unsaid(found)


def free_storage(df: str) -> tuple[int | None, int | None]:
    """(total, free) bytes of `df -k`'s only row, (None, None) where it has none."""
    row = re.search(r"\s(\d+)\s+(\d+)\s+(-?\d+)\s+\d+%", df)
    return (int(row[1]) * 1024, max(0, int(row[3])) * 1024) if row else (None, None)


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?\d+", text) else None


def _daemons(props: Mapping[str, str], alive: list[str]) -> dict[str, str]:
    """State of the DSP's daemons: what init says of them, or that a process of that name was seen."""
    found = {}
    for name in ("adsprpcd", "cdsprpcd"):
        state = [value for key, value in sorted(props.items()) if re.fullmatch(rf"init\.svc\.(vendor\.)?{name}", key)]
        if state or name in alive:
            found[name] = "running" if name in alive or "running" in state else state[0]
    return found


def _with_unsaid(found: DeviceInfo) -> DeviceInfo:
    from dataclasses import replace

    silent = {
        "SoC": not found.soc,
        "HTP arch": not found.arch,
        "Android version": not found.android,
        "page size": found.page_size is None,
        "free RAM": found.ram_free is None,
        "free storage": found.storage_free is None,
        "SELinux": not found.selinux,
        **{name: name not in found.daemons for name in ("adsprpcd", "cdsprpcd")},
        "vendor's QNN libraries": not found.qnn,
        "thermal state": not found.thermal,
        "battery": found.battery_percent is None,
    }
    return replace(found, unsaid=tuple(name for name, missing in silent.items() if missing))

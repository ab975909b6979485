"""Facts of an Android device: the commands that read them, and their output parsed. Plain data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from kz_build.formats.soc import ARCH

MARK = "@@kz "
QUESTIONS: dict[str, str] = {
    "props": "getprop",
    "soc_id": "cat /sys/devices/soc0/soc_id",
    "page": "getconf PAGE_SIZE",
    "memory": "cat /proc/meminfo",
    "storage": "df -k /data/local/tmp",
    "selinux": "getenforce",
    "daemons": "for p in adsprpcd cdsprpcd; do pidof $p >/dev/null && echo $p; done",
    "qnn": "ls -d /vendor/lib64/libQnn* /vendor/lib64/hw/libQnn* /vendor/lib/rfsa/adsp/libQnn* /vendor/dsp/cdsp/libQnn*",
    "thermal": "dumpsys thermalservice",
    "battery": "dumpsys battery",
}
"""name -> command that answers it in a plain shell, without root"""

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
    """One device. Sizes in bytes; None or '' for what the device did not report, which `unsaid` names."""

    serial: str
    emulated: bool = False
    model: str = ""
    soc: str = ""
    arch: str = ""
    soc_id: int | None = None
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
    fingerprint: str = ""
    """Of its Android build."""
    unsaid: tuple[str, ...] = ()


def info_command() -> str:
    """Return all questions as one command, so that one call is enough."""
    parts = [f"echo '{MARK}{name}'; {{ {command}; }} 2>/dev/null </dev/null" for name, command in QUESTIONS.items()]
    return "; ".join([*parts, "true"])


def split_answers(text: str) -> dict[str, str]:
    """Split the output of `info_command()` by name."""
    by_name: dict[str, str] = {}
    for part in f"\n{text}".split(f"\n{MARK}")[1:]:
        name, _, answer = part.partition("\n")
        by_name[name.strip()] = answer.strip()
    return by_name


def properties(text: str) -> dict[str, str]:
    """Parse the output of `getprop`."""
    return dict(re.findall(r"^\[([^\]]+)\]: \[(.*?)\]$", text.replace("\r", ""), re.M | re.S))


def known_soc(model: str) -> str:
    """Return a device's SoC as our table has it: `SM8750-AB` and `SM8750P` are an SM8750; '' for any other."""
    name = model.strip().upper()
    return next((soc for soc in ARCH if re.fullmatch(rf"{soc}(P|[-_ ].*)?", name)), "")


def parse_info(serial: str, text: str) -> DeviceInfo:
    """Parse a device's answers, and name what it does not report."""
    by_question = split_answers(text)
    props = properties(by_question.get("props", ""))
    memory = {
        name: int(kib) * 1024
        for name, kib in re.findall(r"^(\w+):\s+(\d{1,18}) kB", by_question.get("memory", ""), re.M)
    }
    total, free = free_storage(by_question.get("storage", ""))
    battery = dict(re.findall(r"^\s*(level|temperature): (-?\d{1,9})(?!\d)", by_question.get("battery", ""), re.M))
    status = re.search(r"Thermal Status: (\d)\b", by_question.get("thermal", ""))
    info = DeviceInfo(
        serial=serial,
        emulated=props.get("ro.kz.emulated") == "1",
        model=" ".join(filter(None, (props.get("ro.product.manufacturer"), props.get("ro.product.model")))),
        soc=props.get("ro.soc.model", ""),
        arch=ARCH.get(known_soc(props.get("ro.soc.model", "")), ""),
        soc_id=_number(by_question.get("soc_id", "")),
        android=props.get("ro.build.version.release", ""),
        sdk=_number(props.get("ro.build.version.sdk", "")),
        abi=props.get("ro.product.cpu.abi", ""),
        page_size=_number(by_question.get("page", "")),
        ram_total=memory.get("MemTotal"),
        ram_free=memory.get("MemAvailable"),
        storage_total=total,
        storage_free=free,
        selinux=by_question.get("selinux", ""),
        daemons=_daemons(props, by_question.get("daemons", "").split()),
        qnn=tuple(by_question.get("qnn", "").splitlines()),
        thermal=THERMAL[int(status[1])] if status and int(status[1]) < len(THERMAL) else "",
        battery_percent=_number(battery.get("level", "")),
        fingerprint=props.get("ro.build.fingerprint", ""),
        battery_celsius=int(battery["temperature"]) / 10 if "temperature" in battery else None,
    )
    return _with_unsaid(info)


def free_storage(df: str) -> tuple[int | None, int | None]:
    """Return (total, free) bytes from the only row of `df -k`, (None, None) without one."""
    row = re.search(r"\s(\d{1,18})\s+(\d{1,18})\s+(-?\d{1,18})\s+\d+%", df)
    return (int(row[1]) * 1024, max(0, int(row[3])) * 1024) if row else (None, None)


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else None


def _daemons(props: Mapping[str, str], alive: list[str]) -> dict[str, str]:
    """Return the state of the DSP's daemons, from init's properties or a process of that name."""
    states = {}
    for name in ("adsprpcd", "cdsprpcd"):
        state = [value for key, value in sorted(props.items()) if re.fullmatch(rf"init\.svc\.(vendor\.)?{name}", key)]
        if state or name in alive:
            states[name] = "running" if name in alive or "running" in state else state[0]
    return states


def _with_unsaid(info: DeviceInfo) -> DeviceInfo:
    from dataclasses import replace

    silent = {
        "SoC": not info.soc,
        "HTP arch": not info.arch,
        "Android version": not info.android,
        "page size": info.page_size is None,
        "free RAM": info.ram_free is None,
        "free storage": info.storage_free is None,
        "SELinux": not info.selinux,
        **{name: name not in info.daemons for name in ("adsprpcd", "cdsprpcd")},
        "vendor's QNN libraries": not info.qnn,
        "thermal state": not info.thermal,
        "battery": info.battery_percent is None,
    }
    return replace(info, unsaid=tuple(name for name, missing in silent.items() if missing))

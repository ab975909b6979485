"""Snapdragon SoCs: QNN's number, HTP architecture, VTCM, and which ExecuTorch and QNN know them."""

from __future__ import annotations

from typing import NamedTuple

from kz_build.core.errors import ConfigError


class Soc(NamedTuple):
    """A SoC as upstream's qc_schema.py has it. `since` is the first release of ExecuTorch with it; 0.5.0 is the oldest that was read."""

    number: int
    arch: str
    vtcm_mb: int
    since: str = "0.5.0"


# QcomChipset and _soc_info_table of upstream's backends/qualcomm/serialization/qc_schema.py, at the tags v0.5.0 to v1.4.1.
SOCS = {
    "SA8295": Soc(39, "v68", 8),
    "SM8350": Soc(30, "v68", 4, "1.1.0"),
    "QCM6490": Soc(93, "v68", 2, "1.1.0"),
    "SM8450": Soc(36, "v69", 8),
    "SM8475": Soc(42, "v69", 8),
    "SXR2230P": Soc(53, "v69", 8, "0.6.0"),
    "SM8550": Soc(43, "v73", 8),
    "SA8255": Soc(52, "v73", 8, "1.1.0"),
    "SSG2115P": Soc(46, "v73", 2),
    "SSG2125P": Soc(58, "v73", 2, "0.6.0"),
    "SXR1230P": Soc(45, "v73", 2, "0.6.0"),
    "QCS9100": Soc(77, "v73", 8, "1.1.0"),
    "SM8650": Soc(57, "v75", 8),
    "SM8750": Soc(69, "v79", 8, "0.6.0"),
    "SXR2330P": Soc(75, "v79", 8, "0.6.0"),
    "SM8850": Soc(87, "v81", 8, "1.1.0"),
    "SM8845": Soc(97, "v81", 8, "1.1.0"),
    "SA8797": Soc(72, "v81", 16, "1.2.0"),
    "SAR2230P": Soc(95, "v81", 4, "1.1.0"),
    "SW6100": Soc(96, "v81", 4, "1.1.0"),
}
ARCH = {name: soc.arch for name, soc in SOCS.items()}
BY_NUMBER = {soc.number: name for name, soc in SOCS.items()}

# The first QNN with libraries for an HTP architecture, where somebody at Qualcomm said it in public. (2.39 has v81's, too, as
# https://github.com/xororz/local-dream/releases/tag/v1.9.0 says; whether it is the first nobody says.)
QNN_SINCE = {"v79": "2.30.0"}  # https://github.com/pytorch/executorch/issues/7550

# FP16 on HTP begins with v69: https://github.com/onnxruntime/onnxruntime-qnn skips its FP16 tests up to QNN_HTP_DEVICE_ARCH_V68.
_WITHOUT_FP16 = frozenset({"v68"})
# What /sys/devices/soc0/soc_id says of devices that a QNN refuses ("No Snapdragon SOC detected"), whatever their ro.soc.model.
_SOC_IDS = {
    705: "CQ8750S: known from QNN 2.42 on (https://github.com/pytorch/executorch/issues/16465)",
    639: "SM8750P: reported unknown up to QNN 2.48 (https://github.com/pytorch/executorch/issues/21586)",
}


def arch_of(soc: str) -> str:
    """Return the HTP architecture of a SoC, as in `v79`. Raises ConfigError for an unknown one."""
    if soc.upper() not in ARCH:
        raise ConfigError(f"unknown SoC {soc!r}", hint=f"known: {' '.join(sorted(ARCH))}")
    return ARCH[soc.upper()]


def has_fp16(soc: str) -> bool:
    """Return whether the HTP of a known SoC computes in FP16."""
    return ARCH[soc] not in _WITHOUT_FP16


def soc_id_note(soc_id: int) -> str:
    """Return which QNN knows devices with this soc_id, '' where nothing is known of them."""
    return _SOC_IDS.get(soc_id, "")

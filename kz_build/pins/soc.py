"""Snapdragon SoC -> Hexagon HTP architecture, as in upstream's qc_schema.py (_soc_info_table) at v1.2.0."""

from __future__ import annotations

from kz_build.core.errors import ConfigError

_BY_ARCH = {
    "v68": "SA8295 SM8350 QCM6490",
    "v69": "SM8450 SM8475 SXR2230P",
    "v73": "SM8550 SA8255 SSG2115P SSG2125P SXR1230P QCS9100",
    "v75": "SM8650",
    "v79": "SM8750 SXR2330P",
    "v81": "SM8850 SM8845 SA8797 SAR2230P SW6100",
}
ARCH = {soc: arch for arch, names in _BY_ARCH.items() for soc in names.split()}


def arch_of(soc: str) -> str:
    """Return the HTP architecture of a SoC, as in `v79`. Raises ConfigError for an unknown one."""
    if soc.upper() not in ARCH:
        raise ConfigError(f"unknown SoC {soc!r}", hint=f"known: {' '.join(sorted(ARCH))}")
    return ARCH[soc.upper()]

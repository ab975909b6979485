"""What of a build, a QNN runtime and a recipe goes to a device of one HTP arch, and under which names. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kz_build.core.errors import Missing
from kz_build.formats.library_types import htp_arch

RUNTIME = ("libQnnHtp.so", "libQnnHtp{ARCH}Stub.so", "libQnnHtp{ARCH}Skel.so", "libQnnHtpPrepare.so", "libQnnSystem.so")
"""What a QNN model needs of Qualcomm's on a device, as upstream's SimpleADB pushes it (examples/qualcomm/utils.py at v1.2.0)."""
ALONG = ("libQnnModelDlc.so",)
"""Pushed by upstream too, and opened for DLC files alone: it goes along where the runtime has it."""
BACKEND = "libqnn_executorch_backend.so"


@dataclass(frozen=True)
class Given:
    """A file that a recipe or a person names for the device. `brings` says what makes it where it is not `there`."""

    path: Path
    name: str
    there: bool
    brings: str


@dataclass(frozen=True)
class PushSet:
    """`files` are (source, name on the device), each name once, in order of names; `missing` is all that is not there."""

    files: tuple[tuple[Path, str], ...]
    missing: tuple[Missing, ...]

    @property
    def names(self) -> frozenset[str]:
        """Names on the device."""
        return frozenset(name for _, name in self.files)


def push_set(
    arch: str, dist: Mapping[str, Path], runtime: Mapping[str, Path], given: Sequence[Given], *, qnn: bool
) -> PushSet:
    """The set for one HTP arch (`v79`; '' where the device's is not known).

    `dist`: files of the build by name. `runtime`: Qualcomm's libraries by name, of an SDK or a runtime AAR; {} without one.
    `given` wins over both. `qnn`: whether a QNN model is to run. All of Qualcomm's come from one place: from the build if it
    has all of this arch, else from the runtime.
    """
    needed = tuple(name.format(ARCH=arch.upper()) for name in RUNTIME) if qnn and arch else ()
    missing: list[Missing] = []
    if qnn and not arch:
        brings = "a device whose ro.soc.model is in kz's table (kz device info)"
        missing.append(Missing("the HTP arch of the device", "QNN's stub and skel are made for one arch each", brings))
    own = {item.name for item in given}
    found = {name: path for name, path in dist.items() if not name.startswith("libQnn")}
    whole = all(name in dist or name in own for name in needed)
    place = dist if whole or not runtime else runtime
    for name in (*needed, *(name for name in ALONG if qnn)):
        if name in place:
            found[name] = place[name]
        elif name in needed and name not in own:
            missing.append(_runtime_missing(name, arch, dist, runtime))
    for item in given:
        found[item.name] = item.path
        if not item.there:
            missing.append(Missing(item.name, f"{item.path} is not there", item.brings))
    return PushSet(tuple((path, name) for name, path in sorted(found.items())), tuple(missing))


def _runtime_missing(name: str, arch: str, dist: Mapping[str, Path], runtime: Mapping[str, Path]) -> Missing:
    archs = sorted(arch.lower() for arch in skel_archs((*dist, *runtime)))
    where = "the runtime that is named has none" if runtime else "the build has none"
    of = f" (it is for {', '.join(archs)})" if archs and htp_arch(name) else ""
    brings = f"kz build --soc with a SoC of {arch}, QNN_SDK_ROOT, or --qnn with Qualcomm's SDK or its qnn-runtime AAR"
    return Missing(name, f"{where}{of}", brings)


def skel_archs(names: Sequence[str]) -> frozenset[str]:
    """HTP archs (V79) that stubs and skels of these names are for."""
    return frozenset(arch for name in names if (arch := htp_arch(name)))

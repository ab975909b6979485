"""The files of a build, a QNN runtime and a recipe that a device of one HTP arch gets, by name. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kz_build.core.errors import Missing
from kz_build.formats.library_types import htp_arch

RUNTIME = ("libQnnHtp.so", "libQnnHtp{ARCH}Stub.so", "libQnnHtp{ARCH}Skel.so", "libQnnHtpPrepare.so", "libQnnSystem.so")
"""What a QNN model needs of Qualcomm's on a device, as upstream's SimpleADB pushes it (examples/qualcomm/utils.py at v1.2.0)."""
ALONG = ("libQnnModelDlc.so",)
"""Pushed by upstream too, and opened only for DLC files: pushed if the runtime has it."""
BACKEND = "libqnn_executorch_backend.so"


@dataclass(frozen=True)
class InputFile:
    """A file that a recipe or the user names for the device. `remedy` says how to get it if it is not `there`."""

    path: Path
    name: str
    there: bool
    remedy: str


@dataclass(frozen=True)
class PushSet:
    """`files` are (source, name on the device), sorted, each name once; `missing` is all that is not there."""

    files: tuple[tuple[Path, str], ...]
    missing: tuple[Missing, ...]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(name for _, name in self.files)


def push_set(
    arch: str, dist: Mapping[str, Path], runtime: Mapping[str, Path], inputs: Sequence[InputFile], *, qnn: bool
) -> PushSet:
    """Choose the files for one HTP arch (`v79`; '' if the device's is unknown).

    `dist`: files of the build by name. `runtime`: Qualcomm's libraries by name, from an SDK or a runtime AAR; {} without one.
    `inputs` win over both. `qnn`: whether a QNN model will run. All of Qualcomm's libraries come from one place: the build if it
    has all for this arch, else the runtime.
    """
    needed = tuple(name.format(ARCH=arch.upper()) for name in RUNTIME) if qnn and arch else ()
    missing: list[Missing] = []
    if qnn and not arch:
        remedy = "a device whose ro.soc.model is in kz's table (kz device info)"
        missing.append(Missing("the HTP arch of the device", "QNN's stub and skel are made for one arch each", remedy))
    own = {item.name for item in inputs}
    files = {name: path for name, path in dist.items() if not name.startswith("libQnn")}
    complete = all(name in dist or name in own for name in needed)
    place = dist if complete or not runtime else runtime
    for name in (*needed, *(name for name in ALONG if qnn)):
        if name in place:
            files[name] = place[name]
        elif name in needed and name not in own:
            missing.append(_runtime_missing(name, arch, dist, runtime))
    for item in inputs:
        files[item.name] = item.path
        if not item.there:
            missing.append(Missing(item.name, f"{item.path} is not there", item.remedy))
    return PushSet(tuple((path, name) for name, path in sorted(files.items())), tuple(missing))


def _runtime_missing(name: str, arch: str, dist: Mapping[str, Path], runtime: Mapping[str, Path]) -> Missing:
    archs = sorted(arch.lower() for arch in skel_archs((*dist, *runtime)))
    where = "the given runtime has none" if runtime else "the build has none"
    of = f" (it is for {', '.join(archs)})" if archs and htp_arch(name) else ""
    remedy = f"kz build --soc with a SoC of {arch}, QNN_SDK_ROOT, or --qnn with Qualcomm's SDK or its qnn-runtime AAR"
    return Missing(name, f"{where}{of}", remedy)


def skel_archs(names: Sequence[str]) -> frozenset[str]:
    """Return the HTP archs (V79) of the stubs and skels among these names."""
    return frozenset(arch for name in names if (arch := htp_arch(name)))

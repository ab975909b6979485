"""An app, or what will become one, as `kz check-apk` reads it: libraries, models, manifest."""

from __future__ import annotations

from dataclasses import dataclass, field

from kz_build.formats.android_manifest import Manifest
from kz_build.formats.elf_types import HEXAGON, Elf


@dataclass(frozen=True)
class Library:
    """A shared library. `place` names it for people (`runtime.aar!jni/arm64-v8a/libQnnHtp.so`); `abi` is '' outside of an
    ABI's folder. Without `elf`, `problem` says why. `qnn` are the QNN versions in it. In an APK, `stored` says whether it is
    uncompressed there, at byte `offset`; elsewhere it is None."""

    place: str
    abi: str
    sha256: str
    elf: Elf | None
    problem: str = ""
    qnn: tuple[str, ...] = ()
    stored: bool | None = None
    offset: int = 0

    @property
    def name(self) -> str:
        """Its file name."""
        return self.place.rsplit("/", 1)[-1].rsplit("!", 1)[-1]

    @property
    def hexagon(self) -> bool:
        """Whether it is for the DSP, not for the ABI of its folder: by its machine, or by the name that QNN finds it by."""
        named = self.name.startswith("libQnn") and "Skel" in self.name
        return named or (self.elf is not None and (self.elf.bits, self.elf.machine) == HEXAGON)


@dataclass(frozen=True)
class Model:
    """A model file and the QNN versions that compiled the contexts in it."""

    place: str
    qnn: tuple[str, ...]


@dataclass(frozen=True)
class App:
    """`kind` is apk, aab, aar or folder. `manifest` is None if there is none of the app's own; `manifest_problem` says why one could
    not be read. `adsp_path`: whether the app's code names ADSP_LIBRARY_PATH, None without dex files."""

    kind: str
    libraries: tuple[Library, ...] = ()
    models: tuple[Model, ...] = ()
    manifest: Manifest | None = None
    manifest_problem: str = ""
    declared: frozenset[str] = field(default=frozenset())
    """uses-native-library of the app's manifest and of those that Gradle merges into it."""
    adsp_path: bool | None = None

    @property
    def unpacked(self) -> bool:
        """Whether libraries become files when the app is installed.

        Without the attribute an APK's libraries do; Gradle and bundletool decide otherwise when they make one.
        """
        if self.manifest is None:
            return False
        return self.manifest.extract is True or (self.manifest.extract is None and self.kind == "apk")

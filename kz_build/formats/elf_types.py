"""Facts of an ELF file, and what a library must contain for its Java side."""

from __future__ import annotations

from dataclasses import dataclass

MACHINES = {
    "arm64-v8a": (64, "EM_AARCH64"), "armeabi-v7a": (32, "EM_ARM"), "armeabi": (32, "EM_ARM"), "x86": (32, "EM_386"),
    "x86_64": (64, "EM_X86_64"), "riscv64": (64, "EM_RISCV"),
}  # fmt: skip
"""Android's ABIs -> class and machine of their files."""
HEXAGON = (32, "EM_QDSP6")


@dataclass(frozen=True)
class Elf:
    """Facts of one file. `machine` as pyelftools names it (EM_AARCH64); `alignments` of its PT_LOADs in bytes.

    `congruent` is false when a PT_LOAD's address and offset differ modulo its alignment. `api` and `ndk` are from the
    Android note (0 and '' without one). `exports` are the defined dynamic functions and data. `cxx_imports` are the symbols of the NDK's
    C++ runtime (`__ndk1`) that another library must define, `cxx_exports` those that this one defines.
    """

    bits: int
    machine: str
    kind: str
    soname: str
    needed: tuple[str, ...]
    alignments: tuple[int, ...]
    congruent: bool
    api: int
    ndk: str
    build_id: str
    textrel: bool
    exports: frozenset[str]
    size: int
    cxx_imports: frozenset[str] = frozenset()
    cxx_exports: frozenset[str] = frozenset()


@dataclass(frozen=True)
class NativeMethod:
    """A method that Java or Kotlin declares native: class as `org/pytorch/executorch/Module`."""

    java_class: str
    name: str

    @property
    def descriptor(self) -> str:
        """The class name as fbjni registers it."""
        return f"L{self.java_class};"

    @property
    def export(self) -> str:
        """The symbol that the VM looks for if nothing registered the method (JNI specification, resolving native names)."""
        return "Java_" + _mangled(self.java_class) + "_" + _mangled(self.name)


def _mangled(name: str) -> str:
    replaced = {"/": "_", "_": "_1", ";": "_2", "[": "_3"}
    return "".join(replaced.get(c, c if c.isascii() and c.isalnum() else f"_0{ord(c):04x}") for c in name)


@dataclass(frozen=True)
class JavaSide:
    """What the Java sources require of native code: methods, and the names of the libraries they load."""

    methods: tuple[NativeMethod, ...]
    loads: frozenset[str]

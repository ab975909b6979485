"""The schema of pins.yaml and pins.local.yaml. The JSON schema for editors is generated from these classes.

Imported only if a file has changed since it was last validated (pydantic costs 100 ms).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    ConfigDict,
    Field,
    RootModel,
    StringConstraints,
    model_validator,
)

from kz_build.core.rules import bad_digest, bad_id, bad_path
from kz_build.core.validation import Place
from kz_build.core.validation import validate as validated
from kz_build.pins.pins import KINDS
from kz_build.pins.source_schema import (
    Address,
    Name,
    Source,
    Strict,
    Text,
    Url,
    Version,
    checked_by,
)

HostPath = Annotated[str, Field(description="a path; {source} stands for the folder of that source")]


class CMakeProject(Strict):
    """One configure-and-build. Names in braces: a source's folder, `build.<project>`, `install.<project>`, `jobs`."""

    source: Text = Field(
        description="source folder: `executorch`, `executorch/examples/qualcomm`, or `kz` for kz's own programs"
    )
    preset: str = ""
    defines: dict[str, str] = Field(default={}, description='cmake -D; write "ON", not ON')
    build: list[Text] = Field(default=[], description="cmake targets; all if empty")
    install: bool = False
    lay: dict[str, HostPath] = Field(default={}, description="files put into the build folder before configuring")


class Output(Strict):
    """A file that the build must make."""

    path: HostPath
    install_as: str = Field(default="", description="its name in the app, if that differs")
    symbols: bool = Field(default=True, description="split debug symbols off; false if upstream links stripped")
    profile: Literal["ours", "vendor", "hexagon", "program"] = "ours"


class Prebuilt(Strict):
    """A file that is shipped with the outputs unchanged."""

    path: HostPath
    profile: Literal["vendor", "hexagon"] = "vendor"
    soc: bool = Field(default=False, description="only with a chosen SoC; {arch} is then v79 and {ARCH} V79")


class Java(Strict):
    """The Java side of the library."""

    source: Text
    paths: list[Text] = Field(description="folders of .java and .kt files, relative to the source")
    classes: list[Text] = Field(
        default=[], description="classes that the library must register; all with native methods if empty"
    )


_AuditCheck = Literal[
    "elf", "pages-16k", "android-note", "soname", "needed", "runtime", "exports", "jni", "natives", "textrel", "build-id",
    "paths", "size",
]  # fmt: skip


class Audit(Strict):
    required: list[_AuditCheck] = []
    needed: list[Text] = Field(default=[], description="libraries of the system that may be needed")
    exports: dict[Text, list[Text]] = Field(
        default={}, description="library of dist -> the symbols that it exports, beside JNI's if Java loads it"
    )
    max_api: int = Field(default=0, description="highest API level an Android note may name")
    java: Java | None = None


class Container(Strict):
    """The image that engine docker builds in."""

    folder: Text = Field(description="folder of its Dockerfile in the project; the folder above is the context")
    base: str = Field(default="", description="source of the line that is its base; BASE_IMAGE names another")
    ccache: bool = Field(default=False, description="whether the compilers use ccache, which the image then must have")


class Package(Strict):
    """How a target becomes an AAR: upstream's of that version, with the target's libraries in place of its own."""

    aar: Name = Field(description="archive source: upstream's published AAR")
    module: Annotated[str, StringConstraints(pattern=r"^[\w.-]+:[\w.-]+$")] = Field(
        description="its group and name in Maven, `org.pytorch:executorch-android`: those of the new AAR too"
    )
    dependencies: dict[str, list[Text]] = Field(
        default={},
        description="Gradle coordinates that an app requires beside an AAR file, {source} for a pin's version: libraries of the"
        " target that they provide and that therefore stay out of the AAR",
    )
    prefab: dict[Text, list[Text]] = Field(
        default={}, description="library that an app's C++ code links -> its headers in the source: files, or `folder/`"
    )


class Target(Strict):
    platform: Literal["android", "linux"]
    abi: Text
    sources: list[Name] = Field(description="sources of the line that this target uses")
    omit: list[Text] = Field(default=[], description="submodules it does without: `executorch/backends/vulkan/`")
    tools: dict[Literal["cmake", "ninja", "objcopy"], list[HostPath]] = Field(description="argv of each build tool")
    needs: dict[str, Text] = Field(default={}, description="programs of the machine: how to get each")
    python: list[HostPath] = Field(default=[], description="folders on the PYTHONPATH of the build")
    environment: dict[str, str] = {}
    cmake: dict[Name, CMakeProject]
    outputs: dict[str, Output]
    prebuilt: dict[str, Prebuilt] = {}
    spaces: bool = Field(default=True, description="false if upstream's build breaks at a space in its path")
    soc: str = Field(default="", description="SoC whose runtime is included; --soc overrides")
    container: Container | None = None
    audit: Audit = Audit()
    package: Package | None = None
    device: DeviceUse | None = None
    when: dict[Name, dict[str, Any]] = Field(default={}, description="differences on a line, merged over the target")


class DeviceUse(Strict):
    """How a target is tested on a device: `kz device check`, `kz device run`."""

    loads: list[Text] = Field(min_length=1, description="libraries that must open there, in this order")
    run: list[Text] = Field(
        default=[],
        description="argv of its runner in the device's folder; {model} {tokenizer} {prompt} {tokens} {total} {decoder}"
        " {eval_mode} {shared_buffer}",
    )
    timed: list[Text] = Field(
        default=[],
        description="more words of argv for timed runs: those that make it generate a fixed number of tokens, whatever the model says",
    )
    template: Literal["kz", "runner"] = Field(default="kz", description="who puts the prompt into the chat template")
    text: str = Field(default="", description="file that the runner writes its text to; its output if empty")
    prompt: Text = Field(default="What is the capital of France?", description="the default prompt")
    model: str = Field(default="", description="file of the project that runs by default")


class Replacement(Strict):
    """pins.local.yaml: where this machine takes a source, or with SOURCE/PATH a submodule, from. Paths are relative to the
    project and may begin with `~`; `{version}` in them is the pin's."""

    folder: Annotated[str, checked_by(bad_path)] = Field(default="", description="a folder with its files, or its file")
    file: Annotated[str, checked_by(bad_path)] = Field(default="", description="an archive or wheel: a path or a URL")
    git: Address = Field(default="", description="a git repository: a path or a URL")
    commit: Annotated[str, checked_by(bad_id)] = Field(default="", description="of `git`, if it is not the pin's")
    index: Annotated[str, checked_by(bad_path)] = Field(
        default="", description="another package index: a URL or a folder"
    )
    sha256: Annotated[str, checked_by(bad_digest)] = Field(
        default="", description="of `file`, or of the wheel of `index`, if it is not the lock's"
    )

    @model_validator(mode="after")
    def _is_one_place(self) -> Replacement:
        if sum(map(bool, (self.folder, self.file, self.git, self.index))) != 1:
            raise ValueError("needs one of: folder, file, git, index")
        if self.commit and not self.git:
            raise ValueError("`commit` needs `git`: the address that has it")
        if self.sha256 and not (self.file or self.index):
            raise ValueError("`sha256` is of a `file`, or of a wheel of an `index`")
        return self


class Replacements(RootModel[dict[str, Replacement]]):
    """The replacements of pins.local.yaml, by source or SOURCE/PATH."""


class Builder(Strict):
    """Who may sign a release (`kz attest --verify`)."""

    identity: Text = Field(
        description="as the certificate has it: a workflow's address with its ref, or an e-mail address"
    )
    issuer: Url = Field(min_length=1, description="the OpenID provider that vouches for it")


class Cache(Strict):
    """A compile cache that machines share. It must not change a byte of a result: see `kz build --distrust`."""

    remote: Url = Field(description="its server: http://, https://, redis:// or rediss://")
    write: bool = Field(default=True, description="whether this machine's results go there")


class Pins(Strict):
    """pins.yaml: what a person chose. See docs/reference/pins.md."""

    model_config = ConfigDict(title="pins.yaml of kz_build")
    version: Literal[1]
    default: Name
    sources: dict[Name, Source]
    lines: dict[Name, dict[Name, Version]]
    targets: dict[Name, Target] = Field(default={}, description="what to build; none for a project of patches alone")
    builders: dict[Name, Builder] = Field(default={}, description="who may sign what is built: kz attest --verify")
    cache: Cache | None = None


def validate(data: object, replacements: object) -> tuple[dict[str, Any] | None, list[tuple[Place, str, str]]]:
    """Check parsed YAML. Return the complete plain form, or all problems as (path, text, bad key or '')."""
    pins, problems = validated(Pins, data)
    own, wrong = validated(Replacements, replacements)
    if pins and own:
        return {**pins.model_dump(mode="json"), "replacements": own.model_dump(mode="json")}, []
    # A source's kind is in pydantic's path, and not in the file's.
    return None, [
        *(
            (tuple(p for i, p in enumerate(path, 1) if p not in KINDS or i == len(path)), text, bad)
            for path, text, bad in problems
        ),
        *((("sources", *path), text, bad) for path, text, bad in wrong),
    ]

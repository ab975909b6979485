"""The schema of pins.yaml and pins.local.yaml. The JSON schema for editors is generated from these classes.

Imported only if a file has changed since it was last validated (pydantic costs 100 ms).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    RootModel,
    StringConstraints,
    Tag,
    model_validator,
)

from kz_build.core.rules import bad_address, bad_digest, bad_folder, bad_id, bad_path, bad_url, bad_version
from kz_build.core.validation import Place
from kz_build.core.validation import validate as validated
from kz_build.pins.pins import KINDS, NAME

Name = Annotated[str, StringConstraints(pattern=f"^{NAME}$")]
Text = Annotated[str, StringConstraints(min_length=1)]


def _checked_by(rule: Callable[[str], str]) -> AfterValidator:
    def check(text: str) -> str:
        if text and (wrong := rule(text)):
            raise ValueError(wrong)
        return text

    return AfterValidator(check)


Version = Annotated[str, StringConstraints(min_length=1), _checked_by(bad_version)]
Address = Annotated[str, _checked_by(bad_address)]
Url = Annotated[str, _checked_by(bad_url)]
HostPath = Annotated[str, Field(description="a path; {source} stands for the folder of that source")]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Installed(Strict):
    """Where to look for a copy that the user already has, and its file that states the version."""

    env: list[Text] = Field(description="environment variables that may name its folder; the first that is set wins")
    identity: Text = Field(description="its file that states the version: source.properties or sdk.yaml")


class Published(Strict):
    """What upstream, or public lock files that do not copy one another, state about one version. The first download is
    compared with it."""

    sha1: Annotated[str, StringConstraints(pattern="^[0-9a-f]{40}$")] = ""
    sha256: Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")] = Field(
        default="", description="the file's; of an image, the digest of its index"
    )
    size: int | None = Field(default=None, ge=0, description="bytes")
    file: str = Field(default="", description="a wheel's file name", pattern=r"^([^/]+\.whl)?$")
    sources: list[Text] = Field(
        default=[], description="where the sha256 is stated: one entry for each independent owner"
    )
    revision: str = Field(default="", description="version as the identity file spells it, if that differs")

    @model_validator(mode="after")
    def _cites(self) -> Published:
        if self.sha256 and not self.sources:
            raise ValueError("a sha256 needs `sources`: where it is stated, one entry for each independent owner")
        return self


class GitSource(Strict):
    git: Annotated[Text, _checked_by(bad_address)] = Field(
        description="URL, or a path relative to the project (such as a bundle)"
    )
    submodules: list[Text] = Field(
        default=[], description="paths of the submodules that a build requires; nested ones follow"
    )
    exclude: list[Text] = Field(default=[], description="never downloaded: `*.gif` (any folder) or `folder/`")
    patches: str = Field(
        default="", description="folder of a quilt stack in the project, with {line} if it has one each"
    )
    submodule: Annotated[str, _checked_by(bad_folder)] = Field(
        default="",
        description="`SOURCE/PATH` of a submodule of another source: in a build that has both, this source takes its place",
    )


class WheelUpstream(Strict):
    git: Address = Field(description="the git repository that the wheel is built from: a path or a URL")
    tag: Text = Field(default="v{version}", description="the tag of its version")


class WheelSource(Strict):
    wheel: Text = Field(description="name of the project on the package index")
    index: Url = Field(default="", description="index to use instead of PIP_INDEX_URL or PyPI")
    tag: str = Field(default="*-none-any", description="pattern on python-abi-platform that one file must match")
    only: list[Text] = Field(default=[], description="folders or files of it to unpack; all if empty")
    patches: str = Field(
        default="", description="folder of a quilt stack in the project, with {line} if it has one each"
    )
    licence: str = Field(default="", description="file in it with terms that each user accepts (`kz accept`) first")
    lay: dict[Text, Text] = Field(default={}, description="another layout, as links: path -> file or folder in it")
    upstream: WheelUpstream | None = Field(default=None, description="its git history, for status and history")
    published: dict[str, Published] = {}

    @model_validator(mode="after")
    def _names_files(self) -> WheelSource:
        if nameless := [version for version, known in self.published.items() if known.sha256 and not known.file]:
            raise ValueError(f"`published` needs the wheel's `file` beside the sha256 of {nameless[0]}")
        return self


class ArchiveSource(Strict):
    archive: Annotated[Text, _checked_by(bad_url)] = Field(description="URL of a zip or tar with {version}")
    root: str = Field(default="", description="top folder inside it, with {version}")
    only: list[Text] = Field(default=[], description="folders or files below root to unpack; all if empty")
    installed: Installed | None = None
    published: dict[str, Published] = {}


class ImageSource(Strict):
    image: Text = Field(description="repository of a container image; its version is a tag")
    published: dict[str, Published] = {}


def _kind(value: Any) -> str | None:
    keys = value if isinstance(value, dict) else getattr(value, "__dict__", ())
    return next((kind for kind in KINDS if kind in keys), None)


Source = Annotated[
    Annotated[GitSource, Tag("git")]
    | Annotated[WheelSource, Tag("wheel")]
    | Annotated[ArchiveSource, Tag("archive")]
    | Annotated[ImageSource, Tag("image")],
    Discriminator(
        _kind, custom_error_type="source_kind", custom_error_message="a source needs one of: git, wheel, archive, image"
    ),
]


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

    folder: Text = Field(
        description="folder of its Dockerfile, relative to the project; the folder above is the context"
    )
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
    app: str = Field(
        default="",
        description="Gradle project, in the source of `audit.java`, of upstream's benchmark app: `kz device check --in-app`"
        " builds it with the AAR",
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

    folder: Annotated[str, _checked_by(bad_path)] = Field(
        default="", description="a folder with its files, or its file"
    )
    file: Annotated[str, _checked_by(bad_path)] = Field(default="", description="an archive or wheel: a path or a URL")
    git: Address = Field(default="", description="a git repository: a path or a URL")
    commit: Annotated[str, _checked_by(bad_id)] = Field(default="", description="of `git`, if it is not the pin's")
    index: Annotated[str, _checked_by(bad_path)] = Field(
        default="", description="another package index: a URL or a folder"
    )
    sha256: Annotated[str, _checked_by(bad_digest)] = Field(
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


class Pins(Strict):
    """pins.yaml: what a person chose. See docs/reference/pins.md."""

    model_config = ConfigDict(title="pins.yaml of kz_build")
    version: Literal[1]
    default: Name
    sources: dict[Name, Source]
    lines: dict[Name, dict[Name, Version]]
    targets: dict[Name, Target] = Field(default={}, description="what to build; none for a project of patches alone")


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

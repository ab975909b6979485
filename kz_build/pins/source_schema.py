"""The schema of the sources in pins.yaml, and the types that every schema of kz is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    model_validator,
)

from kz_build.core.rules import bad_address, bad_folder, bad_url, bad_version
from kz_build.pins.pins import KINDS, NAME

Name = Annotated[str, StringConstraints(pattern=f"^{NAME}$")]
Text = Annotated[str, StringConstraints(min_length=1)]


def checked_by(rule: Callable[[str], str]) -> AfterValidator:
    """Return the validator for a text: what a rule says is wrong with it, '' for nothing."""

    def check(text: str) -> str:
        if text and (wrong := rule(text)):
            raise ValueError(wrong)
        return text

    return AfterValidator(check)


Version = Annotated[str, StringConstraints(min_length=1), checked_by(bad_version)]
Address = Annotated[str, checked_by(bad_address)]
Url = Annotated[str, checked_by(bad_url)]


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


class Concluded(Strict):
    """The licence that holds for what is compiled of a component, as a person concluded it."""

    licence: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9.+-]*$")] = Field(
        description="its SPDX identifier"
    )
    because: Text = Field(description="what the conclusion rests on")


Conclusions = Annotated[
    dict[Text, Concluded],
    Field(description="path of a submodule, or of a folder with vendored code (`.`: the source itself) -> its licence"),
]


class GitSource(Strict):
    git: Annotated[Text, checked_by(bad_address)] = Field(
        description="URL, or a path relative to the project (such as a bundle)"
    )
    submodules: list[Text] = Field(
        default=[], description="paths of the submodules that a build requires; nested ones follow"
    )
    exclude: list[Text] = Field(default=[], description="never downloaded: `*.gif` (any folder) or `folder/`")
    patches: str = Field(
        default="", description="folder of a quilt stack in the project, with {line} if it has one each"
    )
    concluded: Conclusions = {}
    submodule: Annotated[str, checked_by(bad_folder)] = Field(
        default="",
        description="`SOURCE/PATH` of a submodule of another source: in a build that has SOURCE, this source takes its place",
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
    concluded: Conclusions = {}
    lay: dict[Text, Text] = Field(default={}, description="another layout, as links: path -> file or folder in it")
    upstream: WheelUpstream | None = Field(default=None, description="its git history, for status and history")
    published: dict[str, Published] = {}

    @model_validator(mode="after")
    def _names_files(self) -> WheelSource:
        if nameless := [version for version, known in self.published.items() if known.sha256 and not known.file]:
            raise ValueError(f"`published` needs the wheel's `file` beside the sha256 of {nameless[0]}")
        return self


class ArchiveSource(Strict):
    archive: Annotated[Text, checked_by(bad_url)] = Field(description="URL of a zip or tar with {version}")
    root: str = Field(default="", description="top folder inside it, with {version}")
    only: list[Text] = Field(default=[], description="folders or files below root to unpack; all if empty")
    installed: Installed | None = None
    concluded: Conclusions = {}
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

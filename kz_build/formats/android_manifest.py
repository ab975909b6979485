"""An app's AndroidManifest.xml: the facts that decide which native libraries are there, and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from xml.parsers import expat

ANDROID = "http://schemas.android.com/apk/res/android"
DEEPEST = 64
Value = str | int | bool
Path = tuple[str, ...]


class DamagedError(ValueError):
    """The data is not what it must be; `args[0]` says where it is wrong."""


@dataclass(frozen=True)
class Element:
    """One element: the names from the root down to it, and its attributes, those of Android's namespace as `android:name`."""

    path: Path
    attributes: Mapping[str, Value]


@dataclass(frozen=True)
class Manifest:
    """`extract` is None if the manifest does not say; a text if it names a resource. `libraries` maps each
    `uses-native-library` to whether it is required. `target_sdk` is 0 if not given. `activities` are full class names."""

    package: str
    split: str
    target_sdk: int
    extract: bool | str | None
    libraries: Mapping[str, bool]
    activities: frozenset[str] = frozenset()


def manifest_of(elements: tuple[Element, ...]) -> Manifest:
    """Return the facts of a manifest's elements. Raises DamagedError for anything else."""
    if not elements or elements[0].path != ("manifest",):
        raise DamagedError("its root is not <manifest>")
    application, sdk = ("manifest", "application"), ("manifest", "uses-sdk")
    attributes = {path: next((e.attributes for e in elements if e.path == path), {}) for path in (application, sdk)}
    libraries = {
        str(e.attributes["android:name"]): _flag(e.attributes.get("android:required", True)) is not False
        for e in elements
        if e.path == (*application, "uses-native-library") and "android:name" in e.attributes
    }
    root, extract = elements[0].attributes, attributes[application].get("android:extractNativeLibs")
    package = str(root.get("package", ""))
    names = (str(e.attributes.get("android:name", "")) for e in elements if e.path == (*application, "activity"))
    activities = frozenset(f"{package}{name}" if name.startswith(".") else name for name in names)
    target = str(attributes[sdk].get("android:targetSdkVersion", attributes[sdk].get("android:minSdkVersion", 0)))
    return Manifest(
        package, str(root.get("split", "")), int(target) if target.isdecimal() and len(target) < 10 else 0,
        None if extract is None else _flag(extract), libraries, activities,
    )  # fmt: skip


def _flag(value: Value) -> bool | str:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower(), value)
    return bool(value)


def read_text(data: bytes) -> tuple[Element, ...]:
    """Parse a manifest as people write it. Raises DamagedError; a declared entity is refused, so that none can grow."""
    elements: list[Element] = []
    path: list[str] = []
    parser = expat.ParserCreate(namespace_separator=" ")

    def start(name: str, attributes: dict[str, str]) -> None:
        path.append(name)
        if len(path) > DEEPEST:
            raise DamagedError(f"elements are nested deeper than {DEEPEST}")
        named = {key.replace(f"{ANDROID} ", "android:"): value for key, value in attributes.items()}
        elements.append(Element(tuple(path), named))

    def refuse(*_: object) -> None:
        raise DamagedError("it declares an entity")

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _name: path.pop()
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except DamagedError:
        raise
    except (expat.ExpatError, LookupError, ValueError) as error:  # the latter two: of an encoding
        raise DamagedError(str(error)) from error
    return tuple(elements)

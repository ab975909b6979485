"""The software bill of materials: CycloneDX 1.6 by its own library, valid by its own schema. Imported only to write or check one: its library
costs 300 ms."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cyclonedx.model import HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component as Listed
from cyclonedx.model.component import (
    ComponentScope,
    ComponentType,
    Diff,
    Patch,
    PatchClassification,
    Pedigree,
    Swhid,
)
from cyclonedx.model.license import DisjunctiveLicense, LicenseAcknowledgement
from cyclonedx.model.tool import ToolRepository
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.spdx import is_supported_id
from packageurl import PackageURL

from kz_build.core.errors import ConfigError
from kz_build.core.plain_json import parsed
from kz_build.release.statement import NOTICES, Component, nearest

MOST_COMPARED = 1 << 31
"""Characters, by `_compared`: minutes at most. An SBOM of 1 MB with 500 components has a quarter of that."""


@dataclass(frozen=True)
class Licensed:
    """A component with its notices: path in the release folder -> SPDX id, '' if the licence is unknown.

    `compiled` maps '' and each folder of vendored code to the artifacts with code of it, as far as they tell; `concluded` maps the same
    to the licence that holds for it by pins.yaml, and why."""

    component: Component
    notices: Mapping[str, str]
    compiled: Mapping[str, Sequence[str]]
    concluded: Mapping[str, tuple[str, str]] = field(default_factory=dict)


def sbom(name: str, version: str, files: Mapping[str, str], parts: Sequence[Licensed], tool: str, seed: str) -> bytes:
    """Return the document: the same bytes for the same arguments, no time, a serial number from `seed`. `files`: name -> sha256."""

    artifacts = [
        Listed(name=path, type=ComponentType.FILE, bom_ref=f"file:{path}", hashes=[HashType(alg=HashAlgorithm.SHA_256, content=sha256)])
        for path, sha256 in files.items()
    ]  # fmt: skip
    top = Listed(
        name=name, version=version, type=ComponentType.LIBRARY, bom_ref=f"kz:{version}/{name}", components=artifacts
    )
    bom = empty(seed, tool)
    bom.metadata.component = top
    bom.metadata.properties = [Property(name="kz:time", value="left out")]
    components = {part.component.ref: _component(part) for part in parts}
    for ref, component in components.items():
        bom.components.add(component)
        above = max((r for r in components if ref.startswith(f"{r}/")), key=len, default="")
        bom.register_dependency(components[above] if above else top, [component])
    return written(bom)


def empty(seed: str, tool: str) -> Bom:
    """Return a document of this version of kz that lists nothing yet, with a serial number from `seed`."""
    tools = ToolRepository(components=[Listed(name="kz_build", version=tool, type=ComponentType.APPLICATION)])
    number = uuid.uuid5(uuid.NAMESPACE_URL, f"urn:kz-build:{seed}")
    bom = Bom(serial_number=number, metadata=BomMetaData(tools=tools))
    # The schema does not require it, and it would differ at every build.
    bom.metadata.timestamp = None  # type: ignore[assignment]
    return bom


def written(bom: Bom) -> bytes:
    """Return a document as the bytes of its file."""
    return make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=1).encode() + b"\n"


def _component(part: Licensed) -> Listed:

    c = part.component
    own = {path: part.notices[path] for path in nearest(list(part.notices))}
    properties = [Property(name="kz:kind", value=c.kind), *_part_of(part.compiled.get("", ())), *_because(part, "")]
    scope = ComponentScope.REQUIRED if "" in part.compiled else ComponentScope.EXCLUDED if c.tool else None
    properties += [Property(name="kz:notice", value=path) for path in part.notices]
    if not part.notices:
        properties.append(Property(name="kz:notice:none", value="no licence file in what is pinned"))
    properties += [Property(name=f"kz:patched:{key}", value=value) for key, value in c.patched.items()]
    if c.note:
        properties.append(Property(name="kz:note", value=c.note))
    if c.overridden:
        properties.append(Property(name="kz:overridden", value=c.overridden))
    patches = [Patch(type=PatchClassification.UNOFFICIAL, diff=Diff(url=XsUri(path))) for path, _ in c.patches]
    return Listed(
        name=c.name,
        version=c.version,
        type=ComponentType.LIBRARY,
        bom_ref=c.ref,
        purl=PackageURL.from_string(c.purl),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=c.digests["sha256"])] if "sha256" in c.digests else [],
        swhids=[Swhid(f"swh:1:{kind}:{c.digests[key]}") for key, kind in (("gitCommit", "rev"), ("gitTree", "dir")) if key in c.digests],
        licenses=_licences(own, part.concluded.get("")),
        scope=scope,
        components=[_vendored(part, folder) for folder in sorted(part.compiled) if folder],
        properties=properties,
        pedigree=Pedigree(patches=patches) if patches else None,
    )  # fmt: skip


def _vendored(part: Licensed, folder: str) -> Listed:
    """Return code with its own licence in a component's folder. Its version is unknown."""

    place = f"{NOTICES}/{part.component.ref}/{folder}"
    return Listed(
        name=folder.rpartition("/")[2],
        type=ComponentType.LIBRARY,
        bom_ref=f"{part.component.ref}/{folder}",
        scope=ComponentScope.REQUIRED,
        licenses=_licences(
            {path: spdx for path, spdx in part.notices.items() if path.rpartition("/")[0] == place},
            part.concluded.get(folder),
        ),
        properties=[*_part_of(part.compiled[folder]), *_because(part, folder)],
    )


def _part_of(artifacts: Sequence[str]) -> list[Property]:

    return [Property(name="kz:part-of", value=name) for name in artifacts]


def _because(part: Licensed, folder: str) -> list[Property]:
    return [Property(name="kz:concluded", value=part.concluded[folder][1])] if folder in part.concluded else []


def _licences(notices: Mapping[str, str], concluded: tuple[str, str] | None) -> list[DisjunctiveLicense]:
    """Return the licences that the authors declare, and the one that a person concluded for the compiled code."""

    if concluded and not is_supported_id(concluded[0]):
        raise ConfigError(f"`concluded` in pins.yaml: {concluded[0]} is no identifier of the SPDX licence list", hint="https://spdx.org/licenses")  # fmt: skip
    own = [DisjunctiveLicense(id=concluded[0], acknowledgement=LicenseAcknowledgement.CONCLUDED)] if concluded else []
    declared = LicenseAcknowledgement.DECLARED
    known = [DisjunctiveLicense(id=spdx, acknowledgement=declared) for spdx in sorted({*notices.values()} - {""})]
    return (
        own
        + known
        + [
            DisjunctiveLicense(name=f"see {path}", acknowledgement=declared)
            for path, spdx in notices.items()
            if not spdx
        ]
    )


def problem(text: str) -> str:
    """Return what is wrong with a document by the schema of CycloneDX 1.6, or ''."""
    from cyclonedx.validation.json import JsonStrictValidator

    try:
        if _compared(parsed(text.encode()))[1] > MOST_COMPARED:
            return "has lists that take too long to check"
        errors = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    except ValueError as error:
        return f"not JSON: {error}"
    return str(getattr(errors, "data", errors)).splitlines()[0] if errors else ""


def _compared(value: Any) -> tuple[int, int]:
    """Return the size of a JSON value, and how much is compared where each item of a list is compared with all others, as the validator does."""
    if not isinstance(value, dict | list):
        return len(str(value)), 0
    parts = [_compared(one) for one in (value.values() if isinstance(value, dict) else value)]
    size = len(parts) + sum(size for size, _ in parts)
    return size, sum(count for _, count in parts) + (size * len(parts) if isinstance(value, list) else 0)

"""An AAR in a Maven repository that is a folder, and its digests as Gradle's dependency verification reads them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

FOLDER = "maven"
"""The repository, beside the AAR."""
VERIFICATION = "verification-metadata.xml"
_CHECKSUMS = ("sha1", "sha256", "sha512")
"""Maven itself reads only the first of these before version 3.9."""


class Coordinates(NamedTuple):
    """What names an artifact in Maven and Gradle."""

    group: str
    name: str
    version: str

    def __str__(self) -> str:
        return ":".join(self)

    def place(self, suffix: str) -> str:
        """Return the path of a file of the artifact in a repository."""
        return f"{self.group.replace('.', '/')}/{self.name}/{self.version}/{self.file(suffix)}"

    def file(self, suffix: str) -> str:
        """Return the name of a file of the artifact."""
        return f"{self.name}-{self.version}.{suffix}"


def coordinates(text: str) -> Coordinates:
    """Return GROUP:NAME:VERSION as coordinates."""
    group, name, version = text.split(":")
    return Coordinates(group, name, version)


def pom(own: Coordinates, dependencies: Sequence[Coordinates], description: str) -> bytes:
    """Return the POM of an AAR."""
    rows = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<project xmlns="http://maven.apache.org/POM/4.0.0" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
        ' xsi:schemaLocation="http://maven.apache.org/POM/4.0.0 http://maven.apache.org/xsd/maven-4.0.0.xsd">',
        "  <modelVersion>4.0.0</modelVersion>",
        *_identity(own, "  "),
        "  <packaging>aar</packaging>",
        f"  <description>{escape(description)}</description>",
        "  <dependencies>",
    ]
    for one in dependencies:
        rows += ["    <dependency>", *_identity(one, "      "), "      <scope>compile</scope>", "    </dependency>"]
    return "\n".join([*rows, "  </dependencies>", "</project>", ""]).encode()


def _identity(one: Coordinates, indent: str) -> list[str]:
    fields = zip(("groupId", "artifactId", "version"), one, strict=True)
    return [f"{indent}<{field}>{escape(text)}</{field}>" for field, text in fields]


def checksums(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files that lie beside these in a repository, with their digests."""
    return {
        f"{place}.{kind}": hashlib.new(kind, data, usedforsecurity=False).hexdigest().encode()
        for place, data in files.items()
        for kind in _CHECKSUMS
    }


def verification(own: Coordinates, digests: Mapping[str, str]) -> bytes:
    """Return gradle/verification-metadata.xml with one component. `digests`: file name -> sha256."""
    space = "https://schema.gradle.org/dependency-verification"
    component = " ".join(f"{key}={quoteattr(text)}" for key, text in own._asdict().items())
    rows = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<verification-metadata xmlns="{space}" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
        f' xsi:schemaLocation="{space} {space}/dependency-verification-1.3.xsd">',
        "   <configuration>",
        "      <verify-metadata>true</verify-metadata>",
        "      <verify-signatures>false</verify-signatures>",
        "   </configuration>",
        "   <components>",
        f"      <component {component}>",
    ]
    for name, sha256 in sorted(digests.items()):
        rows += [
            f"         <artifact name={quoteattr(name)}>",
            f'            <sha256 value="{sha256}" origin="kz package"/>',
            "         </artifact>",
        ]
    return "\n".join([*rows, "      </component>", "   </components>", "</verification-metadata>", ""]).encode()

"""Known vulnerabilities as CycloneDX writes them, about an SBOM that stays as it is (VEX). Imported only to write one."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from urllib.parse import quote

from cyclonedx.model import XsUri
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.impact_analysis import ImpactAnalysisAffectedStatus, ImpactAnalysisState
from cyclonedx.model.tool import ToolRepository
from cyclonedx.model.vulnerability import (
    BomTarget,
    BomTargetVersionRange,
    Vulnerability,
    VulnerabilityAnalysis,
    VulnerabilitySource,
)
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion

from kz_build.release.osv import Finding


def vex(found: Sequence[Finding], tool: str) -> bytes:
    """Return the document: a component of another SBOM is named by that one's serial number. All is in triage: that a version is affected
    does not say that the artifact is."""
    tools = ToolRepository(components=[Component(name="kz_build", version=tool, type=ComponentType.APPLICATION)])
    seed = "|".join(f"{one.part.bill} {one.part.ref} {one.id}" for one in found)
    bom = Bom(
        serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"urn:kz-build:vex:{seed}"), metadata=BomMetaData(tools=tools)
    )
    bom.metadata.timestamp = None  # type: ignore[assignment]
    for one in found:
        status = ImpactAnalysisAffectedStatus.AFFECTED if one.certain else ImpactAnalysisAffectedStatus.UNKNOWN
        link = f"urn:cdx:{one.part.bill.removeprefix('urn:uuid:')}/1#{quote(one.part.ref, safe='')}"
        version = BomTargetVersionRange(version=one.part.version, status=status)
        bom.vulnerabilities.add(
            Vulnerability(
                bom_ref=f"{one.id}/{one.part.ref}",
                id=one.id,
                source=VulnerabilitySource(name="OSV", url=XsUri(f"https://osv.dev/vulnerability/{quote(one.id)}")),
                description=one.summary,
                affects=[BomTarget(ref=link, versions=[version])],
                analysis=VulnerabilityAnalysis(state=ImpactAnalysisState.IN_TRIAGE, detail=one.why),
            )
        )
    return make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=1).encode() + b"\n"

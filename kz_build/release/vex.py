"""Known vulnerabilities as CycloneDX writes them, about an SBOM that stays as it is (VEX). Imported only to write one."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from cyclonedx.model import XsUri
from cyclonedx.model.impact_analysis import ImpactAnalysisAffectedStatus, ImpactAnalysisState
from cyclonedx.model.vulnerability import (
    BomTarget,
    BomTargetVersionRange,
    Vulnerability,
    VulnerabilityAnalysis,
    VulnerabilitySource,
)

from kz_build.release.osv import Finding
from kz_build.release.sbom import empty, written


def vex(found: Sequence[Finding], tool: str) -> bytes:
    """Return the document: a component of another SBOM is named by that one's serial number. All is in triage: that a version is affected
    does not say that the artifact is."""
    seed = "|".join(f"{one.part.bill} {one.part.ref} {one.id}" for one in found)
    bom = empty(f"vex:{seed}", tool)
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
    return written(bom)

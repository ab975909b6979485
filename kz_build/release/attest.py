"""Attestations of a release folder: the signed statement of who built it, and how many builders agree on its bytes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kz_build.core import files
from kz_build.core.check import Check, Status
from kz_build.core.errors import AuditError
from kz_build.core.plain_json import parsed
from kz_build.pins.lock_file import as_text
from kz_build.release import cmake, sigstore_bundle, statement
from kz_build.release.bundle_form import BadBundleError
from kz_build.release.sigstore_bundle import Builder, Bundles
from kz_build.release.verify import Folder, paper, read, verify
from kz_build.sources.fetched import Fetched

TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"
REPRODUCED = "reproduced.sigstore.json"


def attest(path: Path, config: Path | None) -> Path:
    """Sign what a release folder holds by the identity of this CI job; return the bundle, beside the files. Raises AuditError if the
    folder does not match its release files."""
    sigstore_bundle.require_identity()
    if failed := [c for c in verify(path) if c.failed]:
        raise AuditError(
            f"{path} does not match its release files: {failed[0].subject}: {failed[0].evidence}",
            hint=f"kz verify-release {path} says more; build it again",
        )
    bundle = sigstore_bundle.sign(_whole(read(path)), config)
    files.write_atomic(path / statement.BUNDLE, bundle)
    return path / statement.BUNDLE


def _whole(folder: Folder) -> bytes:
    """Return the statement about every file of a folder: its provenance, with all that SHA256SUMS lists, and that itself, as subjects."""
    subjects = {**folder.listed, statement.SUMS: folder.there[statement.SUMS]}
    return as_text({**folder.provenance, "subject": statement.subjects(subjects)}).encode()


def reproduced(
    line: str, target: str, sources: Iterable[Fetched], digests: Mapping[str, str], varied: Iterable[str]
) -> bytes:
    """Return the statement that these files were built twice, with all of this varied, and were the same: in-toto's test result."""
    configuration: list[dict[str, object]] = [{"uri": f"urn:kz-build:target:{line}/{target}"}]
    for source in sources:
        configuration += [
            {"name": f"{source.name}/{at.path}".rstrip("/"), "digest": {"gitTree": at.tree}} for at in source.trees
        ]
        kind, _, value = source.identity.partition(" ")
        if not source.trees:
            own = {"digest": {"sha256": value}} if kind == "sha256" else {"uri": f"urn:kz-build:{kind}:{value}"}
            configuration.append({"name": source.name, **own})
    built = {name: sha256 for name, sha256 in digests.items() if not name.startswith("unstripped/")}
    return as_text(
        {
            "_type": statement.STATEMENT,
            "subject": statement.subjects(built),
            "predicateType": TEST_RESULT,
            "predicate": {"result": "PASSED", "configuration": configuration, "passedTests": list(varied)},
        }
    ).encode()


def verify_attested(
    path: Path, more: Sequence[Path], builders: Sequence[Builder], least: int, config: Path | None
) -> tuple[Check, ...]:
    """Check a release folder and the bundles in it, and `more` of them: one must be of all its files, and `least` builders, by different
    identities, must agree on its artifacts."""
    bundles = Bundles(builders, config)
    folder = read(path)
    checks = list(verify(path))
    expected = _whole(folder) if not any(c.failed for c in checks) else b""
    whole: list[Builder] = []
    agreeing: list[Builder] = []
    for file in (*sorted(path.glob(f"*{statement.BUNDLE_SUFFIX}")), *more):
        name = file.name if file.parent == path else str(file)
        try:
            builder, signed = bundles.signed(_bytes(file))
            kind = _agrees(signed, folder)
        except BadBundleError as error:
            checks.append(Check(name, "attestation", Status.FAIL, str(error), True))
            continue
        agreeing.append(builder)
        if signed == expected:
            whole.append(builder)
        checks.append(Check(name, "attestation", Status.PASS, f"{kind} by {builder.identity} ({builder.issuer})", True))
    checks += _counted(whole, agreeing, least)
    return tuple(checks)


def _bytes(file: Path) -> bytes:
    try:
        return paper(Path(os.path.realpath(file)), sigstore_bundle.MOST)
    except OSError as error:
        raise BadBundleError(f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise BadBundleError(str(error)) from error


def _agrees(signed: bytes, folder: Folder) -> str:
    """Return what a signed statement says of a folder's artifacts. Raises BadBundleError if it names other bytes, or not all of them."""
    try:
        data: Any = parsed(signed)
        subjects = {one["name"]: one["digest"]["sha256"] for one in data["subject"]}
        kind, predicate = data["predicateType"], data["predicate"]
        passed = kind != TEST_RESULT or predicate["result"] == "PASSED"
    except (ValueError, LookupError, TypeError) as error:
        raise BadBundleError(f"signs no statement of kz: {type(error).__name__} {error}") from error
    if kind not in (statement.PREDICATE, TEST_RESULT) or data.get("_type") != statement.STATEMENT:
        raise BadBundleError(f"signs {kind}, neither provenance nor a test result")
    if not passed:
        raise BadBundleError("says that it does not reproduce")
    # A file that is written from the digests of the others is in no build.
    built = {name: sha256 for name, sha256 in folder.artifacts.items() if kind != TEST_RESULT or name != cmake.CONFIG}
    for name, sha256 in built.items():
        if subjects.get(name) != sha256:
            raise BadBundleError(f"signs {str(subjects.get(name, 'nothing'))[:16]} for {name}, which is {sha256[:16]}")
    if not built:
        raise BadBundleError(f"is about no file that {statement.SUMS} lists here")
    return "built" if kind == statement.PREDICATE else "reproduced"


def _counted(whole: Sequence[Builder], agreeing: Sequence[Builder], least: int) -> Iterator[Check]:
    if whole:
        yield Check("-", "signed", Status.PASS, f"every file here, by {whole[0].identity}", True)
    else:
        yield Check(statement.BUNDLE, "signed", Status.FAIL, "no named builder signed all files as they are here", True)
    names = sorted({builder.identity for builder in agreeing})
    count = len(names)
    status = Status.PASS if count >= least else Status.FAIL
    few = "" if count >= least else f", and {least} are required"
    yield Check("-", "builders", status, f"{count} agree on every artifact{few}: {', '.join(names) or 'none'}", True)

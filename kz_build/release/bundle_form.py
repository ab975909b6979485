"""The one form of a sigstore bundle: what sigstore's library does not read, or reads in several spellings, is refused. Pure."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Collection, Iterator
from typing import Any

_MEDIA_TYPES = (
    "application/vnd.dev.sigstore.bundle.v0.3+json",
    "application/vnd.dev.sigstore.bundle+json;version=0.3",
)
"""In older ones a chain of certificates stands beside the one that signs, and nothing proves it."""
_CHECKPOINT = re.compile(
    r"(?P<log>[^\n]+?)(?: - [0-9]+)?\n(?P<size>[0-9]+)\n(?:[^\n]+\n)+\n(?P<signatures>(?:\u2014 [^ \n]+ [^ \n]+\n)+)"
)


class BadBundleError(Exception):
    """A bundle that no named builder signed, or that is none; says why."""


def require_form(data: bytes, own: str, logs: Collection[str]) -> None:
    """Raise BadBundleError if a bundle says something that nothing proves, or says it in another way than `own`: the same bundle as
    sigstore's library writes it. Free are white space between JSON's tokens, the order of keys, and which characters are written `\\u003d`.
    `logs`: the key ids of known logs.
    """
    text = data.decode()
    bundle: Any = json.loads(text, object_pairs_hook=_object)
    if re.search(r"\\u[0-9a-f]{0,3}[A-F]", text):
        raise BadBundleError("has an escape in capital letters")
    if bundle != json.loads(own):
        raise BadBundleError(
            "is not in its canonical form: base64 or a number in another spelling, null, or another name of a key"
        )
    if bundle["mediaType"] not in _MEDIA_TYPES:
        raise BadBundleError(f"is {bundle['mediaType']}; version 0.3 is what kz verifies")
    if any(one.get("keyid") for one in bundle["dsseEnvelope"]["signatures"]):
        raise BadBundleError("has a keyid, which nothing proves")
    for entry in bundle["verificationMaterial"]["tlogEntries"]:
        _require_entry(entry, logs)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise BadBundleError("has a key twice")
    return dict(pairs)


def _require_entry(entry: Any, logs: Collection[str]) -> None:
    """Check what of a log's entry neither its promise nor its proof covers."""
    proof, key_id = entry["inclusionProof"], entry["logId"]["keyId"]
    if "inclusionPromise" not in entry:
        if key_id not in logs:
            raise BadBundleError("is in a log that is not trusted")
        if entry["logIndex"] != proof["logIndex"] or "integratedTime" in entry:
            raise BadBundleError("has a place or a time in the log that nothing proves")
    checkpoint = _CHECKPOINT.fullmatch(proof["checkpoint"]["envelope"])
    if not checkpoint:
        raise BadBundleError("has no checkpoint in the form of signed notes")
    if checkpoint["size"] != proof["treeSize"]:
        raise BadBundleError("has a checkpoint of another size of the log")
    names = []
    for line in checkpoint["signatures"].splitlines():
        _, name, signature = line.split(" ")
        raw = base64.b64decode(signature)
        if base64.b64encode(raw).decode() != signature:
            raise BadBundleError("has a checkpoint whose signature is not canonical base64")
        # A line with the hint of another key is a witness's: it says nothing to those who do not have that key.
        names += [name] if raw[:4] == base64.b64decode(key_id)[:4] else []
    if names != [checkpoint["log"]]:
        raise BadBundleError(
            f"has a checkpoint of {checkpoint['log']} that is signed as {', '.join(names) or 'nobody'}"
        )


def single_times(data: bytes) -> Iterator[str]:
    """Yield a bundle with each of its proofs of time alone, if it has several: sigstore's library takes one that holds for all."""
    bundle: Any = json.loads(data)
    material = bundle["verificationMaterial"]
    stamps = material.pop("timestampVerificationData", {}).get("rfc3161Timestamps", [])
    entries = material["tlogEntries"]
    promised = [entry for entry in entries if "inclusionPromise" in entry]
    if len(stamps) + bool(promised) < 2:
        return
    if promised:
        yield json.dumps(bundle)
    for entry in promised:
        del entry["inclusionPromise"]
    for stamp in stamps:
        material["timestampVerificationData"] = {"rfc3161Timestamps": [stamp]}
        yield json.dumps(bundle)

"""The bill of materials of a .pte: the weights that went in, their licence, and how they were quantized. CycloneDX 1.6 with model cards."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kz_build import __version__
from kz_build.core import plain_json
from kz_build.core.hash_cache import cached_sha256
from kz_build.export.environment import Environment
from kz_build.export.preflight import weights_place
from kz_build.export.recipe import Recipe, Weights
from kz_build.pins.project import Project
from kz_build.sources.installed_sdk import revision

_QUANTIZED = re.compile(r"q_?mode|quant|group_size|8da4w|qat|_q\d|[-_=]ptq", re.IGNORECASE)
"""Words of a command that say how it quantizes, in the forms that upstream's exporters take."""
_MOST_CONFIG = 16 << 20

Data = dict[str, object]


def bill(project: Project, recipe: Recipe, environment: Environment, sha256: str) -> bytes:
    """Return the bill of a .pte. The weights are those that lie there, with computed digests; the preflight compared them with the recipe's."""
    models = [
        _repository(project, weights_place(project, recipe, name, of)[0], name, of)
        if of.repository
        else _made(project, environment.places["weights"] / name, name, of)
        for name, of in sorted(recipe.weights.items())
    ]
    tools = list(_tools(project, environment))
    words = [word for stage in recipe.command for word in stage.run if _QUANTIZED.search(word)]
    facts = {"quantization": " ".join(words) or "as its command does by itself", "recipe": recipe.name}
    contract = recipe.contract
    facts |= {
        key: str(value) for key in ("kv_bits", "context_length", "soc", "runner") if (value := getattr(contract, key))
    }
    facts |= {"backends": " ".join(contract.backends)} if contract.backends else {}
    top = {
        "type": "machine-learning-model",
        "bom-ref": f"pte:{recipe.output}",
        "name": recipe.output,
        "version": recipe.line or "upstream",
        "hashes": _hashes(sha256),
        "modelCard": {"properties": _properties(facts)},
    }
    components = [*models, *tools]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, f"urn:kz-build:pte:{recipe.name}:{sha256}").urn,
        "version": 1,
        "metadata": {
            "component": top,
            "tools": {"components": [{"type": "application", "name": "kz_build", "version": __version__}]},
        },
        "components": components,
        "dependencies": [{"ref": top["bom-ref"], "dependsOn": [one["bom-ref"] for one in components]}],
    }
    return json.dumps(document, indent=1, sort_keys=True).encode() + b"\n"


def _made(project: Project, file: Path, name: str, of: Weights) -> Data:
    """Return weights that kz made as a component."""
    origin = "content of the recipe" if of.content is not None else json.dumps(of.made_of, sort_keys=True)
    return {
        "type": "machine-learning-model" if of.random else "data",
        "bom-ref": f"weights:{name}",
        "name": name,
        "hashes": _hashes(cached_sha256(project.store, file)),
        "properties": _properties({"made-of": origin}),
    }


def _repository(project: Project, place: Path, name: str, of: Weights) -> Data:
    """Return the weights of a repository as a component, with their files."""
    ref = f"weights:{name}"
    files = {
        file: cached_sha256(project.store, place / file) for file in sorted(of.digests) if (place / file).is_file()
    }
    unproved = [file for file in files if of.digests[file] is None]
    facts = {} if of.revision else {"revision": "not pinned by the recipe"}
    facts |= {"note": f"the recipe has no digest of {', '.join(unproved)}"} if unproved else {}
    version = of.revision or ""
    component: Data = {
        "type": "machine-learning-model",
        "bom-ref": ref,
        "name": of.repository,
        "purl": f"pkg:huggingface/{of.repository}" + (f"@{version}" if version else ""),
        "components": [
            {"type": "data", "bom-ref": f"{ref}/{file}", "name": file, "hashes": _hashes(digest)}
            for file, digest in files.items()
        ],
        "properties": _properties(facts),
    }
    if version:
        component["version"] = version
    if of.licence:
        component["licenses"] = [{"license": _licence(of.licence)}]
    if parameters := _parameters(place / "config.json"):
        component["modelCard"] = {"modelParameters": parameters}
    return component


def _parameters(config: Path) -> dict[str, str]:
    """Return what a model's config.json says of its architecture."""
    try:
        data = plain_json.read(config, _MOST_CONFIG)
        named = {"modelArchitecture": data["architectures"][0], "architectureFamily": data["model_type"]}
    except (OSError, ValueError, LookupError, TypeError):
        return {}
    return {key: value for key, value in named.items() if isinstance(value, str)}


def _tools(project: Project, environment: Environment) -> Iterator[Data]:
    """Yield what exported it, in the versions that are there: packages of the environment, and SDKs, which state theirs."""
    for name, version in environment.holds.items():
        sdk = name in project.pins.data["sources"] and (project.pins.source(name).options.get("installed") or None)
        if sdk and Path(version).is_dir():
            version = revision(Path(version), sdk["identity"]) or "unknown"
            yield {"type": "library", "bom-ref": name, "name": name, "version": version}
        elif re.fullmatch(r"[\w.+!-]+", version) and "/" not in version:
            purl = f"pkg:pypi/{name}@{version.replace('+', '%2B')}"
            yield {"type": "library", "bom-ref": name, "name": name, "version": version, "purl": purl}


def _licence(licence: str) -> Mapping[str, str]:
    from cyclonedx.spdx import is_supported_id  # with its data 100 ms

    return {"id" if is_supported_id(licence) else "name": licence, "acknowledgement": "declared"}


def _hashes(sha256: str) -> Sequence[Mapping[str, str]]:
    return [{"alg": "SHA-256", "content": sha256}]


def _properties(facts: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
    return [{"name": f"kz:{key}", "value": value} for key, value in facts.items()]

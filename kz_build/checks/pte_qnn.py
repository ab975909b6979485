"""Checks of the QNN contexts in a .pte (docs/reference/verbs/pte.md)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kz_build.checks.contract import Contract
from kz_build.core.check import Check, failed, pass_if, passed, skipped
from kz_build.formats.library_types import Library
from kz_build.formats.pte_types import Pte, QnnSpec, newer, version_key
from kz_build.formats.soc import arch_of
from kz_build.formats.tokenizer_types import Tokenizer

# Upstream's README of the QNN backend: a context on HTP is at most 4 GB.
MOST_CONTEXT = 4 << 30


def shared_buffer(subject: PteSubject) -> Check | None:
    """Check that it was exported with the shared-buffer setting of the runner."""
    wanted = subject.contract.shared_buffer
    if wanted is None:
        return None
    if not subject.specs:
        return skipped("no QNN delegate of it says whether it shares buffers, as the contract asks", required=True)
    if any(spec.shared_buffer != wanted for spec in subject.specs):
        evidence = {True: "with shared buffers", False: "without shared buffers"}
        return failed(f"it was exported {evidence[not wanted]} and the runner is started {evidence[wanted]}")
    return passed(f"shared_buffer is {str(wanted).lower()} in the file and in the runner")


def shards(subject: PteSubject) -> Check | None:
    wanted, has = subject.contract.shards, subject.pte.shards
    if not wanted:
        return None
    return pass_if(has == wanted, f"{has} QNN contexts per method, the contract says {wanted}")


def other_models(subject: PteSubject) -> Check | None:
    """Warn of contexts that join the process's first one (upstream's HtpContextCustomConfig.cpp: multi contexts and spill-fill)."""
    count = len(subject.pte.contexts)
    if not count:
        return None
    if not (grouped := [spec for spec in subject.specs if spec.multi_contexts and spec.spill_fill_bytes]):
        return passed(f"{count} QNN {'context' if count == 1 else 'contexts'}, none in a group of the process")
    return skipped(
        f"at risk: {count} QNN contexts share {grouped[0].spill_fill_bytes:,} bytes of spill-fill with the first QNN context of "
        "the process; error 5010 can occur if another QNN model was loaded before, or this one is loaded again"
    )


def context_size(subject: PteSubject) -> Check | None:
    """Check that HTP can hold each context."""
    contexts = subject.pte.contexts
    if not contexts:
        return None
    largest = max(context.size for _, context in contexts)
    evidence = f"its largest QNN context has {largest:,} bytes, and HTP takes 4 GB"
    return failed(evidence) if largest > MOST_CONTEXT else passed(evidence)


def qnn(subject: PteSubject) -> Check | None:
    """Check that the runtime is at least as new as the QNN that compiled it."""
    runtimes = {
        "the device": subject.contract.qnn,
        library_name(subject): subject.library.qnn if subject.library else "",
    }
    versions = {context.sdk for _, context in subject.pte.contexts}
    if not versions:
        return None
    known = versions - {""}
    newest = max(known, key=version_key, default="")
    if not any(runtimes.values()):
        evidence = f"QNN {newest or 'of unknown version'} compiled it; it loads on that or newer, and the QNN of the device is unknown"
        return skipped(evidence) if subject.library or subject.soc else None
    for who, runtime in runtimes.items():
        if runtime and not version_key(runtime):
            return failed(f"{who} has QNN {runtime}, which is no version such as 2.42.0.251225")
        if runtime and newest and newer(newest, runtime):
            evidence = f"QNN {newest} compiled it and {who} has {runtime}"
            return failed(f"{evidence}: a context loads only on the same or newer (err 5000)")
    if known != versions:
        return skipped("a context does not say which QNN compiled it", required=True)
    there = " and ".join(f"{who} has {runtime}" for who, runtime in runtimes.items() if runtime)
    return passed(f"QNN {newest} compiled it and {there}")


def rehearsal(subject: PteSubject) -> Check | None:
    """Check that it is newer than `newer_than` of the contract: a rehearsal, which devices with that QNN refuse."""
    older = subject.contract.newer_than
    if not older:
        return None
    versions = {context.sdk for _, context in subject.pte.contexts}
    if not versions or "" in versions:
        return skipped(
            f"no context says which QNN compiled it; the contract requires one newer than {older}", required=True
        )
    if old := [version for version in versions if not newer(version, older)]:
        return failed(f"QNN {listed(old)} compiled it, which is not newer than {older}, as the contract requires")
    return passed(
        f"QNN {listed(versions)} compiled it, newer than {older}: do not push it to a device with that QNN, which refuses it (err 5000)"
    )


def soc(subject: PteSubject) -> Check | None:
    """Check that it is compiled for the contract's SoC."""
    wanted = subject.contract.soc
    if not wanted:
        return None
    if not subject.specs:
        return skipped(f"no QNN delegate of it says for which SoC it is; the contract says {wanted}", required=True)
    if others := {spec.soc for spec in subject.specs} - {wanted.upper()}:
        return failed(f"it is compiled for {listed(others)}, the contract says {wanted}")
    return passed(f"it is compiled for {wanted}")


def arch(subject: PteSubject) -> Check | None:
    """Check that it is compiled for the Hexagon arch of the contract and the device."""
    wanted: dict[str, str] = {}
    if subject.contract.htp_arch:
        wanted["the contract"] = subject.contract.htp_arch
    if subject.soc:
        wanted[subject.soc.upper()] = arch_of(subject.soc)
    archs = {spec.arch for spec in subject.specs if spec.backend == "HTP"}
    if not archs and subject.contract.htp_arch:
        evidence = "no QNN delegate of it says for which Hexagon arch it is"
        return skipped(f"{evidence}; the contract says {subject.contract.htp_arch}", required=True)
    if not wanted or not archs:
        return None
    for who, arch in wanted.items():
        if others := archs - {arch}:
            return failed(f"its contexts are for Hexagon {listed(others)}, and {who} is {arch}")
    skels = subject.library.skels if subject.library else frozenset()
    if skels and not archs <= skels:
        return failed(
            f"its contexts are for Hexagon {listed(archs)}, and {library_name(subject)} has the skel of {listed(skels)}"
        )
    return passed(f"Hexagon {listed(archs)}, as {' and '.join(wanted)}")


_SHOWN = 5


@dataclass(frozen=True)
class PteSubject:
    """A file and what it is checked against: a recipe's contract, a library, a device's SoC ('' without one), a tokenizer."""

    pte: Pte
    contract: Contract
    library: Library | None
    soc: str
    tokenizer: Tokenizer | None = None

    @property
    def specs(self) -> tuple[QnnSpec, ...]:
        """Return the distinct compile specs of its QNN delegates."""
        return tuple(dict.fromkeys(d.qnn for d in self.pte.delegates if d.qnn))


def listed(names: Iterable[str]) -> str:
    """Join the first few names, in order."""
    shown = sorted(names)
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return ", ".join(shown[:_SHOWN]) + more


def library_name(subject: PteSubject) -> str:
    """Return the library's name, '' without one."""
    return subject.library.name if subject.library else ""

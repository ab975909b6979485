"""Questions about the QNN contexts of a .pte (docs/pte.md)."""

from __future__ import annotations

from kz_build.checks.pte_check import Asked, listed, named
from kz_build.core.check import Check, failed, pass_if, passed, skipped
from kz_build.formats.pte_types import newer, version_key
from kz_build.pins.soc import arch_of

# Upstream's README of the QNN backend: a context on HTP is at most 4 GB.
MOST_CONTEXT = 4 << 30


def shared_buffer(asked: Asked) -> Check | None:
    """Whether it was exported for the setting that the runner is started with."""
    wanted = asked.contract.shared_buffer
    if wanted is None or not asked.specs:
        return None
    if any(spec.shared_buffer != wanted for spec in asked.specs):
        said = {True: "with shared buffers", False: "without shared buffers"}
        return failed(f"it was exported {said[not wanted]} and the runner is started {said[wanted]}")
    return passed(f"shared_buffer is {str(wanted).lower()} in the file and in the runner")


def shards(asked: Asked) -> Check | None:
    """Whether it is cut as the contract says."""
    wanted, has = asked.contract.shards, asked.pte.shards
    if not wanted:
        return None
    return pass_if(has == wanted, f"{has} QNN contexts per method, the contract says {wanted}")


def other_models(asked: Asked) -> Check | None:
    """Upstream's HtpContextCustomConfig.cpp: with multi contexts and a spill-fill size, contexts join the process's first one."""
    count = len(asked.pte.contexts)
    if not count:
        return None
    if not (grouped := [spec for spec in asked.specs if spec.multi_contexts and spec.spill_fill_bytes]):
        return passed(f"{count} QNN {'context' if count == 1 else 'contexts'}, none in a group of the process")
    return skipped(
        f"at risk: {count} QNN contexts share {grouped[0].spill_fill_bytes:,} bytes of spill-fill with the first QNN context of "
        "the process; error 5010 may come when another QNN model was loaded before, or this one is loaded again"
    )


def context_size(asked: Asked) -> Check | None:
    """Whether HTP can hold each context."""
    contexts = asked.pte.contexts
    if not contexts:
        return None
    largest = max(context.size for _, context in contexts)
    said = f"its largest QNN context has {largest:,} bytes, and HTP takes 4 GB"
    return failed(said) if largest > MOST_CONTEXT else passed(said)


def qnn(asked: Asked) -> Check | None:
    """Whether the runtime is as new as what compiled it."""
    runtimes = {"the device": asked.contract.qnn, named(asked): asked.library.qnn if asked.library else ""}
    versions = {context.sdk for _, context in asked.pte.contexts}
    if not versions:
        return None
    known = versions - {""}
    newest = max(known, key=version_key, default="")
    if not any(runtimes.values()):
        said = f"QNN {newest or 'of unknown version'} compiled it; it loads on that or newer, and nothing says what is there"
        return skipped(said) if asked.library or asked.soc else None
    for who, runtime in runtimes.items():
        if runtime and newest and newer(newest, runtime):
            said = f"QNN {newest} compiled it and {who} has {runtime}"
            return failed(f"{said}: a context loads only on the same or newer (err 5000)")
    if known != versions:
        return skipped("a context does not say which QNN compiled it", required=True)
    there = " and ".join(f"{who} has {runtime}" for who, runtime in runtimes.items() if runtime)
    return passed(f"QNN {newest} compiled it and {there}")


def rehearsal(asked: Asked) -> Check | None:
    """Whether it is as new as the contract says that it is, and so nothing for the devices of that QNN."""
    older = asked.contract.newer_than
    if not older:
        return None
    versions = {context.sdk for _, context in asked.pte.contexts}
    if not versions or "" in versions:
        return skipped(
            f"no context says which QNN compiled it; the contract wants one newer than {older}", required=True
        )
    if old := [version for version in versions if not newer(version, older)]:
        return failed(f"QNN {listed(old)} compiled it, which is no newer than {older}, as the contract says that it is")
    return passed(
        f"QNN {listed(versions)} compiled it, newer than {older}: it must not go to a device with that, which refuses it (err 5000)"
    )


def soc(asked: Asked) -> Check | None:
    """Whether it is compiled for the contract's SoC."""
    wanted = asked.contract.soc
    if not wanted or not asked.specs:
        return None
    if others := {spec.soc for spec in asked.specs} - {wanted.upper()}:
        return failed(f"it is compiled for {listed(others)}, the contract says {wanted}")
    return passed(f"it is compiled for {wanted}")


def arch(asked: Asked) -> Check | None:
    """Whether it is compiled for the Hexagon that is there."""
    wanted: dict[str, str] = {}
    if asked.contract.htp_arch:
        wanted["the contract"] = asked.contract.htp_arch
    if asked.soc:
        wanted[asked.soc.upper()] = arch_of(asked.soc)
    archs = {spec.arch for spec in asked.specs if spec.backend == "HTP"}
    if not wanted or not archs:
        return None
    for who, arch in wanted.items():
        if others := archs - {arch}:
            return failed(f"its contexts are for Hexagon {listed(others)}, and {who} is {arch}")
    skels = asked.library.skels if asked.library else frozenset()
    if skels and not archs <= skels:
        return failed(
            f"its contexts are for Hexagon {listed(archs)}, and {named(asked)} has the skel of {listed(skels)}"
        )
    return passed(f"Hexagon {listed(archs)}, as {' and '.join(wanted)}")

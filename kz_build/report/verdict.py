"""The first thing on the page: does everything hold, in one sentence, and what to know before one believes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kz_build.core.check import Check, Status
from kz_build.report.facts import FAILING, Facts


class Caution(NamedTuple):
    """What makes a good result worth less. `kind` is one word, such as `override` or `EMULATED`."""

    kind: str
    text: str


class PageVerdict(NamedTuple):
    """Whether nothing fails; the sentence that counts what holds; why it fails; what to know beside it."""

    good: bool
    sentence: str
    failures: tuple[Caution, ...]
    cautions: tuple[Caution, ...]


def verdict(facts: Facts) -> PageVerdict:
    """Return the verdict on all facts."""
    failures, cautions = tuple(_failures(facts)), tuple(_cautions(facts))
    counts = _counts(facts)
    first = f"{_number(len(failures), 'failure')}: {counts}." if failures else f"{counts[:1].upper()}{counts[1:]}."
    return PageVerdict(not failures, " ".join([first, *_ahead(facts)]), failures, cautions)


def _counts(facts: Facts) -> str:
    states = [stack.at_pin(patch).state for stack in facts.stacks for patch in stack.patches]
    unknown = states.count("unknown")
    held = len(states) - unknown - sum(state in FAILING for state in states)
    parts = [f"{held} of {_number(len(states), 'patch', 'es')} hold on their pins"] if states else []
    parts += [f"{unknown} were not judged yet (kz verify)"] if unknown else []
    counts = (("build", facts.builds), ("model", facts.exports), ("device report", facts.devices))
    parts += [_number(len(found), name) for name, found in counts if found]
    checks = [check for _, check in checked(facts)]
    if checks:
        parts.append(f"{sum(not check.failed for check in checks)} of {_number(len(checks), 'check')} did not fail")
    return ", ".join(parts) or "nothing was built or judged yet"


def _ahead(facts: Facts) -> Iterator[str]:
    """Say what a move to upstream's branch would break, by source."""
    for source, trunk in dict.fromkeys((stack.source, stack.trunk) for stack in facts.stacks):
        if trunk is None:
            continue
        broken = []
        for stack in facts.stacks:
            if (stack.source, stack.trunk) == (source, trunk):
                count = sum(stack.on_trunk(patch).state in FAILING for patch in stack.patches)
                broken += [f"{count} of {len(stack.patches)} patches of {stack.line}"] if count else []
        at = f"{source}'s {trunk.name} of {trunk.date} ({trunk.commit[:10]})"
        yield f"A move to {at} would break {', '.join(broken) or 'no patch that was judged'}."


def _number(count: int, name: str, plural: str = "s") -> str:
    return f"{count:,} {name}{plural if count != 1 else ''}"


def checked(facts: Facts) -> list[tuple[str, Check]]:
    """Return (where, check) of all that builds, exports and devices were asked."""
    rows = [(f"build {build.line}/{build.target}", check) for build in facts.builds for check in build.checks]
    rows += [(f"export {model.recipe}", check) for model in facts.exports for check in model.checks]
    return rows + [(f"device {one.device}", check) for one in facts.devices for check in one.checks]


def _failures(facts: Facts) -> Iterator[Caution]:
    for where, check in checked(facts):
        if check.failed:
            yield Caution(check.status.value, f"{where}: {check.subject} {check.name}: {check.evidence}")
    for stack in facts.stacks:
        for patch in stack.patches:
            if (cell := stack.at_pin(patch)).state in FAILING:
                yield Caution(
                    "patch", f"{stack.line} {stack.source}: {patch.name} does not hold on its pin: {cell.word}"
                )
    for build in facts.builds:
        for stage, status, _ in build.stages:
            if status in (Status.FAIL.value, Status.ERROR.value):
                yield Caution("stage", f"{build.line}/{build.target}: {stage} failed in kz all")
    for one in facts.devices:
        for figure in one.figures:
            if figure.result == "worse":
                yield Caution("slower", f"{one.device} {one.subject}: {figure.title} is worse than before")
    for line, target, same in facts.reproduced:
        if not same:
            yield Caution("reproduce", f"{line}/{target}: a second build gave other bytes")


def _cautions(facts: Facts) -> Iterator[Caution]:
    for where, value in facts.overrides:
        yield Caution("override", f"{where}: {value}")
    for one in facts.devices:
        if one.emulated:
            yield Caution(
                "EMULATED",
                f"{one.device} is no device: what {one.target} {one.subject} did there was run on an emulated one",
            )
    for where, check in checked(facts):
        if check.status is Status.SKIP:
            yield Caution("skipped", f"{where}: {check.subject} {check.name}: {check.evidence}")
    for build in facts.builds:
        if build.signed is False:
            yield Caution(
                "unsigned", f"the files of {build.line}/{build.target} have no signature: kz build --sign KEY"
            )
        if not build.checks:
            yield Caution(
                "unchecked",
                f"{build.line}/{build.target} was not audited: kz audit --line {build.line} --target {build.target}",
            )
        if not build.network.startswith("off"):
            yield Caution("network", f"{build.line}/{build.target} was built with the network {build.network}")
    single = sorted({f"{pin.source} {pin.version}" for pin in facts.pins if pin.single})
    if single:
        yield Caution("one source", f"known by a digest that is published in one place alone: {', '.join(single)}")

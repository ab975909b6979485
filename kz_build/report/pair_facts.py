"""Which library runs which model: what devices found, and for the rest what `kz pte MODEL --lib LIBRARY --soc SOC` says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kz_build.checks.pte import check_contract
from kz_build.core.check import Check
from kz_build.core.errors import KzError
from kz_build.formats.library import read_library
from kz_build.formats.pte import read_pte
from kz_build.pins.project import Project
from kz_build.report.facts import BuildFacts, DeviceFacts, ExportFacts, PairFacts


def pair_facts(
    project: Project, builds: Sequence[BuildFacts], exports: Sequence[ExportFacts], devices: Sequence[DeviceFacts]
) -> Iterator[PairFacts]:
    """Yield what devices ran, then each library with each model that none ran, of other lines too: an app may have either first."""
    for one in devices:
        failed = [_sentence(check) for check in one.checks if check.failed]
        failed += [f"{figure.title} is worse than before" for figure in one.figures if figure.result == "worse"]
        qnn = project.pins.line(one.line).get("qnn-sdk", "")
        state, why = ("FAIL", tuple(failed)) if failed else ("PASS", (one.device,))
        yield PairFacts(one.line, one.target, one.subject, qnn, one.soc, state, one.emulated, why)
    tried = {(one.line, one.target, one.subject) for one in devices}
    for build in builds:
        for model in exports:
            if (build.line, build.target, model.recipe) not in tried:
                yield _untried(project, build, model)


def _untried(project: Project, build: BuildFacts, model: ExportFacts) -> PairFacts:
    pins = project.pins.line(build.line)
    path = project.dist_folder(model.line, model.file)
    own = build.line == model.line
    named = f"--recipe {model.recipe}" if own else f"--pte {path.relative_to(project.root)}"
    try:
        pte = read_pte(path)
        library = read_library(project.dist_folder(build.line, build.target), pte, pins.get("executorch", ""))
        checks = check_contract(pte, None, library, model.soc)
        failed = tuple(_sentence(check) for check in checks if check.failed)
        state = "FAIL" if failed else "PASS"
    except KzError as error:  # the model or the library is not there any more, or is damaged
        state, failed = "", (str(error),)
    return PairFacts(
        build.line, build.target, model.recipe if own else f"{model.line} {model.recipe}",
        model.qnn or pins.get("qnn-sdk", ""), model.soc, state, False, failed,
        f"kz device run --line {build.line} --target {build.target} {named}",
    )  # fmt: skip


def _sentence(check: Check) -> str:
    return f"{check.name}: {check.evidence}"

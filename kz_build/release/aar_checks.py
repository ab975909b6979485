"""The checks of `kz package`: the classes and the libraries of a new AAR belong together (docs/reference/verbs/package.md)."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from kz_build.build.build import java_sources
from kz_build.checks.audit import Audited, Rules, audit_files
from kz_build.core.check import Check, Status
from kz_build.core.errors import AuditError
from kz_build.formats import zip as zips
from kz_build.formats.android_manifest import DamagedError
from kz_build.formats.classfile import java_side
from kz_build.formats.elf_types import JavaSide
from kz_build.formats.java_source import java_side as java_of_sources
from kz_build.pins.pins import JavaSources
from kz_build.release.aar_folder import Part
from kz_build.sources.fetched import Fetched

_JAR = re.compile(r"classes\.jar|libs/[^/]+\.jar")
_CHECKED = ("needed", "jni", "natives")


def aar_checks(
    content: Mapping[str, bytes],
    parts: Sequence[Part],
    placed: Mapping[str, str],
    dependencies: Mapping[str, Sequence[str]],
    source: Fetched,
    plain: Fetched,
) -> Iterator[Check]:
    """Yield the checks of an AAR. `content` is upstream's, `placed` the libraries put in, `plain` the source without its stack."""
    java: JavaSources = parts[0].wanted["audit"]["java"]
    try:
        classes = java_side(_classes(content))
    except (DamagedError, AuditError) as error:
        yield Check("classes.jar", "classes", Status.ERROR, str(error), True)
        return
    yield _same_java(classes, java_of_sources(java_sources((source,), java)))
    yield _unpatched(source, plain, java)
    if len(parts) > 1:
        yield lacking_in_abis(parts, placed)
    provided = {library for libraries in dependencies.values() for library in libraries}
    for part in parts:
        yield from _of_libraries(part, placed, provided, classes, frozenset(java["classes"]))


def lacking_in_abis(parts: Sequence[Part], placed: Mapping[str, str]) -> Check:
    """Name the libraries that an ABI lacks and another has. Qualcomm's are for arm64 alone, so that does not fail."""
    present = {
        part.abi: [name for name in sorted(part.libraries) if f"jni/{part.abi}/{name}" in placed] for part in parts
    }
    every = sorted({name for names in present.values() for name in names})
    lacks = {abi: [name for name in every if name not in names] for abi, names in present.items()}
    rows = [f"{abi} lacks {' '.join(names)}" for abi, names in lacks.items() if names]
    evidence = "; ".join(rows) or f"each of {', '.join(present)} has {' '.join(every)}"
    return Check("jni", "abis", Status.WARN if rows else Status.PASS, evidence, True)


def _of_libraries(
    part: Part, placed: Mapping[str, str], provided: set[str], classes: JavaSide, registered: frozenset[str]
) -> Iterator[Check]:
    audit = part.wanted["audit"]
    rules = Rules(
        part.wanted["platform"], part.abi, frozenset(_CHECKED), frozenset({*audit["needed"], *provided}),
        audit["max_api"], (), classes, registered,
    )  # fmt: skip
    names = [name for name in sorted(part.libraries) if f"jni/{part.abi}/{name}" in placed]
    for check in audit_files(tuple(Audited(part.path(name), part.profiles[name]) for name in names), rules):
        if check.name in _CHECKED:
            yield replace(check, subject=f"jni/{part.abi}/{check.subject}")


def _classes(content: Mapping[str, bytes]) -> Iterator[bytes]:
    for path, data in sorted(content.items()):
        if _JAR.fullmatch(path):
            with zips.opened(path, io.BytesIO(data)) as jar:
                for entry in jar.entries:
                    if entry.name.endswith(".class") and not entry.name.startswith("META-INF/"):
                        yield jar.read(entry, zips.MOST)


def _same_java(classes: JavaSide, sources: JavaSide) -> Check:
    """Check that the published classes declare the native methods of the pinned sources."""
    ours, theirs = set(sources.methods), set(classes.methods)
    rows = [
        f"{what} {' '.join(sorted(m.java_class.rsplit('/', 1)[-1] + '.' + m.name for m in methods))}"
        for what, methods in (("they lack", ours - theirs), ("the pinned sources lack", theirs - ours))
        if methods
    ]
    evidence = "; ".join(rows) or f"{len(theirs)} native methods, those of the pinned sources"
    return Check("classes.jar", "classes", Status.FAIL if rows else Status.PASS, evidence, True)


def _unpatched(source: Fetched, plain: Fetched, java: JavaSources) -> Check:
    """Check that no patch of the stack changes a Java file: the published classes would not have it."""
    before, after = (java_sources((s,), java) for s in (plain, source))
    changed = sorted(p for p in {*before, *after} if before.get(p) != after.get(p))
    evidence = (
        f"the stack changes {' '.join(changed)}, upstream's classes do not have it"
        if changed
        else "no patch changes it"
    )
    return Check("classes.jar", "java", Status.FAIL if changed else Status.PASS, evidence, True)

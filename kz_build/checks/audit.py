"""audit: check that each built file is what an app needs (docs/reference/verbs/audit.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

from kz_build.build.build import java_sources
from kz_build.checks.elf_rules import CXX_RUNTIME_INSIDE, aligned, cxx_runtime, is_for, lacking, machine_of, names
from kz_build.core.check import Check, Status, ask, failed, pass_if, passed
from kz_build.core.errors import AuditError, LockError
from kz_build.core.stage_record import StageRecord, changed, load, load_any
from kz_build.formats import elf as reader
from kz_build.formats.elf_types import HEXAGON, Elf, JavaSide, NativeMethod
from kz_build.formats.java_source import java_side
from kz_build.pins.pins import digest_of
from kz_build.pins.project import Project
from kz_build.sources.fetched import Fetched

# The checks of each profile, in the order of the table.
PROFILES: Mapping[str, tuple[str, ...]] = {
    "ours": (
        "elf", "pages-16k", "android-note", "soname", "needed", "runtime", "exports", "jni", "natives", "textrel", "build-id", "paths", "size",
    ),
    "vendor": ("elf", "pages-16k", "needed", "textrel", "size"),
    "hexagon": ("elf", "size"),
    "program": ("elf", "pages-16k", "android-note", "needed", "build-id", "paths", "size"),
}  # fmt: skip
CACHE_EPOCH = 3
"""Raise it if a check answers in another way."""
_SHOWN = 8
"""Symbols that a line of evidence names."""


@dataclass(frozen=True)
class Audited:
    """A file to audit. `previous_size` in bytes, None if this is its first audit."""

    path: Path
    profile: str
    previous_size: int | None = None


@dataclass(frozen=True)
class Rules:
    """What the files are checked against. `build_paths` are folders of this machine that no file may contain."""

    platform: str
    abi: str
    required: frozenset[str]
    needed: frozenset[str]
    max_api: int
    build_paths: tuple[str, ...]
    java: JavaSide
    classes: frozenset[str] = frozenset()
    exports: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Subject:
    file: Audited
    elf: Elf
    rules: Rules
    beside: Mapping[Path, Elf]
    ours: frozenset[Path]

    @property
    def loaded_by_java(self) -> bool:
        return self.file.path.name in {f"lib{name}.so" for name in self.rules.java.loads}


def audit(
    project: Project, line: str, target: str, build: StageRecord, sources: tuple[Fetched, ...], *, again: bool = False
) -> tuple[Check, ...]:
    """Audit the files of a target, by the record of its build. Without `again`, return the recorded answers if nothing has changed
    since, and all was answered."""
    wanted = project.pins.target(target, line)
    path, dist = project.record("audit", line, target), project.dist_folder(line, target)
    java = java_side(java_sources(sources, wanted["audit"]["java"]))
    here = {
        project.root,
        project.store,
        project.out("tree", line, target),
        project.out("build", line, target),
        Path.home(),
    }
    rules = Rules(
        wanted["platform"], wanted["abi"], frozenset(wanted["audit"]["required"]), frozenset(wanted["audit"]["needed"]),
        wanted["audit"]["max_api"], tuple(str(p) for p in sorted(here) if len(p.parts) > 2),
        java, frozenset((wanted["audit"]["java"] or {}).get("classes", ())), wanted["audit"]["exports"],
    )  # fmt: skip
    key = _key(build, rules)
    if not again and (record := load(path, key)) and not any(c.status is Status.ERROR for c in _results(record)):
        return _results(record)  # what could not be answered is asked again: a disk may have failed
    last = load_any(path)
    previous = last.get("sizes", dict) if last else {}
    subjects = tuple(
        Audited(dist / n, f.profile, previous.get(n)) for n, f in build.outputs.items() if f.profile != "symbols"
    )
    checks = audit_files(subjects, rules)
    facts = {"checks": [c.as_json() for c in checks], "sizes": {n: f.size for n, f in build.outputs.items()}}
    StageRecord(path, key, facts=facts).save()
    return checks


def _key(build: StageRecord, rules: Rules) -> str:
    """Return the digest of all that the answers depend on, Java too: a patch to it alone changes no library."""
    facts = {name: sorted(value) if isinstance(value, frozenset) else value for name, value in vars(rules).items()}
    facts["java"] = [sorted((m.java_class, m.name) for m in rules.java.methods), sorted(rules.java.loads)]
    return digest_of([CACHE_EPOCH, facts, {n: [f.sha256, f.profile] for n, f in build.outputs.items()}])


def last_build(project: Project, line: str, target: str) -> StageRecord:
    """Return the record of the last build of a target. Raises LockError unless dist still has its files."""
    build, hint = load_any(project.record("build", line, target)), f"kz build --line {line} --target {target}"
    if not build:
        raise LockError(f"{target} of {line} was not built", hint=hint)
    if path := changed(project.dist_folder(line, target), build.outputs):
        what = (
            "has changed"
            if path.exists() and path.stat().st_size
            else "was emptied"
            if path.exists()
            else "was removed"
        )
        raise LockError(f"{path} {what} since it was built and audited", hint=hint)
    return build


def recorded(project: Project, line: str, target: str) -> tuple[Check, ...]:
    """Return the last audit of a target. Raises LockError unless dist still has the audited files."""
    last_build(project, line, target)
    if record := load_any(project.record("audit", line, target)):
        return _results(record)
    raise LockError(f"{target} of {line} was not built", hint=f"kz build --line {line} --target {target}")


def _results(record: StageRecord) -> tuple[Check, ...]:
    return tuple(Check.from_json(row) for row in record.get("checks", list))


def audit_files(subjects: tuple[Audited, ...], rules: Rules) -> tuple[Check, ...]:
    """Run every check of each file's profile. A check that cannot be answered is an ERROR."""
    results: list[Check] = []
    read: dict[Path, Elf] = {}
    for file in subjects:
        try:
            read[file.path] = reader.read_elf(file.path, exports="jni" in PROFILES[file.profile])
        except AuditError as error:
            results.append(Check(file.path.name, "elf", Status.ERROR, str(error)))
    ours = frozenset(file.path for file in subjects if file.profile == "ours")
    for file in subjects:
        if file.path in read:
            subject = _Subject(file, read[file.path], rules, _beside(read, file.path), ours)
            questions = {name: _CHECKS[name] for name in PROFILES[file.profile]}
            results += ask(subject, questions, file.path.name, rules.required)
    return (*results, *_not_checked(subjects, rules, {r.name for r in results}))


def _beside(read: Mapping[Path, Elf], path: Path) -> dict[Path, Elf]:
    """Return the other files that a file can load: an arm64 library cannot load a Hexagon one of its folder."""
    machine = read[path].bits, read[path].machine
    return {other: elf for other, elf in read.items() if other != path and is_for(elf, machine)}


def _not_checked(subjects: tuple[Audited, ...], rules: Rules, asked: set[str]) -> list[Check]:
    """Return failures that belong to no file: a library that Java loads and nothing built, a required check that was never run."""
    there = {file.path.name for file in subjects}
    absent = [f"lib{name}.so" for name in sorted(rules.java.loads) if f"lib{name}.so" not in there]
    failures = [Check(name, "jni", Status.FAIL, "Java loads it, and no file has that name") for name in absent]
    return failures + [
        Check("-", check, Status.ERROR, "required, but no file of this target has this check")
        for check in sorted(rules.required - asked)
    ]


def _elf(s: _Subject) -> Check:
    machine = HEXAGON if s.file.profile == "hexagon" else machine_of(s.rules.abi)
    kinds = ("ET_DYN", "ET_EXEC") if s.file.profile == "program" else ("ET_DYN",)
    return pass_if(
        is_for(s.elf, machine) and s.elf.kind in kinds,
        f"ELF{s.elf.bits} {s.elf.machine} {s.elf.kind}",
    )


def _pages(s: _Subject) -> Check:
    sizes = ", ".join(sorted({f"{a // 1024} KB" if a >= 1024 else f"{a} B" for a in s.elf.alignments}))
    text = f"{len(s.elf.alignments)} PT_LOAD aligned to {sizes}"
    return pass_if(
        aligned(s.elf) and s.elf.congruent, text if s.elf.congruent else text + ", addresses and offsets disagree"
    )


def _android_note(s: _Subject) -> Check | None:
    if s.rules.platform != "android":
        return None
    if not s.elf.api:
        return failed("no .note.android.ident: no NDK made it")
    limit = s.rules.max_api
    return pass_if(
        not limit or s.elf.api <= limit,
        f"API {s.elf.api}" + (f" (at most {limit})" if limit else "") + f", NDK {s.elf.ndk}",
    )


def _soname(s: _Subject) -> Check:
    name = s.file.path.name
    note = (
        ""
        if s.elf.soname == name
        else f" (the file is {name}, as Java loads it)"
        if s.loaded_by_java
        else f", not {name}"
    )
    return pass_if(bool(s.elf.soname) and (s.elf.soname == name or s.loaded_by_java), (s.elf.soname or "none") + note)


def _needed(s: _Subject) -> Check:
    there = names({path.name: elf for path, elf in (*s.beside.items(), (s.file.path, s.elf))})
    missing = lacking(s.elf, s.rules.needed | there)
    return pass_if(
        not missing,
        f"neither in the system nor beside it: {' '.join(missing)}" if missing else " ".join(s.elf.needed) or "none",
    )


def _runtime(s: _Subject) -> Check:
    """Check that a library of ours has the C++ runtime of those beside it. Vendors' with one inside have C interfaces."""
    shared = cxx_runtime(s.elf)
    if not _has_runtime(s.file.path):
        return passed(shared or "none needed")
    others = [f"{path.name} needs {cxx_runtime(elf)}" for path, elf in s.beside.items() if cxx_runtime(elf)]
    others += [f"{path.name} has another" for path in s.beside if path in s.ours and _has_runtime(path)]
    others += [f"it also needs {shared}"] if shared else []
    # The NDK's word for it; other platforms have none.
    advice = ["build it with ANDROID_STL: c++_shared"] if others and s.rules.platform == "android" else []
    return pass_if(not others, "; ".join(["a C++ runtime inside", *sorted(others), *advice]))


def _has_runtime(path: Path) -> bool:
    return bool(reader.registered_strings(path, (CXX_RUNTIME_INSIDE,)))


def _exports(s: _Subject) -> Check | None:
    """Check that a library exports what JNI and pins.yaml name, and nothing else."""
    listed = s.rules.exports.get(s.file.path.name)
    if listed is None and not s.loaded_by_java:
        return None
    wanted = {*(listed or ()), *(("JNI_OnLoad",) if s.loaded_by_java else ())}
    surplus = sorted(e for e in s.elf.exports - wanted if not (s.loaded_by_java and e.startswith("Java_")))
    missing = sorted(wanted - s.elf.exports)
    lines = [f"{len(s.elf.exports)} symbols"]
    for symbols, what in ((missing, "missing"), (surplus, "not of JNI and not in pins.yaml")):
        if symbols:
            more = f" and {len(symbols) - _SHOWN:,} more" if len(symbols) > _SHOWN else ""
            lines.append(f"{what}: {' '.join(symbols[:_SHOWN])}{more}")
    return pass_if(not missing and not surplus, "; ".join(lines))


def _jni(s: _Subject) -> Check | None:
    if not s.loaded_by_java:
        return None
    java = sorted(e for e in s.elf.exports if e.startswith("Java_"))
    strays = [e for e in java if not any(_exported(m, {e}) for m in s.rules.java.methods)]
    text = f"JNI_OnLoad{'' if 'JNI_OnLoad' in s.elf.exports else ' missing'}, {len(java)} Java_ exports"
    return pass_if(
        "JNI_OnLoad" in s.elf.exports and not strays,
        text + (f", no Java method for {' '.join(strays)}" if strays else ""),
    )


def _exported(method: NativeMethod, exports: Set[str]) -> bool:
    """Whether a method is exported: under its JNI name, or that with two underscores and an overload's signature."""
    return method.export in exports or any(e.startswith(method.export + "__") for e in exports)


def _natives(s: _Subject) -> Check | None:
    """Check that each native method is exported, or that its class descriptor and name are in the library, to be registered."""
    if not s.loaded_by_java:
        return None
    wanted = [m for m in s.rules.java.methods if not s.rules.classes or m.java_class in s.rules.classes]
    names = {t for m in wanted for t in (m.descriptor, m.java_class, m.name)}
    there = reader.registered_strings(s.file.path, sorted(names))
    exported = {e for e in s.elf.exports if e.startswith("Java_")}
    missing = [
        m
        for m in wanted
        if not _exported(m, exported) and not ({m.descriptor, m.java_class} & there and m.name in there)
    ]
    shown = " ".join(f"{m.java_class.rsplit('/', 1)[-1]}.{m.name}" for m in missing)
    classes = {m.java_class for m in wanted}
    if gone := sorted(s.rules.classes - classes):
        return failed(f"the Java sources declare no native method of {' '.join(gone)}")
    if not wanted:
        return failed("the Java sources declare no native method")
    return pass_if(
        not missing, f"not registered: {shown}" if missing else f"{len(wanted)} methods of {len(classes)} classes"
    )


def _paths(s: _Subject) -> Check:
    matches = reader.strings_with(s.file.path, s.rules.build_paths)
    if not matches:
        return passed("no path of the build machine")
    count = f"{len(matches)} or more" if len(matches) >= reader.MOST_FINDINGS else str(len(matches))
    return failed(f"{count}, first in {matches[0][0]}: {matches[0][1]}")


def _size(s: _Subject) -> Check:
    before = s.file.previous_size
    delta = f", {s.elf.size - before:+,} B ({(s.elf.size - before) / before:+.1%})" if before else ""
    return passed(f"{s.elf.size:,} B{delta}")


_CHECKS: Mapping[str, Callable[[_Subject], Check | None]] = {
    "elf": _elf, "pages-16k": _pages, "android-note": _android_note, "soname": _soname, "needed": _needed, "runtime": _runtime,
    "exports": _exports, "jni": _jni,
    "natives": _natives, "paths": _paths, "size": _size,
    "textrel": lambda s: pass_if(not s.elf.textrel, "text relocations" if s.elf.textrel else "none"),
    "build-id": lambda s: pass_if(bool(s.elf.build_id), s.elf.build_id or "none: crashes cannot be symbolised"),
}  # fmt: skip

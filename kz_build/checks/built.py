"""audit: is each file what an app needs? One answer with evidence per check and file (docs/audit.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from kz_build.build.build import Built, java_sources
from kz_build.checks.elf_rules import aligned, is_for, lacking, machine_of, names
from kz_build.core.check import Check, Status, ask, failed, pass_if, passed
from kz_build.core.errors import AuditError, LockError
from kz_build.core.stage_record import StageRecord, changed, load, load_any
from kz_build.formats import elf as reader
from kz_build.formats.elf_types import HEXAGON, Elf, JavaSide, NativeMethod
from kz_build.formats.java_source import java_side
from kz_build.pins.pins import digest_of
from kz_build.pins.project import Project
from kz_build.sources.fetched import Fetched

# What each profile is asked, in the order of the table.
PROFILES: Mapping[str, tuple[str, ...]] = {
    "ours": (
        "elf", "pages-16k", "android-note", "soname", "needed", "jni", "natives", "textrel", "build-id", "paths", "size",
    ),
    "vendor": ("elf", "pages-16k", "needed", "textrel", "size"),
    "hexagon": ("elf", "size"),
    "program": ("elf", "pages-16k", "android-note", "needed", "build-id", "paths", "size"),
}  # fmt: skip
CACHE_EPOCH = 2
"""Raise it when a check changes what it answers."""


@dataclass(frozen=True)
class Audited:
    """A file to audit. `previous_size` in bytes, None where there was none before."""

    path: Path
    profile: str
    previous_size: int | None = None


@dataclass(frozen=True)
class Rules:
    """What the files are held against. `build_paths` are folders of this machine that must not stand in a file."""

    platform: str
    abi: str
    required: frozenset[str]
    needed: frozenset[str]
    max_api: int
    build_paths: tuple[str, ...]
    java: JavaSide
    classes: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Subject:
    file: Audited
    elf: Elf
    rules: Rules
    beside: frozenset[str]

    @property
    def loaded_by_java(self) -> bool:
        return self.file.path.name in {f"lib{name}.so" for name in self.rules.java.loads}


def audit(project: Project, built: Built, sources: tuple[Fetched, ...], *, again: bool = False) -> tuple[Check, ...]:
    """Audit what a build left. Without `again`, give the record of it where nothing has changed since."""
    plan = built.plan
    target = project.pins.target(plan.target, plan.line)
    path = project.record("audit", plan.line, plan.target)
    java = java_side(java_sources(sources, target["audit"]["java"]))
    rules = Rules(
        target["platform"], target["abi"], frozenset(target["audit"]["required"]), frozenset(target["audit"]["needed"]),
        target["audit"]["max_api"], tuple(str(p) for p in sorted({project.root, project.store, plan.tree, plan.build, Path.home()}) if len(p.parts) > 2),
        java, frozenset((target["audit"]["java"] or {}).get("classes", ())),
    )  # fmt: skip
    key = _key(built, rules)
    if not again and (known := load(path, key)):
        return _results(known)
    last = load_any(path)
    previous = last.get("sizes", dict) if last else {}
    subjects = tuple(
        Audited(plan.dist / n, f.profile, previous.get(n))
        for n, f in built.record.outputs.items()
        if f.profile != "symbols"
    )
    found = audit_files(subjects, rules)
    facts = {"checks": [c.as_json() for c in found], "sizes": {n: f.size for n, f in built.record.outputs.items()}}
    StageRecord(path, key, facts=facts).save()
    return found


def _key(built: Built, rules: Rules) -> str:
    """Everything that the answers depend on: a patch to the Java sources alone leaves every library as it was."""
    held = {name: sorted(value) if isinstance(value, frozenset) else value for name, value in vars(rules).items()}
    held["java"] = [sorted((m.java_class, m.name) for m in rules.java.methods), sorted(rules.java.loads)]
    return digest_of([CACHE_EPOCH, held, {n: [f.sha256, f.profile] for n, f in built.record.outputs.items()}])


def last_build(project: Project, line: str, target: str) -> StageRecord:
    """The record of the last build of a target. Raises LockError unless dist still holds its files."""
    build, hint = load_any(project.record("build", line, target)), f"kz build --line {line} --target {target}"
    if not build:
        raise LockError(f"{target} of {line} was not built", hint=hint)
    if path := changed(project.dist_folder(line, target), build.outputs):
        raise LockError(f"{path} is not what was built and audited", hint=hint)
    return build


def recorded(project: Project, line: str, target: str) -> tuple[Check, ...]:
    """The last audit of a target, as long as dist still holds the files it was about."""
    last_build(project, line, target)
    if audited := load_any(project.record("audit", line, target)):
        return _results(audited)
    raise LockError(f"{target} of {line} was not built", hint=f"kz build --line {line} --target {target}")


def _results(record: StageRecord) -> tuple[Check, ...]:
    return tuple(Check.from_json(row) for row in record.get("checks", list))


def audit_files(subjects: tuple[Audited, ...], rules: Rules) -> tuple[Check, ...]:
    """Every check of every file's profile. A check that cannot be asked is an ERROR."""
    results: list[Check] = []
    read: dict[Path, Elf] = {}
    for file in subjects:
        try:
            read[file.path] = reader.read_elf(file.path, exports="jni" in PROFILES[file.profile])
        except AuditError as error:
            results.append(Check(file.path.name, "elf", Status.ERROR, str(error)))
    for file in subjects:
        if file.path in read:
            subject = _Subject(file, read[file.path], rules, _beside(read, read[file.path]))
            questions = {name: _CHECKS[name] for name in PROFILES[file.profile]}
            results += ask(subject, questions, file.path.name, rules.required)
    return (*results, *_unasked(subjects, rules, {r.name for r in results}))


def _beside(read: Mapping[Path, Elf], elf: Elf) -> frozenset[str]:
    """File names and SONAMEs that a file can load: a Hexagon library in the same folder is none for an arm64 one."""
    return names({path.name: e for path, e in read.items() if is_for(e, (elf.bits, elf.machine))})


def _unasked(subjects: tuple[Audited, ...], rules: Rules, asked: set[str]) -> list[Check]:
    """What a table of files alone would pass over: a library that Java loads and nobody made, a required check of no file."""
    there = {file.path.name for file in subjects}
    lost = [f"lib{name}.so" for name in sorted(rules.java.loads) if f"lib{name}.so" not in there]
    found = [Check(name, "jni", Status.FAIL, "Java loads it, and no file has that name") for name in lost]
    return found + [
        Check("-", check, Status.ERROR, "required, but no file of this target is asked it")
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
    said = ", ".join(sorted({f"{a // 1024} KB" if a >= 1024 else f"{a} B" for a in s.elf.alignments}))
    text = f"{len(s.elf.alignments)} PT_LOAD aligned to {said}"
    return pass_if(
        aligned(s.elf) and s.elf.congruent, text if s.elf.congruent else text + ", addresses do not fit offsets"
    )


def _android_note(s: _Subject) -> Check | None:
    if s.rules.platform != "android":
        return None
    if not s.elf.api:
        return failed("no .note.android.ident: not made by an NDK")
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
    lost = lacking(s.elf, s.rules.needed | s.beside)
    return pass_if(
        not lost, f"neither of the system nor beside it: {' '.join(lost)}" if lost else " ".join(s.elf.needed) or "none"
    )


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
    """Under its JNI name, or that with the signature of an overload behind two underscores."""
    return method.export in exports or any(e.startswith(method.export + "__") for e in exports)


def _natives(s: _Subject) -> Check | None:
    """Each native method is exported under its JNI name, or its class descriptor and its name stand in the library to be registered."""
    if not s.loaded_by_java:
        return None
    wanted = [m for m in s.rules.java.methods if not s.rules.classes or m.java_class in s.rules.classes]
    names = {t for m in wanted for t in (m.descriptor, m.java_class, m.name)}
    there = reader.registered_strings(s.file.path, sorted(names))
    exported = {e for e in s.elf.exports if e.startswith("Java_")}
    lost = [
        m
        for m in wanted
        if not _exported(m, exported) and not ({m.descriptor, m.java_class} & there and m.name in there)
    ]
    missing = " ".join(f"{m.java_class.rsplit('/', 1)[-1]}.{m.name}" for m in lost)
    classes = {m.java_class for m in wanted}
    if gone := sorted(s.rules.classes - classes):
        return failed(f"the Java sources declare no native method of {' '.join(gone)}")
    if not wanted:
        return failed("the Java sources declare no native method")
    return pass_if(
        not lost, f"not registered: {missing}" if lost else f"{len(wanted)} methods of {len(classes)} classes"
    )


def _textrel(s: _Subject) -> Check:
    return pass_if(not s.elf.textrel, "text relocations" if s.elf.textrel else "none")


def _build_id(s: _Subject) -> Check:
    return pass_if(bool(s.elf.build_id), s.elf.build_id or "none: crashes cannot be symbolised")


def _paths(s: _Subject) -> Check:
    found = reader.strings_with(s.file.path, s.rules.build_paths)
    if not found:
        return passed("no path of the build machine")
    count = f"{len(found)} or more" if len(found) >= reader.MOST_FINDINGS else str(len(found))
    return failed(f"{count}, first in {found[0][0]}: {found[0][1]}")


def _size(s: _Subject) -> Check:
    before = s.file.previous_size
    delta = f", {s.elf.size - before:+,} B ({(s.elf.size - before) / before:+.1%})" if before else ""
    return passed(f"{s.elf.size:,} B{delta}")


_CHECKS: Mapping[str, Callable[[_Subject], Check | None]] = {
    "elf": _elf, "pages-16k": _pages, "android-note": _android_note, "soname": _soname, "needed": _needed, "jni": _jni,
    "natives": _natives, "textrel": _textrel, "build-id": _build_id, "paths": _paths, "size": _size,
}  # fmt: skip

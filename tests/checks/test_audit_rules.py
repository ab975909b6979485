"""The audit's rules, one at a time, on small libraries made to order."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kz_build.build.build import java_sources
from kz_build.checks import audit as stage
from kz_build.checks.audit import Audited, Rules, audit, audit_files, recorded
from kz_build.core.check import Check, Status
from kz_build.core.errors import KzError, LockError
from kz_build.core.process import checked
from kz_build.core.stage_record import Output, StageRecord
from kz_build.formats.elf_types import JavaSide, NativeMethod
from kz_build.pins.lock_file import Lock
from kz_build.pins.pins import JavaSources, Pins
from kz_build.pins.project import Project
from kz_build.sources.fetched import Fetched, TreeAt
from tests.formats.elves import (
    ALLOC,
    DYN,
    EXEC,
    HEXAGON,
    RELOCATABLE,
    TEXTREL,
    X86_64,
    Section,
    android_note,
    build_id,
    elf,
)

ID = "0123456789abcdef0123456789abcdef01234567"
NO_JAVA = JavaSide((), frozenset())
PASS, FAIL, ERROR = Status.PASS, Status.FAIL, Status.ERROR


def rules(**changed: Any) -> Rules:
    values: dict[str, Any] = {
        "platform": "android", "abi": "arm64-v8a", "required": frozenset(), "needed": frozenset({"libc.so"}),
        "max_api": 0, "build_paths": (), "java": NO_JAVA,
    }  # fmt: skip
    return Rules(**{**values, **changed})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def good(**changed: Any) -> bytes:
    """A library that every rule takes."""
    return elf(**{"soname": "libx.so", "needed": ("libc.so",), "notes": android_note(26) + build_id(ID), **changed})


def results(
    folder: Path, data: bytes, profile: str = "ours", name: str = "libx.so", **changed: Any
) -> dict[str, tuple[Status, str]]:
    """What each rule answers about one file."""
    (folder / name).write_bytes(data)
    found = audit_files((Audited(folder / name, profile),), rules(**changed))
    assert {r.subject for r in found} == {name}
    return {r.name: (r.status, r.evidence) for r in found}


def test_a_good_library_passes_every_rule_of_its_profile(folder: Path) -> None:
    data = good()
    common = {
        "elf": (PASS, "ELF64 EM_AARCH64 ET_DYN"),
        "pages-16k": (PASS, "2 PT_LOAD aligned to 16 KB"),
        "needed": (PASS, "libc.so"),
        "textrel": (PASS, "none"),
        "size": (PASS, f"{len(data):,} B"),
    }
    notes = {
        "android-note": (PASS, "API 26, NDK r28c 13676358"),
        "build-id": (PASS, ID),
        "paths": (PASS, "no path of the build machine"),
    }
    ours = {"soname": (PASS, "libx.so"), "runtime": (PASS, "none needed")}
    assert results(folder, data) == {**common, **notes, **ours}
    assert results(folder, data, "vendor") == common
    del common["textrel"]
    assert results(folder, data, "program") == {**common, **notes}
    assert set(results(folder, data, "hexagon")) == {"elf", "size"}


@pytest.mark.parametrize(
    ("made", "profile", "abi", "status", "evidence"),
    [
        ({}, "ours", "arm64", PASS, "ELF64 EM_AARCH64 ET_DYN"),
        ({}, "ours", "x86_64", FAIL, "ELF64 EM_AARCH64 ET_DYN"),
        ({}, "ours", "riscv64", FAIL, "ELF64 EM_AARCH64 ET_DYN"),
        ({"machine": X86_64}, "ours", "x86_64", PASS, "ELF64 EM_X86_64 ET_DYN"),
        ({"bits": 32}, "ours", "arm64-v8a", FAIL, "ELF32 EM_AARCH64 ET_DYN"),
        ({"kind": EXEC}, "ours", "arm64-v8a", FAIL, "ELF64 EM_AARCH64 ET_EXEC"),
        ({"kind": EXEC}, "program", "arm64-v8a", PASS, "ELF64 EM_AARCH64 ET_EXEC"),
        ({"kind": DYN}, "program", "arm64-v8a", PASS, "ELF64 EM_AARCH64 ET_DYN"),
        ({"kind": RELOCATABLE}, "program", "arm64-v8a", FAIL, "ELF64 EM_AARCH64 ET_REL"),
        ({"bits": 32, "machine": HEXAGON}, "hexagon", "arm64-v8a", PASS, "ELF32 EM_QDSP6 ET_DYN"),
        ({"bits": 64, "machine": HEXAGON}, "hexagon", "arm64-v8a", FAIL, "ELF64 EM_QDSP6 ET_DYN"),
        ({"bits": 32, "machine": HEXAGON}, "vendor", "arm64-v8a", FAIL, "ELF32 EM_QDSP6 ET_DYN"),
        ({}, "hexagon", "arm64-v8a", FAIL, "ELF64 EM_AARCH64 ET_DYN"),
    ],
)
def test_elf(folder: Path, made: dict[str, Any], profile: str, abi: str, status: Status, evidence: str) -> None:
    assert results(folder, elf(**made), profile, abi=abi)["elf"] == (status, evidence)


@pytest.mark.parametrize(
    ("alignments", "skew", "status", "evidence"),
    [
        ((0x4000,), 0, PASS, "1 PT_LOAD aligned to 16 KB"),
        ((0x4000, 0x10000, 0x4000), 0, PASS, "3 PT_LOAD aligned to 16 KB, 64 KB"),
        ((0x4000, 0x1000), 0, FAIL, "2 PT_LOAD aligned to 16 KB, 4 KB"),
        ((0x4000, 0x6000), 0, FAIL, "2 PT_LOAD aligned to 16 KB, 24 KB"),
        ((0x4000, 0x400), 0, FAIL, "2 PT_LOAD aligned to 1 KB, 16 KB"),
        ((0x4000, 8), 0, FAIL, "2 PT_LOAD aligned to 16 KB, 8 B"),
        ((0x4000, 0), 0, FAIL, "2 PT_LOAD aligned to 0 B, 16 KB"),
        ((0x4000, 0x4000), 0x1000, FAIL, "2 PT_LOAD aligned to 16 KB, addresses and offsets disagree"),
        ((), 0, FAIL, "0 PT_LOAD aligned to "),
    ],
)
def test_pages_16k(folder: Path, alignments: Sequence[int], skew: int, status: Status, evidence: str) -> None:
    data = elf(alignments=alignments, skew=skew, dynamic=None)
    assert results(folder, data, "vendor")["pages-16k"] == (status, evidence)


@pytest.mark.parametrize(
    ("notes", "max_api", "status", "evidence"),
    [
        (android_note(26), 26, PASS, "API 26 (at most 26), NDK r28c 13676358"),
        (android_note(26), 25, FAIL, "API 26 (at most 25), NDK r28c 13676358"),
        (android_note(35), 0, PASS, "API 35, NDK r28c 13676358"),
        (build_id(ID), 26, FAIL, "no .note.android.ident: no NDK made it"),
    ],
)
def test_android_note(folder: Path, notes: bytes, max_api: int, status: Status, evidence: str) -> None:
    assert results(folder, elf(notes=notes), max_api=max_api)["android-note"] == (status, evidence)
    assert "android-note" not in results(folder, elf(notes=notes), platform="linux")


LOADS_X = JavaSide((), frozenset({"x"}))


@pytest.mark.parametrize(
    ("soname", "java", "status", "evidence"),
    [
        ("libx.so", NO_JAVA, PASS, "libx.so"),
        ("libx.so", LOADS_X, PASS, "libx.so"),
        ("liby.so", NO_JAVA, FAIL, "liby.so, not libx.so"),
        ("liby.so", LOADS_X, PASS, "liby.so (the file is libx.so, as Java loads it)"),
        ("liby.so", JavaSide((), frozenset({"libx", "x.so", "x", "z"})), PASS, "liby.so (the file is libx.so, as Java loads it)"),
        ("", NO_JAVA, FAIL, "none, not libx.so"),
        ("", LOADS_X, FAIL, "none (the file is libx.so, as Java loads it)"),
    ],
)  # fmt: skip
def test_soname(folder: Path, soname: str, java: JavaSide, status: Status, evidence: str) -> None:
    (folder / "libx.so").write_bytes(elf(soname=soname))
    found = audit_files((Audited(folder / "libx.so", "ours"),), rules(java=java))
    assert next((r.status, r.evidence) for r in found if r.name == "soname") == (status, evidence)


def test_needed_is_of_the_system_or_beside_it_for_the_same_machine(folder: Path) -> None:
    def beside(**others: bytes) -> tuple[Status, str]:
        (folder / "libx.so").write_bytes(elf(needed=("libc.so", "libdep.so", "libalias.so")))
        for name, data in others.items():
            (folder / f"{name}.so").write_bytes(data)
        files = (Audited(folder / f"{n}.so", "vendor") for n in ("libx", *others))
        found = audit_files(tuple(files), rules(required=frozenset({"needed"})))
        return next((r.status, r.evidence) for r in found if (r.subject, r.name) == ("libx.so", "needed"))

    assert beside() == (FAIL, "neither in the system nor beside it: libdep.so libalias.so")
    assert beside(libdep=elf()) == (FAIL, "neither in the system nor beside it: libalias.so")
    assert beside(libdep=elf(soname="libalias.so")) == (PASS, "libc.so libdep.so libalias.so")
    assert beside(libdep=elf(soname="libalias.so", bits=32))[0] is FAIL
    assert beside(libdep=elf(soname="libalias.so", machine=X86_64))[0] is FAIL
    assert results(folder, elf(), "vendor")["needed"] == (PASS, "none")


def test_exports_are_those_of_jni_and_of_the_target_and_no_others(folder: Path) -> None:
    def exports(functions: Sequence[str], listed: dict[str, Sequence[str]], java: JavaSide, data: str = "") -> object:
        symbols = {data: (1, 1)} if data else {}
        made = elf(functions=functions, symbols=symbols)
        return results(folder, made, java=java, exports=listed).get("exports")

    jni = ("JNI_OnLoad", "Java_a_B_go")
    assert exports(jni, {}, LOADS_X) == (PASS, "2 symbols")
    assert exports((*jni, "run"), {"libx.so": ["run"]}, LOADS_X) == (PASS, "3 symbols")
    surplus = "3 symbols; not of JNI and not in pins.yaml: _ZTISt9exception"
    assert exports(jni, {}, LOADS_X, data="_ZTISt9exception") == (FAIL, surplus)
    assert exports(("Java_a_B_go",), {"libx.so": ["run"]}, LOADS_X) == (FAIL, "1 symbols; missing: JNI_OnLoad run")
    assert exports(("run",), {"libx.so": ["run"]}, NO_JAVA) == (PASS, "1 symbols")
    assert exports(jni, {"libx.so": ["JNI_OnLoad"]}, NO_JAVA) == (
        FAIL,
        "2 symbols; not of JNI and not in pins.yaml: Java_a_B_go",
    )
    assert exports(jni, {"liby.so": []}, NO_JAVA) is None
    many = tuple(f"_Z{n:04}" for n in range(1524))
    assert str(exports((*jni, *many), {}, LOADS_X)).endswith("_Z0006 _Z0007 and 1,516 more')")


def natives(
    folder: Path, methods: Sequence[str], classes: Sequence[str] = (), **made: Any
) -> dict[str, tuple[Status, str]]:
    """Answers about a library that Java loads; methods as `org/A.name`."""
    found = [NativeMethod(*m.rsplit(".", 1)) for m in methods]
    java = JavaSide(tuple(found), frozenset({"x"}))
    return results(folder, elf(**made), java=java, classes=frozenset(classes))


@pytest.mark.parametrize(
    ("methods", "functions", "status", "evidence"),
    [
        ((), ("JNI_OnLoad",), PASS, "JNI_OnLoad, 0 Java_ exports"),
        ((), ("other",), FAIL, "JNI_OnLoad missing, 0 Java_ exports"),
        (("a/B.go",), ("JNI_OnLoad", "Java_a_B_go"), PASS, "JNI_OnLoad, 1 Java_ exports"),
        (("a/B.go",), ("JNI_OnLoad", "Java_a_B_go__I", "Java_a_B_go__J"), PASS, "JNI_OnLoad, 2 Java_ exports"),
        (("a/B.go",), ("Java_a_B_go",), FAIL, "JNI_OnLoad missing, 1 Java_ exports"),
        (
            ("a/B.go",),
            ("JNI_OnLoad", "Java_a_B_go", "Java_a_B_go_on", "Java_a_B"),
            FAIL,
            "JNI_OnLoad, 3 Java_ exports, no Java method for Java_a_B Java_a_B_go_on",
        ),
    ],
)
def test_jni(folder: Path, methods: Sequence[str], functions: Sequence[str], status: Status, evidence: str) -> None:
    assert natives(folder, methods, functions=functions)["jni"] == (status, evidence)


REGISTERED = [Section(".rodata", b"\0La/B;\0go\0a/C\0up\0", ALLOC)]


@pytest.mark.parametrize(
    ("methods", "classes", "status", "evidence"),
    [
        (("a/B.go",), (), PASS, "1 methods of 1 classes"),
        (("a/B.go", "a/B.up", "a/C.go"), (), PASS, "3 methods of 2 classes"),
        (("a/B.go", "a/D.go", "a/B.down", "a/E$F.x"), (), FAIL, "not registered: D.go B.down E$F.x"),
        (("D.go",), (), FAIL, "not registered: D.go"),
        (("a/B.go", "a/D.go"), ("a/B",), PASS, "1 methods of 1 classes"),
        (("a/B.go",), ("a/B", "a/Z", "a/Y"), FAIL, "the Java sources declare no native method of a/Y a/Z"),
        ((), (), FAIL, "the Java sources declare no native method"),
    ],
)
def test_natives(folder: Path, methods: Sequence[str], classes: Sequence[str], status: Status, evidence: str) -> None:
    assert natives(folder, methods, classes, sections=REGISTERED)["natives"] == (status, evidence)


@pytest.mark.parametrize(
    ("functions", "status"),
    [
        (("Java_a_D_go",), PASS),
        (("Java_a_D_go__Ljava_lang_String_2",), PASS),
        (("Java_a_D_go_on",), FAIL),
        (("xJava_a_D_go",), FAIL),
    ],
)
def test_natives_may_be_exported_instead(folder: Path, functions: Sequence[str], status: Status) -> None:
    assert natives(folder, ("a/D.go",), functions=functions)["natives"][0] is status


def test_a_library_that_java_does_not_load_is_not_asked_for_natives(folder: Path) -> None:
    assert not {"jni", "natives"} & set(results(folder, good()))


def test_textrel_and_build_id(folder: Path) -> None:
    found = results(folder, elf(dynamic=[TEXTREL]))
    assert found["textrel"] == (FAIL, "text relocations")
    assert found["build-id"] == (FAIL, "none: crashes cannot be symbolised")


@pytest.mark.parametrize(
    ("content", "evidence"),
    [
        (b"x\0/home/me/a.cpp\0", "1, first in .comment: /home/me/a.cpp"),
        (b"/build/kz/a\0/home/me/b\0", "2, first in .comment: /home/me/b"),
        (b"".join(b"/home/me/%d\0" % n for n in range(19)), "19, first in .comment: /home/me/0"),
        (b"".join(b"/home/me/%d\0" % n for n in range(20)), "20 or more, first in .comment: /home/me/0"),
    ],
)
def test_paths(folder: Path, content: bytes, evidence: str) -> None:
    data = elf(sections=[Section(".comment", content)])
    found = results(folder, data, build_paths=("/home/me", "/build/kz"))
    assert found["paths"] == (FAIL, evidence)


@pytest.mark.parametrize(
    ("before", "delta"),
    [(None, ""), (0, ""), (600, ", +50 B (+8.3%)"), (1300, ", -650 B (-50.0%)"), (650, ", +0 B (+0.0%)")],
)
def test_size(folder: Path, before: int | None, delta: str) -> None:
    path = folder / "libx.so"
    path.write_bytes(elf().ljust(650, b"\0"))
    found = audit_files((Audited(path, "hexagon", before),), rules())
    assert (found[-1].name, found[-1].status, found[-1].evidence) == ("size", PASS, f"650 B{delta}")


def test_a_file_that_cannot_be_read_is_one_required_error(folder: Path) -> None:
    (folder / "libbad.so").write_bytes(b"text")
    (folder / "libx.so").write_bytes(good())
    files = tuple(Audited(folder / name, "vendor") for name in ("libbad.so", "libx.so"))
    found = audit_files(files, rules())
    assert found[0] == Check("libbad.so", "elf", ERROR, "libbad.so is not an ELF file (4 bytes)", True)
    assert {(r.subject, r.status) for r in found[1:]} == {("libx.so", PASS)}


def test_a_check_that_cannot_be_asked_is_an_error(folder: Path) -> None:
    data = elf(sections=[Section(".zdebug", b"no zlib", 0x800)])
    status, evidence = results(folder, data, build_paths=("/home/me",))["paths"]
    assert status is ERROR and evidence.startswith(f"libx.so is damaged or cut off ({len(data)} bytes)")


def test_required_checks_are_marked_and_must_be_asked_of_some_file(folder: Path) -> None:
    (folder / "libx.so").write_bytes(elf())
    one = (Audited(folder / "libx.so", "hexagon"),)
    found = audit_files(one, rules(required=frozenset({"size", "natives", "build-id"})))
    assert [(r.name, r.required) for r in found[:2]] == [("elf", False), ("size", True)]
    lost = "required, but no file of this target has this check"
    assert found[2:] == (
        Check("-", "build-id", ERROR, lost, True),
        Check("-", "natives", ERROR, lost, True),
    )


def test_a_library_that_java_loads_must_be_among_the_files(folder: Path) -> None:
    (folder / "libx.so").write_bytes(elf(functions=("JNI_OnLoad",)))
    java = JavaSide((), frozenset({"x", "z", "y"}))
    found = audit_files((Audited(folder / "libx.so", "ours"),), rules(java=java, required=frozenset({"jni"})))
    said = "Java loads it, and no file has that name"
    assert found[-2:] == (
        Check("liby.so", "jni", FAIL, said, True),
        Check("libz.so", "jni", FAIL, said, True),
    )
    # These rows answer the required check too.
    found = audit_files((), rules(java=JavaSide((), frozenset({"y"})), required=frozenset({"jni"})))
    assert [(r.subject, r.name) for r in found] == [("liby.so", "jni"), ("-", "jni")]


def project(root: Path, **changed: Any) -> Project:
    """A project with one Android target; `changed` is its audit."""
    audit = {"required": ["needed"], "needed": ["libc.so"], "max_api": 26, "exports": {}, "java": None, **changed}
    target = {"platform": "android", "abi": "arm64-v8a", "audit": audit}
    pins = {"default": "l", "lines": {"l": {}}, "sources": {}, "targets": {"t": {"sources": [], "omit": [], **target}}}
    return Project(root, root / "store", Pins(pins, (), ""), Lock({}))


def built(root: Path, **libraries: bytes) -> StageRecord:
    """A build that left these libraries in dist, with symbols beside the first, and its record."""
    dist, out = root / "dist" / "l" / "t", root / "out" / "build" / "l" / "t"
    outputs: dict[str, Output] = {}
    for name, data in libraries.items():
        path = dist / "lib" / f"{name}.so"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        outputs[f"lib/{name}.so"] = Output(hashlib.sha256(data).hexdigest(), len(data), "ours")
    (dist / "symbols").mkdir(exist_ok=True)
    (dist / "symbols" / "x.debug").write_bytes(b"debug")
    outputs["symbols/x.debug"] = Output(hashlib.sha256(b"debug").hexdigest(), 5, "symbols")
    record = StageRecord(out / "manifest.json", "key", outputs=outputs)
    record.save()
    return record


def answer(found: Sequence[Check], check: str) -> tuple[Status, str, bool]:
    (row,) = (r for r in found if r.name == check)
    return row.status, row.evidence, row.required


def test_the_audit_of_a_build_follows_the_pins(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    paths = [str(folder / name).encode() for name in ("", "store/x", "out/tree/l/t/x", "out/build/l/t")]
    data = elf(
        soname="libx.so", needed=("libc.so",), notes=android_note(27) + build_id(ID),
        sections=[Section(".comment", b"\0".join([*paths, b"/home/me", b"/elsewhere"]))],
    )  # fmt: skip
    found = audit(project(folder), "l", "t", built(folder, libx=data), ())
    assert {r.subject for r in found} == {"libx.so"}
    assert answer(found, "needed") == (PASS, "libc.so", True)
    assert answer(found, "elf") == (PASS, "ELF64 EM_AARCH64 ET_DYN", False)
    assert answer(found, "android-note")[:2] == (FAIL, "API 27 (at most 26), NDK r28c 13676358")
    assert answer(found, "size")[1] == f"{len(data):,} B"
    assert answer(found, "paths")[1] == "5, first in .comment: /home/me"


@pytest.mark.parametrize("name", ["", "store", "out/tree/l/t", "out/build/l/t"])
def test_no_folder_of_the_project_or_its_build_may_stand_in_a_library(folder: Path, name: str) -> None:
    data = elf(sections=[Section(".comment", str(folder / name).encode() + b"/a.cpp\0")])
    found = audit(project(folder), "l", "t", built(folder, libx=data), ())
    assert answer(found, "paths")[1] == f"1, first in .comment: {folder / name}/a.cpp"


def test_the_home_folder_must_not_either_but_the_root_of_a_disk_is_in_every_path(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = elf(sections=[Section(".comment", b"/home/me/a.cpp\0/root/b.cpp\0")])
    monkeypatch.setenv("HOME", "/home/me")
    assert (
        answer(audit(project(folder), "l", "t", built(folder, libx=data), ()), "paths")[1]
        == "1, first in .comment: /home/me/a.cpp"
    )
    monkeypatch.setenv("HOME", "/root")
    assert answer(audit(project(folder), "l", "t", built(folder, libx=data), ()), "paths")[0] is PASS


def test_what_differs_on_a_line_is_audited_so(folder: Path) -> None:
    ours = project(folder)
    ours.pins.data["targets"]["t"]["when"] = {"l": {"abi": "x86_64"}, "m": {"abi": "arm64-v8a"}}
    assert answer(audit(ours, "l", "t", built(folder, libx=good(machine=X86_64)), ()), "elf")[0] is PASS


def test_an_audit_is_kept_until_something_that_it_is_about_changes(folder: Path) -> None:
    ours, build = project(folder), built(folder, libx=good())
    first = audit(ours, "l", "t", build, ())
    record = folder / "out" / "audit" / "l" / "t" / "manifest.json"
    kept = json.loads(record.read_bytes())
    assert kept["sizes"] == {"lib/libx.so": len(good()), "symbols/x.debug": 5}
    kept["checks"][0]["evidence"] = "from the record"
    record.write_text(json.dumps(kept))
    again = audit(ours, "l", "t", build, ())
    assert again[0] == Check("libx.so", "elf", PASS, "from the record", False)
    assert again[1:] == first[1:]
    for other, same_build in (
        (project(folder, max_api=30), build),
        (project(folder, required=["elf"]), build),
        (project(folder, needed=[]), build),
        (ours, built(folder, libx=good(soname="liby.so"))),
    ):
        record.write_text(json.dumps(kept))
        assert audit(other, "l", "t", same_build, ())[0].evidence == "ELF64 EM_AARCH64 ET_DYN"


def test_a_java_source_that_the_clone_lacks_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    def git(*words: str, data: bytes = b"") -> str:
        return checked(["git", f"--git-dir={tmp_path}", *words], stdin=data).decode().strip()

    git("init", "-q", "--bare")
    blob = git("hash-object", "-w", "--stdin", data=b"class A { native void go(); }")
    tree = git("mktree", data=f"100644 blob {blob}\tA.java\n".encode())
    source = Fetched("s", "git", "v1", "commit x", (TreeAt("", tmp_path, "", tree),))
    java = JavaSources(source="s", paths=[""], classes=[])
    assert list(java_sources((source,), java)) == ["A.java"]
    (tmp_path / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(KzError, match=blob):
        java_sources((source,), java)


def test_the_java_sources_are_part_of_what_an_audit_is_about(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java: dict[str, bytes] = {"A.java": b'package a; class B { native void go(); } loadLibrary("x")'}
    fetched = (Fetched("s", "git", "v1", "commit x"),)
    monkeypatch.setattr(stage, "java_sources", lambda sources, wanted: java if wanted and sources == fetched else {})
    ours = project(folder, java={"source": "s", "paths": [], "classes": ["a/B"]})
    build = built(folder, libx=good(functions=("JNI_OnLoad", "Java_a_B_go")))
    assert answer(audit(ours, "l", "t", build, fetched), "natives") == (PASS, "1 methods of 1 classes", False)
    java["A.java"] = b'package a; class B { native void went(); } loadLibrary("x")'
    assert answer(audit(ours, "l", "t", build, fetched), "natives")[:2] == (FAIL, "not registered: B.went")
    java["A.java"] = b"package a; class B { native void went(); }"
    assert "natives" not in {r.name for r in audit(ours, "l", "t", build, fetched)}
    gone = project(folder, java={"source": "s", "paths": [], "classes": ["a/Z"]})
    java["A.java"] = b'package a; class B { native void go(); } loadLibrary("x")'
    said = "the Java sources declare no native method of a/Z"
    assert answer(audit(gone, "l", "t", build, fetched), "natives")[:2] == (FAIL, said)


@pytest.mark.parametrize("record", ["", "no json", '{"sizes": {}}', "{}"])
def test_a_size_has_its_change_since_the_last_audit(folder: Path, record: str) -> None:
    path = folder / "out" / "audit" / "l" / "t" / "manifest.json"
    if record:
        path.parent.mkdir(parents=True)
        path.write_text(record)
    data = good()
    assert answer(audit(project(folder), "l", "t", built(folder, libx=data), ()), "size")[1] == f"{len(data):,} B"
    longer = built(folder, libx=data + bytes(16))
    assert answer(audit(project(folder), "l", "t", longer, ()), "size")[1].startswith(f"{len(data) + 16:,} B, +16 B (+")


def test_the_last_audit_is_given_while_dist_is_what_it_was_about(folder: Path) -> None:
    ours = project(folder)

    def refused() -> tuple[str, str]:
        with pytest.raises(LockError) as caught:
            recorded(ours, "l", "t")
        return str(caught.value), caught.value.hint

    command = "kz build --line l --target t"
    assert refused() == ("t of l was not built", command)
    build = built(folder, libx=good(), liby=good())
    assert refused() == ("t of l was not built", command)
    found = audit(ours, "l", "t", build, ())
    assert recorded(ours, "l", "t") == found
    library = folder / "dist" / "l" / "t" / "lib" / "liby.so"
    library.write_bytes(good() + b"x")
    assert refused() == (f"{library} has changed since it was built and audited", command)
    library.write_bytes(b"")
    assert refused() == (f"{library} was emptied since it was built and audited", command)
    library.unlink()
    assert refused() == (f"{library} was removed since it was built and audited", command)
    library.write_bytes(good())
    assert recorded(ours, "l", "t") == found
    StageRecord(record := folder / "out" / "audit" / "l" / "t" / "manifest.json", "key").save()
    assert refused() == (f"{record} was not written by kz: checks is no list", "remove that file")
    for path in (record, folder / "out" / "build" / "l" / "t" / "manifest.json"):
        path.write_text("{")
        assert refused() == ("t of l was not built", command)


def test_a_library_that_needs_one_without_a_name(folder: Path) -> None:
    assert results(folder, elf(needed=("",)), "vendor")["needed"][0] is FAIL


def test_a_native_method_is_named_without_its_package(folder: Path) -> None:
    assert natives(folder, ("org/pytorch/D.go",))["natives"] == (FAIL, "not registered: D.go")


def test_symbols_that_nobody_asks_for_may_be_damaged(folder: Path) -> None:
    counted = struct.pack("<6I", 1, 2, 0, 0, 0, 0)  # the table of their hashes, which says how many there are
    assert elf(functions=("go",)).count(counted) == 1
    damaged = elf(functions=("go",)).replace(counted, struct.pack("<6I", 1, 1 << 20, 0, 0, 0, 0))
    assert results(folder, damaged)["elf"][0] is ERROR
    assert results(folder, damaged, "vendor")["elf"][0] is PASS

"""Reading ELF files: facts from the segments, strings from the sections, and everything that is damaged."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from kz_build.core.errors import AuditError
from kz_build.formats import elf as reader
from kz_build.formats.elf_types import Elf, NativeMethod
from tests.formats.elves import (
    ALLOC,
    COMPRESSED,
    EXEC,
    FLAGS,
    HEXAGON,
    NOBITS,
    TEXTREL,
    Section,
    android_note,
    build_id,
    elf,
    note,
)

ID = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return tmp_path / "libx.so"


def made(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_what_a_library_says_of_itself(library: Path) -> None:
    data = elf(
        soname="libx.so", needed=("libc.so", "liblog.so"), functions=("JNI_OnLoad", "Java_a_go"),
        symbols={"elsewhere": (2, 0), "variable": (1, 1), "section": (3, 1)}, notes=android_note(26) + build_id(ID),
    )  # fmt: skip
    known = Elf(
        64, "EM_AARCH64", "ET_DYN", "libx.so", ("libc.so", "liblog.so"), (16384, 16384), True, 26, "r28c 13676358", ID,
        False, frozenset({"JNI_OnLoad", "Java_a_go", "variable"}), len(data),
    )  # fmt: skip
    assert reader.read_elf(made(library, data)) == known
    assert reader.read_elf(library, exports=False).exports == frozenset()


def test_symbols_of_the_cxx_runtime(library: Path) -> None:
    """Of the runtime alone: a function that takes one of its strings is somebody else's."""
    own = {
        "_ZNKSt6__ndk15mutex4lockEv": (2, 1),
        "_ZTVNSt6__ndk17ostreamE": (1, 1),
        "_ZTv0_n24_NSt6__ndk11aD0Ev": (2, 1),
    }
    other = {"_ZNSt6__ndk14cerrE": (1, 0), "_Z2goNSt6__ndk13strE": (2, 0), "_ZN2et1sENSt6__ndk13strE": (2, 1)}
    weak = {"_ZNSt6__ndk14swapEv": (0x22, 0)}
    facts = reader.read_elf(made(library, elf(symbols={**own, **other, **weak})), exports=False)
    assert (facts.cxx_exports, facts.cxx_imports) == (frozenset(own), frozenset({"_ZNSt6__ndk14cerrE"}))


@pytest.mark.parametrize(("bits", "order"), [(64, "<"), (32, "<"), (64, ">"), (32, ">")])
def test_both_widths_in_both_byte_orders(library: Path, bits: int, order: str) -> None:
    data = elf(bits=bits, order=order, machine=HEXAGON, kind=EXEC, soname="s.so", functions=("go",), dynamic=[TEXTREL])
    facts = reader.read_elf(made(library, data))
    assert (facts.bits, facts.machine, facts.kind, facts.soname) == (bits, "EM_QDSP6", "ET_EXEC", "s.so")
    assert (facts.needed, set(facts.exports), facts.textrel, facts.size) == ((), {"go"}, True, len(data))
    assert (facts.api, facts.ndk, facts.build_id) == (0, "", "")


@pytest.mark.parametrize(
    ("entry", "textrel"), [(TEXTREL, True), ((FLAGS, 4), True), ((FLAGS, 8), False), ((24, 4), False)]
)
def test_text_relocations_are_a_tag_or_a_flag(library: Path, entry: tuple[int, int], textrel: bool) -> None:
    assert reader.read_elf(made(library, elf(dynamic=[entry, (FLAGS, 8)]))).textrel is textrel


@pytest.mark.parametrize(
    ("alignments", "skew", "congruent"),
    [
        ((16384,), 0, True),
        ((4096, 65536), 65536, True),
        ((16384, 16384), 4096, False),
        ((16384, 16384), 16384, True),
        ((16384, 1), 5, True),
        ((16384, 0), 5, True),
    ],
)
def test_addresses_must_fit_the_offsets_modulo_the_alignment(
    library: Path, alignments: tuple[int, ...], skew: int, congruent: bool
) -> None:
    facts = reader.read_elf(made(library, elf(alignments=alignments, skew=skew)))
    assert (facts.alignments, facts.congruent) == (alignments, congruent)


@pytest.mark.parametrize(
    ("notes", "api", "ndk", "found"),
    [
        (android_note(33, b"r27", b"12077973"), 33, "r27 12077973", ""),
        (note(b"Android", 1, struct.pack("<I", 300)), 300, "", ""),
        (note(b"Android", 1, struct.pack("<I", 9) + b"n" * 64 + b"b" * 64 + b"more"), 9, "n" * 64 + " " + "b" * 64, ""),
        (note(b"Android", 1, struct.pack("<I", 21) + b"r26\0junk".ljust(64, b"\0")), 21, "r26", ""),
        (note(b"Android", 1, struct.pack("<I", 21) + b"\xff".ljust(64, b"\0")), 21, "\ufffd", ""),
        # Memory tagging, a note of GNU's, and a build-id of somebody else.
        (note(b"Android", 4, struct.pack("<I", 5)), 0, "", ""),
        (note(b"GNU", 1, struct.pack("<IIII", 0, 1, 2, 3)), 0, "", ""),
        (note(b"Go", 3, b"\x01\x02"), 0, "", ""),
        (note(b"Go", 4, b"x") + build_id(ID) + android_note(24), 24, "r28c 13676358", ID),
    ],
)
def test_the_android_note_and_the_build_id(library: Path, notes: bytes, api: int, ndk: str, found: str) -> None:
    facts = reader.read_elf(made(library, elf(notes=notes)))
    assert (facts.api, facts.ndk, facts.build_id) == (api, ndk, found)


def error(path: Path) -> str:
    with pytest.raises(AuditError) as caught:
        reader.read_elf(path)
    return str(caught.value)


def test_what_is_no_elf_file(library: Path) -> None:
    assert error(library) == "libx.so cannot be read: No such file or directory"
    assert error(library.parent).endswith(" cannot be read: Is a directory")
    assert error(made(library, b"")) == "libx.so is not an ELF file (0 bytes)"
    assert error(made(library, b"#!/bin/sh\n")) == "libx.so is not an ELF file (10 bytes)"
    assert error(made(library, b"\x7fELF\x02")).startswith("libx.so is damaged or cut off (5 bytes): ")
    bad_class = made(library, b"\x7fELF\x09" + bytes(100))
    assert error(bad_class) == "libx.so is damaged or cut off (105 bytes): Invalid EI_CLASS b'\\t'"


def test_a_file_cut_off_anywhere_is_refused(library: Path) -> None:
    whole = elf(soname="libx.so", functions=("go",), sections=[Section(".rodata", b"text\0", ALLOC)])
    for size in range(5, len(whole), 7):
        assert error(made(library, whole[:size])).startswith(
            ("libx.so is cut off: ", "libx.so is damaged or cut off (")
        )
    bare = elf()
    assert error(made(library, bare[:-1])) == f"libx.so is cut off: {len(bare) - 1} of {len(bare)} bytes are there"
    assert reader.read_elf(made(library, whole)).size == len(whole)


def patched(data: bytes, at: int, form: str, *values: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into(form, changed, at, *values)
    return bytes(changed)


def test_every_table_and_segment_must_lie_in_the_file(library: Path) -> None:
    plain = elf(sections=[Section(".bss", bytes(4096), kind=NOBITS), Section(".data", b"x", ALLOC)])
    size, programs, headers = len(plain), 64, struct.unpack_from("<Q", plain, 40)[0]
    assert reader.read_elf(made(library, plain)).size == size  # .bss takes no room
    long_segment = patched(plain, programs + 32, "<Q", size + 1)
    assert error(made(library, long_segment)) == f"libx.so is cut off: {size} of {size + 1} bytes are there"
    long_section = patched(plain, headers + 2 * 64 + 32, "<Q", size)
    place = struct.unpack_from("<Q", plain, headers + 2 * 64 + 24)[0]
    assert error(made(library, long_section)) == f"libx.so is cut off: {size} of {place + size} bytes are there"
    bare = elf()
    many_segments = patched(bare, 56, "<H", len(bare) // 56 + 1)
    assert error(made(library, many_segments)).startswith("libx.so is ")


@pytest.mark.parametrize(("bits", "order"), [(64, "<"), (32, "<"), (64, ">"), (32, ">")])
def test_tables_that_never_end_are_refused_before_they_are_walked(
    library: Path, monkeypatch: pytest.MonkeyPatch, bits: int, order: str
) -> None:
    """The most that is taken is 100,000 entries, the last one counted; here it is ten, six of which are always there."""
    monkeypatch.setattr(reader, "_MOST_PARTS", 10)
    assert reader.read_elf(made(library, elf(bits=bits, order=order, dynamic=[TEXTREL] * 4))).textrel
    data = elf(bits=bits, order=order, dynamic=[TEXTREL] * 5)
    said = f"libx.so is damaged or cut off ({len(data)} bytes): more than 10 dynamic entries"
    assert error(made(library, data)) == said
    monkeypatch.setattr(reader, "_MOST_PARTS", 4_000)
    data = elf(bits=bits, order=order, dynamic=[TEXTREL] * 5_000)
    assert error(made(library, data)).endswith("more than 4,000 dynamic entries")


def test_more_sections_than_any_library_has_are_refused(library: Path) -> None:
    bare = elf(sections=[Section(".x", b"")])
    headers = struct.unpack_from("<Q", bare, 40)[0]
    counted = patched(bare, 60, "<H", 0)
    many = patched(counted, headers + 32, "<Q", 100_001)  # the count when it does not fit its field
    assert error(made(library, many)).endswith("it claims 100,001 sections")


PACKED = struct.pack("<IIQQ", 1, 0, 19, 1) + zlib.compress(b"x\0-I/home/me/src/a\0")


@pytest.mark.parametrize(
    ("sections", "found"),
    [
        ([Section(".comment", b"x\0-I/home/me/src\0/home/me2\0")], ((".comment", "/home/me/src"),)),
        ([Section(".a", b"/home/me"), Section(".b", b"/home/me\0")], ((".a", "/home/me"), (".b", "/home/me"))),
        ([Section(".a", b"/home/me/x\0/home/me/y\0/home/me/x\0")], ((".a", "/home/me/x"), (".a", "/home/me/y"))),
        ([Section(".a", b"/home/me.old\0/home/me-2\0/home/me_3\0/home/mex\0")], ()),
        ([Section(".a", b"/build/kz/x\0/home/me\xff\0")], ((".a", "/home/me\ufffd"), (".a", "/build/kz/x"))),
        ([Section(".z", PACKED, COMPRESSED)], ((".z", "/home/me/src/a"),)),
        ([Section(".a", b"/home/me/" + b"x" * 300)], ((".a", "/home/me/" + "x" * 191),)),
        ([Section(".bss", b"/home/me\0", kind=NOBITS)], ()),
    ],
)
def test_paths_of_the_build_machine(library: Path, sections: list[Section], found: tuple[tuple[str, str], ...]) -> None:
    made(library, elf(sections=sections))
    assert reader.strings_with(library, ("/home/me/", "", "/build/kz")) == found
    assert reader.strings_with(library, ()) == ()


def test_a_folder_is_taken_to_the_letter(library: Path) -> None:
    made(library, elf(sections=[Section(".a", b"/home/maX/a\0/home/ma/b\0/home/m.x/c\0/home/mox/d\0")]))
    assert reader.strings_with(library, ("/home/maX",)) == ((".a", "/home/maX/a"),)
    assert reader.strings_with(library, ("/home/m.x//",)) == ((".a", "/home/m.x/c"),)


def test_a_string_of_another_section_does_not_count(library: Path) -> None:
    sections = [Section(".rodata", b"unload\0", ALLOC), Section(".debug_str", b"\0load\0")]
    assert reader.registered_strings(made(library, elf(sections=sections)), ("load",)) == set()


def test_without_section_headers_the_whole_file_is_searched(library: Path) -> None:
    made(library, elf(soname="/home/me/libx.so"))
    assert reader.strings_with(library, ("/home/me",)) == (("file", "/home/me/libx.so"),)
    assert reader.registered_strings(library, ("/home/me/libx.so",)) == {"/home/me/libx.so"}


def test_only_the_first_few_paths_are_named(library: Path) -> None:
    made(library, elf(sections=[Section(".a", b"".join(b"/home/me/%d\0" % n for n in range(50)))]))
    found = reader.strings_with(library, ("/home/me",))
    assert len(found) == reader.MOST_FINDINGS == 20 and found[-1] == (".a", "/home/me/19")


def test_files_that_debug_information_names(library: Path) -> None:
    names = b"/src/et/a/../b.cpp\0/src/et/c.h\0/src/et2/d.h\0/src/et\0/src/et/\xff\n/src/X/g.c\0"
    sections = [
        Section(".debug_line_str", names),
        Section(".debug_str", b"/src/et/e.c"),
        Section(".rodata", b"/src/et/no.c"),
    ]
    made(library, elf(sections=[*sections, Section(".debug_line", b"/src/et/f.c\0")]))
    wanted = {"/src/et/b.cpp", "/src/et/c.h", "/src/et/\ufffd", "/src/et/e.c", "/src/et/f.c"}
    assert reader.compiled_from(library, "/src/X") == {"/src/X/g.c"}
    assert reader.compiled_from(library, "/src/et/") == reader.compiled_from(library, "/src/et") == wanted


def test_the_content_of_all_sections(library: Path) -> None:
    sections = [
        Section(".a", b"one"),
        Section(".b", PACKED, COMPRESSED),
        Section(".a", b"two"),
        Section(".bss", b"", kind=NOBITS),
    ]
    data = elf(sections=[*sections, Section(".a", b"three")])
    found = reader.sections(made(library, data))
    names = b"\0.a\0.b\0.a\0.bss\0.a\0.shstrtab\0"
    programs = struct.unpack_from("<H", data, 56)[0] * 56
    assert found == {
        ".a": b"one", ".b": b"x\0-I/home/me/src/a\0", ".a #2": b"two", ".a #3": b"three", ".shstrtab": names,
        "headers": data[: 64 + programs],
    }  # fmt: skip
    assert list(found)[-1] == "headers"


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"load\0", {"load"}),
        (b"\0Lorg/M;\0load\0", {"load", "Lorg/M;"}),
        (b"unload\0", set()),
        (b"$load\0/load\0_load\0", set()),
        (b"unload\0 load\0", {"load"}),
        (b"unload\0load\0", {"load"}),
        (b"\0load\0unload\0", {"load"}),
        (b"unload\0 load\0unload\0", {"load"}),
        (b"load_more\0loa\0", set()),
        (b"load", set()),
    ],
)
def test_strings_that_stand_whole_in_loaded_data(library: Path, content: bytes, found: set[str]) -> None:
    wanted = ("load", "Lorg/M;")
    assert reader.registered_strings(made(library, elf(sections=[Section(".rodata", content, ALLOC)])), wanted) == found
    loaded = Section(".text", b"code", ALLOC)
    assert (
        reader.registered_strings(made(library, elf(sections=[loaded, Section(".debug_str", content)])), wanted)
        == set()
    )
    assert (
        reader.registered_strings(made(library, elf(sections=[loaded, Section(".notes", content, ALLOC, 7)])), wanted)
        == set()
    )


@pytest.mark.parametrize(
    ("java_class", "name", "export"),
    [
        ("org/pytorch/Module", "load", "Java_org_pytorch_Module_load"),
        ("A", "load_it", "Java_A_load_1it"),
        ("a/B$C", "go", "Java_a_B_00024C_go"),
        ("A", "\u00fcber;[", "Java_A__000fcber_2_3"),
    ],
)
def test_the_symbol_of_a_native_method(java_class: str, name: str, export: str) -> None:
    method = NativeMethod(java_class, name)
    assert (method.export, method.descriptor) == (export, f"L{java_class};")


def test_the_last_dynamic_entry_of_32_bits_may_have_any_value(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_MOST_PARTS", 6)
    assert reader.read_elf(made(library, elf(bits=32, dynamic=[(0, 7)]))).needed == ()


def test_a_second_dynamic_segment_is_counted_too(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_MOST_PARTS", 10)
    data = elf(alignments=(0x4000,), notes=b"\1" * 16 * 5 + bytes(16))
    two = patched(data, 64 + 2 * 56, "<I", 2)  # the notes' segment
    assert error(made(library, two)).endswith("more than 10 dynamic entries")


def test_sections_of_one_name_with_a_blank_in_it(library: Path) -> None:
    made(library, elf(sections=[Section(".a b", b"one"), Section(".a b", b"two"), Section(".a", b"three")]))
    found = reader.sections(library)
    assert (found[".a b"], found[".a b #2"], found[".a"]) == (b"one", b"two", b"three")


def test_tables_that_no_library_has(library: Path) -> None:
    """What pyelftools' own parser raises is damage too; tables, sections and compression are bounded."""
    whole = elf(functions=("go",), sections=[Section(".rodata", b"text\0" * 20, ALLOC)])
    hashes = whole.index(struct.pack("<IIIII", 1, 2, 0, 0, 0))
    assert "damaged or cut off" in error(made(library, patched(whole, hashes + 4, "<I", 0x7FFFFFFF)))
    many = elf(sections=[Section(".x", b"")] * 2001)
    assert "it claims 2,003 sections" in error(made(library, many))
    data = elf(sections=[Section(".x", b"x" * 2000)] * 3)
    table = int.from_bytes(data[40:48], "little")
    for number in (1, 2, 3):  # each of them is most of the file
        data = patched(data, table + 64 * number + 24, "<QQ", 0, len(data) - 1)
    assert "its sections overlap" in error(made(library, data))
    bomb = struct.pack("<IIQQ", 1, 0, 1 << 30, 1) + zlib.compress(bytes(1 << 20))
    assert "1,073,741,824 bytes: a bomb" in error(made(library, elf(sections=[Section(".debug_x", bomb, COMPRESSED)])))

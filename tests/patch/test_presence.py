"""Where the lines stand that a hunk leaves: in its function, at its line, and in the target's own file."""

from __future__ import annotations

import pytest

from kz_build.patch import change as patch
from kz_build.patch import gnu_place
from kz_build.patch.apply import Applied, Refused
from kz_build.patch.attempt import apply_stack
from kz_build.patch.change import Hunk, fits, split_lines
from kz_build.patch.place import Place, Presence, mapped_back, nearest, places_text, presence, unique_places
from tests.patch.gitapply import reader
from tests.patch.test_diff import NAMES, one
from tests.patch.test_hunks import hunk, text
from tests.patch.test_stack import ABC, ABC_AFTER, Tree, X, edit, file, move
from tests.patch.test_stack import patch as made


def lines(letters: str) -> list[bytes]:
    return split_lines(text(letters))


@pytest.mark.parametrize(
    ("old", "new", "first", "last", "found"),
    [
        ("abcdef", "abcdef", 2, 3, (2, 3)),
        # an insertion: before it, after it, across it, and all of it
        ("abcdef", "abXcdef", 1, 2, (1, 2)),
        ("abcdef", "abXcdef", 4, 6, (3, 5)),
        ("abcdef", "abXcdef", 2, 4, (2, 3)),
        ("abcdef", "abXcdef", 3, 3, (3, 3)),
        ("ab", "XYab", 3, 4, (1, 2)),
        ("ab", "abXY", 3, 4, (2, 2)),
        ("ab", "abXY", 2, 3, (2, 2)),
        # a deletion
        ("abcdef", "abef", 1, 2, (1, 2)),
        ("abcdef", "abef", 3, 4, (5, 6)),
        ("abcdef", "abef", 2, 3, (2, 5)),
        # lines that were replaced, by as many and by more
        ("abcdef", "abXYef", 3, 4, (3, 4)),
        ("abcd", "aXYZd", 2, 4, (2, 3)),
        ("abcd", "aXYZd", 4, 5, (3, 4)),
        # what stayed between two changes
        ("abcde", "aXYcZe", 4, 4, (3, 3)),
        ("abcdefg", "aXYcdeZg", 4, 6, (3, 5)),
    ],
)
def test_places_in_a_patched_file_as_places_in_the_targets(
    old: str, new: str, first: int, last: int, found: tuple[int, int]
) -> None:
    assert mapped_back(Place("f", first, last), text(old), text(new)) == Place("f", *found)


def test_a_place_without_lines_stays() -> None:
    for place in (Place("f"), Place("f", gone=True)):
        assert mapped_back(place, text("ab"), text("xab")) == place


def test_lines_that_stand_everywhere_are_traced_too() -> None:
    old, new = b"A\n" + b"x\n" * 250 + b"B\n", b"C\nD\n" + b"x\n" * 250 + b"E\n"
    assert mapped_back(Place("f", 51, 60), old, new) == Place("f", 50, 59)


def test_places_are_shown_by_file() -> None:
    assert places_text([]) == ""
    assert places_text(["a:1-2", "b:3-4"]) == "a:1-2 and b:3-4"
    assert places_text(["c:x.c:1-2", "c:x.c:5-6"]) == "c:x.c:1-2, 5-6"
    assert places_text(["a", "b", "c"]) == "a, b and c"
    assert [str(place) for place in (Place("a", 1, 2), Place("a"), Place("a", gone=True))] == ["a:1-2", "a", "a (gone)"]


MIDDLE = hunk(4, "def", "dEf")


@pytest.mark.parametrize(
    ("there", "places"),
    [
        ("abcdEfgh", [3]),
        ("xxabcdEfgh", [5]),
        ("dEfabcdefdEf", None),
        ("dEfdEfxx", [3]),
        ("abcdefgh", None),
    ],
)
def test_one_hunk_is_settled_by_its_only_place_or_its_own_line(there: str, places: list[int] | None) -> None:
    assert unique_places(lines(there), (MIDDLE,), fits) == places


@pytest.mark.parametrize(
    ("there", "places"),
    [
        ("xaBcxaBcx", [1, 5]),
        ("xxxaBcaBc", [3, 6]),
        ("aBcxaBcxaBc", None),
        ("xaBcxx", None),
    ],
)
def test_hunks_alike_are_settled_where_there_are_as_many_places(there: str, places: list[int] | None) -> None:
    alike = hunk(22, "abc", "aBc"), hunk(32, "abc", "aBc")
    assert unique_places(lines(there), alike, fits) == places


def test_hunks_are_settled_in_their_order_and_may_share_context() -> None:
    first, second = hunk(22, "abc", "aBc"), hunk(32, "cde", "cDe")
    assert unique_places(lines("xaBcDex"), (first, second), fits) == [1, 3]
    assert unique_places(lines("xcDexaBcx"), (first, second), fits) is None
    assert unique_places(lines("cDexaBcxcDe"), (first, second), fits) == [4, 8]
    assert unique_places(lines("aBcxcDexaBc"), (first, second), fits) == [0, 4]
    wide = hunk(22, "abcdefg", "abcDefg"), hunk(32, "efghijk", "efgHijk")
    assert unique_places(lines("xabcDefgHijkx"), wide, fits) == [1, 5]


def within(section: str, *above: str) -> bool:
    """Whether lines below others are taken to be in the function that a header names; their own line is elsewhere."""
    inner = (b"  a\n", b"  c\n"), (b"  a\n", b"  b\n", b"  c\n")
    ours = Hunk(80, 80, *inner, 1, 1, 1, section.encode())
    there = [b"top\n", *(line.encode() + b"\n" for line in above), *inner[1], b"}\n"]
    return unique_places(there, (ours,), fits) is not None


CUT = "static executorch::runtime::Error do_it("
"""As long as GNU diff leaves it."""


@pytest.mark.parametrize(
    ("section", "above", "inside"),
    [
        ("int f(int a)", ["int f(int a)", "{"], True),
        ("int f(int a)", ["int g(int a)", "{"], False),
        ("int f(int a)", ["int f(int a)", "{", "}", "int g(int a)", "{"], False),
        # its parameters changed
        ("int f(int a)", ["int f(long a, int b)", "{"], True),
        ("int f(int a)", ["int f2(int a)", "{"], False),
        ("Foo::f(int a)", ["Foo::f(long a)", "{"], True),
        ("Foo::f(int a)", ["Bar::f(int a)", "{"], False),
        ("def f(a):", ["def f(a, b):"], True),
        # a macro's arguments are its name
        ("TEST(Foo, one)", ["TEST(Foo, one) {"], False),
        ("TEST(Foo, one) {", ["TEST(Foo, one) {"], True),
        ("TEST(Foo, one) {", ["TEST(Foo, two) {"], False),
        # cut as GNU diff cuts it, or not
        (CUT, [CUT + "int a) {"], True),
        (CUT, ["static executorch::runtime::Error do_it2(int a) {"], False),
        (CUT[:-2], [CUT + "int a) {"], False),
        ("int fo", ["int foo(int a) {"], False),
        # what begins no function
        ("int f(int a)", ["int f(int a)", "{", "out:", "// x", "#if X", "}", "  int x;"], True),
        ("int f(int a)", ["int f(int a)", "{", "out: // again"], True),
        ("int f(int a)", ["int f(int a)", "{", "int out;"], False),
        ("    def f(a):", ["class A:", "    def f(a):"], True),
        ("_f()", ["_f()"], True),
        ("", [], True),
    ],
)
def test_the_function_that_a_header_names(section: str, above: list[str], inside: bool) -> None:
    assert len(CUT) == 40
    assert within(section.strip(), *above) is inside


def test_at_its_own_line_a_hunk_needs_no_name_but_no_other_one_either() -> None:
    inner = (b"  a\n", b"  c\n"), (b"  a\n", b"  b\n", b"  c\n")
    ours = Hunk(2, 2, *inner, 1, 1, 1, b"int f()")
    block = [*inner[1], b"}\n"]
    assert unique_places([b"x\n", *block], (ours,), fits) == [1]
    assert unique_places([b"x\n", b"x\n", *block], (ours,), fits) is None
    assert unique_places([b"int f()\n", *block, b"int f()\n", *block], (ours,), fits) == [1]
    assert unique_places([b"int g()\n", *block, b"int f()\n", *block], (ours,), fits) == [6]
    assert unique_places([b"int g()\n", *block, b"int f()\n"], (ours,), fits) is None


def test_the_place_nearest_to_the_line() -> None:
    assert nearest(lines("xdEfxxxxdEf"), MIDDLE, fits) == 1
    assert nearest(lines("dEfxxxxdEfxdEf"), MIDDLE, fits) == 0
    assert nearest(lines("dEfxxdEfxxdEf"), MIDDLE, fits) == 5
    assert nearest(lines("abc"), MIDDLE, fits) is None


def told(there: list[bytes], ours: Hunk, at: int, offset: int, *, whole: bool = True) -> tuple[Presence, int]:
    return presence(there, ours, at, offset, fits, whole=whole)


def test_a_hunk_that_would_do_again_what_stands_right_there() -> None:
    double = Hunk(1, 1, (b"x\n",), (b"x\n", b"x\n"), 1, 0, 1)
    assert double.again == (0, 1)
    assert told(lines("xx"), double, 1, 0) == (Presence.PRESENT, 0)
    assert told(lines("axxb"), double, 1, 0) == (Presence.PRESENT, 1)
    assert told(lines("axb"), double, 1, 0) == (Presence.ABSENT, 1)


def test_a_hunk_that_moved_is_compared_with_what_stands_nearer() -> None:
    insert = hunk(4, "ac", "abc")
    assert told(lines("xacx"), insert, 1, 0) == (Presence.ABSENT, 1), "at its own line nothing is doubtful"
    there = lines("xabcxxxacx")
    assert told(there, insert, 7, 4) == (Presence.UNCLEAR, 1)
    assert told(there, insert, 7, 4, whole=False) == (Presence.ABSENT, 7)
    assert told(there, insert, 7, 2) == (Presence.ABSENT, 7), "as far away as the hunk itself"
    assert told(lines("xacx"), insert, 1, 4) == (Presence.ABSENT, 1)
    both = lines("abcxxxabcxacx")
    assert told(both, insert, 10, 7) == (Presence.UNCLEAR, 0)
    assert told(lines("xxabcxxxxxxabcxacx"), insert, 15, 12) == (Presence.UNCLEAR, 2)


def in_functions(*names: str) -> list[bytes]:
    """Functions; one with + has the line b."""
    found: list[bytes] = []
    for name in names:
        found += [
            f"int {name.strip('+')}()\n".encode(),
            b"  a\n",
            *([b"  b\n"] if "+" in name else []),
            b"  c\n",
            b"}\n",
        ]
    return found


def test_a_hunk_that_moved_into_another_function_is_there_where_its_own_has_it() -> None:
    insert = Hunk(2, 2, (b"  a\n", b"  c\n"), (b"  a\n", b"  b\n", b"  c\n"), 1, 1, 1, b"int f()")
    assert told(in_functions("f+", "g"), insert, 6, 5) == (Presence.PRESENT, 1)
    assert told(in_functions("e+", "f+", "g"), insert, 11, 10) == (Presence.PRESENT, 6)
    # Of several the nearest to its line.
    assert told(in_functions("f+", "f+", "g"), insert, 11, 10) == (Presence.PRESENT, 1)
    late = Hunk(9, 9, insert.before, insert.after, 1, 1, 1, b"int f()")
    assert told(in_functions("f+", "f+", "g"), late, 11, 3) == (Presence.PRESENT, 6)
    # It is not in its own function, although another has it.
    assert told(in_functions("g+", "f"), insert, 6, 5) == (Presence.ABSENT, 6)


def test_where_gnu_patch_put_hunks() -> None:
    hunks = hunk(2, "bcd", "bCd"), hunk(10, "xyz", "xYz"), hunk(14, "", "!", new=15)
    there = text("qqqqabcdqxyzqxyzqqqq")
    result = gnu_place.apply_hunks(there, hunks)
    assert not isinstance(result, patch.Hunk)
    assert gnu_place.placed(hunks, result[1]) == [5, 13, 18]
    assert [there.split(b"\n")[at] for at in (5, 13)] == [b"b", b"x"]


def test_in_gnu_patch_a_hunk_of_the_whole_file_may_be_bound_to_both_ends() -> None:
    longer = hunk(2, "abc", "abC")
    assert gnu_place.fits(lines("bc"), longer) == []
    assert gnu_place.fits(lines("abc"), longer) == [0]


def outcomes(tree: Tree, *diffs: bytes, keep: tuple[int, ...] = ()) -> list[Applied | Refused]:
    patches = tuple(made(diff, name=f"000{n}-x.patch") for n, diff in enumerate(diffs, 1))
    return list(apply_stack(patches, lambda path: reader(tree, path), keep))


def test_patches_that_are_kept_are_applied_although_they_may_be_there() -> None:
    insert = one(b"@@ -1,2 +1,3 @@\n a\n+b\n b\n", *NAMES)
    twice = {"f": file(b"a\nb\nb\n")}
    (there,) = outcomes(twice, insert)
    assert isinstance(there, Refused)
    (kept,) = outcomes(twice, insert, keep=(0,))
    assert isinstance(kept, Applied) and kept.files == {"f": file(b"a\nb\nb\nb\n")}
    (other,) = outcomes(twice, insert, keep=(1,))
    assert isinstance(other, Refused)
    (refused,) = outcomes({"f": X}, edit("f"), keep=(0,))
    assert isinstance(refused, Refused) and refused.reason == "its lines are not there"
    (nothing,) = outcomes({"f": file(b"x\n", "100755")}, one(b"", b"old mode 100644", b"new mode 100755"), keep=(0,))
    assert isinstance(nothing, Refused)
    assert (nothing.path, nothing.reason, nothing.patch_line, nothing.upstreamed) == (
        "f", "it changes nothing there", 0, False,
    )  # fmt: skip
    first, second = outcomes({"f": ABC}, edit("f"), insert, keep=(0,))
    assert isinstance(first, Applied) and first.files == {"f": ABC_AFTER} and isinstance(second, Refused)


def test_every_file_of_an_upstreamed_patch_is_named() -> None:
    tree = {"f": file(b"x\na\nB\nc\n"), "n": file(b"x\n", "100755"), "m": file(b"", "100755"), "z": ABC_AFTER}
    diff = (
        one(b"@@ -1 +0,0 @@\n-x\n", b"deleted file mode 100644", b"--- a/d", b"+++ /dev/null", path=b"a/d b/d")
        + edit("f")
        + one(b"@@ -0,0 +1 @@\n+x\n", b"new file mode 100755", b"--- /dev/null", b"+++ b/n", path=b"a/n b/n")
        + one(b"", b"old mode 100644", b"new mode 100755", path=b"a/m b/m")
        + edit("z")
    )
    (outcome,) = outcomes(tree, diff.replace(b"-1,3 +1,3", b"-2,3 +2,3"))
    assert isinstance(outcome, Refused) and outcome.upstreamed
    assert list(map(str, outcome.there)) == ["d (gone)", "f:2-4", "n:1-1", "m", "z:1-3"]


def test_what_stands_elsewhere_is_named_and_is_not_upstreamed() -> None:
    named = one(b"@@ -8,3 +8,3 @@ int f()\n   a\n-  b\n+  B\n   c\n", *NAMES)
    tree = {"f": file(b"int g()\n  x\n  a\n  B\n  c\nint f()\n  y\n")}
    (outcome,) = outcomes(tree, named)
    assert isinstance(outcome, Refused) and not outcome.upstreamed
    assert outcome.reason == "its lines are not there; the lines it leaves are found elsewhere"
    assert list(map(str, outcome.there)) == ["f:3-5"]


def test_a_new_file_of_a_patch_is_named_whole_where_an_earlier_patch_made_it() -> None:
    create = one(b"@@ -0,0 +1 @@\n+x\n", b"new file mode 100644", b"--- /dev/null", b"+++ b/n", path=b"a/n b/n")
    first, second = outcomes({}, create, create)
    assert isinstance(first, Applied) and isinstance(second, Refused)
    assert list(map(str, second.there)) == ["n:1-1"]


@pytest.mark.parametrize(
    ("section", "above", "inside"),
    [
        # cut within a name
        (CUT[:-1] + "e", [CUT[:-1] + "erate(int a) {"], True),
        # a function without a type before it, and names that begin with a sign
        ("f(int a)", ["f(int a)", "{", "}", "g(int a)", "{"], False),
        ("int f(int a)", ["int f(int a)", "{", "}", "_g(int a)", "{"], False),
        ("int f(int a)", ["int f(int a)", "{", "}", "$g(int a)", "{"], False),
        # keys of YAML, headings of Markdown
        ("jobs:", ["jobs:"], True),
        ("jobs:", ["jobs:", "steps:"], False),
        ("# Install", ["# Install", "", "Text"], True),
        ("# Install", ["# Install", "## Linux"], False),
    ],
)
def test_what_names_a_place_in_other_languages(section: str, above: list[str], inside: bool) -> None:
    assert within(section, *above) is inside


BLOCK = [b"  a\n", b"  b\n", b"  c\n"]
IN_F = Hunk(80, 80, (b"  a\n", b"  c\n"), tuple(BLOCK), 1, 1, 1, b"int f()")


def test_lines_that_no_function_holds_are_not_in_the_one_that_a_header_names() -> None:
    assert unique_places(BLOCK, (IN_F,), fits) is None
    assert unique_places([*BLOCK, b"int f()\n"], (IN_F,), fits) is None, "it begins below them"
    little = Hunk(80, 80, (b" a\n", b" c\n"), (b" a\n", b" b\n", b" c\n"), 1, 1, 1, b"int f()")
    assert unique_places([b"int g()\n", *little.after], (little,), fits) is None, "what is indented begins no function"


def test_a_label_at_the_line_s_start_is_no_function() -> None:
    ours = Hunk(80, 80, (b"  a\n", b"out:\n"), (b"  a\n", b"  b\n", b"out:\n"), 1, 1, 1, b"int f()")
    assert unique_places([b"int f()\n", b"int g()\n", *ours.after], (ours,), fits) is None
    assert unique_places([b"int g()\n", b"int f()\n", *ours.after], (ours,), fits) == [2]


def test_a_last_line_without_context_is_in_its_function() -> None:
    ours = Hunk(80, 80, (b"  x\n",), (b"  y\n",), 0, 0, 1, b"int f()")
    assert unique_places([b"int f()\n", b"  y\n"], (ours,), fits) == [1]


def test_the_own_line_of_a_hunk_without_a_name() -> None:
    ours = Hunk(2, 2, IN_F.before, IN_F.after, 1, 1, 1)
    assert unique_places([b"\n", *BLOCK, b"\n", *BLOCK], (ours,), fits) == [1]
    assert unique_places(lines("dEfdEf"), (hunk(1, "def", "dEf"),), gnu_place.fits) == [0], "the first of a file"


def test_a_place_among_lines_that_were_moved_and_repeated() -> None:
    assert mapped_back(Place("f", 1, 3), text("ccaa"), text("aaca")) == Place("f", 3, 4)
    assert mapped_back(Place("f", 1, 2), text("a"), text("aa")) == Place("f", 1, 1)


def test_two_changes_of_one_line_are_named_where_the_last_one_is_there() -> None:
    both = one(b"@@ -1 +1 @@\n-a\n+b\n", *NAMES) + one(b"@@ -1 +1 @@\n-b\n+c\n", *NAMES)
    (outcome,) = outcomes({"f": file(b"c\n")}, both)
    assert isinstance(outcome, Refused) and not outcome.upstreamed
    assert list(map(str, outcome.there)) == ["f:1-1"]


def test_a_patch_of_git_is_looked_for_by_git_s_rule() -> None:
    """GNU patch would look for this one, which has less context below, at the file's end alone."""
    (outcome,) = outcomes({"f": file(b"x\na\nb\nB\nc\ny\n")}, one(b"@@ -9,3 +9,4 @@\n a\n b\n+B\n c\n", *NAMES))
    assert isinstance(outcome, Refused) and outcome.upstreamed and list(map(str, outcome.there)) == ["f:2-5"]


@pytest.mark.parametrize(
    ("tree", "diff"),
    [
        ({"new": ABC}, move("old", "new", "copy")),
        ({"f": file(b"a\nb\nc\n")}, one(b"@@ -5 +4,0 @@\n-x\n", *NAMES)),
    ],
)
def test_a_copy_or_a_removal_without_context_is_never_upstreamed(tree: Tree, diff: bytes) -> None:
    (outcome,) = outcomes(tree, diff)
    assert isinstance(outcome, Refused) and not outcome.upstreamed and outcome.there == ()


def test_what_is_kept_and_does_nothing_is_refused_by_its_name() -> None:
    (outcome,) = outcomes({"f": file(b"x\n", "100755")}, one(b"", b"old mode 100644", b"new mode 100755"), keep=(0,))
    assert isinstance(outcome, Refused) and outcome.patch.name == "0001-x.patch"
    (outcome,) = outcomes({}, b"", keep=(0,))
    assert isinstance(outcome, Refused) and (outcome.path, outcome.reason) == ("", "it changes nothing there")

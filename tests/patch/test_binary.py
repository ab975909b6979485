"""Binary changes as git writes them, and every way in which their data may be damaged."""

from __future__ import annotations

import base64
import tracemalloc
import zlib

import pytest

from kz_build.core.errors import ConfigError
from kz_build.git.object_types import blob_id
from kz_build.patch.binary import Binary, BinaryData
from kz_build.patch.change import FileChange
from tests.patch.test_diff import fault, read

NULL = "0" * 40
SMALL = b"\0a\n", b"\0bc\n"
WIDE = bytes(range(256)) * 3 + b"\0end"
WIDE_AFTER = WIDE[:300] + b"INSERT" + WIDE[300:]
# All four were written by git 2.39.
LITERAL = b"""diff --git a/f b/f
index 29cd267315316baf2f931f924b0a01c73593ad53..90310f150d15a3f657e5b9c75041199a39687f29 100644
GIT binary patch
literal 4
LcmZQbO6CFp0r~*Y

literal 3
KcmZQb<N^Qy&j4%y

"""
DELTA = b"""diff --git a/g b/g
index 5faa4a45206dd6433cb81c885aa5b3a6e61d5634..40ad1d70b2b6527394cd9e099e6bd7b8e9922b1b 100644
GIT binary patch
delta 19
acmZo+>tfrW!^r087wj4ovRQ}m1|tAAJq3&a

delta 17
YcmeBTYhl}<!?;j~aiY#u=G43t05CTNk^lez

"""
DELETED = b"""diff --git a/f b/f
deleted file mode 100644
index 29cd267315316baf2f931f924b0a01c73593ad53..0000000000000000000000000000000000000000
GIT binary patch
literal 0
HcmV?d00001

literal 3
KcmZQb<N^Qy&j4%y

"""
CREATED = b"""diff --git a/n b/n
new file mode 100644
index 0000000000000000000000000000000000000000..f9e371ff2657e5d2bd4389e3b323fe0550e3a860
GIT binary patch
literal 4
LcmZR`ODzWg0*?Vp

literal 0
HcmV?d00001

"""


def binary(data: bytes) -> Binary:
    (change,) = read(data)
    assert change.binary and not change.hunks
    return change.binary


@pytest.mark.parametrize(
    ("patch", "before", "after"),
    [
        (LITERAL, *SMALL),
        (DELTA, WIDE, WIDE_AFTER),
        (DELETED, SMALL[0], b""),
        (CREATED, None, b"\0new"),
    ],
)
def test_what_git_wrote_goes_there_and_back(patch: bytes, before: bytes | None, after: bytes) -> None:
    change = binary(patch)
    assert change.apply(before) == after
    back = change.reverse()
    assert (back.old, back.new) == (change.new, change.old)
    assert back.apply(after or None) == (before or b"")
    assert back.reverse() == change


def test_binary_changes_stand_among_others() -> None:
    first, second, third = read(DELETED + LITERAL + CREATED)
    assert [(c.path, c.creates, c.deletes, c.old_mode, c.mode, c.line) for c in (first, second, third)] == [
        ("f", False, True, "100644", "", 1),
        ("f", False, False, "100644", "", 11),
        ("n", True, False, "", "100644", 20),
    ]
    assert first.reverse().creates and first.reverse().binary == binary(DELETED).reverse()


def test_data_for_the_way_back_may_be_left_out() -> None:
    change = binary(LITERAL[: LITERAL.index(b"literal 3")])
    assert change.apply(SMALL[0]) == SMALL[1]
    assert change.backward is None
    assert change.reverse().apply(SMALL[1]) == "the patch names a binary change, but does not contain it"


def test_a_change_may_name_no_blobs_but_then_gives_nothing() -> None:
    change = binary(LITERAL.replace(LITERAL.splitlines(keepends=True)[1], b""))
    assert (change.old, change.new) == ("", "")
    assert change.apply(SMALL[0]) == SHORT_IDS


@pytest.mark.parametrize("words", [b"Binary files a/f and b/f differ\n", b"Files a/f and b/f differ\n"])
def test_a_change_without_data_names_its_blobs(words: bytes) -> None:
    header = b"".join(LITERAL.splitlines(keepends=True)[:2])
    (change, other) = read(header + words + CREATED)
    ids = blob_id(SMALL[0]), blob_id(SMALL[1])
    assert change == FileChange("f", (), old_mode="100644", binary=Binary(*ids, None, None), line=1, made_for=ids[0])
    assert other.path == "n"


ANOTHER = "it is not the binary that the patch was made for"
WRONG_RESULT = "the binary data does not produce the blob that the patch's index line names"
SHORT_IDS = "the patch does not name the binaries' ids in full"


def literal(old: str, new: str, data: bytes) -> Binary:
    return Binary(old, new, BinaryData(False, data), None)


@pytest.mark.parametrize(
    ("change", "there", "said"),
    [
        (binary(LITERAL), SMALL[1], ANOTHER),
        (binary(LITERAL), b"", ANOTHER),
        (literal(blob_id(b"a"), blob_id(b"b"), b"c"), b"a", WRONG_RESULT),
        (literal(blob_id(b"a")[:7], blob_id(b"b"), b"b"), b"a", SHORT_IDS),
        (literal(blob_id(b"a"), blob_id(b"b")[:39], b"b"), b"a", SHORT_IDS),
        (Binary(blob_id(b"a"), blob_id(b"b"), None, None), b"a", "the patch names a binary change, but does not contain it"),
    ],
)  # fmt: skip
def test_why_a_binary_change_gives_nothing(change: Binary, there: bytes, said: str) -> None:
    assert change.apply(there) == said


def with_delta(base: bytes | None, delta: bytes, after: bytes) -> bytes | str:
    old = NULL if base is None else blob_id(base)
    return Binary(old, blob_id(after), BinaryData(True, delta), None).apply(base)


HUGE = bytes(range(251)) * 300
"""75,300 bytes: offsets and sizes of three bytes."""


@pytest.mark.parametrize(
    ("base", "delta", "after"),
    [
        (b"abcdef", b"\x06\x03\x90\x03", b"abc"),
        (b"abcdef", b"\x06\x04\x91\x02\x02\x02xy", b"cdxy"),
        (None, b"\x00\x02\x02xy", b"xy"),
        # a size of zero stands for 65,536
        (HUGE, b"\xa4\xcc\x04\x80\x80\x04\x80", HUGE[:65536]),
        (HUGE, b"\xa4\xcc\x04\x02\x97\x01\x02\x01\x02", HUGE[66049:66051]),
        (HUGE, b"\xa4\xcc\x04\x81\x06\xb1\x05\x01\x03", HUGE[5:774]),
        (HUGE, b"\xa4\xcc\x04\x80\x82\x04\xf0\x00\x01\x01", HUGE[:65792]),
    ],
)
def test_the_instructions_of_a_delta(base: bytes | None, delta: bytes, after: bytes) -> None:
    assert with_delta(base, delta, after) == after


@pytest.mark.parametrize(
    "delta",
    [
        b"",
        b"\x06",
        b"\x05\x03\x90\x03",  # made for a base of five bytes
        b"\x06\x04\x90\x03",  # names a result of four
        b"\x06\x03\x90\x07",  # copies more than there is
        b"\x06\x03\x91\x06\x03",  # from behind the end
        b"\x06\x03\x90",  # cut off in an offset
        b"\x06\x03\x03ab",  # cut off in what it inserts
        b"\x06\x03\x90\x03\x00",  # git keeps this one for later
    ],
)
def test_a_delta_that_does_not_fit_makes_nothing(delta: bytes) -> None:
    assert with_delta(b"abcdef", delta, b"abc") == WRONG_RESULT


def line(data: bytes, count: str) -> bytes:
    """A line of git's base85."""
    return count.encode() + base64.b85encode(data, pad=True) + b"\n"


HEADER = b"diff --git a/f b/f\nindex " + b"1" * 40 + b".." + b"2" * 40 + b" 100644\nGIT binary patch\n"


def test_all_lengths_of_lines() -> None:
    """Up to 52 bytes stand on a line: A to Z, then a to z."""
    data = bytes(n * 37 % 256 for n in range(600))
    packed = zlib.compress(data, 0)
    for width in (1, 26, 27, 52):
        rows = [packed[at : at + width] for at in range(0, len(packed), width)]
        names = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
        body = b"".join(line(row, names[len(row) - 1]) for row in rows)
        change = binary(HEADER + b"literal 600\n" + body + b"\n")
        assert change.forward == BinaryData(False, data), width


DAMAGED = "a line of the binary data is damaged"
SIZE = "the binary data does not unpack to the size that it names"


@pytest.mark.parametrize(
    ("data", "at", "said"),
    [
        (b"", 4, "the binary data is missing"),
        (b"text 4\n", 4, "the binary data is missing"),
        (b"literal 1234567890123\n", 4, "the binary data is missing"),
        (b"literal 4\nLcmZQbO6CFp0r~*Y\n", 4, "the binary data does not end in an empty line"),
        (b"literal 4\n", 4, "the binary data does not end in an empty line"),
        (b"literal 4\nKcmZQbO6CFp0r~*Y\n\n", 4, SIZE),
        (b"literal 4\nMcmZQbO6CFp0r~*Y\n\n", 4, DAMAGED),  # says 13 bytes, has 12
        (b"literal 4\nHcmZQbO6CFp0r~*Y\n\n", 4, DAMAGED),  # says 8 bytes, has 12
        (b"literal 4\nlcmZQbO6CFp0r~*Y\n\n", 4, DAMAGED),
        (b"literal 4\n@cmZQbO6CFp0r~*Y\n\n", 4, DAMAGED),
        (b"literal 4\n[cmZQbO6CFp0r~*Y\n\n", 4, DAMAGED),
        (b"literal 4\nLcmZQbO6CFp0r~*\n\n", 4, DAMAGED),
        (b"literal 4\nLcmZQbO6CFp0r~*,\n\n", 4, DAMAGED),
        (b"literal 4\nLcmZQbO6CFp0r~*Y", 4, DAMAGED),
        (b"literal 5\nLcmZQbO6CFp0r~*Y\n\n", 4, SIZE),
        (b"literal 3\nLcmZQbO6CFp0r~*Y\n\n", 4, SIZE),
        (b"literal 4\nLaaaaaaaaaaaaaaa\n\n", 4, SIZE),
        (b"literal 0\nA00000\n\n", 4, SIZE),
        (b"literal 4\nLcmZQbO6CFp0r~*Y\n\nliteral 4\nKcmZQb<N^Qy&j4%y\n\n", 7, SIZE),
    ],
)
def test_damaged_data_is_named_with_the_line_where_it_begins(data: bytes, at: int, said: str) -> None:
    assert fault(lambda: read(HEADER + data)) == (at, said)


@pytest.mark.parametrize(("name", "size"), [("[", 27), ("`", 26), ("{", 53), ("@", 1)])
def test_only_letters_count_the_bytes_of_a_line(name: str, size: int) -> None:
    """Not even those beside them in ASCII, with the size that they would stand for."""
    assert fault(lambda: read(HEADER + b"literal 4\n" + line(bytes(size), name) + b"\n")) == (4, DAMAGED)


def test_the_error_says_how_to_make_the_patch() -> None:
    with pytest.raises(ConfigError) as caught:
        read(HEADER)
    assert caught.value.hint == "make patch files with `git format-patch --full-index --binary`"


def test_data_that_unpacks_to_far_more_than_it_names_is_not_unpacked_whole() -> None:
    packed = zlib.compress(bytes(1 << 24))
    packed += bytes(-len(packed) % 26)
    rows = b"".join(line(packed[at : at + 26], "Z") for at in range(0, len(packed), 26))
    tracemalloc.start()
    try:
        assert fault(lambda: read(HEADER + b"literal 4\n" + rows + b"\n"))[1] == SIZE
        assert tracemalloc.get_traced_memory()[1] < 1 << 23
    finally:
        tracemalloc.stop()

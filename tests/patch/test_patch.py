"""Reading patch mails, and hunks applied strictly."""

from __future__ import annotations

import pytest

from kz_build.core.errors import ConfigError
from kz_build.git.object_types import Blob
from kz_build.patch.apply import Applied, Refused, Stack
from kz_build.patch.attempt import apply_stack
from kz_build.patch.change import Hunk, apply_hunks
from kz_build.patch.judge import judge
from kz_build.patch.mail import parse_patch
from kz_build.patch.verdict import Verdict

HEAD = b"From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\nFrom: A B <a@b>\nDate: Thu, 15 Jan 2026 12:00:00 +0000\n"


def mail(body: bytes, subject: bytes = b"Subject: [PATCH] one\n two\n") -> bytes:
    return HEAD + subject + b"\nWhy.\n\nUpstream-Status: Pending\n---\n" + body


def diff(path: str, before: list[str], after: list[str], at: int = 1, context: int = 3) -> bytes:
    """A diff of two files of lines, as difflib and so as git writes it."""
    import difflib

    lines = list(difflib.unified_diff(before, after, f"a/{path}", f"b/{path}", n=context, lineterm=""))
    return (f"diff --git a/{path} b/{path}\n" + "\n".join(lines) + "\n").encode()


def text(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


LINES = [f"line {i}" for i in range(30)]
CHANGED = [*LINES[:15], "new", *LINES[16:]]


def one(body: bytes, name: str = "0001-x.patch"):  # type: ignore[no-untyped-def]
    return parse_patch(name, mail(body))


def test_the_mail_is_read_whole() -> None:
    patch = one(diff("f", LINES, CHANGED))
    assert (patch.author, patch.date) == ("A B <a@b>", "Thu, 15 Jan 2026 12:00:00 +0000")
    assert patch.message == "one two\n\nWhy.\n\nUpstream-Status: Pending\n"
    assert patch.slug == "x" and patch.subject == "one two"


def test_clean_offset_and_conflict() -> None:
    patch = one(diff("f", LINES, CHANGED))
    hunks = patch.files[0].hunks
    assert apply_hunks(text(LINES), hunks) == (text(CHANGED), (0,))
    moved = ["above"] * 4 + LINES
    assert apply_hunks(text(moved), hunks) == (text(["above"] * 4 + CHANGED), (4,))
    fuzzy = [*LINES[:13], "other context", *LINES[14:]]
    assert isinstance(apply_hunks(text(fuzzy), hunks), Hunk), "zero fuzz: context must match to the letter"


def test_the_nearest_place_wins() -> None:
    block = ["a", "b", "c", "x", "d", "e", "f"]
    lines = [*block, *["-"] * 10, *block, *["-"] * 10, *block]
    changed = [*lines[:20], "y", *lines[21:]]
    hunks = one(diff("f", lines, changed)).files[0].hunks
    result = apply_hunks(text(["top", *lines]), hunks)
    assert not isinstance(result, Hunk) and result[0] == text(["top", *changed])


def test_no_newline_at_the_end_is_kept() -> None:
    body = b"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n"
    hunks = one(body).files[0].hunks
    assert apply_hunks(b"a\nb", hunks) == (b"a\nc", (0,))
    assert isinstance(apply_hunks(b"a\nb\n", hunks), Hunk)


def test_what_is_there_already_is_upstreamed_not_applied_twice() -> None:
    insertion = [*LINES[:15], "inserted", *LINES[15:]]
    patch = one(diff("f", LINES, insertion))
    first = apply_stack((patch,), lambda p: Blob("100644", text(LINES)))[0]
    assert isinstance(first, Applied)
    second = apply_stack((patch,), lambda p: Blob("100644", text(insertion)))[0]
    assert isinstance(second, Refused) and second.upstreamed


def test_a_later_patch_sees_the_earlier_and_not_a_refused_one() -> None:
    first = one(diff("f", LINES, CHANGED))
    second = one(diff("f", CHANGED, [*CHANGED[:15], "newer", *CHANGED[16:]]), "0002-y.patch")
    good = apply_stack((first, second), lambda p: Blob("100644", text(LINES)))
    assert [type(o) for o in good] == [Applied, Applied]
    broken = apply_stack((one(diff("f", ["no"], ["yes"])), first, second), lambda p: Blob("100644", text(LINES)))
    assert [type(o) for o in broken] == [Refused, Applied, Applied]


def test_created_deleted_and_mode() -> None:
    new = b"diff --git a/n b/n\nnew file mode 100755\nindex 0000000..1\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+hi\n"
    gone = b"diff --git a/f b/f\ndeleted file mode 100644\nindex 1..0\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
    mode = b"diff --git a/m b/m\nold mode 100644\nnew mode 100755\n"
    there = {"f": Blob("100644", b"x\n"), "m": Blob("100644", b"m\n")}
    outcome = apply_stack((one(new + gone + mode),), there.get)[0]
    assert isinstance(outcome, Applied)
    assert outcome.files == {"n": Blob("100755", b"hi\n"), "f": None, "m": Blob("100755", b"m\n")}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"diff --git a/../x b/../x\n--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-a\n+b\n", "climbs out"),
        (b"diff --git a//etc/x b//etc/x\n--- a//etc/x\n+++ b//etc/x\n@@ -1 +1 @@\n-a\n+b\n", "not a relative path"),
        (
            b"diff --git a/.git/config b/.git/config\n--- a/.git/config\n+++ b/.git/config\n@@ -1 +1 @@\n-a\n+b\n",
            ".git",
        ),
        (b"diff --git a/d/.GIT/x b/d/.GIT/x\n--- a/d/.GIT/x\n+++ b/d/.GIT/x\n@@ -1 +1 @@\n-a\n+b\n", ".git"),
        (b"diff --git a/x b/x\nindex 1..2\nGIT binary patch\nliteral 3\n", "binary"),
        (b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n-b\n+c\n", "ends before"),
        (b"diff --git x x\n--- x\n+++ x\n@@ -1 +1 @@\n-a\n+b\n", "prefixes"),
        (b"nothing here\n", "no `diff --git`"),
    ],
)
def test_what_is_not_taken_is_named_with_its_line(body: bytes, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as error:
        one(body)
    assert error.value.problems[0].file == "0001-x.patch" and error.value.problems[0].line > 0


def test_a_bare_diff_is_no_mail() -> None:
    with pytest.raises(ConfigError, match="not a mail"):
        parse_patch("0001-x.patch", diff("f", LINES, CHANGED))


RENAME = b"diff --git a/f b/g\nrename from f\nrename to g\n--- a/f\n+++ b/g\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
MODE = b"diff --git a/f b/f\nold mode 100644\nnew mode 100755\n"
LINK = b"diff --git a/l b/l\nindex 1..2 120000\n--- a/l\n+++ b/l\n@@ -1 +1 @@\n-to\n\\ No newline at end of file\n+at\n\\ No newline at end of file\n"
BINARY = b"diff --git a/f b/f\nindex " + b"1" * 40 + b".." + b"2" * 40 + b"\nBinary files a/f and b/f differ\n"
ABC, FOLDER_THERE = Blob("100644", b"a\nb\nc\n"), Blob("40000", b"x")


@pytest.mark.parametrize(
    ("body", "there", "verdict", "path"),
    [
        (RENAME, {"f": ABC}, Verdict.CLEAN, ""),
        (RENAME, {}, Verdict.MISSING, "f"),
        (RENAME, {"f": ABC, "g": ABC}, Verdict.CONTENT, "g"),
        (RENAME, {"g": Blob("100644", b"a\nB\nc\n")}, Verdict.UPSTREAMED, "g"),
        (RENAME, {"f": Blob("100644", b"a\nx\nc\n")}, Verdict.CONTENT, "g"),
        (RENAME, {"f": FOLDER_THERE}, Verdict.MISSING, "f"),
        (RENAME, {"f": ABC, "g": FOLDER_THERE}, Verdict.CONTENT, "g"),
        (MODE, {"f": ABC}, Verdict.CLEAN, ""),
        (MODE, {"f": Blob("100755", b"")}, Verdict.UPSTREAMED, "f"),
        (MODE, {"f": Blob("120000", b"x")}, Verdict.CONTENT, "f"),
        (LINK, {"l": Blob("120000", b"to")}, Verdict.CLEAN, ""),
        (LINK, {"l": Blob("120000", b"at")}, Verdict.UPSTREAMED, "l"),
        (LINK, {"l": Blob("100644", b"to")}, Verdict.CONTENT, "l"),
        (BINARY, {"f": ABC}, Verdict.CONTENT, "f"),
    ],
)
def test_the_verdict_on_what_is_no_hunk(body: bytes, there: dict[str, Blob], verdict: Verdict, path: str) -> None:
    stack = Stack("l", "s", "f", (one(body),), (), "")
    found = judge(stack, there.get, {}, lambda *_: None, {})[0]
    assert (found.verdict, found.path) == (verdict, path), found

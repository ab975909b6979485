"""Native methods and loaded libraries, read from Java and Kotlin."""

from __future__ import annotations

import pytest

from kz_build.formats.elf_types import JavaSide, NativeMethod
from kz_build.formats.java_source import java_side


def side(text: str, path: str = "A.java") -> JavaSide:
    return java_side({path: text.encode()})


def methods(text: str) -> list[tuple[str, str]]:
    return [(m.java_class, m.name) for m in side(text).methods]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("package a.b; class C { native void go(); }", [("a/b/C", "go")]),
        ("class C { native void go(); }", [("C", "go")]),
        ("class C { native\n int\n go(int a,\n int b)\n throws X, Y; }", [("C", "go")]),
        ("class C { native int[] go ( ); native String go2(String s); }", [("C", "go"), ("C", "go2")]),
        ("class C { static class D { native void go(); } native void up(); }", [("C$D", "go"), ("C", "up")]),
        ("class C { void f() { if (x) { y(); } } native void go(); }", [("C", "go")]),
        ("interface I { enum E { native void go(); } }", [("I$E", "go")]),
        ("object O { external fun go() }", [("O", "go")]),
        ("class C { companion object { external fun go() } }", [("C$Companion", "go")]),
        ("class C { companion object { @JvmStatic external fun go() } }", [("C", "go")]),
        ("class C { companion object { @JvmStatic private external fun go(): Int } }", [("C", "go")]),
        ("object O { @JvmStatic external fun go() }", [("O", "go")]),
        ("class C { private external fun go(a: Int) }", [("C", "go")]),
        ("class C { // native void go();\n /* native void go();\n */ }", []),
        ("class/* of */C { native/* code */void go(); }", [("C", "go")]),
        ("class A { class C { companion object { @JvmStatic external fun go() } } }", [("A$C", "go")]),
        ('class C { String s = "native void go();"; }', []),
        ('class C { String s = "\\" // "; native void go(); }', [("C", "go")]),
        (
            "class C { char a = '}', b = '\\u007d', c = '\"', d = '\\''; native void go(); String s = \"{\"; }",
            [("C", "go")],
        ),
        ('class C { char c = \'"\'; String s = "native void go();"; }', []),
        ("class C { // it's\n native void go(); /* isn't */ }", [("C", "go")]),
        ("class C { String s = nativeOrder(); boolean native_; }", []),
        ("} class C { native void go(); }", [("C", "go")]),
        ("class C { } native void go();", [("", "go")]),
    ],
)
def test_native_methods_and_their_classes(text: str, found: list[tuple[str, str]]) -> None:
    assert methods(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('System.loadLibrary("runtime")', {"runtime"}),
        ('NativeLoader . loadLibrary (\n "one"); SoLoader.loadLibrary("two");', {"one", "two"}),
        ('// System.loadLibrary("runtime")\n/* loadLibrary("x") */', set()),
        ('myloadLibrary("runtime"); loadLibrary(name)', set()),
        ('String url = "https://x"; loadLibrary("runtime")', {"runtime"}),
    ],
)
def test_loaded_libraries(text: str, found: set[str]) -> None:
    assert side(text).loads == found


def test_all_files_in_the_order_of_their_paths() -> None:
    found = java_side(
        {
            "b/B.kt": b"  package x.y\nclass B { external fun two() }",
            "a/A.java": b'package x;\nclass A { native void one(); } // \xff\nloadLibrary("a")',
        }
    )
    assert found == JavaSide((NativeMethod("x/A", "one"), NativeMethod("x/y/B", "two")), frozenset({"a"}))
    assert java_side({}) == JavaSide((), frozenset())

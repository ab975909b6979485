"""Class files made by hand: constants of the wrong kind."""

from __future__ import annotations

import struct

import pytest

from kz_build.formats.android_manifest import DamagedError
from kz_build.formats.classfile import java_side


def with_name(constant: bytes) -> bytes:
    """A class with one native method, whose name is the third constant."""
    pool = [b"\7" + struct.pack(">H", 2), b"\1\0\1A", constant]
    head = struct.pack(">IIH", 0xCAFEBABE, 52, len(pool) + 1) + b"".join(pool)
    return head + struct.pack(">HHHHHHHHHHH", 1, 1, 0, 0, 0, 1, 0x100, 3, 3, 0, 0)


def test_a_name_that_is_no_text() -> None:
    assert java_side([with_name(b"\1\0\1b")]).methods[0].name == "b"
    with pytest.raises(DamagedError, match="constant 3 of a class file is no text"):
        java_side([with_name(b"\1\0\1b"), with_name(b"\7\0\2")])


def with_code(code: bytes) -> bytes:
    """A class whose one method has this code, with the text `x` as constant 8 and System.loadLibrary as constant 11."""
    texts = (b"A", b"f", b"()V", b"Code", b"loadLibrary", b"x")
    pool = [b"\1" + struct.pack(">H", len(text)) + text for text in texts]  # 1 to 6
    pool += [b"\7" + struct.pack(">H", 1), b"\10" + struct.pack(">H", 6)]
    pool += [b"\14" + struct.pack(">HH", 5, 3), b"\14" + struct.pack(">HH", 2, 3), b"\12" + struct.pack(">HH", 7, 9)]
    head = struct.pack(">IIH", 0xCAFEBABE, 52, len(pool) + 1) + b"".join(pool)
    body = struct.pack(">HHI", 1, 0, len(code)) + code + bytes(4)
    method = struct.pack(">HHHHHI", 8, 2, 3, 1, 4, len(body)) + body
    return head + struct.pack(">HHHHHH", 0, 7, 0, 0, 0, 1) + method + bytes(2)


def test_an_operand_before_it_that_looks_like_an_ldc() -> None:
    """`if (!done) { System.loadLibrary("x"); … }`: ifne jumps by 0x13, which is ldc_w, then ldc 8 and invokestatic 11."""
    load = b"\x12\x08\xb8\x00\x0b"
    assert java_side([with_code(load + b"\xb1")]).loads == {"x"}
    assert java_side([with_code(b"\x9a\x00\x13" + load + bytes(11) + b"\xb1")]).loads == {"x"}

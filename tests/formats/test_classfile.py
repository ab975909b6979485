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

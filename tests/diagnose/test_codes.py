"""Numbers in logs: decimal and hexadecimal forms, and their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from kz_build.core.errors import ConfigError
from kz_build.diagnose.codes import QNN, QNN_PARTS, decode
from kz_build.diagnose.diagnose import read


@pytest.mark.parametrize(
    ("table", "text", "says"),
    [
        ("executorch", "34", "34 = 0x22 AccessFailed"),
        ("executorch", "20", "20 = 0x14 OperatorMissing (not 0x20 NotFound)"),
        ("executorch", "0x14", "0x14 = 20 OperatorMissing"),
        # In executorch#7028 a maintainer read this one as 0x32, DelegateInvalidHandle.
        ("executorch", "32", "32 = 0x20 NotFound (not 0x32 DelegateInvalidHandle)"),
        ("executorch", "0x32", "0x32 = 50 DelegateInvalidHandle"),
        ("executorch", "18", "18 = 0x12 InvalidArgument"),
        ("executorch", "0X12", "0X12 = 18 InvalidArgument"),
        ("executorch", "77", "77 = 0x4d unknown to ExecuTorch"),
        ("tokenizers", "9", "9 RegexFailure"),
        ("qnn", "1002", "1002 = 0x3ea QNN_COMMON_ERROR_MEM_ALLOC"),
        ("qnn", "0x3ea", "0x3ea = 1002 QNN_COMMON_ERROR_MEM_ALLOC"),
        ("qnn", "0xc26", "0xc26 = 3110 QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE"),
        ("qnn", "14999", "14999 = 0x3a97 from QNN device"),
        ("qnn", "7", "7 = 0x7 unknown to QNN"),
        ("signal", "139", "139 SIGSEGV, an access to memory that it does not have"),
        ("signal", "134", "134 SIGABRT, it stopped itself at a failed check"),
        ("signal", "137", "137 SIGKILL, killed from outside, nearly always for its memory"),
        ("signal", "-11", "-11 SIGSEGV, an access to memory that it does not have"),
        ("signal", "11", "11 SIGSEGV, an access to memory that it does not have"),
        ("fastrpc", "0x80000406", "0x80000406 = AEE_EUNABLETOLOAD, a library that the DSP cannot load"),
        ("fastrpc", "0x72", "0x72 = AEE_ECONNREFUSED, the DSP refuses"),
        ("fastrpc", "0x0000002e", "0x0000002e = AEE_EINTERRUPTED, the DSP's process ended"),
        ("fastrpc", "0xffffffff", "0xffffffff"),
        ("opencl", "-11", "-11 CL_BUILD_PROGRAM_FAILURE"),
        ("opencl", "-777", "-777 unknown to OpenCL"),
        ("htp", "69", "v69 (SM8450, SM8475, SXR2230P)"),
        ("htp", "70", "v70 (no SoC that kz knows)"),
        ("executorch", "what", "what"),
        ("executorch", "", ""),
        ("executorch", "0x", "0x"),
        ("qnn", "9" * 5000, "9" * 5000),
    ],
)
def test_a_number_has_both_forms_and_its_name(table: str, text: str, says: str) -> None:
    assert decode(table, text) == says


def test_the_name_of_a_qnn_code_is_of_the_part_that_the_code_is_from() -> None:
    for code, name in QNN.items():
        (part,) = (part for codes, part in QNN_PARTS.items() if code in codes)
        assert name.removeprefix("QNN_").replace("_", " ").lower().startswith(part), (code, name)


def test_a_table_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(
        "one:\n  title: t\n  find: [code is]\n  match: 'code is (?P<code>\\d+)'\n  cause: 'it is {code:numbers}'\n  next: n\n"
        "  seen: [{line: code is 7, at: https://x.y}]\n  near: [code is]\n"
    )
    with pytest.raises(ConfigError) as error:
        read(tmp_path / "own.yaml")
    assert [p.text for p in error.value.problems] == [
        "one.cause: no table of numbers 'numbers', but executorch, tokenizers, qnn, signal, fastrpc, opencl, htp"
    ]

"""One check: which fail a run, how a table of questions is asked, and how an answer stands in JSON."""

from __future__ import annotations

import json

import pytest

from kz_build.core.check import Answer, Check, Status, ask, failed, pass_if, passed, skipped, unanswered, warned
from kz_build.core.errors import AuditError
from kz_build.core.plain_json import text

PASS, FAIL, WARN, SKIP, ERROR = Status.PASS, Status.FAIL, Status.WARN, Status.SKIP, Status.ERROR
BAD = Check("lib.so", "elf", FAIL, "not for arm64", fix=("kz build",))


@pytest.mark.parametrize(
    ("status", "required", "fails"),
    [
        (PASS, True, False),
        (WARN, True, False),
        (FAIL, False, True),
        (ERROR, False, True),
        (SKIP, False, False),
        (SKIP, True, True),
    ],
)
def test_which_answers_fail_a_run(status: Status, required: bool, fails: bool) -> None:
    assert Check("f", "c", status, "why", required).failed is fails


def test_a_skip_needs_a_reason() -> None:
    with pytest.raises(ValueError, match="c is skipped without a reason"):
        Check("f", "c", SKIP, "")
    with pytest.raises(ValueError, match="without a reason"):
        skipped("")


def broken(_: int) -> Answer:
    raise AuditError("it cannot be read", hint="fetch it again")


def test_every_question_is_asked_and_one_that_cannot_be_answered_is_an_error() -> None:
    found = ask(
        7,
        {
            "first": lambda n: passed(f"{n} is there"),
            "broken": broken,
            "nothing to ask": lambda n: None,
            "several": lambda n: [failed("a is lost", "a"), unanswered("which b?", "b"), failed("so")],
            "none of several": lambda n: [],
            "named": lambda n: warned("it may be too little", name="disk /tmp", fix=("df -h",)),
            "last": lambda n: skipped("no device"),
        },
        "seven",
    )
    assert found == (
        Check("seven", "first", PASS, "7 is there", True),
        Check("seven", "broken", ERROR, "it cannot be read", True, ("fetch it again",)),
        Check("a", "several", FAIL, "a is lost", True),
        Check("b", "several", ERROR, "which b?", True),
        Check("seven", "several", FAIL, "so", True),
        Check("seven", "disk /tmp", WARN, "it may be too little", True, ("df -h",)),
        Check("seven", "last", SKIP, "no device", False),
    )


def test_an_error_without_a_hint_has_no_fix() -> None:
    def plain(_: int) -> Answer:
        raise AuditError("no")

    assert ask(0, {"q": plain}, "f") == (Check("f", "q", ERROR, "no", True, ()),)


def test_a_fault_of_ours_is_no_answer() -> None:
    with pytest.raises(ZeroDivisionError):
        ask(0, {"q": lambda n: passed(str(1 // n))}, "f")


def test_what_is_required_may_stand_beside_the_table() -> None:
    questions = {"a": lambda _: skipped("no a"), "b": lambda _: passed("b"), "c": lambda _: skipped("c", required=True)}
    assert [(c.name, c.required, c.failed) for c in ask(0, questions, "f", frozenset("a"))] == [
        ("a", True, True), ("b", False, False), ("c", False, False),
    ]  # fmt: skip
    assert [(c.name, c.required) for c in ask(0, questions, "f")] == [("a", False), ("b", True), ("c", True)]


def test_pass_or_fail_with_the_same_evidence() -> None:
    assert (pass_if(True, "16 KB"), pass_if(False, "4 KB")) == (passed("16 KB"), failed("4 KB"))


def test_json_has_the_keys_of_a_record_and_no_others() -> None:
    data = {"file": "lib.so", "check": "elf", "status": "FAIL", "evidence": "not for arm64", "required": True}
    assert BAD.as_json() == data and list(BAD.as_json()) == list(data)
    assert json.loads(text({"checks": (BAD,)})) == {"checks": [data]}
    assert BAD.as_json(("name", "fix")) == {"name": "elf", "fix": ("kz build",)}


def test_a_record_is_read_back() -> None:
    check = Check("lib.so", "size", SKIP, "no file", False)
    assert Check.from_json(check.as_json()) == check
    assert Check.from_json({k: v for k, v in check.as_json().items() if k != "file"}, "x.pte").subject == "x.pte"

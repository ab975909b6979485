"""The forms of a line that is an error, or none: each has a line that only it matches, and that is what the form says."""

from __future__ import annotations

import re

import pytest

from kz_build.diagnose.error_words import ANY_CASE, EXIT, FORMS, TEXTS, goes_on, rank, speaks
from kz_build.diagnose.log_line import prefix
from kz_build.diagnose.quotation import quoted

RANKS = {"fatal": 0, "error": 1, "unmarked": 1, "failed": 2, "follows": EXIT, "exit": EXIT, "ordinary": -1, "code": -1}
KINDS = sorted(set(FORMS) - {"texts", "exceptions"})


def lines(kind: str) -> list[str]:
    return [row["line"] for row in FORMS[kind]]


@pytest.mark.parametrize("kind", KINDS)
def test_a_line_is_matched_by_its_form_and_by_no_other_of_the_kind(kind: str) -> None:
    flags = re.IGNORECASE if kind in ANY_CASE else 0
    for row in FORMS[kind]:
        message = row["line"] if kind == "goes_on" else prefix(row["line"]).message
        matching = [other["match"] for other in FORMS[kind] if re.search(other["match"], message, flags)]
        assert matching == [row["match"]], row["line"]


@pytest.mark.parametrize("kind", RANKS)
def test_a_line_has_the_rank_of_its_kind(kind: str) -> None:
    assert [line for line in lines(kind) if rank(line) != RANKS[kind]] == []


def test_a_condition_that_failed_and_a_name_that_ends_like_a_frames_word_are_errors() -> None:
    assert rank('Assertion failed: false && "the instruction is not valid", file /src/validator.cpp, line 440') == 0
    assert rank("qcom,fastrpc 62400000.remoteproc:glink-edge: Error: dsp information is incorrect err: -1") == 1


def test_what_goes_on_and_what_is_no_error_is_nothing_in_a_quotation() -> None:
    assert [line for line in lines("goes_on") if not goes_on(line)] == []
    assert [line for kind in ("goes_on", "no_error") for line in lines(kind) if [*quoted([line])]] == []


def test_what_failed_may_be_the_cause_where_it_says_why() -> None:
    assert [line for line in lines("reason") if rank(line) == 2 and not speaks(2, line)] == []


def test_each_error_is_looked_at() -> None:
    """A line without any of the texts is not."""
    errors = [line.encode() for kind in ("fatal", "error", "unmarked", "failed") for line in lines(kind)]
    assert [line for line in errors if not any(text in line for text in TEXTS)] == []

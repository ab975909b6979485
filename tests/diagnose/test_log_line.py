"""What another program writes before a line: each form is cut off its line, and no other form matches it."""

from __future__ import annotations

import re

from kz_build.diagnose.log_line import MARGINS, bare


def test_what_stands_before_a_line_is_cut_off_by_its_form_and_by_no_other() -> None:
    for row in MARGINS:
        assert bare(row["line"]) == row["left"] != row["line"]
        assert [other["match"] for other in MARGINS if re.match(other["match"], row["line"])] == [row["match"]]


def test_several_stand_one_behind_the_other() -> None:
    assert bare("#12 4.567 [rank0]: ERROR: ValueError: the model is not there") == "ValueError: the model is not there"

"""Trailers of a message: found, added, replaced, taken away."""

from __future__ import annotations

import pytest

from kz_build.patch.trailers import pull_of, trailer, trailers, with_trailers, without_trailers

MESSAGE = "Fix it\n\nIt was: wrong.\n\nUpstream-Status: Pending\nSigned-off-by: A <a@b>\n"
NONE = "Fix it\n\nIt was: wrong.\nAnd more.\n"


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        (MESSAGE, (("Upstream-Status", "Pending"), ("Signed-off-by", "A <a@b>"))),
        (MESSAGE + "\n\n", (("Upstream-Status", "Pending"), ("Signed-off-by", "A <a@b>"))),
        ("T\n\nA: \t b \nC:d\n", (("A", "b"), ("C", "d"))),
        (NONE, ()),
        ("T\n\nA: b\nnot one\n", ()),
        ("T\n\n1A: b\n", ()),
        ("kernel: fix\n", ()),
        ("A: b\nC: d\n", ()),
        ("", ()),
    ],
)
def test_only_a_last_paragraph_of_nothing_else_has_trailers(message: str, wanted: tuple[tuple[str, str], ...]) -> None:
    assert trailers(message) == wanted


def test_the_first_of_a_key_in_any_case() -> None:
    message = "T\n\nOrigin: one\nORIGIN: two\n"
    assert trailer(message, "origin") == "one"
    assert trailer(message, "ORIGIN") == "one"
    assert trailer(message, "Upstream-PR") == ""


def test_added_trailers_stand_in_the_last_paragraph_once() -> None:
    added = {"Upstream-PR": "https://x", "Origin": "y"}
    whole = "Fix it\n\nIt was: wrong.\n\nUpstream-Status: Pending\nSigned-off-by: A <a@b>\nUpstream-PR: https://x\nOrigin: y\n"
    assert with_trailers(MESSAGE, added) == whole
    assert with_trailers(whole, added) == whole
    assert with_trailers(NONE, {"Origin": "y"}) == "Fix it\n\nIt was: wrong.\nAnd more.\n\nOrigin: y\n"
    assert with_trailers("Fix it\n\n\n", {"Origin": "y"}) == "Fix it\n\nOrigin: y\n"
    assert with_trailers("T\n\nORIGIN: x\nA: b\n", {"Origin": "y"}) == "T\n\nA: b\nOrigin: y\n"
    assert with_trailers("T\n\norigin: x\n", {"Origin": "y"}) == "T\n\nOrigin: y\n"


def test_trailers_are_taken_away_in_any_case_and_the_rest_stays() -> None:
    assert without_trailers(MESSAGE, ["signed-off-BY"]) == "Fix it\n\nIt was: wrong.\n\nUpstream-Status: Pending\n"
    assert without_trailers(MESSAGE, ["Upstream-Status", "Signed-off-by"]) == "Fix it\n\nIt was: wrong.\n"
    assert without_trailers(MESSAGE, []) == MESSAGE
    assert without_trailers(NONE, ["It was"]) == NONE
    assert without_trailers("T\n\n\n\nA: b\n", ["A"]) == "T\n"


def test_what_stays_stays_to_the_letter() -> None:
    assert with_trailers("Support MLX\n", {"A": "b"}) == "Support MLX\n\nA: b\n"
    assert with_trailers("T\n\nA: MLX\n", {"B": "c"}) == "T\n\nA: MLX\nB: c\n"
    assert with_trailers("T\n\nA: b  \n", {"B": "c"}) == "T\n\nA: b  \nB: c\n"
    assert with_trailers("T\n\ntext  \n", {"B": "c"}) == "T\n\ntext  \n\nB: c\n"
    assert without_trailers("T\n\nfor MLX  \n\nA: b\n", ["A"]) == "T\n\nfor MLX  \n"
    assert without_trailers("T\n\nfor MLX\n\nA: b\n", ["A"]) == "T\n\nfor MLX\n"


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("https://github.com/pytorch/executorch/pull/123", 123),
        ("https://github.com/PyTorch/ExecuTorch/pull/123", 123),
        ("https://github.com/pytorch/executorch/pull/123/files", 0),
        ("https://github.com/someone/executorch/pull/123", 0),
        ("https://example.com/pytorch/executorch/pull/123", 0),
        ("none", 0),
    ],
)
def test_the_pull_request_that_a_patch_names(value: str, number: int) -> None:
    assert pull_of(f"T\n\nUpstream-PR: {value}\n", "pytorch/executorch") == number
    assert pull_of(f"T\n\nUpstream-PR: {value}\n", "PYTORCH/executorch") == number
    assert pull_of("T\n", "pytorch/executorch") == 0

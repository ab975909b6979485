"""The map between the lines of two versions: any content, bounded time."""

from __future__ import annotations

import random
import time

from hypothesis import given
from hypothesis import strategies as st

from kz_build.patch.line_map import edits, line_map

FEW = st.lists(st.integers(0, 5), max_size=40)


@given(FEW, FEW)
def test_connected_lines_are_equal_and_in_order(old: list[int], new: list[int]) -> None:
    pairs = [(at, place) for at, place in enumerate(line_map(old, new)) if place >= 0]
    assert all(old[at] == new[place] for at, place in pairs)
    assert [place for _, place in pairs] == sorted({place for _, place in pairs})


@given(FEW, FEW)
def test_the_edits_make_the_one_of_the_other(old: list[int], new: list[int]) -> None:
    made: list[int] = []
    done = 0
    for start, end, new_start, new_end in edits(old, new):
        made += old[done:start] + new[new_start:new_end]
        done = end
    assert made + old[done:] == new


def test_many_equal_lines_take_no_time() -> None:
    numbers = random.Random(1)
    old = [numbers.randrange(3) for _ in range(20_000)]
    new = [numbers.randrange(3) for _ in range(20_000)]
    start = time.process_time()
    line_map(old, new)
    assert time.process_time() - start < 5

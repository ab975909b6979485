"""One way to make one edit of a patch in upstream's file."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Rule(Enum):
    """How an edit finds its place. The value is the explanation in a candidate's reason."""

    MERGED = "merges without conflict"
    REFORMATTED = "made in upstream's white space"
    THERE = "upstream has it"
    REPLAYED = "the patch's words changed in lines that upstream rewrote"
    OVERRIDDEN = "written in place of lines that upstream changed too"
    PLACED = "placed by the lines around it"
    SORTED = "put in order into upstream's list"
    GONE = "left out, because upstream removed the code around it"
    LEFT_OUT = "left out, because upstream has no place for it"
    RENAMED = "upstream moved the file"
    MOVED = "upstream moved the code to another file"
    ADDED_TWICE = "upstream added a file of that name"
    DELETED = "deleted, though upstream changed it"
    FILE_GONE = "left out, because upstream removed the file"


LOSING_NOTHING = {Rule.RENAMED, Rule.MOVED, Rule.FILE_GONE}
"""Rules about a file by which no line of upstream's is lost."""


class Option(NamedTuple):
    """Lines `start` to `end` of upstream's file, from 0, become `lines`. Of two options the one with the higher `score` is better.

    Where the edit does not merge, upstream made `now` of the lines `was` around it.
    """

    start: int
    end: int
    lines: tuple[bytes, ...]
    rule: Rule
    score: float
    was: tuple[bytes, ...] = ()
    now: tuple[bytes, ...] = ()

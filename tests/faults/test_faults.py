"""Every verb that writes, disturbed at many of its system calls: the same command again ends as if nothing had been."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tests.faults.cases import CASES
from tests.faults.points import Point, chosen, parsed
from tests.faults.strace import Call, normal
from tests.kz import ROOT

NEEDS = {"package": "javac"}


@pytest.mark.faults
@pytest.mark.parametrize("verb", CASES)
def test_a_disturbed_verb_is_finished_by_its_next_run(verb: str) -> None:
    for program in ("strace", *NEEDS.get(verb, "").split()):
        if not shutil.which(program):
            pytest.skip(f"needs {program}")
    argv = [sys.executable, "-m", "tests.faults", verb, "--points", os.environ.get("KZ_FAULT_POINTS", "100")]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


def test_points_are_the_same_for_a_seed_and_begin_with_every_kind() -> None:
    calls = [Call("write", number, f"kind {number % 3}") for number in range(1, 31)]
    calls.append(Call("rename", 1, "kind 0"))
    points = chosen(calls, 4, seed=1)
    assert points == chosen(calls, 4, seed=1) and points != chosen(calls, 4, seed=2)
    assert {(point.name, point.number) for point in points} == {("write", 1), ("write", 2), ("write", 3), ("rename", 1)}
    assert len(set(chosen(calls, 1000, seed=1))) == len(chosen(calls, 1000, seed=1)) > 30


def test_a_point_is_read_as_it_is_written() -> None:
    for point in (Point("write", 12, "SIGKILL"), Point("rename", 1, "EIO", 3)):
        assert parsed(str(point)) == point


def test_names_that_differ_from_run_to_run_are_one_kind() -> None:
    assert (
        normal("store/git/up-0123456789ab.git/objects/pack/tmp_pack_aB3xYz")
        == "store/git/up-*.git/objects/pack/tmp_pack_*"
    )
    assert normal("project/out/log/20261122-064900-5073/1.log") == "project/out/log/*-#-#/#.log"

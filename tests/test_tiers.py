"""How the tests themselves are spread and told apart."""

from __future__ import annotations

import pytest


@pytest.mark.xdist_group("of its own")
def test_a_group_of_tests_stays_on_one_worker(request: pytest.FixtureRequest) -> None:
    """pytest-xdist puts a group's name behind the id; pytest 9.2 did not let it, and no run said so."""
    if not hasattr(request.config, "workerinput"):
        pytest.skip("this run has no workers")
    assert request.node.nodeid.endswith("@of its own")

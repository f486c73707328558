"""What failed is tried again, less and less often."""

from __future__ import annotations

import json

import pytest

from midflight.errors import ConfigError
from midflight.triggers import Backoff


def test_tries_are_1_2_4_steps_apart():
    backoff, tried = Backoff(), []
    for step in range(10, 31):
        if step == 10 or backoff.due(step, ["a"]):
            tried.append(step)
            backoff.failed("a", step)
    assert tried == [10, 11, 13, 17, 25]
    backoff.succeeded("a")
    assert backoff.due(10_000, ["a"]) == []


def test_names_do_not_share_their_failures():
    backoff = Backoff()
    backoff.failed("a", 5)
    backoff.failed("a", 6)
    backoff.failed("b", 6)
    assert backoff.due(7, ["a", "b", "c"]) == ["b"]
    assert backoff.due(8, ["b", "a"]) == ["b", "a"]


def test_the_wait_is_bounded():
    backoff = Backoff()
    for _ in range(100):
        backoff.failed("a", 0)
    assert backoff.due(1024, ["a"]) == ["a"]


def test_it_survives_a_restart():
    backoff = Backoff()
    backoff.failed("a", 10)
    again = Backoff()
    again.load_state_dict(json.loads(json.dumps(backoff.state_dict())))
    again.failed("a", 11)
    assert (again.due(12, ["a"]), again.due(13, ["a"])) == ([], ["a"])


@pytest.mark.parametrize("state", [None, [], {"a": 3}, {"a": [1]}, {"a": ["x", "y"]}])
def test_a_foreign_state(state):
    with pytest.raises(ConfigError, match="not a state of failed evaluations"):
        Backoff().load_state_dict(state)

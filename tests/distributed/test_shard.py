"""Sharding by cost: each item once, never far from the best, whatever the order."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midflight.distributed import shard_by_cost
from midflight.errors import ConfigError

costs = st.dictionaries(st.text(max_size=4), st.floats(0, 1e6), max_size=40)


@given(costs, st.integers(1, 12), st.randoms(use_true_random=False))
def test_each_item_once_and_free_of_the_order(found, ranks, shuffler):
    shards = shard_by_cost(found, ranks)
    assert len(shards) == ranks
    assert sorted(itertools.chain(*shards)) == sorted(found)
    shuffled = list(found.items())
    shuffler.shuffle(shuffled)
    assert shard_by_cost(dict(shuffled), ranks) == shards


@given(st.lists(st.integers(0, 50), min_size=1, max_size=7), st.integers(1, 4))
def test_the_longest_share_is_within_grahams_bound(work, ranks):
    shares = [
        sum(work[int(item)] for item in shard)
        for shard in shard_by_cost({str(i): cost for i, cost in enumerate(work)}, ranks)
    ]
    best = min(
        max(sum(cost for cost, rank in zip(work, plan, strict=True) if rank == r) for r in range(ranks))
        for plan in itertools.product(range(ranks), repeat=len(work))
    )
    assert 3 * ranks * max(shares) <= (4 * ranks - 1) * best


def test_many_items_are_nearly_even():
    rng = random.Random(0)
    found = {f"{i}": rng.paretovariate(1.5) for i in range(5_000)}
    shares = [sum(found[item] for item in shard) for shard in shard_by_cost(found, 32)]
    assert max(shares) <= 1.001 * max(sum(shares) / 32, *found.values())


def test_small_and_even_cases():
    assert shard_by_cost({}, 2) == [[], []]
    assert shard_by_cost({"a": 5}, 3) == [["a"], [], []]
    assert shard_by_cost(dict.fromkeys("dcba", 1), 2) == [["a", "c"], ["b", "d"]]
    assert [len(shard) for shard in shard_by_cost(dict.fromkeys("abcdef", 0.0), 3)] == [2, 2, 2]


@pytest.mark.parametrize("cost", [-1, math.inf, math.nan])
def test_a_cost_is_a_finite_number(cost):
    with pytest.raises(ConfigError, match=r"cost of item 'a' is wrong"):
        shard_by_cost({"a": cost}, 2)


def test_someone_does_the_work():
    with pytest.raises(ConfigError, match="1 or more ranks"):
        shard_by_cost({"a": 1}, 0)

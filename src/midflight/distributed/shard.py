"""Which rank does which items: by what they cost, not by how many they are."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping

from midflight.errors import ConfigError


def shard_by_cost(costs: Mapping[str, float], ranks: int) -> list[list[str]]:
    """Items for each rank, so that the rank with the most work has nearly as little as can be.

    Longest processing time first: the dearest item that is left goes to the rank with the least work. The largest share
    is at most 4/3 − 1/(3 · ranks) of the least possible (Graham 1969, "Bounds on multiprocessing timing anomalies").
    Depends on the items alone, not on their order, so that each rank can compute it for itself.

    >>> shard_by_cost({"a": 30, "b": 10, "c": 20, "d": 30}, ranks=3)
    [['a'], ['d'], ['c', 'b']]

    Args:
        costs: Expected cost of each item by its id, in any unit, e.g. tokens of prompt and answer.
        ranks: How many ranks share the work; more than there are items is fine.

    Returns:
        The ids for each rank, dearest first; empty for a rank with nothing to do.

    Raises:
        ConfigError: If there is no rank, or a cost is negative, infinite or NaN.
    """
    if ranks < 1:
        raise ConfigError("items need a rank that does them", got=ranks, allowed="1 or more ranks")
    for item, cost in costs.items():
        if not (math.isfinite(cost) and cost >= 0):
            raise ConfigError(f"the cost of item {item!r} is wrong", got=cost, allowed="finite, 0 or more")
    shards: list[list[str]] = [[] for _ in range(ranks)]
    loads = [(0.0, 0, rank) for rank in range(ranks)]  # work, items (so that free items spread too), rank: a heap
    for item, cost in sorted(costs.items(), key=lambda pair: (-pair[1], pair[0])):
        load, count, rank = loads[0]
        shards[rank].append(item)
        heapq.heapreplace(loads, (load + cost, count + 1, rank))
    return shards

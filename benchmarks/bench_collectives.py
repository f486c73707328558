"""Statistics of 100 metrics over 8 gloo ranks, beside one reduction for each metric and statistic.

The peer is the scheme of AReaL's stats_tracker (areal/utils/stats_tracker.py): for each key, one all-reduce of the sum,
one of the count, one of the minimum and one of the maximum, in float32. Ours also gives variances, counts of NaN and
infinities, and exact sums. Both sum their own values under a mask within the time that is measured.
"""

from __future__ import annotations

import math
import sys

from _measure import verdict
from _ranks import compare, world

METRICS, RANKS = 100, 8
OURS, NODES, PEER = "StatsTracker, flat", "StatsTracker, in 4 nodes", "a reduction each"


def one_each(values, mask):
    import torch
    import torch.distributed as dist

    found = {}
    for key, value in values.items():
        masked = value.where(mask, 0.0)
        total, count = masked.sum(), mask.sum().float()
        low, high = value.where(mask, math.inf).min(), value.where(mask, -math.inf).max()
        dist.all_reduce(total)
        dist.all_reduce(count)
        dist.all_reduce(low, dist.ReduceOp.MIN)
        dist.all_reduce(high, dist.ReduceOp.MAX)
        found[key] = torch.stack([total / count, low, high]).tolist()
    return found


def on_rank(rank: int):
    from midflight.distributed import Hierarchy

    hierarchy = Hierarchy.of_nodes(1, node=rank // 2)
    return {values: compare_at(rank, values, hierarchy) for values in (1, 256)}


def compare_at(rank: int, count: int, hierarchy):
    import torch

    from midflight.distributed import StatsTracker

    random, stats = torch.Generator().manual_seed(rank), StatsTracker()
    values = {f"metric/{i}": torch.randn(count, generator=random) for i in range(METRICS)}
    mask = torch.rand(count, generator=random) < 0.9

    def record():
        stats.record(**values, mask=mask)

    record()
    expected = one_each(values, mask)
    for key, found in stats.export(reset=False).items():
        assert all(
            math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-5)
            for a, b in zip(expected[key], (found.mean, found.min, found.max), strict=True)
        )
    stats.export()
    contestants = {
        OURS: stats.export,
        NODES: lambda: stats.export(hierarchy),
        PEER: lambda: one_each(values, mask),
    }
    return compare(contestants, rounds=15, before=record)


def main() -> int:
    goals = []
    for values, found in world(on_rank, RANKS).items():
        print(f"{METRICS} metrics over {RANKS} gloo ranks, each summed over {values} values of a rank and reduced")
        for name, (seconds, calls) in found.items():
            print(f"  {seconds * 1000:8.2f} ms  {calls:4} messages of rank 0  {name}")
        (seconds, calls), (peer_seconds, peer_calls) = found[OURS], found[PEER]
        goals += [
            verdict("fewer collectives", peer_calls / calls, 50, "times", at_most=False),
            verdict("less time", peer_seconds / seconds, 30, "times", at_most=False),
        ]
    return 0 if all(goals) else 1


if __name__ == "__main__":
    sys.exit(main())

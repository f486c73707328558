"""What ranks say to each other; beside the stages, used by the evaluator and by training loops.

    agreement                    every rank gets what rank 0 has decided
    broadcast_tensor_container   every rank gets a container of one rank
    shard_by_cost                which rank does which items
    Mail                         letters between ranks that hold nobody up, for evaluations
    Hierarchy                    reduces inside groups of nodes first, then among their leaders
    StatsTracker                 statistics of training over all ranks, exact

Beneath them: `_codec` (containers as bytes, no pickle), `_peers` (bytes between ranks), `_moments` (exact sums). What a
rank cannot do is an error of one kind on every rank: ContainerError; that ranks cannot speak is a CollectiveError.
"""

from midflight.distributed.agree import agreement
from midflight.distributed.container import broadcast_tensor_container
from midflight.distributed.hierarchy import Hierarchy
from midflight.distributed.mail import Mail
from midflight.distributed.shard import shard_by_cost
from midflight.distributed.statistics import StatsTracker, Summary

__all__ = [
    "Hierarchy",
    "Mail",
    "StatsTracker",
    "Summary",
    "agreement",
    "broadcast_tensor_container",
    "shard_by_cost",
]

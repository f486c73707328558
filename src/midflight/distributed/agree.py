"""Rank 0 decides for all: a few numbers, broadcast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from midflight.environ import process_group


def agreement(group: Any = None) -> Callable[[list[float]], list[float]] | None:
    """A collective call that gives every rank the numbers of rank 0; None where there is one rank only.

    The call raises CollectiveError if a rank died, or did not come within the process group's time limit.

    Args:
        group: A process group; None = the default one.

    Raises:
        ConfigError: If this rank is not in the group.
    """
    dist = process_group()
    if dist is None or dist.get_world_size(group) == 1:
        return None
    from midflight.distributed._peers import Peers, spoken

    peers = Peers(group)

    def agree(values: list[float]) -> list[float]:
        import torch

        tensor = torch.tensor(values, dtype=torch.float64, device=peers.device)
        with spoken("a broadcast"):
            dist.broadcast(tensor, src=peers.members[0], group=group)
        agreed: list[float] = tensor.tolist()
        return agreed

    return agree

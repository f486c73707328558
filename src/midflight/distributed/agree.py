"""Rank 0 decides for all: a few numbers, broadcast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from midflight.environ import process_group


def agreement(group: Any = None) -> Callable[[list[float]], list[float]] | None:
    """A collective call that gives every rank the numbers of rank 0; None where there is one rank only.

    Args:
        group: A process group; None = the default one.
    """
    dist = process_group()
    if dist is None or dist.get_world_size(group) == 1:
        return None

    def agree(values: list[float]) -> list[float]:
        import torch

        device = torch.device("cuda", torch.cuda.current_device()) if dist.get_backend(group) == "nccl" else "cpu"
        tensor = torch.tensor(values, dtype=torch.float64, device=device)
        dist.broadcast(tensor, src=0 if group is None else dist.get_global_rank(group, 0), group=group)
        agreed: list[float] = tensor.tolist()
        return agreed

    return agree

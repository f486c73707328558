"""Models whose parameters lie in shards on the ranks (FSDP2): gathered once, so that ranks need not march in step.

Under FSDP every rank has to join each forward pass. Evaluations are uneven: ranks have fewer or shorter texts. Instead
of having them join with empty batches, all parameters are gathered before, by collective calls, and given back after:
in between no rank waits for another. This takes the memory of the whole weights on each rank, without optimiser state.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def gathered(model: Any) -> Iterator[None]:
    """All parameters of an FSDP2 model whole on this rank; nothing for any other model. Entering it is collective.

    What was set for resharding is set again on leaving, and parameters are in shards again.
    """
    parts = [module for module in model.modules() if hasattr(module, "_get_fsdp_state")]
    before = [(group, group.post_forward_mesh_info) for module in parts for group in _groups(module)]
    automatic = [
        (state := module._get_fsdp_state(), getattr(state, "_auto_reshard_after_forward", None)) for module in parts
    ]
    for module in parts:
        module.set_reshard_after_forward(False, recurse=False)
        module.unshard()
    try:
        yield
    finally:
        for module in parts:
            module.reshard()
        for group, mesh in before:
            group.post_forward_mesh_info = mesh
        for state, value in automatic:
            if value is not None:
                state._auto_reshard_after_forward = value


def is_sharded(model: Any) -> bool:
    """Whether a model's parameters lie in shards on the ranks."""
    return any(hasattr(module, "_get_fsdp_state") for module in model.modules())


def _groups(module: Any) -> list[Any]:
    state = module._get_fsdp_state()
    groups = getattr(state, "_fsdp_param_groups", None)
    return list(groups) if groups is not None else [g for g in [state._fsdp_param_group] if g is not None]

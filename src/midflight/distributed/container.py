"""A nested container of one rank, given to all."""

from __future__ import annotations

from typing import Any

from midflight.environ import process_group
from midflight.errors import ConfigError, ContainerError, shorten


def broadcast_tensor_container(data: Any, src_rank: int = 0, group: Any = None) -> Any:
    """The container of one rank on every rank of a group, in at most two messages however deep and long it is.

    Lists, tuples and dicts may hold None, bool, int of any size, float (NaN and ±inf keep their bits), str, bytes,
    dense tensors of any dtype and shape, numpy arrays and numpy scalars. Each tensor arrives with memory of its own on
    the kind of device that it left, CUDA tensors on the receiver's current device (on the CPU where there is none). Two
    references to one object arrive as two objects. A `Parameter` arrives as a tensor. The sender needs memory for a
    copy of all tensors, and so do receivers until the call returns; for gigabytes of weights, broadcast each tensor.

    Args:
        data: What to send; ignored on all ranks but the source.
        src_rank: The sender's global rank, as in `torch.distributed`.
        group: A process group; None = the default one.

    Returns:
        `data` itself on the source, or where there is one process only; a copy on the others.

    Raises:
        ConfigError: If this rank or `src_rank` is not in the group.
        ContainerError: On every rank, if the data hold anything else, or a container that holds itself.
        CollectiveError: If a rank died, or did not come within the process group's time limit.
    """
    if process_group() is None:
        return data
    from midflight.distributed import _codec
    from midflight.distributed._peers import Peers

    peers = Peers(group)
    if src_rank not in peers.members:
        allowed = f"one of {shorten(str(list(peers.members)))}"
        raise ConfigError("src_rank is not in the process group", got=src_rank, allowed=allowed)
    if peers.members[peers.rank] != src_rank:
        return _codec.unpack(peers.broadcast(None, src_rank))
    if peers.size == 1:
        return data
    try:
        frame = _codec.pack(data)
    except ContainerError as error:  # the others wait already: they get the reason instead
        peers.broadcast(_codec.pack_error(f"rank {src_rank}: {error}"), src_rank)
        raise
    peers.broadcast(frame, src_rank)
    return data

"""Frames between the ranks of one process group: the only module that calls collectives of varying length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch

from midflight.distributed import _codec
from midflight.environ import process_group
from midflight.errors import CollectiveError, ConfigError

HEAD_BYTES = 16_384
"""The first message of a frame: tells its length, and holds all of a small one. Below 20 µs at 10 Gbit/s, which is
about what a message costs anyway."""


class Peers:
    """The ranks of a process group.

    Args:
        group: A process group of `torch.distributed`; None = the default one.

    Raises:
        ConfigError: If this rank is not in the group.
    """

    def __init__(self, group: Any = None) -> None:
        self.dist = dist = cast(Any, process_group())
        self.group = group
        self.rank: int = dist.get_rank(group)
        if self.rank < 0:
            raise ConfigError("this rank is not in the process group", got=dist.get_rank(), hint="call members only")
        self.size: int = dist.get_world_size(group)
        nccl = dist.get_backend(group) == "nccl"
        self.device = torch.device("cuda", torch.cuda.current_device()) if nccl else torch.device("cpu")
        self.members: Sequence[int] = range(self.size) if group is None else dist.get_process_group_ranks(group)
        """Global ranks, in the order of the group."""

    def broadcast(self, frame: torch.Tensor | None, source: int) -> torch.Tensor:
        """The frame of one rank on all, in one message, or two if it is longer than HEAD_BYTES.

        Args:
            frame: What to send; None on all but the source.
            source: Global rank that sends.

        Raises:
            CollectiveError: If a rank died or the group's time limit passed.
            ContainerError: If what arrived is no frame.
        """
        head = self._head(frame)
        with spoken("a broadcast"):
            self.dist.broadcast(head, src=source, group=self.group)
            whole = self._whole(head) if frame is None else frame.to(self.device)
            if len(whole) > HEAD_BYTES:
                self.dist.broadcast(whole[HEAD_BYTES:], src=source, group=self.group)
        return whole

    def gather(self, frame: torch.Tensor) -> list[torch.Tensor] | None:
        """The frames of all ranks, in order, on the first rank of the group; None on the others.

        One collective; a frame longer than HEAD_BYTES sends its rest in a message of its own, of its exact length, so
        that one long frame does not cost memory for all.

        Raises:
            CollectiveError: If a rank died or the group's time limit passed.
            ContainerError: If what arrived is no frame.
        """
        first, head = self.members[0], self._head(frame)
        heads = [torch.empty_like(head) for _ in range(self.size)] if self.rank == 0 else None
        with spoken("a gather"):
            self.dist.gather(head, heads, dst=first, group=self.group)
            if heads is None:
                if len(frame) > HEAD_BYTES:
                    self.dist.send(frame[HEAD_BYTES:].to(self.device), dst=first, group=self.group)
                return None
            frames = [frame, *map(self._whole, heads[1:])]
            rests = [
                self.dist.irecv(other[HEAD_BYTES:], src=self.members[rank], group=self.group)
                for rank, other in enumerate(frames)
                if rank and len(other) > HEAD_BYTES
            ]
            for rest in rests:
                rest.wait()
        return frames

    def _head(self, frame: torch.Tensor | None) -> torch.Tensor:
        head = torch.zeros(HEAD_BYTES, dtype=torch.uint8, device=self.device)
        if frame is not None:
            head[: len(frame)] = frame[:HEAD_BYTES]
        return head

    def _whole(self, head: torch.Tensor) -> torch.Tensor:
        """Room for a frame, its first part filled in."""
        length = _codec.frame_bytes(head)
        if length <= HEAD_BYTES:
            return head[:length]
        whole = torch.empty(length, dtype=torch.uint8, device=self.device)
        whole[:HEAD_BYTES] = head
        return whole


@contextmanager
def spoken(what: str) -> Iterator[None]:
    """Turns the failure of a collective into a CollectiveError."""
    try:
        yield
    except RuntimeError as error:  # of c10d, gloo and NCCL
        raise CollectiveError(
            f"{what} between ranks failed",
            got=str(error),
            hint="a rank died or came later than the process group's time limit; the group cannot be used any more",
        ) from error

"""Letters between the ranks of a job, for evaluations: a rank that is late, hangs or dies holds nobody up.

A collective needs all ranks, and one that does not come breaks its process group. Here each letter lies under a name of
its own at a post office (a `TCPStore` on the first rank of a group of nodes) until somebody asks for it; who asks says
how long he waits. A letter that comes too late is never read.

members write to their group's office:      1 2 3 → 0     5 6 7 → 4
rank 0 asks the offices of all groups:          0  ⇠  4
"""

from __future__ import annotations

import json
import os
import socket
import time
from datetime import timedelta
from typing import Any

from midflight.environ import Place, process_group
from midflight.errors import LostRankError

ADDRESS_BYTES = 256
SLICE_S = 5.0
"""Seconds after which a rank that waits looks whether it should go on waiting."""


class Mail:
    """The post offices of a job. Making it is collective; using it is not.

    Args:
        place: Where this rank stands.
        nodes_in_group: Nodes that share a post office; None = one office for the whole job.
    """

    def __init__(self, place: Place, nodes_in_group: int | None = None) -> None:
        self.rank, self.size = place.rank, place.world_size
        self.leaders = _leaders(place, nodes_in_group)
        """For each rank the first rank of its group."""
        self._offices: dict[int, Any] = {}
        self._open()

    @property
    def members(self) -> list[int]:
        """Ranks of this rank's group."""
        return [rank for rank, leader in enumerate(self.leaders) if leader == self.leaders[self.rank]]

    def send(self, to: int, name: str, letter: dict[str, Any]) -> None:
        """Leaves a letter at the office of a rank's group.

        Args:
            to: The rank, whose group's office it lies at.
            name: Unique among all letters.
            letter: Plain enough for JSON; NaN and ±inf arrive as they are.

        Raises:
            LostRankError: If the office is gone.
        """
        office = self._office(to)
        try:
            office.set(name, json.dumps(letter))
        except RuntimeError as error:
            raise self._gone(to, error) from error

    def receive(self, at: int, name: str, until: float) -> dict[str, Any]:
        """Waits for a letter, and takes it away.

        Args:
            at: A rank whose group's office it comes to.
            name: Its name.
            until: When to give up, on the monotonic clock.

        Raises:
            LostRankError: If it does not come in time, or the office is gone.
        """
        office = self._office(at)
        while True:
            left = max(0.001, min(SLICE_S, until - time.monotonic()))
            try:
                office.wait([name], timedelta(seconds=left))
                letter: dict[str, Any] = json.loads(office.get(name))
                office.delete_key(name)
                return letter
            except RuntimeError as error:
                if "imeout" not in str(error):
                    raise self._gone(at, error) from error
            if time.monotonic() >= until:
                raise LostRankError(f"nothing came to rank {self.rank} as {name!r} in time")

    def _gone(self, rank: int, error: Exception) -> LostRankError:
        leader = self.leaders[rank]
        self._offices[leader] = None  # another try would wait for a connection that nobody answers
        return LostRankError(f"the post office of rank {leader} is gone: {str(error).strip().splitlines()[0]}")

    def _office(self, rank: int) -> Any:
        office = self._offices[self.leaders[rank]]
        if office is None:
            raise LostRankError(f"the post office of rank {self.leaders[rank]} is gone")
        return office

    def _open(self) -> None:
        """Opens this group's office, if this is its first rank, and goes to those that this rank writes to."""
        import torch
        from torch.distributed import TCPStore

        limit, address = timedelta(seconds=30), ""
        leader = self.leaders[self.rank]
        if leader == self.rank:
            host = _own_address()
            self._offices[leader] = TCPStore(host, 0, None, True, limit, wait_for_workers=False)
            address = f"{host}:{self._offices[leader].port}"
        rows = _all_gather(list(address.encode().ljust(ADDRESS_BYTES, b"\0")), torch.uint8)
        for wanted in set(self.leaders) if self.rank == 0 else {leader}:
            if wanted != self.rank:
                host, _, port = bytes(rows[wanted]).rstrip(b"\0").decode().rpartition(":")
                self._offices[wanted] = TCPStore(host, int(port), None, False, limit, wait_for_workers=False)


def _leaders(place: Place, nodes_in_group: int | None) -> list[int]:
    import torch

    nodes = [row[0] for row in _all_gather([place.node], torch.int64)]
    numbers = {node: index for index, node in enumerate(sorted(set(nodes)))}
    first: dict[int, int] = {}
    return [
        first.setdefault(0 if nodes_in_group is None else numbers[node] // nodes_in_group, rank)
        for rank, node in enumerate(nodes)
    ]


def _all_gather(row: list[int], dtype: Any) -> list[list[int]]:
    import torch

    dist = process_group()
    assert dist is not None
    device = torch.device("cuda", torch.cuda.current_device()) if dist.get_backend() == "nccl" else torch.device("cpu")
    mine = torch.tensor(row, dtype=dtype, device=device)
    everyone = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, mine)
    return [each.tolist() for each in everyone]


def _own_address() -> str:
    """The address at which other nodes reach this one: that of the route to the job's master."""
    master = os.environ.get("MASTER_ADDR", "localhost")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:  # sends nothing
            probe.connect((master, 9))
            return str(probe.getsockname()[0])
    except OSError:
        return socket.gethostname()

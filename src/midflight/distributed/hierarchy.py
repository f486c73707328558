"""Up and down a hierarchy of ranks: inside groups of nodes first, then among the leaders of the groups.

two groups of nodes:                  0   1   2   3 │ 4   5   6   7
each reduces to its first rank:       └───┴───┴───┘   └───┴───┴───┘
the leaders reduce to rank 0:         └───────────────┘
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from midflight.environ import place, process_group
from midflight.errors import ConfigError, ContainerError

if TYPE_CHECKING:
    import torch

    from midflight.distributed._peers import Peers


class Hierarchy:
    """The levels over which ranks reduce; results are the same whatever the levels.

    Make one with `flat` or `of_nodes` and keep it: making it is collective. Where there is one process only, it does
    nothing and says the same.
    """

    def __init__(self, levels: list[Peers]) -> None:
        self.levels = levels
        """From the widest down to the root: those that this rank takes part in. All but the first rank of a level stop
        there."""

    @classmethod
    def flat(cls, group: Any = None) -> Hierarchy:
        """One level: all ranks of a process group, straight to its first rank.

        Args:
            group: A process group; None = the default one.

        Raises:
            ConfigError: If this rank is not in the group.
        """
        if process_group() is None:
            return cls([])
        from midflight.distributed._peers import Peers

        return cls([Peers(group)])

    @classmethod
    def of_nodes(cls, local_eval_nodes: int, node: int | None = None, timeout_s: float | None = None) -> Hierarchy:
        """Two levels over all ranks of the job: groups of nodes, then their leaders. Every rank must call it.

        The groups speak gloo, also in an NCCL job: records lie in host memory, and a dead rank raises an error where
        NCCL would abort the process.

        Args:
            local_eval_nodes: Nodes in a group.
            node: The number of this rank's node; None = what the launcher says.
            timeout_s: Seconds after which a rank that does not come is an error; None = the default group's limit.

        Raises:
            ConfigError: If `local_eval_nodes` is not a whole number of at least 1.
            CollectiveError: If a rank died or did not come.
        """
        if type(local_eval_nodes) is not int or local_eval_nodes < 1:
            raise ConfigError("local_eval_nodes is wrong", got=local_eval_nodes, allowed="1 or more nodes in a group")
        dist = process_group()
        if dist is None:
            return cls([])
        from midflight.distributed._peers import Peers, spoken

        with spoken("making groups of nodes"):
            groups = _groups_of_ranks(Peers(), place().node if node is None else node, local_eval_nodes)
            limit = dist.group.WORLD.get_group_store().timeout if timeout_s is None else timedelta(seconds=timeout_s)
            levels = []
            for ranks in [*groups, [ranks[0] for ranks in groups]]:  # every rank makes every group, in one order
                group = dist.new_group(ranks, timeout=limit, backend="gloo")
                if dist.get_rank() in ranks:
                    levels.append(Peers(group))
        return cls(levels)

    def reduce(self, data: Any, merge: Callable[[list[Any]], Any]) -> Any:
        """The merger of what all ranks handed over, on every rank.

        Args:
            data: A plain container.
            merge: Makes one of several; must give the same however the ranks are grouped.

        Raises:
            ContainerError: On every rank, if that of any is not plain.
            CollectiveError: If a rank died or did not come within the time limit.
        """
        if not self.levels:
            return merge([data])
        from midflight.distributed import _codec

        return _codec.unpack(self._down(self._up(data, merge)))

    def _up(self, data: Any, merge: Callable[[list[Any]], Any]) -> torch.Tensor | None:
        """The frame of what all ranks merge to, on the root; None on the others."""
        from midflight.distributed import _codec

        try:
            frame = _codec.pack(data)
        except ContainerError as error:  # the others wait: they get the reason instead
            frame = _codec.pack_error(f"rank {self.levels[0].dist.get_rank()}: {error}")
        for level in self.levels:
            frames = level.gather(frame)
            if frames is None:
                return None
            try:
                frame = _codec.pack(merge([_codec.unpack(each) for each in frames]))
            except ContainerError as error:
                frame = _codec.pack_error(str(error))
            except Exception as error:  # `merge` is the caller's; the others wait here too
                frame = _codec.pack_error(f"what the ranks handed over cannot be merged; got {error!r}")
        return frame

    def _down(self, frame: torch.Tensor | None) -> torch.Tensor:
        """The root's frame on every rank."""
        for level in reversed(self.levels):
            frame = level.broadcast(frame if level.rank == 0 else None, level.members[0])
        return frame


def _groups_of_ranks(world: Peers, node: int, local_eval_nodes: int) -> list[list[int]]:
    """The ranks of each group of nodes, from the node of this rank; a collective."""
    import torch

    mine = torch.tensor([node, local_eval_nodes], dtype=torch.int64, device=world.device)
    everyone = [torch.empty_like(mine) for _ in world.members]
    world.dist.all_gather(everyone, mine)
    nodes, sizes = zip(*(each.tolist() for each in everyone), strict=True)
    if len(set(sizes)) > 1:
        raise ConfigError("ranks differ in local_eval_nodes", got=sizes, allowed="one value for the whole job")
    groups: dict[int, list[int]] = {}
    order = {node: index for index, node in enumerate(sorted(set(nodes)))}
    for rank, node in enumerate(nodes):
        groups.setdefault(order[node] // local_eval_nodes, []).append(rank)
    return list(groups.values())

"""Reduce over levels of real ranks: the same whatever the layout, and an error of one is an error of all."""

from __future__ import annotations

import pytest
import torch
from ranks import count_collectives, die, random_container, run_ranks, same, stop

from midflight.distributed import Hierarchy
from midflight.errors import CollectiveError, ConfigError, ContainerError


def contribution(rank):
    """Uneven: some ranks have nothing, one has more than a first message holds."""
    if rank % 3 == 1:
        return {}
    return {rank: [random_container(seed) for seed in range(rank)] + [torch.full((rank * 5_000,), rank)]}


def union(parts):
    merged = {}
    for part in parts:
        merged |= part
    return dict(sorted(merged.items()))


def reduce_on_rank(rank, ranks_per_node, nodes_per_group):
    import torch.distributed as dist

    world = dist.get_world_size()
    hierarchy = Hierarchy.of_nodes(nodes_per_group, node=rank // ranks_per_node)
    expected = union(map(contribution, range(world)))
    for over in (hierarchy, Hierarchy.flat()):
        assert same(over.reduce(contribution(rank), union), expected)
        assert over.reduce([rank], lambda parts: sorted(x for part in parts for x in part)) == list(range(world))
    return len(hierarchy.levels)


@pytest.mark.parametrize(
    ("size", "ranks_per_node", "nodes_per_group", "levels"),
    [
        (2, 1, 1, [2, 2]),
        (3, 2, 1, [2, 1, 2]),
        (4, 1, 2, [2, 1, 2, 1]),
        (3, 1, 100, [2, 1, 1]),
        (8, 2, 3, [2, 1, 1, 1, 1, 1, 2, 1]),
    ],
)
def test_the_layout_does_not_matter(size, ranks_per_node, nodes_per_group, levels):
    assert run_ranks(reduce_on_rank, size, ranks_per_node, nodes_per_group) == levels


def errors_on_rank(rank):
    hierarchy = Hierarchy.of_nodes(1, node=(4 - rank) // 2)  # nodes against the order of ranks
    with pytest.raises(ContainerError, match=r"rank (0|3)"):  # what cannot travel: on every rank
        hierarchy.reduce({"x": object()} if rank in (0, 3) else {}, union)
    with pytest.raises(ContainerError, match="cannot be merged.*ZeroDivisionError"):
        hierarchy.reduce(1, lambda parts: 1 / 0)
    with pytest.raises(ConfigError, match="ranks differ in local_eval_nodes"):
        Hierarchy.of_nodes(1 + rank, node=0)
    assert hierarchy.reduce({rank: rank}, union) == {other: other for other in range(5)}
    calls = [
        count_collectives(lambda n=n: hierarchy.reduce({f"{rank}-{i}": i for i in range(n)}, union)) for n in (0, 50)
    ]
    return calls[0] == calls[1] <= 4


def test_errors_are_shared_and_messages_few():
    assert run_ranks(errors_on_rank, 5) == [True] * 5


def limit_on_rank(rank):
    import torch.distributed as dist

    limit = str(Hierarchy.of_nodes(1, node=rank).levels[0].group.get_group_store().timeout)
    dist.barrier()  # a rank that leaves breaks the connections that the other still makes
    return limit


def test_groups_inherit_the_time_limit():
    assert run_ranks(limit_on_rank, 2, group_limit_s=17) == ["0:00:17"] * 2


def test_one_process_reduces_its_own():
    for alone in (Hierarchy.of_nodes(4), Hierarchy.flat()):
        assert alone.reduce(1, sum) == 1
    for wrong in (0, -1, 1.5, True, None):
        with pytest.raises(ConfigError, match="local_eval_nodes"):
            Hierarchy.of_nodes(wrong)


def lose_a_rank(rank, lost, end):
    hierarchy = Hierarchy.of_nodes(1, node=rank // 2)
    if rank == lost:
        end()
    with pytest.raises(CollectiveError, match="a rank died or came later than"):
        hierarchy.reduce(list(range(rank)), sum)
    return "told"


@pytest.mark.parametrize(("lost", "end"), [(0, die), (2, die), (3, die), (2, stop)])
def test_a_lost_rank_is_an_error_within_the_limit(lost, end):
    results = run_ranks(lose_a_rank, 4, lost, end, group_limit_s=15, lost=(lost,))
    assert results == [None if rank == lost else "told" for rank in range(4)]

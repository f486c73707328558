"""Worlds of gloo ranks on this machine, and what they do counted and timed."""

from __future__ import annotations

import multiprocessing
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SPEAKING = ("broadcast", "all_reduce", "gather", "all_gather", "send", "irecv")
"""Calls that reach other ranks."""


def world(work: Callable[[int], object], size: int) -> object:
    """What `work(rank)` returns on rank 0 of a world of its own."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch.distributed", "midflight.distributed._peers"])
    mine, theirs = context.Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as folder:
        ranks = [context.Process(target=_rank, args=(rank, size, folder, work, theirs)) for rank in range(size)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()
        if any(rank.exitcode for rank in ranks):
            raise SystemExit("a rank failed")
        return mine.recv()


def _rank(rank, size, folder, work, pipe):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=size)
    found = work(rank)
    if rank == 0:
        pipe.send(found)
    dist.barrier()
    dist.destroy_process_group()


def slowest(work: Callable[[], object]) -> float:
    """Seconds until the last rank is through, after all began together."""
    import torch
    import torch.distributed as dist

    dist.barrier()
    began = time.perf_counter()
    work()
    seconds = torch.tensor(time.perf_counter() - began, dtype=torch.float64)
    dist.all_reduce(seconds, dist.ReduceOp.MAX)
    return seconds.item()


def compare(
    contestants: dict[str, Callable[[], object]], rounds: int, before: Callable[[], object] = lambda: None
) -> dict[str, tuple[float, int]]:
    """Median seconds of each contestant, in a new order each round, and how many calls it makes that reach other ranks.

    What happens `before` each is not timed.
    """
    calls, seconds = {}, {name: [] for name in contestants}
    for name, work in contestants.items():  # warm-up
        before()
        with _counted() as counted:
            work()
        calls[name] = len(counted)
    shuffler = random.Random(0)  # of one mind on all ranks; who comes after the slow peer pays for it
    for _ in range(rounds):
        for name in shuffler.sample(list(contestants), len(contestants)):
            before()
            seconds[name].append(slowest(contestants[name]))
    return {name: (statistics.median(seconds[name]), calls[name]) for name in contestants}


@contextmanager
def _counted() -> Iterator[list[str]]:
    import torch.distributed as dist
    import torch.distributed.distributed_c10d as c10d

    calls: list[str] = []
    real = {name: getattr(dist, name) for name in SPEAKING}

    def counting(name):
        return lambda *args, **options: (calls.append(name), real[name](*args, **options))[1]

    for module in (dist, c10d):  # torch's own compositions, such as broadcast_object_list, call the latter
        for name in SPEAKING:
            setattr(module, name, counting(name))
    try:
        yield calls
    finally:
        for module in (dist, c10d):
            for name in SPEAKING:
                setattr(module, name, real[name])

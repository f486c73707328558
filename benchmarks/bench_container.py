"""`broadcast_tensor_container` of 200 small tensors, beside one message pair for each of them."""

from __future__ import annotations

import sys

from _measure import verdict
from _ranks import compare, world

TENSORS = 200
OURS, PAIRS, OBJECTS = "broadcast_tensor_container", "a pair of tensors each", "a pickled header and a tensor each"


def tensors():
    import torch

    names = ("float32", "bfloat16", "int64", "bool", "float16")
    return [torch.ones(1 + i % 7, i % 3, dtype=getattr(torch, names[i % 5])) for i in range(TENSORS)]


def pairs(data, rank):
    """Shape and dtype as a tensor of fixed size, then the payload."""
    import torch
    import torch.distributed as dist

    dtypes = [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.float16]
    found = []
    for each in data:
        header = torch.zeros(10, dtype=torch.int64)
        if rank == 0:
            header[: 2 + each.dim()] = torch.tensor([dtypes.index(each.dtype), each.dim(), *each.shape])
        dist.broadcast(header, 0)
        dtype, dimensions, *shape = header.tolist()
        payload = each if rank == 0 else torch.empty(shape[:dimensions], dtype=dtypes[dtype])
        dist.broadcast(payload.view(torch.uint8) if payload.dtype == torch.bool else payload, 0)
        found.append(payload)
    return found


def objects(data, rank):
    """Shape and dtype by torch's broadcast_object_list, then the payload."""
    import torch
    import torch.distributed as dist

    found = []
    for each in data:
        header = [(each.shape, each.dtype) if rank == 0 else None]
        dist.broadcast_object_list(header, 0)
        payload = each if rank == 0 else torch.empty(header[0][0], dtype=header[0][1])
        dist.broadcast(payload.view(torch.uint8) if payload.dtype == torch.bool else payload, 0)
        found.append(payload)
    return found


def on_rank(rank: int):
    from midflight.distributed import broadcast_tensor_container

    data = tensors()
    contestants = {
        OURS: lambda: broadcast_tensor_container(data, 0),
        PAIRS: lambda: pairs(data, rank),
        OBJECTS: lambda: objects(data, rank),
    }
    for work in contestants.values():
        assert all(a.dtype == b.dtype and a.equal(b) for a, b in zip(work(), data, strict=True))
    return compare(contestants, rounds=7)


def main() -> int:
    goals = []
    for size in (2, 4):
        found = world(on_rank, size)
        print(f"{TENSORS} mixed small tensors to {size} gloo ranks")
        for name, (seconds, calls) in found.items():
            print(f"  {seconds * 1000:8.2f} ms  {calls:4} messages  {name}")
        for peer in (PAIRS, OBJECTS):
            goals.append(verdict(f"faster than {peer}", found[peer][0] / found[OURS][0], 10, "times", at_most=False))
    return 0 if all(goals) else 1


if __name__ == "__main__":
    sys.exit(main())

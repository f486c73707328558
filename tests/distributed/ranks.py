"""Real processes that speak over gloo, and plain data to send between them.

A fork server imports torch once, so that a world of eight ranks starts in about a second.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
from datetime import timedelta

import numpy as np

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        "torch.distributed.fsdp",
        "transformers.models.llama.modeling_llama",
        "midflight.engines.hf",
        "midflight.evaluator",
    ]
)

LIMIT_S = 60.0
"""Past this a rank is taken to hang."""


def run_ranks(work, size, *arguments, group_limit_s=30.0, lost=()):
    """What `work(rank, *arguments)` returns on each rank of a world; an exception becomes its type and text.

    Ranks that are `lost` are not waited for.
    """
    with tempfile.TemporaryDirectory() as folder:
        pipes = [CONTEXT.Pipe(duplex=False) for _ in range(size)]
        ranks = [
            CONTEXT.Process(target=_rank, args=(rank, size, folder, group_limit_s, pipes[rank][1], work, arguments))
            for rank in range(size)
        ]
        for rank, (_, theirs) in zip(ranks, pipes, strict=True):
            rank.start()
            theirs.close()
        try:
            return [None if rank in lost else _result(mine) for rank, (mine, _) in enumerate(pipes)]
        finally:
            for rank in ranks:
                rank.kill()
                rank.join()


def _result(pipe):
    try:
        return pipe.recv() if pipe.poll(LIMIT_S) else "hung"
    except EOFError:
        return "died"


def _rank(rank, size, folder, group_limit_s, pipe, work, arguments):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    rendezvous, limit = f"file://{folder}/rendezvous", timedelta(seconds=group_limit_s)
    dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=size, timeout=limit)
    dist.barrier()
    try:
        result = work(rank, *arguments)
    except Exception as error:
        result = type(error).__name__, str(error)
    pipe.send(result)
    os._exit(0)  # without waiting for ranks that are gone


def die():
    """What the out-of-memory killer does to a rank."""
    os.kill(os.getpid(), signal.SIGKILL)


def stop():
    """Hangs, until the test ends it."""
    os.kill(os.getpid(), signal.SIGSTOP)


def count_collectives(work):
    """How many calls of torch.distributed the work makes that speak to other ranks."""
    import torch.distributed as dist

    names = [
        name
        for name in ("broadcast", "all_reduce", "reduce", "gather", "all_gather", "scatter", "send", "isend", "irecv")
        if hasattr(dist, name)
    ]
    real, calls = {name: getattr(dist, name) for name in names}, []

    def counted(name):
        return lambda *args, **options: (calls.append(name), real[name](*args, **options))[1]

    for name in names:
        setattr(dist, name, counted(name))
    try:
        work()
    finally:
        for name in names:
            setattr(dist, name, real[name])
    return len(calls)


def same(left, right):
    """Whether two plain containers are equal in type and bit, without recursion."""
    import torch

    todo = [(left, right)]
    while todo:
        a, b = todo.pop()
        if type(a) is not type(b):
            return False
        if isinstance(a, dict):
            a, b = ([x for pair in each.items() for x in pair] for each in (a, b))
        if isinstance(a, list | tuple):
            if len(a) != len(b):
                return False
            todo.extend(zip(a, b, strict=True))
        elif not _same_value(a, b, torch):
            return False
    return True


def _same_value(a, b, torch):
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and _bits(a) == _bits(b)
    if isinstance(a, np.ndarray | np.generic):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, float):
        return np.float64(a).tobytes() == np.float64(b).tobytes()
    return a == b


def _bits(tensor):
    import torch

    whole = torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor.detach())
    return whole.view(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def random_container(seed, depth=4):
    """A nested container of everything that may travel; the same for the same seed."""
    return _random(np.random.default_rng(seed), depth)


def _random(rng, depth):
    kind = rng.integers(12 if depth else 8)
    size = int(rng.integers(0, 6))
    if kind == 8:
        return [_random(rng, depth - 1) for _ in range(size)]
    if kind == 9:
        return tuple(_random(rng, depth - 1) for _ in range(size))
    if kind >= 10:
        return {_key(rng): _random(rng, depth - 1) for _ in range(size)}
    return _random_leaf(rng, kind, size)


def _key(rng):
    return [f"k{rng.integers(1000)}", int(rng.integers(1000)), (None, float(rng.normal())), b"\0"][rng.integers(4)]


def _random_leaf(rng, kind, size):
    if kind < 3:
        return random_tensor(rng)
    if kind == 3:
        return rng.integers(-5, 5, tuple(rng.integers(0, 4, size % 3))).astype(rng.choice(["i2", ">i4", "u1"]))
    if kind == 4:
        return [None, True, False, np.float32(rng.normal()), float("nan"), float("-inf"), -0.0][rng.integers(7)]
    if kind == 5:
        return int(rng.integers(-(2**62), 2**62)) ** int(rng.integers(1, 9))
    if kind == 6:
        return rng.bytes(size)
    return "".join(map(chr, rng.integers(0, 0xD7FF, size)))


DTYPES = ("bool", "uint8", "int16", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "float8_e5m2")


def random_tensor(rng):
    """A tensor of any dtype and layout: scalars, empty ones, transposed and strided views, expanded and conjugate ones."""
    import torch

    shape = tuple(int(n) for n in rng.integers(0, 5, int(rng.integers(0, 4))))
    dtype = getattr(torch, DTYPES[rng.integers(len(DTYPES))])
    tensor = torch.tensor(rng.normal(size=shape) * 3)
    tensor = (tensor > 0 if dtype == torch.bool else tensor.abs()).to(dtype)
    view = rng.integers(5)
    if view == 0 and tensor.dim() > 1:
        tensor = tensor.transpose(0, 1)
    elif view == 1 and tensor.dim():
        tensor = tensor[::2]
    elif view == 2:
        tensor = tensor.expand(3, *shape)
    elif view == 3 and tensor.is_complex():
        tensor = tensor.conj()
    return tensor

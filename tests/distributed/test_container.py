"""Containers as bytes and back; then between real ranks."""

from __future__ import annotations

import collections
import contextlib
import enum
import math
import struct

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ranks import count_collectives, die, random_container, random_tensor, run_ranks, same, stop

import midflight as mf
from midflight.distributed import broadcast_tensor_container
from midflight.distributed._codec import _DTYPES, frame_bytes, pack, pack_error, unpack
from midflight.errors import CollectiveError, ContainerError, MidflightError

leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=True),
    st.text(st.characters(exclude_categories=())),
    st.binary(),
    st.integers(0, 2**32 - 1).map(lambda seed: random_tensor(np.random.default_rng(seed))),
)
keys = st.one_of(st.text(), st.integers(), st.none(), st.tuples(st.integers(), st.text()))
containers = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner), st.lists(inner).map(tuple), st.dictionaries(keys, inner), st.lists(st.integers())
    ),
    max_leaves=30,
)


@given(containers)
@settings(max_examples=300)
def test_a_container_survives_to_the_bit(data):
    assert same(unpack(pack(data)), data)


@pytest.mark.parametrize("dtype", [d for d in _DTYPES if d is not None], ids=str)
def test_every_dtype_survives_in_every_shape(dtype):
    raw = torch.arange(12 * 16, dtype=torch.uint8) % 2
    whole = raw.view(dtype)[:12].reshape(3, 4)
    data = [whole, whole[0, 0], whole[:0], whole.t(), whole[:, ::2], torch.empty(0, 3, dtype=dtype)]
    assert same(unpack(pack(data)), data)


def test_plain_values_survive_to_the_bit():
    nan = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_DEAD_BEEF))[0]
    data = {
        "numbers": [0, -1, 2**63 - 1, -(2**63), 2**63, -(2**63) - 1, 10**400, -0.0, nan, math.inf, 5e-324],
        ("a", 1): [nan, -nan, -math.inf],
        None: ["\ud800 lone", "", b"", b"\0\xff", True, 1, 1.0],
        "numpy": [
            np.float32(1.5),
            np.str_("text"),
            np.datetime64("2026-01-01T00:00:01"),
            np.array([[1, 2], [3, 4]], order="F"),
            np.array(["a", "bcd"]),
            np.array([], dtype="U0"),
            np.array(7, dtype=">i8"),
            np.array([b"x"]),
            np.zeros((2, 0)),
            np.arange(6)[::-2],
        ],
        "empty": [[], (), {}, [[]]],
    }
    assert same(unpack(pack(data)), data)


def test_what_arrives_is_a_copy_of_its_own():
    tensor = torch.nn.Parameter(torch.ones(3))
    first, second = unpack(pack([tensor, tensor]))
    assert (type(first), first.requires_grad) == (torch.Tensor, False)
    assert first.untyped_storage().nbytes() == 12  # saving it would save no other tensor
    first.add_(1)
    assert (second.tolist(), tensor.tolist()) == ([1, 1, 1], [1, 1, 1])


@pytest.mark.parametrize("wrap", [lambda x: [x], lambda x: (x,), lambda x: {"k": x}])
def test_ten_thousand_levels_are_no_recursion(wrap):
    data = torch.arange(3)
    for _ in range(10_000):
        data = wrap(data)
    assert same(unpack(pack(data)), data)


def test_a_container_that_holds_itself_is_refused():
    data = [1]
    data.append({"self": data})
    with pytest.raises(ContainerError, match="contains itself"):
        pack(data)
    twice = [1]
    assert unpack(pack([twice, twice])) == [[1], [1]]


class Colour(enum.IntEnum):
    RED = 1


@pytest.mark.parametrize(
    "data",
    [
        object(),
        {1, 2},
        lambda: 1,
        Colour.RED,
        collections.OrderedDict(a=1),
        collections.namedtuple("Pair", "a")(1),
        np.array([None]),
        np.zeros(2, dtype=[("a", "i4")]),
        np.ma.array([1.0], mask=[True]),
        torch.zeros(2).to_sparse(),
        torch.zeros(2, device="meta"),
        torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
        1j,
        int,
    ],
    ids=lambda data: type(data).__name__,
)
def test_what_is_not_plain_is_refused(data):
    with pytest.raises(ContainerError, match=r"cannot be sent.*allowed: None, bool, int") as caught:
        pack({"deep": [(data,)]})
    assert isinstance(caught.value, MidflightError)


def test_errors_travel_and_damage_is_an_error():
    with pytest.raises(ContainerError, match="rank 3: no"):
        unpack(pack_error("rank 3: no"))
    with pytest.raises(ContainerError, match="is no container"):
        frame_bytes(torch.zeros(64, dtype=torch.uint8))
    rng = np.random.default_rng(0)
    for seed in range(100):
        frame = pack([random_container(seed), list(range(9)), torch.ones(5)])
        for _ in range(10):
            damaged = frame.clone()
            damaged[int(rng.integers(32, len(frame)))] = int(rng.integers(256))
            with contextlib.suppress(ContainerError):  # or a value that differs; never another error
                unpack(damaged)


def test_one_process_needs_no_process_group():
    data = {"anything": object()}
    assert broadcast_tensor_container(data, 0) is data
    assert mf.broadcast_tensor_container is broadcast_tensor_container


def fuzz_on_rank(rank, seeds):
    import torch.distributed as dist

    for seed in range(seeds):
        source, expected = seed % dist.get_world_size(), random_container(seed)
        found = broadcast_tensor_container(expected if rank == source else "ignored", source)
        assert (found is expected) if rank == source else same(found, expected), seed
    return "ok"


@pytest.mark.parametrize("size", [2, 3, 8])
def test_ranks_receive_what_one_sends(size):
    assert run_ranks(fuzz_on_rank, size, 40) == ["ok"] * size


def many_things_on_rank(rank):
    import torch.distributed as dist

    small, long = [torch.ones(3), {"a": 1}], {"deep": [torch.arange(100_000), ["text" * 9_000]] * 3}
    messages = {}
    for name, data in {"small": small, "long": long}.items():
        found = []
        messages[name] = count_collectives(
            lambda data=data, found=found: found.append(broadcast_tensor_container(data, 1))
        )
        assert same(found[0], data)
    # the error of the sender is the error of all, and the next call works
    for bad in (object(), [torch.zeros(1).to_sparse()]):
        with pytest.raises(ContainerError, match="cannot be sent"):
            broadcast_tensor_container(bad if rank == 2 else None, 2)
    assert broadcast_tensor_container([rank], 3) == [3]
    # in a group, the source is a global rank
    odd, alone = dist.new_group([1, 3]), dist.new_group([2])
    if rank in (1, 3):
        assert broadcast_tensor_container(f"from {rank}", 3, odd) == "from 3"
        with pytest.raises(mf.errors.ConfigError, match=r"src_rank is not in the process group; got 0"):
            broadcast_tensor_container(None, 0, odd)
    else:
        with pytest.raises(mf.errors.ConfigError, match="this rank is not in the process group"):
            broadcast_tensor_container(None, 1, odd)
    if rank == 2:
        assert broadcast_tensor_container("mine", 2, alone) == "mine"
    return messages


def test_messages_errors_and_groups():
    assert run_ranks(many_things_on_rank, 4) == [{"small": 1, "long": 2}] * 4


def lose_the_source(rank, end):
    if rank == 0:
        end()
    with pytest.raises(CollectiveError, match="a rank died or came later than"):
        broadcast_tensor_container(None, 0)
    return "told"


@pytest.mark.parametrize("end", [die, stop], ids=lambda end: end.__name__)
def test_a_source_that_dies_or_hangs_is_an_error_within_the_limit(end):
    assert run_ranks(lose_the_source, 3, end, group_limit_s=4, lost=(0,)) == [None, "told", "told"]

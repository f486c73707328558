"""Statistics of training: exact, the same to the bit however recorded, and one message for any number of keys."""

from __future__ import annotations

import itertools
import math
import statistics
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from ranks import count_collectives, die, run_ranks

from midflight.distributed import Hierarchy, StatsTracker, Summary
from midflight.distributed import statistics as ours
from midflight.errors import CollectiveError, MetricError

finite = st.floats(allow_nan=False, allow_infinity=False)


def summary(values, **options):
    stats = StatsTracker()
    stats.record(x=values, **options)
    return stats.export()["x"]


def bits(found):
    return [None if value is None else np.float64(value).tobytes() for value in found]


def figures(of):
    return [of.count, of.sum, of.mean, of.variance, of.min, of.max, of.nan, of.plus_inf, of.minus_inf]


@given(st.lists(finite, min_size=2, max_size=80))
def test_figures_are_exact_and_rounded_once(values):
    found = summary(values)
    exact = list(map(Fraction, values))
    mean = sum(exact) / len(exact)
    variance = sum((x - mean) ** 2 for x in exact) / (len(exact) - 1)
    assert (found.count, found.min, found.max) == (len(values), min(values), max(values))
    for got, true in ((found.sum, sum(exact)), (found.mean, mean), (found.variance, variance)):
        try:
            assert got == float(true)
        except OverflowError:
            assert got == (math.inf if true > 0 else -math.inf)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e30])
def test_large_tensors_equal_exact_arithmetic(dtype, scale):
    values = (torch.randn(5_000, generator=torch.Generator().manual_seed(0)) * scale).to(dtype)
    found, exact = summary(values), list(map(Fraction, values.double().tolist()))
    assert found.sum == float(sum(exact))
    assert found.variance == float(statistics.variance(exact))


def test_a_variance_does_not_cancel():
    assert summary([1e15, 1e15 + 1, 1e15 + 2]).variance == 1.0
    assert summary([0.1] * 1_000).variance == 0.0


def test_values_beyond_all_ranges_are_summed():
    values = np.array([1e308, 1e308, -1e308, 5e-324, -0.0, 1e-200] * 20)
    found = summary(values)
    assert (found.sum, found.mean, found.min) == (math.inf, float(sum(map(Fraction, values)) / 120), -1e308)
    assert found.variance == math.inf
    assert str(summary([-0.0, 0.0]).min) == str(summary([0.0, -0.0]).min) == "0.0"


@given(st.lists(st.floats(width=32), max_size=60), st.lists(st.integers(0, 60), max_size=6), st.randoms())
def test_batches_and_order_do_not_matter(values, cuts, shuffler):
    whole, parts = StatsTracker(), StatsTracker()
    whole.record(x=values)
    shuffler.shuffle(values)
    edges = sorted({0, *cuts, len(values)})
    for start, end in itertools.pairwise(edges):
        parts.record(x=torch.tensor(values[start:end], dtype=torch.float32))
    parts.record(x=[])
    assert bits(figures(whole.export()["x"])) == bits(figures(parts.export()["x"]))


def test_masks_are_denominators():
    values, mask = torch.tensor([[1.0, 2.0], [6.0, 9.0]]), torch.tensor([[True, False], [True, True]])
    expected = Summary(3, 16.0, 16 / 3, statistics.variance([1, 6, 9]), 1.0, 9.0)
    assert summary(values, mask=mask) == summary(values.numpy(), mask=mask) == expected
    assert summary(values, mask=mask.numpy()) == summary(values.tolist(), mask=mask.tolist()) == expected
    assert summary(3.5) == Summary(1, 3.5, 3.5, None, 3.5, 3.5)
    assert summary(values, mask=torch.zeros(2, 2, dtype=torch.bool)) == Summary(0, None, None, None, None, None)


@pytest.mark.parametrize(
    ("values", "mean", "low", "high"),
    [
        ([1.0, math.nan], math.nan, math.nan, math.nan),
        ([1.0, math.inf], math.inf, 1.0, math.inf),
        ([1.0, -math.inf], -math.inf, -math.inf, 1.0),
        ([math.inf, -math.inf], math.nan, -math.inf, math.inf),
        ([math.inf], math.inf, math.inf, math.inf),
    ],
)
def test_what_is_not_finite_arrives_as_itself(values, mean, low, high):
    found = summary(values)
    assert bits([found.sum, found.mean, found.min, found.max]) == bits([mean, mean, low, high])
    assert (found.nan, found.plus_inf, found.minus_inf) == (
        sum(map(math.isnan, values)),
        values.count(math.inf),
        values.count(-math.inf),
    )
    assert found.variance is None if len(values) < 2 else math.isnan(found.variance)


def test_what_cannot_be_recorded_leaves_nothing_behind():
    stats = StatsTracker()
    for wrong in ("text", None, 1j, [[1], [1, 2]], torch.zeros(2, dtype=torch.complex64), object()):
        with pytest.raises(MetricError, match="'bad'"):
            stats.record(good=1.0, bad=wrong)
    for mask in ([True], torch.ones(2), np.ones((2, 1), dtype=bool)):
        with pytest.raises(MetricError, match=r"mask for 'x' does not fit.*booleans of shape \(2,\)"):
            stats.record(x=[1.0, 2.0], mask=mask)
    assert stats.export() == {}


def test_scopes_share_and_exports_reset():
    stats = StatsTracker()
    actor = stats.scope("actor")
    actor.scope("policy").record(loss=2.0)
    actor.record(loss=1.0)
    stats.record(**{"actor/loss": 3.0}, lr=0.1)
    assert {key: found.mean for key, found in actor.export(reset=False).items()} == {
        "actor/loss": 2.0,
        "actor/policy/loss": 2.0,
    }
    assert list(actor.export()) == ["actor/loss", "actor/policy/loss"]
    assert list(stats.export()) == ["lr"]
    assert stats.export() == {}


def test_a_record_is_a_copy_and_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(ours, "_PENDING", 10)
    stats, values = StatsTracker(), torch.ones(4)
    for _ in range(5):
        stats.record(x=values)
        values += 1
    assert len(stats._pending.get("x", [])) <= 2
    assert stats.export()["x"].mean == 3.0


def test_values_on_a_device_wait_there():
    values, mask = torch.tensor([1.0, 2.0, 3.0], dtype=torch.bfloat16), np.array([True, False, True])
    for kept in (ours._kept("x", values, torch.tensor(mask)), ours._kept("x", values, mask)):
        assert isinstance(kept, ours._OnDevice)  # no GPU here: a tensor that has not become an array stands for one
        assert (kept.size, kept.array().tolist()) == (3, [1.0, 3.0])


def shares(world, size=400):
    """Values of 3 keys for each rank; not every rank has every key."""
    rng = np.random.default_rng(0)
    values = {key: rng.normal(size=size).astype(np.float32) * 10.0 ** rng.integers(-9, 9, size) for key in "abc"}
    values["a"][7], values["b"][9] = np.nan, np.inf
    return [
        {key: each[rank::world] for key, each in values.items() if world == 1 or (rank + ord(key)) % 3 or key == "a"}
        for rank in range(world)
    ]


def statistics_on_rank(rank):
    import torch.distributed as dist

    world = dist.get_world_size()
    hierarchy = Hierarchy.of_nodes(1, node=rank // 2)
    found = []
    for over in (None, hierarchy):
        stats = StatsTracker()
        stats.record(**shares(world)[rank])
        stats.record(empty=np.ones(3), mask=np.zeros(3, dtype=bool))
        found.append({key: bits(figures(each)) for key, each in stats.export(over).items()})
    assert found[0] == found[1]
    calls = []
    for keys in (1, 100, 1_000, 3_000):
        stats.record(**{f"{i}": 1.5 * rank + i for i in range(keys) if rank or i % 2})
        calls.append(count_collectives(stats.export))
    long = 2 + world if rank == 0 else 4  # past the first message, the rest of each: the root receives that of all
    assert calls == [2, 2, long, long]
    assert stats.export() == {}
    return found[0]


@pytest.mark.parametrize("size", [2, 3, 8])
def test_ranks_agree_with_one_process_to_the_bit(size):
    alone = StatsTracker()
    for share in shares(size):
        alone.record(**share)
    expected = {key: bits(figures(each)) for key, each in alone.export().items()}
    expected["empty"] = bits(figures(Summary(0, None, None, None, None, None)))
    assert run_ranks(statistics_on_rank, size) == [dict(sorted(expected.items()))] * size


def lose_a_rank(rank):
    stats = StatsTracker()
    stats.record(x=float(rank))
    if rank == 1:
        die()
    with pytest.raises(CollectiveError):
        stats.export()
    return stats._folded["x"].count  # nothing was forgotten


def test_a_dead_rank_is_an_error_and_nothing_is_forgotten():
    assert run_ranks(lose_a_rank, 3, group_limit_s=5) == [1, "died", 1]

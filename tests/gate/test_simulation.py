"""The gate errs no more often than it says, also when it looks after each of 20 checkpoints.

The benchmark's own cases at fewer simulations. The tolerance is its too: a gate that errs with probability 0.05 would
show a rate above it in one run of a thousand. Seeds are fixed.
"""

from __future__ import annotations

import importlib.util
import sys

import pytest
from scipy import stats

from conftest import ROOT


@pytest.fixture(scope="module")
def bench():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    spec = importlib.util.spec_from_file_location("bench_gate", ROOT / "benchmarks" / "bench_gate.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench_gate"] = module
    spec.loader.exec_module(module)
    sys.path.pop(0)
    return module


def test_the_tolerance_is_the_binomials(bench):
    for simulations in (100, 1000):
        count = round(bench.highest(simulations) * simulations)
        assert stats.binom.sf(count - 1, simulations, 0.05) < 0.001 <= stats.binom.sf(count - 2, simulations, 0.05)


@pytest.mark.parametrize("index", [0, 1, 4, 5, 6])
def test_drawn_items_at_one_look(bench, index):
    case = bench.cases()[index]
    assert case.looks == 1
    assert case.rate(150, seed=index) <= bench.highest(150), case


@pytest.mark.parametrize("index", [7, 8])
def test_drawn_items_at_every_checkpoint(bench, index):
    case = bench.cases()[index]
    assert case.looks == 20
    assert case.rate(50, seed=index) <= bench.highest(50), case


def test_without_spending_looks_err_far_too_often(bench):
    """Why looks are paid for: the same gate, the same models, and the full error rate at each of 20 checkpoints."""
    once = bench.policy(max_drop=0.02)
    found = bench.outcomes(once, bench.populations()[0], 200, (0.02,), 50, 3, looks=20)
    assert bench.rate(found, "pass") > 0.2


@pytest.mark.parametrize("name", ["GSM8K, Qwen2.5-7B GRPO", "tables of answer checkers"])
def test_real_items(bench, data, name):
    cases = [case for case in bench.cases() if case.population.name == name and case.looks == 1 and case.n == 200][:3]
    assert len(cases) == 3
    for case in cases:
        assert case.rate(150, seed=11) <= bench.highest(150), case


def test_more_items_let_a_good_model_pass_more_often(bench):
    items = bench.populations()[0]
    rates = [
        bench.rate(bench.outcomes(bench.policy(max_drop=0.02), items, n, (-0.02,), 60, 5), "pass") for n in (200, 1000)
    ]
    assert rates[0] < rates[1]
    assert rates[1] > 0.6

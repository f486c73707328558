"""Savings in hindsight: never negative, never from the future, and nothing where nothing was found."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from midflight.analyse.detectors.base import Facts
from midflight.analyse.history import Clock, History, curve_of
from midflight.analyse.learning_curve import WINDOW, measured, smoothed
from midflight.analyse.savings import savings_of, total_of

STEPS = list(range(1, 401))


def losses(n=400, seed=0):
    noise = np.random.default_rng(seed).normal(0, 0.02, n)
    return [2 * math.exp(-step / 100) + 0.5 + noise[step - 1] for step in range(1, n + 1)]


def history(columns, planned=None, **known):
    return History("run", columns, Facts(planned_steps=planned), **{"curve": curve_of(columns), **known})


def clock(steps, a_step=60.0, began=0.0):
    return Clock(began, np.array(steps), began + a_step * np.array(steps, dtype=float))


def broken(at=200):
    """A loss that is NaN from a step on."""
    return [loss if step < at else math.nan for step, loss in zip(STEPS, losses(), strict=True)]


def test_a_run_without_findings_saves_nothing_and_costs_nothing():
    row = savings_of(history({"loss": (STEPS, losses())}, planned=400))
    assert (row.finding, row.stopped_at, row.saved, row.share, row.planned_share) == (None, None, 0.0, 0.0, 0.0)
    assert (row.cost, row.relative_cost, row.spent, row.unit) == (0.0, 0.0, 400, "steps")


def test_a_run_whose_loss_is_nan_would_have_been_stopped_there():
    row = savings_of(history({"loss": (STEPS, broken())}, clock=clock(STEPS), planned=1000))
    assert (row.finding.kind, row.stopped_at) == ("nonfinite", row.finding.noticed)
    assert 200 <= row.stopped_at <= 203
    assert (row.unit, row.spent, row.saved) == ("seconds", 400 * 60.0, (400 - row.stopped_at) * 60.0)
    assert row.share == pytest.approx(1 - row.stopped_at / 400)
    assert row.planned_share == pytest.approx(1 - row.stopped_at / 1000)  # it was cut short: told apart
    assert (row.cost, row.held_out) == (0.0, False)


def test_time_counts_where_it_is_known_and_steps_where_it_is_not():
    slow_end = np.where(np.array(STEPS) <= 200, 1.0, 9.0).cumsum()
    timed = savings_of(history({"loss": (STEPS, broken())}, clock=Clock(0.0, np.array(STEPS), slow_end)))
    plain = savings_of(history({"loss": (STEPS, broken())}))
    assert timed.stopped_at == plain.stopped_at
    assert plain.share == pytest.approx(0.5, abs=0.01)
    assert timed.share == pytest.approx(0.9, abs=0.01)


def test_a_log_that_begins_in_the_middle_counts_what_it_tells_of():
    steps = [step * 10 for step in range(1001, 1401)]
    row = savings_of(history({"loss": (steps, broken())}))
    assert row.spent == 4000


def test_the_cost_is_what_came_after_the_stop():
    """An evaluation loss that would have become better: the best by then is worse by a tenth."""
    values = [1.0, 0.9, 0.8, 0.72, 0.9]
    held_out = measured("eval_loss", False, [50, 100, 150, 250, 350], values)
    row = savings_of(history({"loss": (STEPS, broken())}, curve=held_out))
    assert (row.best.value, row.best.step, row.best_before.value, row.best_before.step) == (0.72, 250, 0.8, 150)
    assert row.cost == pytest.approx(0.08)
    assert row.relative_cost == pytest.approx(0.08 / 0.72)
    assert row.held_out
    up = measured("task/accuracy", True, [50, 250], [0.5, 0.75])
    row = savings_of(history({"loss": (STEPS, broken())}, curve=up))
    assert (row.cost, row.relative_cost) == (0.25, pytest.approx(1 / 3))


def test_a_cost_that_cannot_be_told_is_no_zero():
    late = measured("eval_loss", False, [300], [1.0])
    row = savings_of(history({"loss": (STEPS, broken())}, curve=late))
    assert (row.cost, row.relative_cost, row.best.value, row.best_before) == (None, None, 1.0, None)
    assert "no value of eval_loss before the stop" in row.note
    row = savings_of(history({"loss": (STEPS, broken())}, curve=None))
    assert (row.cost, row.metric) == (None, "")
    assert "cost not known" in row.note
    zero = measured("eval_loss", False, [100, 300], [0.5, 0.0])
    row = savings_of(history({"loss": (STEPS, broken())}, curve=zero))
    assert (row.cost, row.relative_cost) == (0.5, None)


def test_warnings_stop_earlier_if_they_are_asked_to():
    up = [1.0 - step / 300 if step < 200 else 0.4 + (step - 200) / 100 for step in STEPS]
    evals = (STEPS[19::20], up[19::20])
    both = history({"loss": (STEPS, losses()), "eval_loss": evals})
    grave, slight = savings_of(both), savings_of(both, on="warn")
    assert slight.finding.kind == "overfit"
    assert slight.finding.severity == "warn"
    assert grave.stopped_at is None or grave.stopped_at > slight.stopped_at
    assert slight.cost == 0.0


@pytest.mark.parametrize("steps", [[], [7]])
def test_runs_of_no_record_and_of_one(steps):
    row = savings_of(history({"loss": (steps, [math.nan] * len(steps))}))
    assert (row.saved, row.share) == (0.0, 0.0)
    assert (row.note == "nothing was logged that a detector reads") == (not steps)


def test_totals_are_sums_and_forget_no_run():
    stopped = savings_of(history({"loss": (STEPS, broken())}, clock=clock(STEPS)))
    healthy = savings_of(history({"loss": (STEPS, losses())}, clock=clock(STEPS, 30.0)))
    steps = savings_of(history({"loss": (STEPS, broken())}, curve=None))
    total = total_of([stopped, healthy, steps])
    assert (total.num_runs, total.num_stopped, total.num_timed) == (3, 2, 2)
    assert (total.seconds_spent, total.seconds_saved) == (400 * 90.0, stopped.saved)
    assert total.mean_share == pytest.approx((stopped.share + steps.share) / 3)
    assert (total.num_costly, total.num_without_cost, total.worst_relative_cost) == (0, 1, 0.0)
    assert total_of([]).mean_share is None


values = st.one_of(
    st.floats(-10, 10), st.sampled_from([0.0, 1.0, math.nan, math.inf, 1e308]), st.floats(0, 3).map(lambda x: 3 + x)
)
names = st.sampled_from(["loss", "reward", "grad_norm", "kl", "entropy", "eval_loss", "reward_std", "heldout/sums"])


@st.composite
def runs(draw):
    """Any series at any steps: calm ones, wild ones, ones that break off or begin late."""
    columns = {}
    for name in draw(st.sets(names, min_size=1, max_size=4)):
        steps = sorted(draw(st.sets(st.integers(0, 200), max_size=60)))
        flat = draw(st.booleans())
        own = draw(st.lists(values, min_size=len(steps), max_size=len(steps)))
        columns[name] = (steps, [own[0]] * len(steps) if flat and steps else own)
    every = sorted({step for steps, _ in columns.values() for step in steps})
    gaps = draw(st.lists(st.floats(0, 1e5), min_size=len(every), max_size=len(every)))
    timed = Clock(0.0, np.array(every), np.cumsum(gaps)) if every and draw(st.booleans()) else None
    planned = draw(st.one_of(st.none(), st.integers(1, 300)))
    return history(columns, clock=timed, planned=planned)


def upto(full, step):
    """The run as it stood after a step."""
    cut = {
        name: ([s for s in steps if s <= step], [v for s, v in zip(steps, own, strict=True) if s <= step])
        for name, (steps, own) in full.columns.items()
    }
    return history({name: own for name, own in cut.items() if own[0]}, planned=full.facts.planned_steps)


@given(runs(), st.sampled_from(["stop", "warn"]))
def test_savings_are_never_negative_and_never_more_than_was_run(run, on):
    row = savings_of(run, on)
    assert 0 <= row.saved <= row.spent
    assert 0 <= row.share <= 1
    assert row.planned_share is None or 0 <= row.planned_share <= 1
    assert row.cost is None or row.cost >= 0
    assert row.relative_cost is None or row.relative_cost >= 0
    if row.finding is None:
        assert (row.saved, row.share, row.cost, row.relative_cost, row.stopped_at) == (0, 0, 0, 0, None)


@given(runs(), st.sampled_from(["stop", "warn"]))
def test_a_stop_uses_nothing_that_came_after_it(run, on):
    full = savings_of(run, on)
    if full.stopped_at is None:
        return
    then = savings_of(upto(run, full.stopped_at), on)
    assert (then.stopped_at, then.finding, then.algorithm) == (full.stopped_at, full.finding, full.algorithm)
    assert then.metric != full.metric or then.best_before == full.best_before
    assert savings_of(upto(run, full.stopped_at - 1), on).stopped_at is None


@given(st.lists(st.floats(-1e6, 1e6), max_size=60))
def test_points_of_a_smoothed_series_look_back_alone(series):
    steps = np.arange(1, len(series) + 1)
    full = smoothed("reward", True, steps, np.array(series))
    assert len(full) == max(0, len(series) - WINDOW + 1)
    for index, value in enumerate(full.values):
        window = series[index : index + WINDOW]
        assert value == pytest.approx(math.fsum(window) / WINDOW, abs=1e-9)
        assert full.steps[index] == index + WINDOW
    half = smoothed("reward", True, steps[:30], np.array(series[:30]))
    assert half.values.tolist() == full.values[: len(half)].tolist()


def test_the_interval_of_a_smoothed_point_is_students():
    from scipy import stats

    series = np.array(losses(40))
    curve = smoothed("loss", False, np.arange(40), series)
    theirs = stats.t.interval(0.95, WINDOW - 1, series[-WINDOW:].mean(), stats.sem(series[-WINDOW:]))
    last = curve.last()
    assert (last.low, last.high) == pytest.approx(theirs)
    assert smoothed("loss", False, np.arange(20), np.ones(20)).last().low is None


def test_in_rl_a_held_out_reward_judges_and_not_the_loss():
    steps = [100, 200, 300]
    columns = {
        "eval_loss": (steps, [0.1, 0.2, 0.3]),
        "eval_reward": (steps, [0.4, 0.5, 0.6]),
        "reward": (STEPS, losses()),
    }
    assert curve_of(columns).metric == "eval_reward"
    assert curve_of({"eval_loss": columns["eval_loss"], "eval_accuracy": columns["eval_reward"]}).metric == "eval_loss"

"""Successive halving: nobody is stopped whose interval does not say so, and the order of runs changes nothing."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midflight.analyse.halving import rung_steps, stop_first, successive_halving
from midflight.analyse.learning_curve import measured
from midflight.errors import ConfigError


def curve(values, half=0.01, steps=None, higher_is_better=True):
    steps = steps or [100 * (index + 1) for index in range(len(values))]
    return measured("acc", higher_is_better, steps, values, [v - half for v in values], [v + half for v in values])


def halved(curves, eta=3.0, first=None):
    return successive_halving(curves, rung_steps(curves, eta, first), eta)


def test_rungs_are_geometric():
    curves = {"a": curve([0.5] * 27), "late": curve([0.5] * 2, steps=[0, 200])}
    assert rung_steps({"a": curves["a"]}, 3) == [100, 300, 900, 2700]
    assert rung_steps(curves, 3) == [200, 600, 1800]
    assert rung_steps(curves, 2, first=1000) == [1000, 2000]
    assert rung_steps(curves, 1.5, first=2)[:4] == [2, 3, 4, 6]
    assert rung_steps({}, 3) == rung_steps({"start": measured("acc", True, [0], [0.1])}, 3) == []
    for wrong in ({"eta": 1.0}, {"eta": math.nan}, {"eta": 3, "first": 0}):
        with pytest.raises(ConfigError):
            rung_steps(curves, **wrong)


def test_a_run_is_stopped_only_if_its_interval_is_below_all_that_are_kept():
    curves = {
        "best": curve([0.8] * 9),
        "close": curve([0.785] * 9),
        "worse": curve([0.7] * 9),
        "late": curve([0.7] * 2 + [0.9] * 7),
    }
    first, second, third = halved(curves)
    assert (first.step, second.step, third.step) == (100, 300, 900)
    verdicts = {one.run: one.verdict for one in first.standings}
    assert verdicts == {"best": "kept", "close": "kept", "late": "stop", "worse": "stop"}
    assert {one.run: one.verdict for one in second.standings} == {"best": "kept", "close": "undecided"}


def test_a_running_run_is_weighed_where_it_stands_and_not_where_it_began():
    curves = {
        "best": curve([0.8] * 9),
        "late": curve([0.1] * 2 + [0.9] * 7),  # slow at the first rung, the best by now
        "worse": curve([0.3] * 9),
        "worst": curve([0.2] * 9),
        "young": curve([0.0] * 2),
    }
    rungs = rung_steps(curves, 3)
    assert stop_first(curves, list(curves), rungs, 3) == ["worst", "worse", "young"]
    assert stop_first(curves, ["late", "worse"], rungs, 3) == ["worse"]
    assert stop_first(curves, ["nobody"], rungs, 3) == stop_first(curves, list(curves), [], 3) == []


def test_without_an_interval_nothing_is_decided():
    curves = {"a": measured("acc", True, [100], [0.9]), "b": curve([0.1]), "c": measured("acc", True, [100], [0.0])}
    (rung,) = halved(curves)
    assert [one.verdict for one in rung.standings] == ["kept", "undecided", "undecided"]
    (rung,) = halved({**curves, "a": curve([0.9])})
    assert [one.verdict for one in rung.standings] == ["kept", "stop", "undecided"]


def test_lower_is_better_turns_it_around():
    curves = {"a": curve([0.2], higher_is_better=False), "b": curve([0.5], higher_is_better=False)}
    (rung,) = halved(curves)
    assert [(one.run, one.verdict) for one in rung.standings] == [("a", "kept"), ("b", "stop")]


def test_a_run_that_has_not_come_so_far_is_not_weighed():
    first, second = halved({"short": curve([0.1]), "long": curve([0.5, 0.6, 0.7])})
    assert len(first.standings) == 2
    assert [one.run for one in second.standings] == ["long"]


drawn_curves = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=3),
    st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.5]), st.sampled_from([0.0, 0.05, 0.2])), min_size=1, max_size=9),
    min_size=1,
)


@given(drawn_curves, st.randoms(use_true_random=False))
def test_halving_depends_on_no_order_and_stops_no_run_twice(drawn, shuffle):
    def made(names):
        ends = {name: ([v - h for v, h in drawn[name]], [v + h for v, h in drawn[name]]) for name in names}
        steps = {name: [100 * (index + 1) for index in range(len(drawn[name]))] for name in names}
        return {n: measured("acc", True, steps[n], [v for v, _ in drawn[n]], *ends[n]) for n in names}

    names = list(drawn)
    rungs = halved(made(names))
    shuffle.shuffle(names)
    assert halved(made(names)) == rungs
    stopped = [one.run for rung in rungs for one in rung.standings if one.verdict == "stop"]
    assert len(stopped) == len(set(stopped))
    for rung in rungs:
        kept = [one for one in rung.standings if one.verdict == "kept"]
        assert len(kept) == math.ceil(len(rung.standings) / 3)
        for one in rung.standings:
            if one.verdict == "stop":
                assert all(one.point.high < other.point.low for other in kept)

"""Betting on a finite set: valid at any look, exact at its end, the same in any chunks and on any scale."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from midflight.errors import MetricError
from midflight.estimate.sequential import DIFFERENCES, SCORES, Evidence, SequentialTest, confidence_sequence

unit = st.lists(st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 1.0]), min_size=1, max_size=40)
differences = st.lists(st.sampled_from([-1.0, -1 / 3, 0.0, 0.0, 0.5, 1.0]), min_size=1, max_size=60)
claims = st.sampled_from(["not_worse", "better"])
margins = st.sampled_from([0.0, 0.02, 0.1, 1 / 3])


def e_value(values, null, size, bets):
    """The definition, one bet and one score after the other (Waudby-Smith & Ramdas 2020, section 3)."""
    wealth = []
    for share, weight in zip(bets.shares, bets.weights, strict=True):
        grown, total = weight, 0.0
        for index, value in enumerate(values):
            left = size - index
            needed = max((size * null - total) / left, 0.0)
            bet = min(share * min(size / left, 2.0), 0.95 / max(needed, 1e-9))
            grown *= 1 + bet * (value - needed)
            total += value
        wealth.append(grown)
    return sum(wealth)


@given(unit, st.floats(0.05, 0.95), st.integers(0, 30), st.sampled_from([DIFFERENCES, SCORES]))
def test_the_evidence_is_that_of_the_definition(values, null, more, bets):
    size = len(values) + more
    found = Evidence(null, size, bets).feed(values)
    if math.fsum(values) > size * null + 1e-6:
        assert found[-1] == math.inf
    elif math.fsum(values) < size * null - 1e-6:
        assert found[-1] == pytest.approx(math.log(e_value(values, null, size, bets)), abs=1e-9)


def test_on_average_nothing_is_won_where_the_null_is_true():
    """The mean over all orders of a set whose mean is the null is exactly 1: the game is fair."""
    from itertools import permutations

    values = (0.0, 0.5, 0.5, 1.0, 0.0, 1.0)
    for n in range(1, 6):
        found = [math.exp(Evidence(0.5, 6).feed(order[:n])[-1]) for order in permutations(values)]
        assert math.fsum(found) / len(found) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(("bound", "claim", "margin"), [(0.0, "better", 0.0), (-0.03, "not_worse", 0.03)])
def test_false_decisions_are_rare_however_often_one_looks(bound, claim, margin):
    """400 items whose mean lies at the bound, 10 % of them discordant, a look after every item."""
    random_ = np.random.default_rng(0)
    down = 20 - round(400 * bound)
    items = np.array([1.0] * 20 + [-1.0] * down + [0.0] * (400 - 20 - down))
    orders = np.array([random_.permutation(items) for _ in range(2000)]).T
    null = (bound + 1) / 2
    e_for = Evidence(null, 400).feed((orders + 1) / 2)
    e_against = Evidence(1 - null, 400).feed(1 - (orders + 1) / 2)
    for paths in (e_for, e_against):
        assert 0.005 < (paths >= math.log(20)).any(axis=0).mean() <= 0.05


def test_intervals_hold_the_truth_at_all_looks():
    """A 95 % interval leaves the truth out, at any look, where the evidence against it on one side reaches 40."""
    random_ = np.random.default_rng(1)
    items = (np.arange(300) < 210).astype(float)
    orders = np.array([random_.permutation(items) for _ in range(2000)]).T
    sides = Evidence(0.7, 300, SCORES).feed(orders), Evidence(0.3, 300, SCORES).feed(1 - orders)
    missed = (np.maximum(*sides) >= math.log(40)).any(axis=0)
    assert 0.005 < missed.mean() <= 0.05


@given(unit, st.integers(1, 50))
def test_an_interval_ends_where_the_evidence_does(values, more):
    size = len(values) + more
    low, high = confidence_sequence(values, values, size)
    for end, side in ((low, values), (1 - high, [1 - v for v in values])):
        inside = Evidence(end + 1e-5, size, SCORES).feed(side)[-1]
        assert inside < math.log(40)
        if end > math.fsum(side) / size + 1e-5:
            assert Evidence(end - 1e-9, size, SCORES).feed(side)[-1] >= math.log(40) - 1e-5


@given(unit, st.integers(0, 20), st.floats(0.5, 0.99))
def test_an_interval_holds_all_that_is_possible_at_its_end_and_more_before(values, more, level):
    size = len(values) + more
    low, high = confidence_sequence(values, values, size, level=level)
    total = math.fsum(values)
    assert total / size <= low + 1e-12
    assert high <= (total + more) / size + 1e-12
    assert low <= high + 1e-12
    if not more:
        assert low == high == total / size


@given(unit, st.integers(1, 200))
def test_unknown_scores_widen_an_interval(values, more):
    size = len(values) + more
    low, high = confidence_sequence(values, values, size)
    lows, highs = [0.0, *values[1:]], [1.0, *values[1:]]
    wider = confidence_sequence(lows, highs, size)
    assert wider[0] <= low + 1e-6
    assert high - 1e-6 <= wider[1]


def decide(values, claim, margin, size, chunks=(), width=1.0):
    test, start = SequentialTest(claim, margin, size, width=width), 0
    for chunk in [*chunks, len(values)]:
        part = values[start : start + chunk]
        test.feed(part, part)
        start += len(part)
    return test


@given(differences, claims, margins, st.integers(0, 30), st.lists(st.integers(0, 9), max_size=20))
def test_chunks_change_no_decision(values, claim, margin, more, chunks):
    whole, parts = (decide(values, claim, margin, len(values) + more, c) for c in ((), chunks))
    assert (whole.outcome, whole.n, whole.log_e) == (parts.outcome, parts.n, parts.log_e)
    assert whole.interval() == parts.interval()


@given(differences, claims, margins, st.integers(0, 30), st.sampled_from([0.5, 2.0, 8.0, 100.0, 3.7]))
def test_the_scale_of_the_scores_changes_no_decision(values, claim, margin, more, scale):
    plain = decide(values, claim, margin, len(values) + more)
    scaled = decide([scale * v for v in values], claim, scale * margin, len(values) + more, width=scale)
    assert (scaled.outcome, scaled.n) == (plain.outcome, plain.n)
    assert scaled.log_e == pytest.approx(plain.log_e, abs=1e-6)
    assert scaled.interval() == pytest.approx([scale * end for end in plain.interval()], abs=1e-5 * scale)


@given(differences, claims, margins)
def test_all_items_seen_decide_exactly(values, claim, margin):
    found = decide(values, claim, margin, len(values))
    mean = math.fsum(values) / len(values)
    assert found.outcome != "undecided"
    if found.n == len(values) and found.log_e == math.inf:
        holds = mean >= -margin - 1e-9 if claim == "not_worse" else mean > margin + 1e-9
        assert (found.outcome == "pass") == holds


@pytest.mark.parametrize(
    ("claim", "margin", "outcome"), [("not_worse", 0.03, "pass"), ("better", 0.0, "fail"), ("not_worse", 0.0, "pass")]
)
def test_a_mean_at_the_bound(claim, margin, outcome):
    """A mean of exactly −0.03, or of 0: not worse by more than that, and not better."""
    values = [-1.0 if margin and index % 100 in (33, 66, 99) else 0.0 for index in range(1300)]
    found = decide(values, claim, margin, 1300)
    assert (found.outcome, found.log_e) == (outcome, math.inf)


@given(differences, claims, margins, st.integers(0, 30))
def test_the_interval_agrees_with_the_decision(values, claim, margin, more):
    found = decide(values, claim, margin, len(values) + more)
    low, high = found.interval()
    if found.outcome == "pass":
        assert low >= found.bound - 1e-5
    elif found.outcome == "fail":
        assert high <= found.bound + 1e-5
    else:
        assert low <= found.bound <= high


def test_what_was_decided_stays():
    found = decide([1.0] * 40, "better", 0.0, 1000)
    n, log_e = found.n, found.log_e
    assert (found.outcome, n < 40) == ("pass", True)
    found.feed([-1.0] * 500, [-1.0] * 500)
    assert (found.outcome, found.n, found.log_e) == ("pass", n, log_e)


def test_nothing_seen_is_nothing_known():
    empty = SequentialTest("better", 0.0, 10)
    assert (empty.feed([], []), empty.n, empty.log_e, empty.interval()) == ("undecided", 0, 0.0, (-1.0, 1.0))
    assert confidence_sequence([], [], 7) == (0.0, 1.0)


def test_one_item_is_its_own_proof():
    assert decide([0.0], "not_worse", 0.0, 1).outcome == "pass"
    assert decide([-1.0], "not_worse", 0.5, 1).outcome == "fail"


def test_huge_sets_stay_finite():
    values = np.random.default_rng(0).permutation([1.0, 0.0] * 50_000).tolist()
    found = Evidence(0.6, 10**6, SCORES)
    assert np.isfinite(found.feed(values)).all()
    assert np.isfinite(Evidence(0.4, 10**6, SCORES).feed(values[:50_000])).all()


@pytest.mark.parametrize("values", [[0.5] * 4, [math.nan], [1.1], [-0.2], [math.inf]])
def test_what_cannot_be_a_score_of_the_set(values):
    with pytest.raises(MetricError, match="more scores than items|outside the bounds"):
        Evidence(0.5, 3).feed(values)

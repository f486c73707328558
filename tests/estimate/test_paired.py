"""Differences of paired scores: against SciPy, statsmodels and a numeric maximum of the likelihood; properties."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from midflight.errors import MetricError
from midflight.estimate.paired import PairedDifference, holm, paired_difference, paired_ratio
from midflight.estimate.quantiles import binomial_tail, normal_quantile, normal_tail

floats = st.floats(-10, 10, allow_subnormal=False)


def binary(better: int, worse: int, n: int) -> PairedDifference:
    a = [1] * better + [0] * worse + [1] * (n - better - worse)
    b = [0] * better + [1] * worse + [1] * (n - better - worse)
    return paired_difference(a, b, low=0, high=1)


@pytest.mark.parametrize(
    ("better", "worse", "n"), [(7, 1, 21), (0, 3, 30), (12, 2, 50), (40, 25, 300), (300, 280, 4000)]
)
def test_mcnemars_exact_test_is_statsmodels(better, worse, n):
    p, test = binary(better, worse, n).p_value
    assert test == "exact McNemar"
    assert p == pytest.approx(mcnemar([[n - better - worse, better], [worse, 0]], exact=True).pvalue, rel=1e-9)


@pytest.mark.parametrize(
    ("k", "n", "p"), [(0, 5, 0.5), (6, 5, 0.5), (3, 5, 0.2), (500, 900, 0.5), (20_100, 40_000, 0.5)]
)
def test_distributions_are_scipys(k, n, p):
    assert binomial_tail(k, n, p) == pytest.approx(stats.binom.sf(k - 1, n, p), rel=1e-8, abs=1e-300)
    assert normal_tail(k / 1000) == pytest.approx(stats.norm.sf(k / 1000), rel=1e-9)


def score_statistic(better: int, worse: int, n: int, delta: float) -> float:
    """Tango's statistic with the constrained maximum of the likelihood found numerically."""

    def minus_log_likelihood(rare: float) -> float:
        shares = [(better, rare + delta), (worse, rare), (n - better - worse, 1 - 2 * rare - delta)]
        return -sum(count * math.log(share) for count, share in shares if count)

    low, high = max(0.0, -delta), (1 - delta) / 2
    found = optimize.minimize_scalar(
        minus_log_likelihood, bounds=(low + 1e-12, high - 1e-12), method="bounded", options={"xatol": 1e-13}
    )
    return (better - worse - n * delta) / math.sqrt(n * (2 * found.x + delta * (1 - delta)))


@pytest.mark.parametrize(("better", "worse", "n"), [(7, 1, 21), (1, 3, 30), (12, 2, 50), (40, 25, 300)])
@pytest.mark.parametrize("delta", [-0.3, -0.03, 0.0, 0.01, 0.2])
def test_the_score_test_is_that_of_the_constrained_likelihood(better, worse, n, delta):
    expected = stats.norm.sf(score_statistic(better, worse, n, delta))
    assert binary(better, worse, n).p_above(delta) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("better", "worse", "n"), [(7, 1, 21), (0, 3, 30), (12, 2, 50), (400, 250, 3000)])
def test_the_score_interval_holds_what_the_test_does_not_refuse(better, worse, n):
    difference = binary(better, worse, n)
    found = difference.interval(0.9)
    assert difference.p_above(found.low) == pytest.approx(0.05, abs=1e-6)
    assert difference.p_below(found.high) == pytest.approx(0.05, abs=1e-6)
    assert found.low < difference.value < found.high


def exact_coverage(n: int, p: float, q: float, level: float) -> float:
    """Probability over all outcomes that the interval holds the true difference p − q."""
    z, total = normal_quantile((1 + level) / 2), 0.0
    for better in range(n + 1):
        for worse in range(n - better + 1):
            probability = stats.multinomial.pmf([better, worse, n - better - worse], n, [p, q, 1 - p - q])
            if probability > 1e-12:
                difference = binary(better, worse, n)
                inside = min(difference.p_above(p - q), difference.p_below(p - q)) >= normal_tail(z)
                total += probability * inside
    return total


@pytest.mark.parametrize(("p", "q"), [(0.1, 0.1), (0.14, 0.06), (0.085, 0.115), (0.25, 0.15)])
def test_the_score_interval_covers_as_it_says(p, q):
    assert 0.935 <= exact_coverage(60, p, q, 0.95) <= 0.965


def test_scores_between_are_compared_with_students_t():
    draw = np.random.default_rng(0)
    a, b = draw.random(40), draw.random(40)
    found = paired_difference(list(a), list(b), low=0, high=1)
    test = stats.ttest_rel(a, b)
    p, name = found.p_value
    assert (p, name) == (pytest.approx(test.pvalue, rel=1e-9), "t")
    assert found.p_above(0.05) == pytest.approx(stats.ttest_1samp(a - b, 0.05, alternative="greater").pvalue, rel=1e-9)
    interval, theirs = found.interval(0.95), test.confidence_interval(0.95)
    assert (interval.low, interval.high) == pytest.approx((theirs.low, theirs.high))


def test_few_clusters_are_flipped_in_every_way():
    draw = np.random.default_rng(1)
    differences, clusters = draw.normal(0.3, 1, 24), [str(index // 3) for index in range(24)]
    p, name = PairedDifference(list(differences), clusters).p_value
    sums = differences.reshape(8, 3).sum(1)
    theirs = stats.permutation_test((sums,), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert (p, name) == (pytest.approx(theirs.pvalue), "exact sign-flip")


def test_clusters_widen_the_interval():
    d = [1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, -1.0, -1.0, -1.0] * 6
    alone, together = PairedDifference(d, None, 1.0), PairedDifference(d, [str(i // 3) for i in range(72)], 1.0)
    assert together.stderr > 1.6 * alone.stderr  # √3, less what fewer degrees of freedom give
    assert together.method == "paired, clustered t"


def test_no_variation_proves_as_much_as_n_items_can():
    same = paired_difference([1.0] * 1000, [1.0] * 1000, low=0, high=1)
    rare = stats.binomtest(0, 1000).proportion_ci(0.95, "exact").high  # Clopper–Pearson of no differing item
    assert (same.interval().low, same.interval().high) == pytest.approx((-rare, rare))
    assert same.p_above(-rare) == pytest.approx(0.025)
    assert same.p_value == (1.0, "exact McNemar")
    shifted = PairedDifference([0.5] * 50, width=1.0)
    assert shifted.p_above(shifted.interval(0.9).low) == pytest.approx(0.05)
    assert shifted.p_below(shifted.interval(0.9).high) == pytest.approx(0.05)
    unbounded = PairedDifference([0.5] * 50)
    assert (unbounded.interval().low, unbounded.p_above(0.0)) == (None, None)


def test_one_pair_proves_nothing_and_none_is_said():
    one = PairedDifference([0.25])
    assert (one.value, one.stderr, one.interval().low, one.p_above(0.0)) == (0.25, None, None, None)
    with pytest.raises(MetricError, match="no pairs"):
        paired_difference([], [])
    with pytest.raises(MetricError, match="infinite"):
        paired_difference([math.inf, 1.0], [0.0, 0.0])


def test_perplexities_are_compared_as_the_jackknife_does():
    draw = np.random.default_rng(2)
    weights = draw.integers(5, 50, 200)
    a, b = weights * draw.normal(2.0, 0.3, 200), weights * draw.normal(2.1, 0.3, 200)
    pairs = [list(zip(map(float, side), map(float, weights), strict=True)) for side in (a, b)]
    found = paired_ratio(*pairs, transform=math.exp, slope=math.exp)

    def value(keep: np.ndarray) -> float:
        return math.exp(a[keep].sum() / weights[keep].sum()) - math.exp(b[keep].sum() / weights[keep].sum())

    everything = np.arange(200)
    assert found.value == pytest.approx(value(everything))
    left_out = np.array([value(np.delete(everything, index)) for index in range(200)])
    jackknife = math.sqrt(199 / 200 * ((left_out - left_out.mean()) ** 2).sum())
    assert found.stderr == pytest.approx(jackknife, rel=0.02)


@given(st.lists(st.tuples(floats, floats), min_size=2, max_size=30), st.randoms(use_true_random=False))
def test_order_does_not_matter_and_sides_are_mirrored(pairs, draw: random.Random):
    shuffled = draw.sample(pairs, len(pairs))
    a, b = zip(*pairs, strict=True)
    first, second = paired_difference(a, b), paired_difference(*zip(*shuffled, strict=True))
    mirrored = paired_difference(b, a)
    assert first.interval() == second.interval()
    assert first.value == -mirrored.value
    assert first.p_value[0] == pytest.approx(mirrored.p_value[0])


@given(st.integers(0, 20), st.integers(0, 20), st.integers(1, 40), st.floats(-0.9, 0.9), st.floats(0, 0.5))
def test_what_is_above_more_is_above_less(better, worse, same, bound, further):
    difference = binary(better, worse, better + worse + same)
    assert difference.p_above(bound) <= difference.p_above(bound + further) + 1e-9
    assert 0 <= difference.p_above(bound) <= 1


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_is_statsmodels(p_values):
    assert holm(p_values) == pytest.approx(list(multipletests(p_values, method="holm")[1]))

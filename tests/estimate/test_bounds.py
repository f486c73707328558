"""Estimates held against bounds: against SciPy, statsmodels and a numeric maximum of the likelihood; rates of error."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats
from statsmodels.stats.proportion import confint_proportions_2indep

from midflight.estimate import mean_interval
from midflight.estimate.relative import PairedRatio, UnpairedRatio
from midflight.estimate.single import Single, Unpaired, single_of
from midflight.records import Estimate


def estimate(values, clusters=None, low=0.0, high=1.0, **changes) -> Estimate:
    found = mean_interval(values, clusters, low=low, high=high)
    fields = {"lowest": low, "highest": high, "higher_is_better": True, **changes}
    return Estimate(
        "m", "", found.value, found.stderr, found.low, found.high, 0.95, len(values), found.clusters, found.method,
        {"ok": len(values)}, **fields,
    )  # fmt: skip


def share(k: int, n: int) -> Single:
    return single_of(estimate([1.0] * k + [0.0] * (n - k)))


@pytest.mark.parametrize(("k", "n"), [(0, 8), (8, 8), (1, 30), (27, 30), (480, 500), (1, 1)])
@pytest.mark.parametrize("bound", [0.05, 0.5, 0.9])
def test_a_share_is_tested_exactly_as_scipy_does(k, n, bound):
    found = share(k, n)
    assert found.method == "exact binomial"
    for ours, alternative in ((found.p_above(bound), "greater"), (found.p_below(bound), "less")):
        assert ours == pytest.approx(stats.binomtest(k, n, bound, alternative).pvalue, rel=1e-9)
    theirs = stats.binomtest(k, n).proportion_ci(0.9, "exact")
    assert found.interval(0.9) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


def test_a_share_outside_its_bounds_is_told_at_once():
    found = share(3, 10)
    assert (found.p_above(-0.1), found.p_above(1.0), found.p_below(1.1), found.p_below(0.0)) == (0.0, 1.0, 0.0, 1.0)
    scaled = single_of(estimate([-1.0] * 5 + [3.0] * 15, low=-1.0, high=3.0))
    assert scaled.p_above(1.0) == pytest.approx(stats.binomtest(15, 20, 0.5, "greater").pvalue)


def worst_rate(n: int, bound: float, p_above) -> float:
    """Probability that a model whose share is exactly the bound is proved to be above it."""
    return sum(stats.binom.pmf(k, n, bound) for k in range(n + 1) if p_above(k, n, bound) <= 0.05)


def test_the_exact_test_never_errs_too_often_where_wilsons_does():
    def by_wilson(k, n, bound):
        return stats.norm.sf((k / n - bound) / math.sqrt(bound * (1 - bound) / n))

    rates = {}
    for name, p_above in (("wilson", by_wilson), ("exact", lambda k, n, bound: share(k, n).p_above(bound))):
        rates[name] = max(worst_rate(n, bound, p_above) for n in (30, 55, 90) for bound in (0.8, 0.95, 0.98))
    assert rates["wilson"] > 0.058
    assert 0.03 < rates["exact"] <= 0.05


def test_a_mean_is_tested_with_students_t():
    values = list(np.random.default_rng(0).normal(3, 2, 25))
    found = single_of(estimate(values, low=None, high=None))
    for bound in (2.0, 3.5):
        assert found.p_above(bound) == pytest.approx(stats.ttest_1samp(values, bound, alternative="greater").pvalue)
        assert found.p_below(bound) == pytest.approx(stats.ttest_1samp(values, bound, alternative="less").pvalue)
    theirs = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    assert found.interval(0.9) == pytest.approx((theirs.low, theirs.high))


@pytest.mark.parametrize(
    ("values", "clusters"),
    [
        ([1.0] * 30 + [0.0] * 10, [str(i // 5) for i in range(40)]),
        ([1.0] * 40, [str(i // 5) for i in range(40)]),
        ([0.5] * 12, None),
        ([1.0, 0.0] * 10, [str(i // 2) for i in range(20)]),
    ],
)
def test_clusters_and_scores_alike_are_wilsons_as_in_the_report(values, clusters):
    reported = estimate(values, clusters)
    found = single_of(reported)
    low, high = found.interval(0.95)
    assert low <= reported.ci_low + 1e-9  # deviations that cancel count as so many clusters here, which is wider
    assert high >= reported.ci_high - 1e-9
    assert found.p_above(low) == pytest.approx(0.025)
    assert found.p_below(high) == pytest.approx(0.025) if high < 1 else True


def test_too_little_tells_nothing():
    assert single_of(estimate([0.5])).p_above(0.1) is None
    alike = single_of(estimate([3.0] * 9, low=None, high=None))
    assert (alike.p_above(0.0), alike.interval(0.9)) == (None, (None, None))
    for value in (math.nan, math.inf, None):
        assert single_of(estimate([1.0, 0.0], low=None, high=None)) is not None
        assert single_of(Estimate("m", "", value, 0.1, 0, 1, 0.95, 3, 3, "t", {"ok": 3})) is None
    assert Unpaired(alike, share(3, 9)).p_above(0.0) is None
    assert UnpairedRatio(alike, share(3, 9)).interval(0.9) == (None, None)


@pytest.mark.parametrize(("a", "b", "n"), [(56, 48, 70), (9, 3, 10), (10, 0, 10), (5, 0, 56), (0, 0, 10)])
def test_two_shares_are_newcombes_as_in_statsmodels(a, b, n):
    """Within what t gives more than the normal quantile, which statsmodels takes."""

    def single(k):
        value = k / n
        return Single(value, None, 10**9, 0.0, 1.0, float(n))

    found = Unpaired(single(a), single(b))
    theirs = confint_proportions_2indep(a, n, b, n, method="newcomb", compare="diff", alpha=0.1)
    assert found.interval(0.9) == pytest.approx(theirs, abs=1e-6)
    low, high = found.interval(0.9)
    assert found.p_above(low) == pytest.approx(0.05, abs=1e-6)
    assert high == 1 or found.p_below(high) == pytest.approx(0.05, abs=1e-6)


def score_of_ratio(better: int, worse: int, both: int, n: int, ratio: float) -> float:
    """The score statistic with the constrained maximum of the likelihood found numerically."""
    right = (better + worse + both) / n

    def shares(q):
        rest = ratio * q + (1 - ratio) * right
        return q, rest, right - q - rest

    def minus_log_likelihood(q):
        return -sum(count * math.log(p) for count, p in zip((better, worse, both), shares(q), strict=True) if count)

    low, high = max(0.0, (ratio - 1) * right / ratio), ratio * right / (1 + ratio)
    found = optimize.minimize_scalar(
        minus_log_likelihood, bounds=(low + 1e-13, high - 1e-13), method="bounded", options={"xatol": 1e-14}
    )
    q, rest, _ = shares(found.x)
    return (better + both - ratio * (worse + both)) / math.sqrt(n * ratio * (q + rest))


def pairs(better: int, worse: int, both: int, n: int) -> PairedRatio:
    neither = n - better - worse - both
    a = [1.0] * better + [0.0] * worse + [1.0] * both + [0.0] * neither
    b = [0.0] * better + [1.0] * worse + [1.0] * both + [0.0] * neither
    return PairedRatio(a, b, None, 0.0, 1.0)


@pytest.mark.parametrize(("better", "worse", "both", "n"), [(5, 3, 85, 100), (0, 4, 30, 50), (12, 1, 5, 40)])
@pytest.mark.parametrize("ratio", [0.8, 0.95, 1.0, 1.1])
def test_the_score_test_of_a_ratio_is_that_of_the_constrained_likelihood(better, worse, both, n, ratio):
    found = pairs(better, worse, both, n)
    expected = stats.norm.sf(score_of_ratio(better, worse, both, n, ratio))
    assert found.p_above(ratio) == pytest.approx(expected, rel=1e-4)
    assert found.p_below(ratio) == pytest.approx(1 - expected, rel=1e-4)


def test_a_ratio_of_shares_keeps_its_level_where_t_does_not():
    n, p_worse, p_both = 50, 0.05, 0.85  # the candidate has 0.85 ÷ 0.9 of the baseline's value, a little less than 0.95
    ratio = 0.85 / 0.9
    passed = {"score": 0.0, "t": 0.0}
    for worse in range(12):
        for both in range(20, n - worse + 1):
            probability = stats.multinomial.pmf([worse, both, n - worse - both], n, [p_worse, p_both, 0.1])
            found = pairs(0, worse, both, n)
            passed["score"] += probability * (found.p_above(ratio) <= 0.05)
            contrast = np.array(found.candidate) - ratio * np.array(found.baseline)
            t = contrast.mean() / max(1e-9, contrast.std(ddof=1) / math.sqrt(n))
            passed["t"] += probability * (stats.t.sf(t, n - 1) <= 0.05)
    assert passed["score"] <= 0.05
    assert passed["t"] > 0.07


def test_other_scores_are_a_contrast_under_students_t():
    draw = np.random.default_rng(3)
    a, b = draw.normal(9, 2, 40), draw.normal(10, 2, 40)
    found = PairedRatio(list(a), list(b))
    for ratio in (0.8, 0.95):
        contrast = a - ratio * b
        assert found.p_above(ratio) == pytest.approx(stats.ttest_1samp(contrast, 0, alternative="greater").pvalue)
    low, high = found.interval(0.9)
    assert found.p_above(low) == pytest.approx(0.05, abs=1e-6)
    assert found.p_below(high) == pytest.approx(0.05, abs=1e-6)


def test_a_baseline_of_nothing_is_divided_by_nowhere():
    nothing = pairs(0, 0, 0, 20)
    assert (nothing.p_above(0.95), nothing.p_below(0.95)) == (0.5, 0.5)
    won = pairs(12, 0, 0, 20)
    assert won.p_above(0.95) < 0.01
    assert won.interval(0.9)[1] is None
    assert pairs(0, 12, 0, 20).p_above(0.95) > 0.99
    unpaired = UnpairedRatio(share(12, 20), share(0, 20))
    assert unpaired.p_above(0.95) < 0.01
    assert unpaired.interval(0.9)[1] is None


def test_ratios_without_pairs_are_wider():
    paired, apart = pairs(5, 3, 85, 100).interval(0.9), UnpairedRatio(share(90, 100), share(88, 100)).interval(0.9)
    assert apart[0] < paired[0] < paired[1] < apart[1]


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 30), st.integers(1, 30), st.floats(0.2, 3))
def test_p_values_are_probabilities_and_sides_complement_each_other(better, worse, both, neither, ratio):
    found = pairs(better, worse, both, better + worse + both + neither)
    above, below = found.p_above(ratio), found.p_below(ratio)
    assert 0 <= above <= 1
    assert above + below == pytest.approx(1)
    assert found.p_above(ratio) <= found.p_above(ratio * 1.1) + 1e-9

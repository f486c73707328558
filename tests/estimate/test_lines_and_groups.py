"""Lines, differences of group means and interquartile means: against SciPy and statsmodels, in any order."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from midflight.errors import MetricError
from midflight.estimate.iqm import interquartile_mean, probability_of_improvement
from midflight.estimate.line import fit_line
from midflight.estimate.quantiles import t_cdf, t_quantile
from midflight.estimate.welch import paired_runs_difference, welch_difference

scores = st.integers(-800, 800).map(lambda eighths: eighths / 8)  # what SciPy and we both compute exactly


@pytest.mark.parametrize("df", [0.7, 1.5, 2.94, 17.3])
def test_quantiles_of_fractional_degrees_are_scipys(df):
    for p in (0.005, 0.1, 0.6, 0.975):
        assert t_quantile(p, df) == pytest.approx(stats.t.ppf(p, df), rel=1e-9)
        assert t_cdf(t_quantile(p, df), df) == pytest.approx(p, rel=1e-9)


class TestLine:
    @given(st.lists(st.tuples(st.integers(0, 50), scores, st.floats(0.1, 10)), min_size=3, max_size=30))
    def test_is_statsmodels_weighted_least_squares(self, rows):
        import statsmodels.api as sm

        x, y, w = (list(column) for column in zip(*rows, strict=True))
        line = fit_line(x, y, w)
        if len(set(x)) < 2:
            assert line is None
            return
        fit = sm.WLS(y, sm.add_constant(np.array(x, float), has_constant="add"), weights=w).fit()
        assert line.slope == pytest.approx(fit.params[1], rel=1e-6, abs=1e-7)
        assert line.at(0) == pytest.approx(fit.params[0], rel=1e-6, abs=1e-6)
        assert line.slope_stderr == pytest.approx(fit.bse[1], rel=1e-5, abs=1e-6)
        variance = np.array([1, 60]) @ fit.cov_params() @ np.array([1, 60])
        assert line.stderr_at(60) == pytest.approx(np.sqrt(variance), rel=1e-5, abs=1e-6)

    def test_two_points_have_no_error(self):
        line = fit_line([0, 10], [1.0, 2.0])
        assert (line.slope, line.df, line.slope_stderr, line.stderr_at(3)) == (0.1, 0, None, None)

    @given(st.permutations(range(8)))
    def test_does_not_depend_on_the_order(self, order):
        x, y = [3, 1, 4, 1, 5, 9, 2, 6], [0.1, 0.7, 0.3, 0.2, 0.9, 1e9, -1e9, 0.4]
        assert fit_line([x[i] for i in order], [y[i] for i in order]) == fit_line(x, y)


class TestDifference:
    @given(st.lists(scores, min_size=2, max_size=8), st.lists(scores, min_size=2, max_size=8))
    @settings(max_examples=30)
    def test_is_scipys_welch(self, first, second):
        found = welch_difference(first, second)
        if len(set(first)) == 1 or len(set(second)) == 1:  # SciPy warns that it loses precision
            return
        theirs = stats.ttest_ind(second, first, equal_var=False)
        assert (found.value, found.df, found.p_value) == pytest.approx(
            (np.mean(second) - np.mean(first), theirs.df, theirs.pvalue), rel=1e-6, abs=1e-9
        )
        interval = theirs.confidence_interval(0.95)
        assert (found.ci_low, found.ci_high) == pytest.approx((interval.low, interval.high), rel=1e-6, abs=1e-6)

    @given(st.lists(st.tuples(scores, scores), min_size=2, max_size=8))
    @settings(max_examples=30)
    def test_of_pairs_is_scipys(self, pairs):
        first, second = (list(side) for side in zip(*pairs, strict=True))
        found = paired_runs_difference(first, second)
        if len({b - a for a, b in pairs}) == 1:
            assert (found.stderr, found.p_value) == (0.0, None)
            return
        theirs = stats.ttest_rel(second, first)
        assert (found.df, found.p_value) == pytest.approx((theirs.df, theirs.pvalue), rel=1e-6, abs=1e-9)

    def test_one_run_or_no_variation_has_no_interval(self):
        one = welch_difference([0.5], [0.6, 0.7])
        assert (one.value, one.stderr, one.ci_low, one.n) == (pytest.approx(0.15), None, None, (1, 2))
        assert one.method == "no error: a group has one run"
        flat = welch_difference([0.5, 0.5], [0.6, 0.6])
        assert (flat.stderr, flat.ci_low, flat.p_value) == (0.0, None, None)
        assert paired_runs_difference([0.5], [0.6]).stderr is None


class TestInterquartileMean:
    @given(st.lists(scores, min_size=12, max_size=12), st.sampled_from([1, 2, 3, 4, 6, 12]))
    @settings(max_examples=20)
    def test_is_scipys_trimmed_mean_as_in_rliable(self, values, tasks):
        table = [values[at : at + tasks] for at in range(0, 12, tasks)]
        expected = stats.trim_mean(np.array(table), proportiontocut=0.25, axis=None)  # rliable's aggregate_iqm
        assert interquartile_mean(table).value == pytest.approx(expected, rel=1e-12, abs=1e-12)

    def test_the_interval_is_that_of_a_stratified_bootstrap_by_scipy(self):
        """SciPy resamples several samples independently: given a task each, that is the stratified bootstrap."""
        table = np.random.default_rng(1).normal([0, 1, 2], [1, 2, 1], (10, 3))
        theirs = stats.bootstrap(
            tuple(table.T),
            lambda *columns, axis: stats.trim_mean(np.concatenate(columns, axis=axis), 0.25, axis=axis),
            method="percentile",
            n_resamples=20_000,
            vectorized=True,
            rng=np.random.default_rng(2),
        )
        found = interquartile_mean(table.tolist(), seed=3)
        assert found.stderr == pytest.approx(theirs.standard_error, rel=0.06)
        assert (found.low, found.high) == pytest.approx(tuple(theirs.confidence_interval), abs=0.06)

    def test_an_outlier_does_not_move_it_and_the_seed_fixes_it_in_any_order_of_runs(self):
        table = [[0.1, 0.2], [0.3, 0.4], [0.2, 1e6]]
        found = interquartile_mean(table, seed=5)
        assert 0.1 < found.value < 0.4
        shuffled = random.Random(0).sample(table, 3)
        assert interquartile_mean(shuffled, seed=5) == found
        assert interquartile_mean(table, seed=6) != found

    def test_what_cannot_vary_or_is_missing_has_no_interval(self):
        assert interquartile_mean([[0.5, 0.6]]).low is None
        alike = interquartile_mean([[0.5], [0.5]])
        assert (alike.stderr, alike.low) == (None, None)
        for bad in ([], [[]], [[1.0], [1.0, 2.0]], [[float("nan")]]):
            with pytest.raises(MetricError, match="scores of runs and tasks"):
                interquartile_mean(bad)


class TestProbabilityOfImprovement:
    @given(st.lists(st.integers(0, 5), min_size=2, max_size=6), st.lists(st.integers(0, 5), min_size=2, max_size=6))
    @settings(max_examples=20)
    def test_is_mann_whitneys_share_of_pairs(self, first, second):
        found = probability_of_improvement([[float(v)] for v in first], [[float(v)] for v in second])
        u, _ = stats.mannwhitneyu(second, first)
        assert found.value == pytest.approx(u / (len(first) * len(second)))

    def test_averages_over_tasks_and_has_an_interval(self):
        random = np.random.default_rng(0)
        a, b = random.normal(0, 1, (6, 4)), random.normal(1, 1, (5, 4))
        found = probability_of_improvement(a.tolist(), b.tolist())
        each = [stats.mannwhitneyu(b[:, t], a[:, t]).statistic / 30 for t in range(4)]
        assert found.value == pytest.approx(np.mean(each))
        assert 0.5 < found.low < found.value < found.high <= 1
        with pytest.raises(MetricError, match="the same tasks"):
            probability_of_improvement([[1.0]], [[1.0, 2.0]])

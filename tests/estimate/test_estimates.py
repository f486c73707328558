"""Values, errors and intervals: against SciPy, statsmodels and lm-evaluation-harness, by simulation, in any order."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from midflight.errors import MetricError
from midflight.estimate import bootstrap_interval, estimate_all, mean_interval, ratio_interval, wilson
from midflight.estimate.quantiles import normal_quantile, t_quantile
from midflight.metrics import BaseMetric, load_metric, load_metrics, score_all
from midflight.records import SCORED, STATES, Cost, Item, Output, Sample, Slice

scores = st.floats(-100, 100, allow_subnormal=False)


@pytest.mark.parametrize("df", [1, 2, 3, 5, 10, 29, 100, 1000, 20_000, 10**7])
def test_quantiles_are_scipys(df):
    for p in (0.005, 0.025, 0.1, 0.5, 0.6, 0.9, 0.975, 0.9999):
        assert t_quantile(p, df) == pytest.approx(stats.t.ppf(p, df), rel=1e-9, abs=1e-12)
        assert normal_quantile(p) == pytest.approx(stats.norm.ppf(p), rel=1e-12, abs=1e-12)


@given(st.lists(scores, min_size=2, max_size=50))
def test_mean_and_error_are_scipys_and_lm_evaluation_harness(values):
    from lm_eval.api.metrics import mean_stderr

    found = mean_interval(values)
    assert found.value == pytest.approx(np.mean(values), rel=1e-9, abs=1e-9)
    assert found.stderr == pytest.approx(stats.sem(values), rel=1e-6, abs=1e-9)
    assert found.stderr == pytest.approx(mean_stderr(values), rel=1e-6, abs=1e-9)
    if found.stderr > 1e-6:
        low, high = stats.t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=stats.sem(values))
        assert (found.low, found.high) == pytest.approx((low, high), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(("count", "n"), [(0, 5), (1, 1), (3, 10), (27, 30), (500, 1000), (40, 40)])
def test_proportions_have_statsmodels_wilson_interval(count, n):
    from statsmodels.stats.proportion import proportion_confint

    found = mean_interval([1.0] * count + [0.0] * (n - count), low=0.0, high=1.0)
    assert found.method == "wilson"
    assert (found.low, found.high) == pytest.approx(proportion_confint(count, n, method="wilson"), abs=1e-12)


@given(st.lists(st.tuples(scores, st.integers(0, 6)), min_size=3, max_size=60))
def test_clustered_errors_are_statsmodels(rows):
    """OLS on a constant with cluster-robust covariance; its small-sample factor for one regressor is C/(C−1)."""
    import statsmodels.api as sm

    values, clusters = [v for v, _ in rows], [c for _, c in rows]
    count = len(set(clusters))
    if count < 2:
        return
    found = mean_interval(values, [str(c) for c in clusters])
    fit = sm.OLS(values, np.ones(len(values))).fit(
        cov_type="cluster", cov_kwds={"groups": clusters, "use_correction": False}
    )
    assert found.stderr == pytest.approx(fit.bse[0] * math.sqrt(count / (count - 1)), rel=1e-6, abs=1e-9)
    assert found.clusters == count


def test_clusters_of_one_are_no_clusters():
    values = [0.1, 0.5, 0.9, 0.3]
    assert mean_interval(values, ["a", "b", "c", "d"]) == mean_interval(values)


def test_fewer_than_two_have_no_error():
    one = mean_interval([0.7])
    assert (one.value, one.stderr, one.low, one.high) == (0.7, None, None, None)
    binary = mean_interval([1.0], low=0.0, high=1.0)
    assert binary.stderr is None
    assert binary.low > 0.2
    together = mean_interval([0.1, 0.9], ["a", "a"])
    assert (together.stderr, together.clusters) == (None, 1)


def test_equal_scores_are_not_certain():
    """A handful of zeros does not prove that the truth is 0."""
    found = mean_interval([0.0] * 6, ["a", "a", "b", "b", "c", "c"], low=0.0, high=1.0)
    assert found.stderr == 0.0
    assert found.low == 0.0
    assert found.high > 0.5
    partial = mean_interval([0.25] * 4, low=0.0, high=1.0)
    assert partial.low < 0.25 < partial.high


def test_no_variation_is_not_certainty():
    """Three scores of 0.1 have a mean whose rounding must not pass for variation; without bounds there is no interval."""
    for values in ([0.1] * 3, [0.7] * 7):
        found = mean_interval(values, low=0.0, high=1.0)
        assert (found.value, found.stderr, found.method) == (values[0], 0.0, "wilson, effective n, t")
        assert found.high - found.low > 0.3
    scaled = mean_interval([2.0] * 5, low=0.0, high=8.0)
    plain = mean_interval([0.25] * 5, low=0.0, high=1.0)
    assert (scaled.low, scaled.high) == pytest.approx((8 * plain.low, 8 * plain.high))
    lengths = mean_interval([512.0] * 4, low=0.0)
    assert (lengths.stderr, lengths.low, lengths.high, lengths.method) == (0.0, None, None, "t, no variation")
    same = ratio_interval([0.2, 0.4, 0.6], [1.0, 2.0, 3.0])
    assert (same.stderr, same.low, same.method) == (0.0, None, "ratio, t, no variation")


def test_the_effective_n_is_at_most_n():
    """Errors that cancel within each cluster leave a standard error of 0, or of a rounding, and no certainty."""
    from midflight.estimate.quantiles import t_quantile

    for right, wrong in ((1, 1), (1, 2)):
        values = ([1.0] * right + [0.0] * wrong) * 4
        clusters = [str(i // (right + wrong)) for i in range(len(values))]
        found = mean_interval(values, clusters, low=0.0, high=1.0)
        share = right / (right + wrong)
        assert (found.low, found.high) == pytest.approx(wilson(share, len(values), t_quantile(0.975, 3)), abs=1e-9)


@pytest.mark.parametrize(
    ("values", "clusters"), [([0.1, 0.3, 0.3, 0.1], "aabb"), ([1.0, 0.5, 0.5, 0.0], "bacb"), ([1e-300] * 3, "abc")]
)
def test_deviations_that_cancel_in_every_cluster_prove_nothing(values, clusters):
    free = mean_interval(values, list(clusters))
    assert (free.stderr, free.low, free.high) == (0.0, None, None)
    assert free.method.endswith("no variation")
    bounded = mean_interval(values, list(clusters), low=0.0, high=1.0)
    assert bounded.high - bounded.low > 0.3
    ratio = ratio_interval(values, [1.0] * len(values), list(clusters))
    assert (ratio.stderr, ratio.low) == (0.0, None)


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.2, 0.5, 1.0]), st.sampled_from("abc")), min_size=1, max_size=9),
    st.sampled_from([(0.0, 1.0), (None, None), (0.0, None)]),
    st.booleans(),
)
def test_every_interval_holds_its_value_and_has_a_width(rows, bounds, clustered):
    values, clusters = [v for v, _ in rows], [c for _, c in rows] if clustered else None
    low, high = bounds
    for found in (
        mean_interval(values, clusters, low=low, high=high),
        ratio_interval(values, [1.0 + (v > 0.2) for v in values], clusters, low=low, high=high),
    ):
        assert (found.low is None) == (found.high is None)
        if found.low is not None:
            assert found.low <= found.value <= found.high
            assert found.low < found.high


def test_intervals_stay_within_the_bounds():
    ppl, bits = load_metric("perplexity"), load_metric("bits_per_byte")
    x, y = [0.01, 9.0, 0.02], [4.0, 5.0, 6.0]
    found = ratio_interval(x, y, transform=ppl.transform, slope=ppl.slope, low=ppl.low, high=ppl.high)
    assert (found.low, ppl.low) == (1.0, 1.0)
    assert found.high > found.value
    assert ratio_interval(x, y, low=bits.low, high=bits.high).low == 0.0
    assert mean_interval([0.0, 0.0, 9.0], low=0.0).low == 0.0


def test_infinite_scores_of_both_signs_have_no_mean():
    assert mean_interval([math.inf, 1.0]).value == math.inf
    for call in (lambda: mean_interval([math.inf, -math.inf]), lambda: ratio_interval([math.inf, -math.inf], [1, 1])):
        with pytest.raises(MetricError, match="infinite"):
            call()


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.integers(0, 5)), min_size=1, max_size=80), st.randoms())
def test_the_same_bits_in_any_order(rows, shuffle):
    values, clusters = [v for v, _ in rows], [str(c) for _, c in rows]
    first = mean_interval(values, clusters), ratio_interval(values, [c + 1.0 for _, c in rows], clusters)
    mixed = list(rows)
    shuffle.shuffle(mixed)
    again = (
        mean_interval([v for v, _ in mixed], [str(c) for _, c in mixed]),
        ratio_interval([v for v, _ in mixed], [c + 1.0 for _, c in mixed], [str(c) for _, c in mixed]),
    )
    assert again == first


@given(st.lists(st.tuples(st.floats(0.1, 50), st.floats(1, 20)), min_size=3, max_size=40))
def test_the_error_of_a_ratio_is_the_linearised_one(rows):
    x, y = (np.array(column) for column in zip(*rows, strict=True))
    found = ratio_interval(x.tolist(), y.tolist())
    ratio = x.sum() / y.sum()
    residual = x - ratio * y
    assert found.value == pytest.approx(ratio)
    assert found.stderr == pytest.approx(
        math.sqrt(len(x) / (len(x) - 1) * (residual**2).sum()) / y.sum(), rel=1e-6, abs=1e-12
    )


def test_perplexity_carries_its_error_through_exp():
    ppl = load_metric("perplexity")
    x, y = [10.0, 14.0, 9.0, 20.0], [5.0, 6.0, 4.0, 9.0]
    plain = ratio_interval(x, y)
    found = ratio_interval(x, y, transform=ppl.transform, slope=ppl.slope)
    assert found.value == pytest.approx(math.exp(plain.value))
    assert found.stderr == pytest.approx(plain.stderr * math.exp(plain.value))
    assert (found.low, found.high) == pytest.approx((math.exp(plain.low), math.exp(plain.high)))


def test_an_infinite_loss_is_an_infinite_perplexity():
    ppl = load_metric("perplexity")
    found = ratio_interval([math.inf, 1.0], [1.0, 1.0], transform=ppl.transform, slope=ppl.slope)
    assert (found.value, found.stderr) == (math.inf, None)
    assert ratio_interval([1e6, 1.0], [1.0, 1.0], transform=ppl.transform, slope=ppl.slope).value == math.inf
    assert ratio_interval([1.0], [0.0]) is None


@pytest.mark.parametrize(
    ("p", "n", "cluster", "least"),
    [(0.9, 30, 1, 0.93), (0.95, 100, 1, 0.93), (0.5, 20, 1, 0.93), (0.7, 60, 5, 0.92), (0.95, 60, 4, 0.92)],
)
def test_coverage_by_simulation(p, n, cluster, least):
    """95 % intervals hold the truth about 95 times in 100; Wald's would at p=.9, n=30 in 81 (clusters: ICC 0.5)."""
    random_ = np.random.default_rng(0)
    names = [str(i // cluster) for i in range(n)]
    hits, repeats = 0, 1500
    for _ in range(repeats):
        truth = np.repeat(random_.beta(p, 1 - p, n // cluster), cluster) if cluster > 1 else p
        values = (random_.random(n) < truth).astype(float).tolist()
        found = mean_interval(values, names if cluster > 1 else None, low=0.0, high=1.0)
        hits += found.low <= p <= found.high
    assert least <= hits / repeats <= 0.995


def test_coverage_of_the_bootstrap_by_simulation():
    random_ = np.random.default_rng(1)
    hits = 0
    for repeat in range(200):
        values = random_.normal(3.0, 1.0, 60).tolist()
        found = bootstrap_interval(
            lambda p, _: sum(p) / len(p), [([v], [None]) for v in values], seed=repeat, replicates=300
        )
        hits += found.low <= 3.0 <= found.high
    assert 0.89 <= hits / 200 <= 0.99


class TestBootstrap:
    def test_seeded_and_close_to_the_exact_error(self):
        values = np.random.default_rng(2).normal(0, 1, 200).tolist()
        groups = [([v], [0]) for v in values]

        def mean(p, _):
            return sum(p) / len(p)

        found = bootstrap_interval(mean, groups, seed=1)
        assert found == bootstrap_interval(mean, groups, seed=1)
        assert found != bootstrap_interval(mean, groups, seed=2)
        assert found.stderr == pytest.approx(stats.sem(values), rel=0.1)

    def test_groups_stay_together(self):
        groups = [([float(i)] * 10, [0] * 10) for i in range(12)]
        found = bootstrap_interval(lambda p, _: sum(p) / len(p), groups, seed=0)
        assert found.clusters == 12
        assert found.stderr == pytest.approx(stats.sem(range(12)), rel=0.15)

    @pytest.mark.parametrize("result", ["x", None, True, float("nan"), float("inf"), [1, 2]])
    def test_what_is_no_number(self, result):
        with pytest.raises(MetricError, match="compute"):
            bootstrap_interval(lambda p, _: result, [([1], [1])] * 3)

    def test_what_raises(self):
        with pytest.raises(MetricError, match="compute raised ZeroDivisionError"):
            bootstrap_interval(lambda p, _: 1 / 0, [([1], [1])] * 3)

    def test_a_metric_that_is_often_undefined_has_no_interval(self):
        def needs_both(predictions, labels):
            return 1.0 if len(set(labels)) == 2 else float("nan")

        found = bootstrap_interval(needs_both, [([1], [0]), ([1], [1]), ([1], [1])], replicates=200)
        assert (found.value, found.low) == (1.0, None)
        assert "undefined on" in found.method

    def test_resamples_that_are_all_equal_prove_nothing(self):
        found = bootstrap_interval(lambda p, _: 0.5, [([1], [1])] * 3)
        assert (found.value, found.stderr, found.low, found.high) == (0.5, None, None, None)
        assert found.method == "bootstrap, 1000, seed 0, no variation"

    def test_any_seed(self):
        groups = [([float(i)], [0]) for i in range(9)]
        found = [bootstrap_interval(lambda p, _: sum(p) / len(p), groups, seed=seed) for seed in (-1, 1, -1, -(2**70))]
        assert found[0] == found[2] != found[1]
        assert found[3].stderr == pytest.approx(found[1].stderr, rel=0.1)

    def test_numpy_numbers_are_numbers(self):
        assert bootstrap_interval(lambda p, _: np.float32(0.5), [([1], [1])] * 3).value == 0.5


def sample(index: int, state: str = "ok", prediction="1", **item) -> list[Sample]:
    return [
        Sample(
            Item(f"{index:03d}", {}, "1", **item),
            0,
            (Output("", logprob=-1.0, num_tokens=2),),
            prediction,
            state,
            "why",
        )
    ]


def estimates(items, *metrics, **options):
    loaded = [load_metric(m) if isinstance(m, str) else m for m in metrics]
    found = estimate_all(loaded, items, score_all(loaded, items), Cost(), **options)
    return {(e.metric, e.slice): e for e in found}


class TestEstimates:
    @given(st.lists(st.sampled_from(STATES), min_size=0, max_size=30))
    def test_states_are_counted_and_sum_to_n(self, states):
        items = [sample(i, state, None if state == "unparsed" else "1") for i, state in enumerate(states)]
        found = estimates(items, "exact_match")["exact_match", ""]
        assert sum(found.counts.values()) == found.n == len(states)
        assert found.num_scored == sum(s in SCORED for s in states)
        assert (found.value is None) == (found.num_scored == 0)
        assert found.partial == (found.num_scored < len(states) or not states)

    def test_an_error_is_not_a_wrong_answer(self):
        found = estimates([sample(0), sample(1), sample(2, "error")], "exact_match")["exact_match", ""]
        assert (found.value, found.n, found.coverage, found.counts) == (1.0, 3, 2 / 3, {"ok": 2, "error": 1})

    def test_an_empty_set_has_no_value(self):
        for metric in ("exact_match", "perplexity"):
            found = estimates([], metric)[metric, ""]
            assert (found.value, found.stderr, found.n, found.partial) == (None, None, 0, True)

    def test_slices(self):
        items = [sample(i, prediction=str(i % 2), slices={"set": "ab"[i % 2], "all": "x"}) for i in range(6)]
        found = estimates(items, "exact_match")
        assert {key: e.value for key, e in found.items()} == {
            ("exact_match", ""): 0.5,
            ("exact_match", "set=a"): 0.0,
            ("exact_match", "set=b"): 1.0,
            ("exact_match", "all=x"): 0.5,
        }

    def test_clusters_widen(self):
        apart = estimates([sample(i, prediction=str(i // 5 % 2)) for i in range(20)], "exact_match")["exact_match", ""]
        items = [sample(i, prediction=str(i // 5 % 2), cluster=str(i // 5)) for i in range(20)]
        together = estimates(items, "exact_match")["exact_match", ""]
        assert together.clusters == 4
        assert together.stderr > 2 * apart.stderr

    def test_a_metric_with_only_compute_is_a_full_citizen(self):
        class Risk(BaseMetric):
            """Nothing but compute."""

            key, higher_is_better, unit = "risk", False, "%"

            def compute(self, predictions, labels):
                return 100 * sum(p != y for p, y in zip(predictions, labels, strict=True)) / len(labels)

        items = [sample(i, prediction=str(i % 4), slices={"s": str(i % 2)}) for i in range(40)]
        items.append(sample(40, "error"))
        items.append(sample(41, "unparsed", None))
        found = estimates(items, Risk())
        whole = found["risk", ""]
        assert whole.value == pytest.approx(100 * 31 / 41)
        assert whole.ci_low < whole.value < whole.ci_high
        assert (whole.n, whole.counts["error"], whole.unit, whole.higher_is_better) == (42, 1, "%", False)
        assert ("risk", "s=1") in found

    def test_a_users_metric_that_raises_is_said_and_costs_nothing_else(self):
        class Broken(BaseMetric):
            key = "broken"

            def compute(self, predictions, labels):
                raise KeyError("x")

        found = estimates([sample(0), sample(1)], Broken(), "exact_match")
        broken = found["broken", ""]
        assert (broken.value, broken.note, broken.method) == (None, "compute raised KeyError: 'x'", "failed")
        assert (broken.counts, broken.partial) == ({"error": 2}, True)
        assert found["exact_match", ""].value == 1.0

    def test_an_item_without_a_cluster_is_its_own(self):
        """Also for a metric with only compute, and a cluster with an empty name is a cluster."""

        class Share(BaseMetric):
            key = "share"

            def compute(self, predictions, labels):
                return sum(p == y for p, y in zip(predictions, labels, strict=True)) / len(labels)

        items = [sample(i, prediction=str(i % 2), cluster=c) for i, c in enumerate([None, None, "a", "a", "", ""])]
        found = estimates(items, "exact_match", Share())
        assert [e.clusters for e in found.values()] == [4, 4]

    def test_slices_say_their_name_and_value(self):
        items = [sample(i, slices={"level": str(i), "a=b": "c"}) for i in range(2)]
        loaded = [load_metric("exact_match")]
        found = estimate_all(loaded, items, score_all(loaded, items), Cost())
        assert [(e.slice, e.part) for e in found] == [
            ("", None),
            ("a=b=c", Slice("a=b", "c")),
            ("level=0", Slice("level", "0")),
            ("level=1", Slice("level", "1")),
        ]

    def test_the_mean_of_samples_has_its_graders_bounds(self):
        metrics = load_metrics(["response_length", "avg@2:response_length"], samples=2)
        items = [[replace(s, index=j) for j in range(2) for s in sample(i)] for i in range(3)]
        items[0] = [replace(s, outputs=(Output("", num_tokens=90),)) for s in items[0]]
        mean, avg = estimate_all(metrics, items, score_all(metrics, items), Cost())
        assert (avg.value, avg.ci_low, avg.ci_high, avg.unit) == (mean.value, 0.0, mean.ci_high, "tokens")
        assert (avg.higher_is_better, load_metric("avg@2:exact_match").high) == (None, 1.0)

    def test_what_the_engine_cannot_feed_is_said(self):
        found = estimates([sample(0)], "token_entropy", skip={"token_entropy": "the fake engine gives no entropy"})
        assert found["token_entropy", ""].note == "the fake engine gives no entropy"
        assert found["token_entropy", ""].counts == {"not_run": 1}


@given(st.lists(st.sampled_from(STATES), min_size=1, max_size=25), st.randoms(use_true_random=False))
def test_estimates_do_not_depend_on_the_order_of_the_items(states, shuffle):
    items = [
        sample(i, state, str(i % 3), slices={"s": str(i % 2)}, cluster=str(i // 3)) for i, state in enumerate(states)
    ]

    class Share(BaseMetric):
        key = "share"

        def compute(self, predictions, labels):
            return sum(p == y for p, y in zip(predictions, labels, strict=True)) / len(labels)

    mixed = list(items)
    random.Random(shuffle.random()).shuffle(mixed)
    assert estimates(items, "exact_match", "perplexity", Share()) == estimates(
        mixed, "exact_match", "perplexity", Share()
    )


def test_wilson_is_exact_at_the_ends():
    assert wilson(0.0, 10, 1.96)[0] == 0.0
    assert wilson(1.0, 10, 1.96)[1] == 1.0

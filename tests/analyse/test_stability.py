"""Slope, noise, signal and the best checkpoint: against statsmodels and the paper's code, and by simulation."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import scripted

from midflight.analyse.best import best_of
from midflight.analyse.curves import Curve, curves_of
from midflight.analyse.paired import ItemScores, item_scores
from midflight.analyse.slope import slope_of
from midflight.analyse.stability import Noise, noise_of, pooled, signal_to_noise
from midflight.analyse.trend import trends_of
from midflight.errors import ConfigError, UnknownKeyError
from midflight.records import Cost, Estimate, EvalReport, Progress


@pytest.fixture
def train(store):
    return partial(scripted.train, store)


def curve_from(values, stderr=None, steps=None, higher_is_better=True) -> Curve:
    """A curve of given values, as the store would give it."""
    steps = steps or [100 * i for i in range(len(values))]
    reports = []
    for step, value, error in zip(steps, values, stderr or [None] * len(values), strict=True):
        ends = (None, None) if error is None else (value - 2 * error, value + 2 * error)
        counts = {"ok": 10}
        estimate = Estimate(
            "acc", "", value, error, *ends, 0.95, 10, 10, "t", counts, higher_is_better=higher_is_better
        )
        reports.append(
            EvalReport(f"{step}", "t", "f", {}, {}, f"w{step}", "done", Progress(step), [estimate], Cost(), 0, 0.0)
        )
    return Curve("r", "t", "acc", "", "", {}, tuple(reports))


def curve_and_scores(table, clusters=None, **options):
    table = np.asarray(table, dtype=float)
    return curve_from(table.mean(axis=1).tolist(), **options), ItemScores(table, clusters, 0)


class World:
    """Items of different difficulty, answered by checkpoints of known ability; checkpoints may have shocks."""

    def __init__(self, abilities, shock=0.0, seed=0):
        self.abilities, self.shock = np.asarray(abilities, float), shock
        self.random = np.random.default_rng(seed)
        grid = np.random.default_rng(1).normal(0, 1.5, 20_000)
        self.truth = np.array([np.mean(1 / (1 + np.exp(-(a + grid)))) for a in self.abilities])
        """Share of all items, seen or not, that each checkpoint answers."""

    def draw(self, items=200):
        difficulty = self.random.normal(0, 1.5, items)
        shocks = self.shock * self.random.normal(size=len(self.abilities))
        chance = 1 / (1 + np.exp(-((self.abilities + shocks)[:, None] + difficulty)))
        return (self.random.random(chance.shape) < chance).astype(float)


class TestSlope:
    @pytest.mark.parametrize("stderr", [None, [0.05, 0.04, 0.05, 0.01, 0.02]])
    def test_without_item_scores_is_statsmodels_weighted_least_squares(self, stderr):
        import statsmodels.api as sm

        values, steps = [0.2, 0.35, 0.3, 0.5, 0.45], [0, 100, 250, 300, 450]
        found = slope_of(curve_from(values, stderr, steps), None)
        weights = [1.0] * 5 if stderr is None else [error**-2 for error in stderr]
        fit = sm.WLS(values, sm.add_constant(np.array(steps) / 1000), weights=weights).fit()
        assert (found.value, found.stderr) == pytest.approx((fit.params[1], fit.bse[1]))
        assert (found.ci_low, found.ci_high) == pytest.approx(tuple(fit.conf_int()[1]))
        assert found.method == ("least squares" if stderr is None else "least squares, weighted by stderr")

    def test_errors_that_leave_one_point_only_do_not_weigh(self):
        found = slope_of(curve_from([0.1, 0.2, 0.4], [1e-200, 1.0, 1.0]), None)
        assert (found.value, found.method) == (pytest.approx(1.5), "least squares")

    def test_with_item_scores_is_the_mean_of_their_slopes_clustered(self):
        """Checkpoints on a line leave no scatter: the error is that of statsmodels' clustered mean of item slopes."""
        import statsmodels.api as sm

        random = np.random.default_rng(0)
        slopes, clusters = random.normal(0.1, 0.2, 60), [str(i // 4) for i in range(60)]
        table = np.outer([0, 1, 2, 3], slopes) + random.normal(size=60)
        found = slope_of(*curve_and_scores(table, clusters))
        fit = sm.OLS(slopes, np.ones(60)).fit(
            cov_type="cluster", cov_kwds={"groups": np.array(clusters), "use_correction": False}
        )
        assert found.value == pytest.approx(10 * slopes.mean())  # 100 steps between checkpoints, for 1,000 steps
        assert found.stderr == pytest.approx(10 * fit.bse[0] * np.sqrt(15 / 14))
        assert (found.n, found.num_items) == (4, 60)

    @pytest.mark.parametrize("shock", [0.0, 0.15, 0.5])
    def test_the_interval_covers_the_slope_whatever_checkpoints_have_in_common(self, shock):
        """Abilities that do not change: the slope is 0. Items alone would cover it in 47 % of cases at a shock of 0.5."""
        world = World([0.3] * 8, shock)
        found = [slope_of(*curve_and_scores(world.draw())) for _ in range(400)]
        assert 0.925 <= np.mean([f.ci_low <= 0 <= f.ci_high for f in found]) <= 0.99

    def test_pairing_items_is_what_makes_small_gains_visible(self):
        """Items that differ widely and gain a little each: their difficulty cancels in the slope."""
        random = np.random.default_rng(0)
        table = random.uniform(0, 1, 100) + 0.01 * np.arange(6)[:, None] + random.normal(0, 0.02, (6, 100))
        curve, scores = curve_and_scores(table)
        assert slope_of(curve, scores).improving == "yes"
        assert slope_of(curve, scores).stderr < 10 * table.std() / 10 / np.sqrt(17.5) / 3

    @pytest.mark.parametrize(
        ("values", "higher", "min_gain", "answer"),
        [
            ([0.1, 0.2, 0.3, 0.41], True, 0.0, "yes"),
            ([0.1, 0.2, 0.3, 0.41], True, 5.0, "no"),
            ([0.1, 0.2, 0.3, 0.41], False, 0.0, "no"),
            ([0.41, 0.3, 0.2, 0.1], False, 0.0, "yes"),
            ([0.3, 0.1, 0.4, 0.2], True, 0.0, "cannot tell"),
            ([0.5, 0.5, 0.5, 0.5], True, 0.0, "cannot tell"),
            ([0.1, 0.2, 0.3, 0.41], None, 0.0, None),
        ],
    )
    def test_answers(self, values, higher, min_gain, answer):
        found = slope_of(curve_from(values, higher_is_better=higher), None, min_gain=min_gain)
        assert found.improving == answer

    def test_what_does_not_vary_has_no_interval_and_two_points_no_slope(self):
        flat = slope_of(*curve_and_scores(np.ones((4, 10))))
        assert (flat.value, flat.stderr, flat.ci_low, flat.improving) == (0.0, None, None, "cannot tell")
        assert flat.method.endswith("no variation")
        assert slope_of(curve_from([0.1, 0.2]), None) is None

    @pytest.mark.parametrize("scale", [1e-160, 1e200, 1e300])
    def test_values_of_any_size(self, scale):
        """The perplexity of a diverged model is such a number."""
        table = np.random.default_rng(0).normal(size=(5, 20))
        (one, best), (other, other_best) = (
            (slope_of(*drawn), best_of(*drawn)) for drawn in (curve_and_scores(table), curve_and_scores(scale * table))
        )
        assert other.ci_low / scale == pytest.approx(one.ci_low)
        assert other_best.optimism / scale == pytest.approx(best.optimism)
        plain = slope_of(curve_and_scores(scale * table)[0], None)
        assert plain.stderr / scale == pytest.approx(slope_of(curve_and_scores(table)[0], None).stderr)

    def test_does_not_depend_on_the_order_of_items(self):
        table, clusters = World([0, 0.2, 0.3]).draw(50), [str(i % 7) for i in range(50)]
        order = np.random.default_rng(5).permutation(50)
        one = slope_of(*curve_and_scores(table, clusters))
        other = slope_of(*curve_and_scores(table[:, order], [clusters[i] for i in order]))
        assert (one.value, one.ci_low) == pytest.approx((other.value, other.ci_low), rel=1e-12)


class TestNoise:
    def test_does_not_see_the_trend(self):
        random = np.random.default_rng(0)
        wobble = random.normal(0, 0.02, 200)
        steps = list(range(0, 20_000, 100))
        flat = noise_of(steps, (0.5 + wobble).tolist())
        rising = noise_of(steps, (0.1 + 0.00002 * np.array(steps) + wobble).tolist())
        assert rising.value == pytest.approx(flat.value) == pytest.approx(0.02, rel=0.1)

    def test_needs_three_points_and_a_straight_curve_has_none(self):
        assert noise_of([0, 1], [0.1, 0.2]) is None
        assert noise_of([0, 100, 200, 300], [0.1, 0.2, 0.3, 0.4]).value == 0

    def test_pools_by_degrees_of_freedom(self):
        assert pooled([Noise(3.0, 4), Noise(0.0, 9)]) == pytest.approx(np.sqrt(2 * 9 / 9))

    def test_signal_to_noise_is_that_of_the_papers_code(self):
        """allenai/signal-and-noise, snr/metrics.py, on models whose checkpoints scatter around one mean each."""

        def signal_to_noise_ratio(signal_scores, noise_scores):
            dispersion = np.max([np.abs(mj - mk) for mj in signal_scores for mk in signal_scores])
            signal = dispersion / np.mean(signal_scores)
            noise = np.std(noise_scores) / np.mean(noise_scores)
            return signal / noise

        means = [0.42, 0.47, 0.55]
        checkpoints = np.mean(means) + np.random.default_rng(0).normal(0, 0.01, 30)
        checkpoints += np.mean(means) - checkpoints.mean()  # the mean over models is that over checkpoints
        found = signal_to_noise(means, float(np.std(checkpoints)), "runs")
        assert found.value == pytest.approx(signal_to_noise_ratio(means, checkpoints))
        assert (signal_to_noise([0.5], 0.1, "runs"), signal_to_noise(means, 0.0, "runs")) == (None, None)


WORLDS = {
    "all alike": [0.0] * 10,
    "rising to a plateau": (0.4 - 1.5 * np.exp(-np.arange(20) / 4)).tolist(),
    "slowly rising": np.linspace(-0.3, 0.0, 10).tolist(),
    "far apart": np.linspace(-2.0, 0.4, 8).tolist(),
}


class TestBest:
    @pytest.mark.parametrize("name", WORLDS)
    def test_the_corrected_value_is_nearly_unbiased_where_the_maximum_is_not(self, name):
        world = World(WORLDS[name])
        naive, corrected, covered = [], [], []
        for seed in range(200):
            curve, scores = curve_and_scores(world.draw(), stderr=[0.035] * len(world.abilities))
            best = best_of(curve, scores, seed=seed)
            truth = world.truth[curve.steps.index(best.step)]
            naive.append(best.measured - truth)
            corrected.append(best.value - truth)
            covered.append(best.ci_low <= truth <= best.ci_high)
        assert abs(np.mean(corrected)) < 0.012
        assert np.sqrt(np.mean(np.square(corrected))) < np.sqrt(np.mean(np.square(naive))) * 1.03
        assert np.mean(covered) >= 0.93
        if name != "far apart":  # there is luck in the pick
            assert np.mean(naive) > 0.03 > 2.5 * abs(np.mean(corrected))

    def test_lower_may_be_better(self):
        table = 1 - World([0.0] * 8).draw()
        curve, scores = curve_and_scores(table, higher_is_better=False, stderr=[0.03] * 8)
        best = best_of(curve, scores)
        assert best.measured == min(curve.values) < best.value
        assert best.ci_low < best.value < best.ci_high

    def test_clusters_make_the_correction_larger(self):
        copies = np.repeat(World([0.0] * 8, seed=3).draw(60), 4, axis=1)
        curve, scores = curve_and_scores(copies)
        clustered = ItemScores(copies, [str(i // 4) for i in range(240)], 0)
        assert best_of(curve, clustered).optimism > 1.5 * best_of(curve, scores).optimism

    def test_ties_go_to_the_first_and_nothing_to_pick_is_not_corrected(self):
        curve, scores = curve_and_scores(np.ones((3, 5)))
        best = best_of(curve, scores)
        assert (best.step, best.value, best.optimism, best.share) == (0, 1.0, 0.0, 1.0)
        alone = best_of(curve_from([0.5], [0.1]), None)
        assert (alone.value, alone.method, alone.ci_low) == (0.5, "the only checkpoint", pytest.approx(0.3))

    def test_without_item_scores_there_is_no_corrected_value(self):
        best = best_of(curve_from([0.5, 0.7, 0.6]), None)
        assert (best.step, best.measured, best.value, best.ci_low) == (100, 0.7, None, None)
        assert best.method == "not corrected: there are no scores of items"

    def test_a_metric_without_direction_has_no_best(self):
        assert best_of(curve_from([0.5, 0.7], higher_is_better=None), None) is None

    def test_the_seed_fixes_it(self):
        drawn = curve_and_scores(World([0.0] * 5).draw())
        assert best_of(*drawn, seed=1) == best_of(*drawn, seed=1) != best_of(*drawn, seed=2)


class TestFromTheStore:
    def table(self, seed=0, checkpoints=5):
        drawn = World(np.linspace(-1, 1, checkpoints), seed=seed).draw(30).astype(int).tolist()
        return {100 * i: row for i, row in enumerate(drawn)}

    def test_item_scores_are_those_that_were_given(self, store, train):
        table = self.table()
        info = train("r", table, clusters=[i // 3 for i in range(30)])
        (curve,) = curves_of(store, [info])
        scores = item_scores(store, curve)
        assert scores.values.astype(int).tolist() == list(table.values())
        assert scores.clusters == [str(i // 3) for i in range(30)]
        assert (curve.steps, scores.num_left_out) == ([0, 100, 200, 300, 400], 0)

    def test_a_slice_has_its_items_only(self, store, train):
        info = train("r", self.table())
        (curve,) = curves_of(store, [info], slice="kind=b")
        assert item_scores(store, curve).num_items == 15

    def test_items_that_a_checkpoint_lacks_are_left_out_and_told(self, store, train):
        info = train("r", self.table(), fail=["000002", "000007"])
        (trend,) = trends_of(store, [info])
        assert (trend.slope.num_items, trend.best.num_items) == (28, 28)
        assert trend.notes == (
            "1 of 5 checkpoints with items missing",
            "2 items lack a score at a checkpoint and are not paired",
        )

    def test_a_ratio_is_linearised(self, store):
        """The mean over items is the value, and its scatter that of the estimate's own standard error."""
        from midflight.engines import Fake
        from midflight.pipeline import evaluate_checkpoint
        from midflight.run import Run
        from midflight.tasks import Task

        rows = [{"t": " ".join(["word"] * (1 + i % 5)) + f" {i}"} for i in range(20)]
        task = Task("text", rows, kind="loglikelihood", text="{{ t }}", metrics=["perplexity"])
        with Run("p", "r", store=store) as run:
            for step in (0, 10, 20, 30):
                engine = Fake(
                    logprobs=lambda r, s=step: -len(r.continuation) * (2 - s / 30) / 5 - len(r.id) % 3, version="1"
                )
                evaluate_checkpoint(task, engine, run=run, progress=Progress(step))
        (curve,) = curves_of(store, [run.info])
        scores = item_scores(store, curve)
        assert scores.means == pytest.approx(curve.values)
        errors = [row.std(ddof=1) / np.sqrt(20) for row in scores.values]
        assert errors == pytest.approx([e.stderr for e in curve.estimates])
        (trend,) = trends_of(store, [run.info])
        assert (trend.slope.improving, trend.slope.num_items, trend.best.step) == ("yes", 20, 30)

    def test_the_signal_of_a_task_is_over_runs_where_there_are_several(self, store, train):
        infos = [train(f"r{seed}", self.table(seed)) for seed in range(3)]
        trends = trends_of(store, infos, last=4)
        means = [np.mean(curve.values[-4:]) for curve in curves_of(store, infos)]
        noise = np.sqrt(np.mean([trend.noise.value**2 for trend in trends]))
        for trend in trends:
            assert (trend.snr.over, trend.snr.n) == ("runs", 3)
            assert trend.snr.value == pytest.approx((max(means) - min(means)) / noise)
        (alone,) = trends_of(store, infos[:1])
        assert alone.snr.over == "checkpoints"

    def test_a_run_asked_for_twice_or_evaluated_on_other_items_gives_no_signal_over_runs(self, store, train):
        one, other = train("r0", self.table()), train("r1", {s: row[:20] for s, row in self.table(1).items()})
        assert {trend.snr.over for trend in trends_of(store, [one, one, other])} == {"checkpoints"}

    def test_few_checkpoints_say_what_they_cannot(self, store, train):
        (trend,) = trends_of(store, [train("r", {0: [1, 0]})])
        assert (trend.slope, trend.noise, trend.snr, trend.n) == (None, None, None, 1)
        assert trend.best.value == 0.5
        (two,) = trends_of(store, [train("two", {0: [1, 0], 5: [1, 1]})])
        assert (two.slope, two.best.step) == (None, 5)

    def test_the_window_is_cut_to_the_last_checkpoints(self, store, train):
        (trend,) = trends_of(store, [train("r", self.table(checkpoints=8))], last=3)
        assert (trend.slope.first_step, trend.slope.last_step, trend.noise.n, trend.best.n) == (500, 700, 3, 8)

    def test_what_is_not_there_is_said(self, store, train):
        info = train("r", {0: [1, 0]})
        for wanted, error in (
            ({"task": "sumz"}, UnknownKeyError),
            ({"metric": "exactmatch"}, UnknownKeyError),
            ({"slice": "kind=z"}, ConfigError),
            ({"last": 2}, ConfigError),
            ({"min_gain": float("nan")}, ConfigError),
        ):
            with pytest.raises(error):
                trends_of(store, [info], **wanted)
        assert trends_of(store, []) == []

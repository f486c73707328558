"""Runs of one strategy: the faults of other dashboards are not ours, what is missing is said, strategies differ or not."""

from __future__ import annotations

import dataclasses
from functools import partial

import pytest
import scripted
from scipy import stats

from midflight.analyse.group_difference import aggregates_of, differences_of
from midflight.analyse.groups import group_curves, groups_of
from midflight.errors import ConfigError, UnknownKeyError
from midflight.run import Run


@pytest.fixture
def train(store):
    return partial(scripted.train, store)


def right(count: int, n: int = 10) -> list[int]:
    return [1] * count + [0] * (n - count)


def curve_of(store, pattern, **options):
    (curve,) = group_curves(store, groups_of(store.runs(), [pattern]), **options)
    return curve


class TestMean:
    """Aim drops tied values before averaging, uses z for any n, and draws lines through x that no run has."""

    def test_ties_count_as_often_as_they_occur(self, store, train):
        for seed, count in enumerate((5, 5, 8)):
            train(f"sft-{seed}", {0: right(count)})
        (point,) = curve_of(store, "sft-*").points
        assert (point.value, point.n) == (pytest.approx(0.6), 3)

    def test_the_interval_is_students_not_the_normal_one(self, store, train):
        for seed, count in enumerate((5, 5, 8)):
            train(f"sft-{seed}", {0: right(count)})
        (point,) = curve_of(store, "sft-*").points
        low, high = stats.t.interval(0.95, 2, loc=0.6, scale=0.1)
        assert (point.ci_low, point.ci_high) == pytest.approx((low, high))
        assert high - low > 2 * 1.96 * 0.1 * 2

    def test_no_step_is_made_up_and_a_run_that_lacks_one_is_named(self, store, train):
        train("sft-0", {0: right(2), 100: right(4), 200: right(6)})
        train("sft-1", {0: right(4), 200: right(8)})
        train("sft-2", {150: right(9)})
        points = curve_of(store, "sft-*").points
        assert [(p.step, pytest.approx(p.value), p.n) for p in points] == [
            (0, 0.3, 2),
            (100, 0.4, 1),
            (150, 0.9, 1),
            (200, 0.7, 2),
        ]
        assert [p.missing for p in points] == [("sft-2",), ("sft-1", "sft-2"), ("sft-0", "sft-1"), ("sft-2",)]

    def test_one_seed_has_no_interval_and_equal_seeds_prove_nothing(self, store, train):
        train("sft-0", {0: right(5), 100: right(5)})
        train("sft-1", {0: right(5)})
        alike, alone = curve_of(store, "sft-*").points
        assert (alone.stderr, alone.ci_low, alone.n) == (None, None, 1)
        assert (alike.stderr, alike.ci_low, alike.n) == (0.0, None, 2)

    def test_evaluations_with_items_missing_are_counted(self, store, train):
        train("sft-0", {0: right(5)}, fail=["000001"])
        train("sft-1", {0: right(5)})
        (point,) = curve_of(store, "sft-*").points
        assert (point.n, point.num_partial) == (2, 1)

    def test_a_run_without_any_value_is_missing_everywhere(self, store, train):
        train("sft-0", {0: right(5)})
        with Run("p", "sft-1", store=store):
            pass
        (point,) = curve_of(store, "sft-*").points
        assert point.missing == ("sft-1",)

    def test_runs_that_were_not_evaluated_alike_are_not_averaged(self, store, train):
        train("sft-0", {0: right(5)})
        train("sft-1", {0: right(6, n=12)})  # other items
        curves = group_curves(store, groups_of(store.runs(), ["sft-*"]))
        assert [len(curve.points[0].values) for curve in curves] == [1, 1]
        assert all(curve.label.startswith("items=") for curve in curves)

    def test_a_slice_and_another_metric(self, store, train):
        for seed in range(2):
            train(f"sft-{seed}", {0: [1, 0] * 5})
        assert curve_of(store, "sft-*", slice="kind=a").points[0].value == 1.0
        assert curve_of(store, "sft-*", metric="response_length").unit == "tokens"
        with pytest.raises(ConfigError, match="allowed: kind=a, kind=b"):
            curve_of(store, "sft-*", slice="kind=c")
        with pytest.raises(UnknownKeyError, match="did you mean 'exact_match'"):
            curve_of(store, "sft-*", metric="exact_mach")


class TestPatterns:
    @pytest.fixture(autouse=True)
    def _runs(self, store):
        for name, tags in (("sft-seed0", ["a"]), ("sft-seed1", ["a", "b"]), ("dpo-seed0", ["b"]), ("other [x]", [])):
            with Run("p", name, store=store, tags=tags):
                pass

    def named(self, store, *patterns, by="name"):
        groups = groups_of(store.runs(), patterns, by)
        return {group.name: [(m.run.name, m.seed) for m in group.members] for group in groups}

    def test_a_glob_is_one_group_and_its_wildcards_are_the_seed(self, store):
        assert self.named(store, "sft-*") == {"sft-*": [("sft-seed0", "seed0"), ("sft-seed1", "seed1")]}
        assert self.named(store, "s?t-seed[!1]") == {"s?t-seed[!1]": [("sft-seed0", "f/0")]}
        assert list(self.named(store, "other [[]x]")) == ["other [[]x]"]

    def test_a_regular_expression_makes_a_group_of_each_text_in_its_parentheses(self, store):
        assert self.named(store, r"(.+)-seed\d") == {
            "dpo": [("dpo-seed0", "*-seed0")],
            "sft": [("sft-seed0", "*-seed0"), ("sft-seed1", "*-seed1")],
        }

    def test_a_tag_is_a_group(self, store):
        assert self.named(store, "a", by="tag") == {"a": [("sft-seed0", None), ("sft-seed1", None)]}

    def test_of_runs_of_one_name_the_newest_counts(self, store):
        with Run("p", "sft-seed0", store=store, resume="never") as run:
            pass
        (group,) = groups_of(store.runs(), ["sft-*"])
        assert [member.run.id for member in group.members] == [run.id, 2]

    @pytest.mark.parametrize(
        ("patterns", "by", "message"),
        [
            (["zzz*"], "name", "no run has the name; got 'zzz.*there are: dpo-seed0"),
            (["z"], "tag", "no run has the tag"),
            (["(a"], "name", "no regular expression"),
            (["[z-a]*"], "name", "no regular expression"),
            (["(?:sft).*"], "name", "a regular expression with a group"),
            (["sft*", "*0"], "name", "run 'sft-seed0' is in two groups"),
            (["a", "b"], "tag", "is in two groups"),
        ],
    )
    def test_what_is_wrong_is_said(self, store, patterns, by, message):
        with pytest.raises(ConfigError, match=message):
            groups_of(store.runs(), patterns, by)


class TestDifferences:
    @pytest.fixture(autouse=True)
    def _runs(self, train):
        self.sft, self.dpo = (5, 6, 4), (7, 9, 7)
        for seed in range(3):
            train(f"sft-{seed}", {0: right(1), 100: right(self.sft[seed])})
            train(f"dpo-{seed}", {0: right(1), 100: right(self.dpo[seed]), 200: right(10)})

    def differences(self, store, *patterns, paired=False):
        return differences_of(group_curves(store, groups_of(store.runs(), patterns)), paired)

    def test_are_welchs_at_the_last_step_that_both_have(self, store):
        (found,) = self.differences(store, "sft-*", "dpo-*")
        theirs = stats.ttest_ind([c / 10 for c in self.dpo], [c / 10 for c in self.sft], equal_var=False)
        assert (found.first, found.second, found.step) == ("sft-*", "dpo-*", 100)
        assert found.difference.p_value == pytest.approx(theirs.pvalue)
        assert (found.difference.ci_low, found.difference.ci_high) == pytest.approx(tuple(theirs.confidence_interval()))

    def test_are_paired_by_seed_on_demand(self, store):
        (found,) = self.differences(store, "(sft|dpo)-.", paired=True)
        theirs = stats.ttest_rel(self.sft, self.dpo)  # in the order of the names, dpo is first
        assert (found.difference.p_value, found.difference.n) == (pytest.approx(theirs.pvalue), (3, 3))

    def test_a_seed_without_a_partner_is_left_out_of_pairs(self, store, train):
        train("sft-9", {100: right(9)})
        (found,) = self.differences(store, "sft-*", "dpo-*", paired=True)
        assert found.difference.n == (3, 3)

    def test_names_that_tell_no_pairs_are_refused(self, store):
        with pytest.raises(ConfigError, match="cannot be paired"):
            self.differences(store, "sft-[01]", "dpo-2", paired=True)

    def test_one_run_or_no_common_step(self, store, train):
        (found,) = self.differences(store, "sft-0", "dpo-*")
        assert found.difference.stderr is None
        train("late-0", {900: right(3)})
        assert self.differences(store, "sft-*", "late-*") == []

    def test_other_items_are_not_compared(self, store, train):
        train("big-0", {100: right(5, n=20)})
        assert self.differences(store, "sft-*", "big-*") == []


class TestAllTasks:
    @pytest.fixture(autouse=True)
    def _runs(self, train):
        for name, gain in (("sft", 0), ("dpo", 4)):
            for seed in range(3):
                train(f"{name}-{seed}", {0: right(1), 100: right(3 + gain + seed)})
        self.train = train

    def curves(self, store):
        return group_curves(store, groups_of(store.runs(), ["sft-*", "dpo-*"]))

    def second_task(self, curves):
        """The same curves as of a second task, without running it."""
        return [*curves, *(dataclasses.replace(curve, task="more") for curve in curves)]

    def test_have_an_interquartile_mean_and_a_probability_of_improvement(self, store):
        first, second = aggregates_of(self.second_task(self.curves(store)))
        table = [[0.3, 0.3], [0.4, 0.4], [0.5, 0.5]]
        assert first.iqm.value == pytest.approx(stats.trim_mean([v for row in table for v in row], 0.25))
        assert (first.steps, first.better) == ({"sums": 100, "more": 100}, None)
        assert second.better.value == 1.0
        assert second.better.low is None  # no resample varies: it proves nothing

    def test_need_two_tasks_and_all_runs_on_each(self, store):
        curves = self.curves(store)
        assert aggregates_of(curves) == []
        assert aggregates_of([]) == []
        assert aggregates_of([*curves, dataclasses.replace(curves[0], task="more")]) == []
        self.train("sft-9", {50: right(3)})
        assert aggregates_of(self.second_task(self.curves(store))) == []

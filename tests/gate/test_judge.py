"""The gate's word: proved, refuted or open; what is missing never passes; the faults of other gates are not ours."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sides import N, changed, evaluate, policy, rule, solves, task, verdict, with_estimate
from statsmodels.stats.multitest import multipletests

from midflight.analyse.evidence import Side, side_of
from midflight.engines import Fake
from midflight.errors import ConfigError
from midflight.estimate.paired import holm
from midflight.gate.judge import _by_proof
from midflight.metrics import BaseMetric

MOST, HALF = range(5, N), range(0, N, 2)


@pytest.fixture
def base(store) -> Side:
    return evaluate(store, "base", solves(*range(10, N)), task())


@pytest.fixture
def good(store) -> Side:
    return evaluate(store, "good", solves(*MOST), task())


@pytest.fixture
def bad(store) -> Side:
    return evaluate(store, "bad", solves(*HALF), task())


class TestOutcomes:
    def test_what_is_proved_passes_what_is_refuted_fails_the_rest_is_open(self, base, good, bad):
        asked = policy(rule(max_drop=0.02))
        found = [verdict(asked, side, base) for side in (good, bad)]
        assert [v.outcome for v in found] == ["pass", "fail"]
        assert [v.exit_code for v in found] == [0, 1]
        (decision,) = found[0].decisions
        assert (decision.value, decision.baseline, decision.n, decision.coverage) == (55 / 60, 50 / 60, 60, 1.0)
        assert decision.difference == pytest.approx(5 / 60)
        assert decision.ci_low > decision.bound == -0.02
        assert decision.level == pytest.approx(0.9)
        assert decision.method == "paired, score (Tango)"
        assert found[1].reasons == [f"sums exact_match: max_drop 0.02: {found[1].decisions[0].reason}"]
        assert "is below -0.02 (p = " in found[1].decisions[0].reason

    def test_items_in_families_prove_less(self, store):
        """NeMo takes the label of a category for a cluster, and has none other."""
        outcomes = []
        for number, spec in enumerate(({}, {"cluster": "a // 10"})):
            one, other = (
                evaluate(store, f"{run}{number}", solves(*s), task(n=100, **spec))
                for run, s in (("a", range(100)), ("b", range(10, 100)))
            )
            found = verdict(policy(rule(max_drop=0.0)), other, one)
            outcomes.append((found.outcome, found.decisions[0].method))
        assert outcomes == [("fail", "paired, score (Tango)"), ("inconclusive", "paired, clustered t")]

    def test_an_equal_model_is_open_where_the_items_are_few_and_passes_where_they_are_enough(self, store):
        for n, outcome in ((60, "inconclusive"), (1500, "pass")):
            sides = [
                evaluate(store, f"{run}{n}", solves(*(i for i in range(n) if i % 40 != miss)), task(n=n))
                for run, miss in (("a", 0), ("b", 1))
            ]
            found = verdict(policy(rule(max_drop=0.02)), *sides)
            assert found.outcome == outcome
        assert found.decisions[0].difference == pytest.approx(0.0, abs=1e-3)

    def test_absolute_bounds_are_exact_binomial_tests(self, good):
        found = verdict(policy(rule(at_least=0.8), rule(at_least=0.95, tier="advisory")), good)
        first, second = found.decisions
        assert first.p_pass == pytest.approx(stats.binomtest(55, 60, 0.8, "greater").pvalue)
        assert second.p_fail == pytest.approx(stats.binomtest(55, 60, 0.95, "less").pvalue)
        assert (first.outcome, second.outcome, second.blocks) == ("pass", "inconclusive", False)
        assert found.outcome == "pass"
        assert found.baseline is None

    def test_an_improvement_has_to_be_proved(self, base, good):
        assert verdict(policy(rule(must_improve=0.0)), good, base).outcome == "pass"
        assert verdict(policy(rule(must_improve=0.05)), good, base).outcome == "inconclusive"
        assert verdict(policy(rule(must_improve=0.5)), good, base).outcome == "fail"
        assert verdict(policy(rule(must_improve=0.0)), base, good).outcome == "fail"

    def test_the_direction_turns_where_lower_is_better(self, store):
        def wordy(extra: int) -> Fake:
            return Fake(lambda request: " ".join(["word"] * (3 + int(request.item_id[1:]) * (7 + extra) % 5 + extra)))

        short, long = (evaluate(store, run, wordy(extra), task()) for run, extra in (("short", 0), ("long", 2)))
        length = {"metric": "response_length", "higher_is_better": False}
        found = verdict(policy(rule(**length, max_relative_drop=0.8), rule(**length, max_drop=4.0)), long, short)
        assert found.outcome == "pass"
        assert [d.bound for d in found.decisions] == [1.8, 4.0]
        assert "is below 4 (p = " in found.decisions[1].reason
        for asked, outcome in ((rule(**length, max_drop=1.0), "fail"), (rule(**length, must_improve=0.5), "fail")):
            assert verdict(policy(asked), long, short).outcome == outcome
        assert verdict(policy(rule(**length, must_improve=0.5)), short, long).outcome == "pass"

    def test_each_value_of_a_slice_is_a_rule_so_that_none_hides_in_the_mean(self, store):
        """promptfoo#5847: an aggregate rate hides a test that always fails."""
        odd = evaluate(store, "odd", solves(*(i for i in range(600) if i % 6)), task(n=600))
        whole = verdict(policy(rule(at_least=0.8)), odd)
        sliced = verdict(policy(rule(at_least=0.7, slice="kind=*")), odd)
        assert whole.outcome == "pass"
        assert {d.slice: d.outcome for d in sliced.decisions} == {"kind=even": "inconclusive", "kind=odd": "pass"}
        assert sliced.outcome != "pass"
        assert verdict(policy(rule(at_least=0.9, slice="kind=odd")), odd).outcome == "pass"

    def test_costs_are_held_against_their_value_and_said_to_have_no_error(self, base, good):
        asked = policy(
            rule(metric="seconds", at_most=100.0),
            rule(metric="tokens_per_second", at_least=1e9),
            rule(metric="peak_memory", max_relative_drop=50.0),
        )
        seconds, speed, memory = verdict(asked, good, base).decisions
        assert (seconds.outcome, speed.outcome, memory.outcome) == ("pass", "fail", "pass")
        assert (speed.p_pass, speed.p_fail, speed.level, speed.ci_low) == (None, None, None, None)
        assert "measured once, without error" in speed.reason
        assert speed.blocks

    def test_the_value_alone_decides_only_where_it_was_asked_to(self, base, good):
        found = verdict(policy(rule(max_drop=0.5), rule(at_least=0.9, tier="advisory", evidence="value")), good, base)
        assert (found.decisions[1].outcome, found.decisions[1].p_pass) == ("pass", None)
        assert "noise and all" in found.decisions[1].reason

    def test_a_metric_with_only_compute_is_gated(self, store):
        class Share(BaseMetric):
            low, high = 0.0, 1.0

            def compute(self, predictions, labels):
                return sum(str(p) == str(label) for p, label in zip(predictions, labels, strict=True)) / len(labels)

        own = task(metrics=[Share])
        good, bad = (evaluate(store, run, solves(*s), own) for run, s in (("a", MOST), ("b", HALF)))
        key = good.evidence["sums"].report.estimates[0].metric
        assert verdict(policy(rule(metric=key, at_least=0.7)), good).outcome == "pass"
        found = verdict(policy(rule(metric=key, max_drop=0.1)), bad, good)
        assert found.outcome == "fail"
        assert found.decisions[0].method == "unpaired (Newcombe)"


class TestNothingMissingPasses:
    """One row each of the table in docs/gates.md, also under the most lenient policy."""

    @pytest.mark.parametrize("lenient", ["block", "warn", "pass"])
    @pytest.mark.parametrize(
        ("missing", "asked", "spoil"),
        [
            ("task", rule(task="sumz", at_least=0.1), lambda side: side),
            ("metric", rule(metric="exact_mach", at_least=0.1), lambda side: side),
            ("slice", rule(slice="kind=*x", at_least=0.1), lambda side: side),
            ("slice", rule(slice="sort=*", at_least=0.1), lambda side: side),
            ("items", rule(at_least=0.1), lambda side: with_estimate(side, "sums", n=0, value=None, counts={})),
            ("items", rule(at_least=0.1), lambda side: with_estimate(side, "sums", n=0, counts={})),
            ("value", rule(at_least=0.1), lambda side: with_estimate(side, "sums", value=None)),
            ("value", rule(at_least=0.1), lambda side: with_estimate(side, "sums", value=math.nan)),
            ("value", rule(at_least=0.1), lambda side: with_estimate(side, "sums", value=math.inf)),
            ("coverage", rule(at_least=0.1), lambda side: with_estimate(side, "sums", counts={"ok": 59, "error": 1})),
            ("evaluation", rule(at_least=0.1), lambda side: changed(side, "sums", status="failed")),
            ("fingerprint", rule(at_least=0.1, fingerprint="0" * 12), lambda side: side),
            ("fingerprint", rule(at_least=0.1, fingerprint={"grader": "0" * 12}), lambda side: side),
            ("fingerprint", rule(at_least=0.1, fingerprint={"colour": "0" * 12}), lambda side: side),
        ],
    )
    def test_of_the_candidate(self, good, lenient, missing, asked, spoil):
        found = verdict(policy(asked, inconclusive=lenient), spoil(good))
        assert [d.missing for d in found.decisions] == [missing]
        assert (found.outcome, found.exit_code) == ("inconclusive", 3)
        assert found.reasons

    @pytest.mark.parametrize("lenient", ["block", "pass"])
    @pytest.mark.parametrize(
        ("missing", "spoil"),
        [
            ("baseline", lambda side: Side("other", {})),
            ("baseline", lambda side: with_estimate(side, "sums", metric="other")),
            ("baseline", lambda side: with_estimate(side, "sums", n=0, counts={})),
            ("baseline", lambda side: with_estimate(side, "sums", value=math.nan)),
            ("baseline", lambda side: with_estimate(side, "sums", counts={"ok": 30, "not_run": 30})),
            ("baseline", lambda side: changed(side, "sums", status="failed")),
            ("comparable", lambda side: changed(side, "sums", task_fingerprint="x", fingerprint_parts={})),
        ],
    )
    def test_of_the_baseline(self, base, good, lenient, missing, spoil):
        found = verdict(policy(rule(max_drop=0.5), inconclusive=lenient), good, spoil(base))
        assert [d.missing for d in found.decisions] == [missing]
        assert found.outcome == "inconclusive"

    def test_of_other_items_prompts_and_graders(self, store, good):
        for number, other in enumerate([{"n": 50}, {"prompt": "{{ a }} plus 1"}, {"metrics": ["exact_match"]}]):
            theirs = evaluate(store, f"other{number}", solves(*MOST), task(**other))
            found = verdict(policy(rule(max_drop=0.5)), good, theirs)
            assert found.decisions[0].missing == "comparable"
            assert ("items", "prompt", "grader")[number] in found.decisions[0].reason

    def test_a_partial_evaluation_passes_only_below_the_coverage_that_is_asked(self, store):
        lost = evaluate(store, "lost", solves(*range(N), fail=["i3", "i4"]), task())
        assert lost.evidence["sums"].report.status == "partial"
        found = verdict(policy(rule(at_least=0.5)), lost)
        assert found.decisions[0].reason == "58 of the candidate's 60 items have a score, less than 1"
        assert verdict(policy(rule(at_least=0.5, min_coverage=0.9)), lost).outcome == "pass"

    def test_pairs_count_for_coverage(self, store):
        sides = [
            evaluate(store, f"lost{i}", solves(*range(N), fail=[f"i{k}" for k in range(5 * i, 5 * i + 5)]), task())
            for i in (0, 1)
        ]
        asked = rule(max_drop=0.5, min_coverage=0.9)
        assert verdict(policy(asked), *sides).decisions[0].reason.startswith("50 of 60 items have a score on both")

    def test_weights_have_to_be_one_and_the_same(self, store):
        asked = policy(rule(at_least=0.5), rule(task="more", at_least=0.5))
        evaluate(store, "run", solves(*MOST), task("sums"), step=1)
        evaluate(store, "run", solves(*MOST), task("more"), step=2)
        found = verdict(asked, side_of(store, "run"))
        assert found.outcome == "inconclusive"
        assert found.decisions[-1].missing == "weights"
        assert "sums at step 1 | more at step 2" in found.decisions[-1].reason
        together = evaluate(store, "both", solves(*MOST), task("sums"), task("more"))
        assert verdict(asked, together).outcome == "pass"
        assert (
            verdict(policy(rule(at_least=0.5)), side_of(store, "run")).outcome == "pass"
        )  # the other is not asked for

    def test_nothing_was_evaluated_at_all(self):
        """NeMo's gate says GO where it finds no gated benchmark and requires none."""
        assert verdict(policy(rule(at_least=0.0)), Side("empty", {})).outcome == "inconclusive"

    def test_one_item_and_no_variation_prove_nothing(self, store):
        one = evaluate(store, "one", solves(0), task(n=1))
        assert verdict(policy(rule(at_least=0.9)), one).outcome == "inconclusive"
        length = rule(metric="response_length", at_least=0.5)
        found = verdict(policy(length), with_estimate(one, "sums", metric="response_length", lowest=None, stderr=0.0))
        assert "too few, or too much alike" in found.decisions[0].reason


class TestBadInput:
    def test_a_rule_that_compares_needs_a_baseline(self, good):
        with pytest.raises(ConfigError, match="none is given"):
            verdict(policy(rule(max_drop=0.1)), good)

    def test_a_model_is_not_compared_with_itself(self, good):
        """mlflow#12215: a model was once compared with itself, and no test saw it."""
        with pytest.raises(ConfigError, match="one and the same evaluation"):
            verdict(policy(rule(max_drop=0.1)), good, good)

    @pytest.mark.parametrize(
        ("asked", "told"),
        [
            (rule(at_most=0.9), "of exact_match, higher is better; got 'at_most'"),
            (rule(max_drop=0.1, higher_is_better=False), "of exact_match, higher is better; got 'higher_is_better'"),
            (rule(metric="response_length", max_drop=1.0), "no better direction of its own; say higher_is_better"),
            (rule(metric="seconds", at_least=1.0), "of seconds, lower is better"),
            (rule(max_relative_drop=1.0), "max_relative_drop; got '1 of a baseline"),
        ],
    )
    def test_a_policy_that_contradicts_a_metric_is_refused(self, base, good, asked, told):
        with pytest.raises(ConfigError) as error:
            verdict(policy(asked), good, base)
        assert told in str(error.value)

    def test_looks_need_somebody_who_counts(self, good):
        with pytest.raises(ConfigError, match="counts looks in a store"):
            verdict(policy(rule(at_least=0.1), looks="every-checkpoint"), good)


class TestRelative:
    """NeMo's relative guard goes by the point estimate, and TFMA's ratio is NaN at a baseline of 0."""

    def test_noise_does_not_breach_it(self, store):
        base = evaluate(store, "base", solves(*range(0, 40)), task())
        noisy = evaluate(store, "noisy", solves(*range(3, 40)), task())
        found = verdict(policy(rule(max_relative_drop=0.05)), noisy, base)
        assert found.decisions[0].value / found.decisions[0].baseline < 0.95
        assert found.outcome == "inconclusive"

    def test_a_baseline_of_zero_is_no_division_by_it(self, store):
        zero, some = (evaluate(store, run, solves(*s), task()) for run, s in (("zero", ()), ("some", range(20))))
        assert verdict(policy(rule(max_relative_drop=0.05)), some, zero).outcome == "pass"
        same = evaluate(store, "same", solves(), task(), weights="x")
        found = verdict(policy(rule(max_relative_drop=0.05), rule(max_drop=0.2)), same, zero)
        assert [d.outcome for d in found.decisions] == ["inconclusive", "pass"]  # the other rule is not spoiled by it
        assert found.decisions[0].reason.startswith("ratio to a baseline of 0")

    def test_a_negative_baseline_has_no_share(self, store, base, good):
        negative = with_estimate(base, "sums", value=-0.2)
        unpaired = changed(negative, "sums", id="elsewhere")
        with pytest.raises(ConfigError, match="max_drop takes a difference"):
            verdict(policy(rule(max_relative_drop=0.05)), good, unpaired)


class TestFamilies:
    def test_failing_is_by_holm_and_passing_needs_all(self, store):
        names = [f"t{i}" for i in range(6)]
        base = evaluate(store, "base", solves(*range(6, N)), *[task(name) for name in names])
        worse = evaluate(store, "worse", solves(*range(11, N)), *[task(name) for name in names])
        one = verdict(policy(rule(task="t0", max_drop=0.0)), worse, base)
        assert one.outcome == "fail"
        p = one.decisions[0].p_fail
        six = verdict(policy(*(rule(task=name, max_drop=0.0) for name in names)), worse, base)
        adjusted = list(multipletests([p] * 6, method="holm")[1])
        assert [d.p_fail for d in six.decisions[:6]] == pytest.approx(adjusted)
        assert six.outcome == "inconclusive"
        mixed = policy(*(rule(task=name, max_drop=0.0 if name == "t5" else 0.5) for name in names))
        found = verdict(mixed, worse, base)
        assert [d.outcome for d in found.decisions[:5]] == ["pass"] * 5
        assert found.outcome != "pass"

    def test_what_is_open_does_what_the_policy_says(self, store):
        sides = [evaluate(store, run, solves(*s), task()) for run, s in (("a", range(1, N)), ("b", range(N - 1)))]
        found = {
            word: verdict(policy(rule(max_drop=0.01), inconclusive=word), *sides) for word in ("block", "warn", "pass")
        }
        assert {word: v.outcome for word, v in found.items()} == {
            "block": "inconclusive",
            "warn": "pass",
            "pass": "pass",
        }
        assert all(v.decisions[0].outcome == "inconclusive" for v in found.values())
        assert "let through" in found["warn"].warnings[0]
        assert not found["pass"].warnings

    def test_what_fails_fails_whatever_the_policy_says_of_the_open(self, base, bad):
        assert verdict(policy(rule(max_drop=0.02), inconclusive="pass"), bad, base).outcome == "fail"

    def test_a_later_look_asks_for_more(self, base, good):
        asked = policy(rule(must_improve=0.0), looks="every-checkpoint")
        found = [verdict(asked, good, base, look=look) for look in (1, 20)]
        assert [v.alpha for v in found] == [0.025, 0.05 / 420]
        assert [v.outcome for v in found] == ["pass", "inconclusive"]
        assert found[1].decisions[0].ci_low < 0 < found[0].decisions[0].ci_low

    def test_looks_that_nobody_pays_for_are_told(self, good):
        asked = policy(rule(at_least=0.5))
        assert not verdict(asked, good, look=1).warnings
        assert "this is look 3" in verdict(asked, good, look=3).warnings[0]

    @given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.001, 0.2))
    def test_one_rule_never_passes_and_fails_at_once(self, p_values, alpha):
        for p, adjusted in zip(p_values, holm([1 - p for p in p_values]), strict=True):
            if _by_proof(p, adjusted, alpha) == "pass":
                assert adjusted > alpha

    def test_order_of_rules_and_tasks_changes_nothing(self, store, base, good):
        rules = [rule(max_drop=0.02), rule(at_least=0.5), rule(slice="kind=*", max_drop=0.3), rule(must_improve=0.01)]
        outcomes = set()
        for seed in range(5):
            shuffled = random.Random(seed).sample(rules, len(rules))
            found = verdict(policy(*shuffled), good, base)
            outcomes.add((found.outcome, tuple(sorted((d.rule, d.outcome, d.p_fail) for d in found.decisions))))
        assert len(outcomes) == 1


def test_fingerprints_that_are_named_have_to_be_those(good):
    report = good.evidence["sums"].report
    parts = {part: digest[:16] for part, digest in report.fingerprint_parts.items()}
    for fingerprint in (report.task_fingerprint, report.task_fingerprint[:12], parts):
        assert verdict(policy(rule(at_least=0.1, fingerprint=fingerprint)), good).outcome == "pass"


def test_results_of_lm_evaluation_harness_are_gated(data):
    """Two models with the scores of each document, as others left them."""
    base, tuned = (side_of(None, str(data / "lm_eval" / name)) for name in ("walar_mgsm_base", "walar_mgsm_en-ru"))
    metric = base.evidence["mgsm_direct_en"].report.estimates[0].metric
    asked = {"task": "mgsm_direct_en", "metric": metric, "max_drop": 0.9, "higher_is_better": True}
    found = verdict(policy(asked), tuned, base)
    (decision,) = found.decisions
    assert decision.method.startswith("paired")
    assert (decision.outcome, decision.n) == ("pass", 250)


@pytest.mark.parametrize(("requirement", "number"), [("max_drop", 5), ("at_least", 1.5), ("must_improve", 2)])
def test_a_number_that_the_metric_cannot_have_is_refused(requirement, number):
    """5 where 0.05 is meant would let everything pass."""
    from midflight.gate.policy import Rule
    from midflight.gate.weigh import _check_bound
    from midflight.records import Estimate

    estimate = Estimate("exact_match", "", 0.5, 0.1, 0.3, 0.7, 0.95, 9, 9, "wilson", {"ok": 9}, lowest=0.0, highest=1.0)
    rule = Rule(task="t", metric="exact_match", **{requirement: number})
    with pytest.raises(ConfigError, match=rf"{requirement}; got {number}.*lies between 0 and 1"):
        _check_bound(rule, estimate)

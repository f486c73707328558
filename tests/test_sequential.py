"""Evaluations that a rule ends early: in any order, after any interruption, in the loop, beside it and over ranks."""

from __future__ import annotations

import json
import random

import jsonschema
import pytest

from midflight.config import build
from midflight.engines import Fake
from midflight.errors import ConfigError, MetricError
from midflight.evaluator import Evaluator, EvaluatorConfig
from midflight.metrics import SampleMetric
from midflight.pipeline import evaluate_checkpoint
from midflight.records import Progress
from midflight.run import Run
from midflight.schema import report_from_json, report_schema, report_to_json
from midflight.sequential import SequentialRule
from midflight.tasks import Task

N = 400
ROWS = [{"a": a} for a in range(N)]


def sums(**changes) -> Task:
    fields = {"prompt": "{{ a }}+1=", "target": "a + 1", "metrics": ["exact_match", "response_length"]}
    return Task("sums", ROWS, **{**fields, **changes})


def answers(wrong: float, seed: int = 0):
    """Wrong on a share of the items, drawn by a seed."""
    lost = {item.id for item in random.Random(seed).sample(sums().items, round(wrong * N))}
    return lambda request: "x" if request.item_id in lost else str(int(request.prompt.split("+")[0]) + 1)


def rule(**changes) -> SequentialRule:
    return SequentialRule(**{"task": "sums", "baseline": "base@0", "margin": 0.05, "look": 20, **changes})


@pytest.fixture
def base():
    """The run `base`, with an evaluation at step 0 that is right on 80 %."""
    with Run("p", "base") as run:
        evaluate_checkpoint(sums(), Fake(answers(0.2)), run=run)
    return run


@pytest.fixture
def run(base):
    with Run("p", "candidate") as run:
        yield run


class TestDecisions:
    def test_a_model_that_is_as_good_passes_early(self, run):
        engine = Fake(answers(0.2), version="2")
        report = evaluate_checkpoint(sums(), engine, run=run, stop=rule())
        decided, found = report.decided, report.estimate("exact_match")
        assert (report.status, decided.outcome, decided.early, decided.size) == ("done", "pass", True, N)
        assert decided.e_value >= 20
        assert (decided.baseline, decided.difference) == ("p/base@0", 0.0)
        assert decided.n <= len(engine.seen) < 200
        assert len(engine.seen) % 20 == 0
        assert -0.05 <= decided.ci_low < 0 < decided.ci_high
        assert found.counts == {"ok": len(engine.seen), "not_run": N - len(engine.seen)}
        assert found.method == f"betting, without replacement, {len(engine.seen)} of {N} items"
        assert found.ci_low < 0.8 < found.ci_high
        assert found.coverage < 1
        other = report.estimate("response_length")
        assert (other.method, other.num_scored) == ("t, no variation", len(engine.seen)) or other.method == "t"
        assert report.errors == {}

    def test_a_model_that_is_much_worse_fails_early(self, run):
        report = evaluate_checkpoint(sums(), Fake(answers(0.6, 1), version="2"), run=run, stop=rule())
        assert (report.status, report.decided.outcome, report.decided.early) == ("done", "fail", True)
        assert report.decided.ci_high < -0.05

    def test_better(self, run):
        stop = rule(claim="better", margin=0.0)
        report = evaluate_checkpoint(sums(), Fake(answers(0.0), version="2"), run=run, stop=stop)
        assert (report.decided.outcome, report.decided.early) == ("pass", True)
        same = evaluate_checkpoint(sums(), Fake(answers(0.2), version="3"), run=run, stop=stop)
        assert (same.decided.outcome, same.decided.early, same.decided.n) == ("fail", False, N)  # equal is not better
        assert same.estimate("exact_match").method == "wilson"
        assert (same.decided.ci_low, same.decided.ci_high) == pytest.approx((0.0, 0.0), abs=1e-12)

    def test_lower_is_better_where_the_metric_says_so(self, run):
        class ErrorRate(SampleMetric):
            low, high, higher_is_better = 0.0, 1.0, False

            def grade(self, sample):
                return float(sample.prediction != str(sample.item.target))

        task = sums(metrics=[ErrorRate])
        with Run("p", "errors") as own:
            evaluate_checkpoint(task, Fake(answers(0.2)), run=own)
            stop = rule(baseline="errors@0")
            worse = evaluate_checkpoint(task, Fake(answers(0.6, 1)), run=own, progress=Progress(1), stop=stop)
            better = evaluate_checkpoint(task, Fake(answers(0.0)), run=own, progress=Progress(2), stop=stop)
        assert (worse.decided.outcome, better.decided.outcome) == ("fail", "pass")
        assert worse.decided.difference > 0 > better.decided.difference
        assert better.decided.ci_low < better.decided.difference < better.decided.ci_high

    def test_a_report_with_a_decision_is_one_of_the_schema(self, run):
        report = evaluate_checkpoint(sums(), Fake(answers(0.2)), run=run, stop=rule())
        text = report_to_json(report)
        jsonschema.validate(json.loads(text), report_schema())
        assert report_from_json(text) == report
        assert run.store.reports(run.id) == [report]


class TestOrder:
    def test_chunks_and_the_order_of_outputs_change_no_decision(self, run):
        found = []
        for number, (look, backwards) in enumerate([(1, False), (7, True), (20, True), (150, False), (N, True)]):
            engine = Fake(answers(0.25, 3), backwards=backwards, version=str(number))
            found.append(evaluate_checkpoint(sums(), engine, run=run, stop=rule(look=look)).decided)
        for one in found[1:]:
            assert (one.outcome, one.n, one.difference) == (found[0].outcome, found[0].n, found[0].difference)
            assert (one.e_value, one.ci_low) == pytest.approx((found[0].e_value, found[0].ci_low), rel=1e-9)

    def test_the_seed_is_the_order(self, run):
        first, other = (Fake(answers(0.2), version=str(seed)) for seed in (0, 1))
        for seed, engine in enumerate((first, other)):
            evaluate_checkpoint(sums(), engine, run=run, stop=rule(seed=seed))
        asked = [[request.item_id for request in engine.seen[:20]] for engine in (first, other)]
        assert asked[0] != asked[1]
        assert asked[0] != sorted(asked[0])

    @pytest.mark.parametrize("cut", [0, 5, 20, 33])
    def test_an_interrupted_evaluation_comes_to_the_same_decision(self, run, cut):
        class Interrupted(Fake):
            def run(self, requests):
                for output in super().run(requests):
                    if len(self.seen) > cut:
                        raise KeyboardInterrupt
                    yield output

        with pytest.raises(KeyboardInterrupt):
            evaluate_checkpoint(sums(), Interrupted(answers(0.25, 3)), run=run, stop=rule())
        engine = Fake(answers(0.25, 3))
        report = evaluate_checkpoint(sums(), engine, run=run, stop=rule())
        whole = Fake(answers(0.25, 3), version="other")
        other = evaluate_checkpoint(sums(), whole, run=run, stop=rule())
        assert report.decided == other.decided
        assert report.estimate("exact_match") == other.estimate("exact_match")
        assert len(engine.seen) + cut == len(whole.seen)


class TestExactlyOnce:
    def test_a_decision_is_read_from_the_store(self, run):
        engine = Fake(answers(0.2))
        first = evaluate_checkpoint(sums(), engine, run=run, stop=rule())
        asked = len(engine.seen)
        assert evaluate_checkpoint(sums(), engine, run=run, stop=rule()) == first
        assert evaluate_checkpoint(sums(), engine, run=run, stop=rule(look=60)) == first  # the same claim
        assert len(engine.seen) == asked

    def test_without_the_rule_the_rest_is_asked(self, run):
        engine = Fake(answers(0.2))
        first = evaluate_checkpoint(sums(), engine, run=run, stop=rule())
        whole = evaluate_checkpoint(sums(), engine, run=run)
        assert (whole.id, whole.decided, whole.status) == (first.id, None, "done")
        assert len({request.id for request in engine.seen}) == len(engine.seen) == N
        assert whole.estimate("exact_match").coverage == 1.0
        assert [report.decided for report in run.store.reports(run.id)] == [None]

    def test_what_was_evaluated_whole_stays_whole(self, run):
        engine = Fake(answers(0.2))
        evaluate_checkpoint(sums(), engine, run=run)
        report = evaluate_checkpoint(sums(), engine, run=run, stop=rule())
        assert len(engine.seen) == N
        assert report.estimate("exact_match").coverage == 1.0
        assert (report.decided.outcome, report.decided.early) == ("pass", False)
        assert report.decided.n < N

    def test_another_claim_is_another_decision(self, run):
        engine = Fake(answers(0.2))
        first = evaluate_checkpoint(sums(), engine, run=run, stop=rule())
        stricter = evaluate_checkpoint(sums(), engine, run=run, stop=rule(margin=0.02))
        assert (stricter.id, stricter.decided.margin, stricter.decided.outcome) == (first.id, 0.02, "pass")
        assert stricter.decided.n > first.decided.n


class TestWhatIsMissing:
    def test_an_item_without_a_score_counts_against_either_decision(self, run):
        fail = [item.id for item in sums().items[:60]]
        plain = evaluate_checkpoint(sums(), Fake(answers(0.2), version="2"), run=run, stop=rule())
        report = evaluate_checkpoint(sums(), Fake(answers(0.2), fail=fail), run=run, stop=rule())
        assert report.status == "partial"
        assert report.decided.n > plain.decided.n
        assert report.decided.outcome != "pass"  # up to 15 % of the items may be wrong

    def test_too_many_without_a_score_decide_nothing(self, run):
        fail = [item.id for item in sums().items[:200]]
        report = evaluate_checkpoint(sums(), Fake(answers(0.2), fail=fail), run=run, stop=rule())
        assert (report.decided.outcome, report.decided.early, report.decided.n) == ("undecided", False, N)

    def test_an_engine_that_dies_leaves_it_undecided(self, run):
        report = evaluate_checkpoint(sums(), Fake(answers(0.2), die_after=10), run=run, stop=rule())
        assert (report.status, report.decided.outcome, report.decided.n) == ("failed", "undecided", 0)
        assert report.estimate("exact_match").counts == {"ok": 10, "not_run": N - 10}
        again = evaluate_checkpoint(sums(), Fake(answers(0.2)), run=run, stop=rule())
        assert (again.id, again.decided.outcome) == (report.id, "pass")

    def test_no_time_is_no_decision(self, run):
        report = evaluate_checkpoint(sums(), Fake(answers(0.2)), run=run, stop=rule(), limit_s=0.0)
        assert (report.status, report.decided.outcome, report.decided.n) == ("partial", "undecided", 0)
        assert (report.decided.ci_low, report.decided.ci_high, report.decided.difference) == (-1.0, 1.0, None)
        assert report.errors == {"not_run: not answered": N}

    def test_turns_are_asked_to_their_end(self, base):
        class Twice(Task):
            def follow_up(self, item, turns):
                return " again: " if len(turns) == 1 else None

        task = Twice("sums", ROWS, prompt="{{ a }}+1=", target="a + 1", metrics=["exact_match"])
        with Run("p", "talk") as run:
            evaluate_checkpoint(task, Fake(answers(0.2)), run=run)
            engine = Fake(answers(0.2))
            report = evaluate_checkpoint(task, engine, run=run, progress=Progress(1), stop=rule(baseline="start"))
        assert report.decided.early
        assert len(engine.seen) == 2 * report.estimate("exact_match").num_scored


class TestRefusals:
    @pytest.mark.parametrize(
        ("changes", "error"),
        [
            ({"baseline": "nobody"}, "no run 'nobody'.*there are: candidate, base"),
            ({"baseline": "base@7"}, "step of run 'base'; got '7'; allowed: first, last, 0"),
            ({"task": "other"}, "a rule for another task; got 'other'; allowed: sums"),
            ({"metric": "response_length"}, "got 'response_length'; allowed: one that scores items between two bounds"),
            ({"metric": "tokens_per_second"}, "allowed: one that scores items"),
            ({"metric": "f1"}, "got 'f1'; allowed: exact_match, response_length"),
            ({"margin": 1.0}, "margin; got 1.0; allowed: less than 1, the range of exact_match"),
        ],
    )
    def test_rules_that_cannot_work(self, run, changes, error):
        engine = Fake(answers(0.2))
        with pytest.raises(ConfigError, match=error):
            evaluate_checkpoint(sums(), engine, run=run, stop=rule(**changes))
        assert engine.seen == []

    @pytest.mark.parametrize(
        ("changes", "part"),
        [
            ({"prompt": "{{ a }} + 1 ="}, "prompt"),
            ({"slices": {"even": "a % 2"}}, "items"),
            ({"sampling": {"max_tokens": 7}}, "sampling"),
            ({"metrics": ["exact_match"]}, "grader"),
        ],
    )
    def test_a_baseline_that_was_asked_something_else(self, run, changes, part):
        with pytest.raises(ConfigError, match=f"'base@0' of 'sums' cannot be compared: not the same {part};"):
            evaluate_checkpoint(sums(**changes), Fake(answers(0.2)), run=run, stop=rule())

    def test_a_baseline_that_was_ended_early(self, run):
        evaluate_checkpoint(sums(), Fake(answers(0.2)), run=run, stop=rule())
        with pytest.raises(ConfigError, match="'candidate' of 'sums' was itself ended early"):
            evaluate_checkpoint(
                sums(), Fake(answers(0.2)), run=run, progress=Progress(5), stop=rule(baseline="candidate")
            )

    def test_without_a_run(self):
        with pytest.raises(ConfigError, match="the rule for 'sums' needs a run"):
            evaluate_checkpoint(sums(), Fake(answers(0.2)), stop=rule())

    def test_a_score_outside_the_bounds(self, base):
        class Wild(SampleMetric):
            low, high = 0.0, 1.0

            def grade(self, sample):
                return 3.0

        task = sums(metrics=[Wild])
        with Run("p", "wild") as run:
            evaluate_checkpoint(task, Fake("x"), run=run)
            with pytest.raises(MetricError, match="wild: a score; got 3.0; allowed: 0 to 1"):
                evaluate_checkpoint(task, Fake("x"), run=run, progress=Progress(1), stop=rule(baseline="wild"))

    @pytest.mark.parametrize(
        ("values", "error"),
        [
            ({}, "task: missing; margin: missing"),
            ({"task": "t", "margin": -0.1}, "margin: input should be greater than or equal to 0"),
            ({"task": "t", "margin": float("nan")}, "margin: "),
            ({"task": "t", "margin": 0.1, "claim": "equal"}, "claim: "),
            ({"task": "t", "margin": 0.1, "alpha": 0.5}, "alpha: input should be less than 0.5"),
            ({"task": "t", "margin": 0.1, "looks": 3}, "unknown key 'looks'; did you mean 'look'"),
        ],
    )
    def test_rules_are_strict(self, values, error):
        with pytest.raises(ConfigError, match=error):
            SequentialRule(**values)


class TestInTraining:
    def test_the_start_of_the_run_is_the_baseline(self):
        engine = Fake(answers(0.2))
        config = EvaluatorConfig(freq_steps=1, eval_before_train=True, sequential=[rule(baseline="start")])
        with Run("p", "r") as run, Evaluator(config, [sums()], engine, run, quiet=True) as evaluator:
            evaluator.step(1)
            engine.answers = answers(0.7, 5)
            evaluator.step(2)
        first, second, third = evaluator.reports
        assert first.decided is None
        assert first.estimate("exact_match").coverage == 1.0
        assert (second.decided.outcome, second.decided.baseline) == ("pass", "p/r@0")
        assert (third.decided.outcome, third.decided.baseline) == ("fail", "p/r@0")
        assert [second.status, third.status] == ["done", "done"]
        assert len(engine.seen) < 2 * N

    def test_beside_training(self, base):
        config = EvaluatorConfig(freq_steps=1, async_mode=True, sequential=[rule()])
        with Run("p", "r") as run, Evaluator(config, [sums()], Fake(answers(0.2)), run, quiet=True) as evaluator:
            evaluator.step(1)
        (report,) = evaluator.reports
        assert (report.decided.outcome, report.decided.early) == ("pass", True)
        inline = evaluate_checkpoint(sums(), Fake(answers(0.2)), run=run, progress=Progress(2), stop=rule())
        assert inline.decided == report.decided

    def test_what_cannot_work_is_refused_before_training(self, base):
        def refused(match, run=None, start=False, **config):
            with pytest.raises(ConfigError, match=match):
                evaluator = Evaluator(EvaluatorConfig(**config), [sums()], Fake("x"), run, quiet=True)
                if start:
                    evaluator.start()

        refused("sequential rules without a run", sequential=[rule()])
        with Run("p", "r") as run:
            refused("unknown tasks; got \\['t'\\]", run, sequential=[rule(task="t")])
            refused("several sequential rules for one task", run, sequential=[rule(), rule()])
            refused("leave limit_s out", run, sequential=[rule()], distributed=True, limit_s=1.0)
            refused("no run 'nobody'", run, True, sequential=[rule(baseline="nobody")])

    def test_a_config_file_may_hold_rules(self):
        table = {"freq_steps": 5, "sequential": [{"task": "sums", "margin": 0.03, "claim": "better"}]}
        config = build(EvaluatorConfig, table, "run.toml")
        assert config.rule_of("sums") == SequentialRule(task="sums", margin=0.03, claim="better")
        assert config.rule_of("other") is None
        table["sequential"][0]["margn"] = 1
        with pytest.raises(ConfigError, match="run.toml: unknown key 'sequential.0.margn'; did you mean 'margin'"):
            build(EvaluatorConfig, table, "run.toml")

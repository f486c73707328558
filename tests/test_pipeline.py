"""One task on one set of weights: what runs, what is kept, what is resumed, what goes wrong."""

from __future__ import annotations

import json

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from midflight.engines import Fake
from midflight.engines.base import BaseEngine
from midflight.errors import CapabilityError, ConfigError, EngineError, MetricError
from midflight.metrics import BaseMetric, CostMetric, RatioMetric, SampleMetric
from midflight.pipeline import evaluate_checkpoint, evaluate_lm, evaluate_rw
from midflight.records import Cost, Estimate, EvalReport, Output, Progress
from midflight.run import Run
from midflight.schema import report_from_json, report_schema, report_to_json
from midflight.tasks import Task

SUMS = [{"a": a, "b": a + 1, "set": "even" if a % 2 == 0 else "odd"} for a in range(20)]


def sums(**changes) -> Task:
    fields = {"prompt": "{{ a }}+{{ b }}=", "target": "a + b", "metrics": ["exact_match", "response_length"]}
    return Task("sums", SUMS, **{**fields, **changes})


def right(request) -> str:
    a, b = request.prompt.removesuffix("=").split("+")
    return str(int(a) + int(b))


def half_right(request) -> str:
    return right(request) if int(request.item_id) % 2 else "0"


def test_a_report_holds_everything():
    report = evaluate_checkpoint(sums(slices={"set": "set"}), Fake(half_right), progress=Progress(7, 0.5, 100), seed=3)
    found = report.estimate("exact_match")
    assert (found.value, found.n, found.counts) == (0.5, 20, {"ok": 20})
    assert report.estimate("exact_match", "set=odd").value == 1.0
    assert (report.status, report.progress, report.seed) == ("done", Progress(7, 0.5, 100), 3)
    assert report.engine["engine"] == "fake"
    assert report.cost.num_requests == 20
    assert report.cost.seconds > 0
    assert report.estimate("tokens_per_second").value > 0
    assert set(report.fingerprint_parts) == {"items", "prompt", "sampling", "answer", "grader"}
    assert report.software["midflight"]
    with pytest.raises(KeyError, match="sums has no estimate 'acc' for slice ''; it has exact_match, "):
        report.estimate("acc")


def test_turns():
    class Talk(Task):
        def follow_up(self, item, turns):
            return None if turns[-1].text == str(item.target) or len(turns) == 3 else " no: "

    class Learner(Fake):
        """Right in its second turn for even items, never for odd ones."""

        def __init__(self):
            super().__init__(lambda r: right_of(r) if r.id.endswith("/1") and int(r.item_id) % 2 == 0 else "x")

    def right_of(request):
        a, b = request.prompt.split("=")[0].split("+")
        return str(int(a) + int(b))

    task = Talk(
        "talk", SUMS, prompt="{{ a }}+{{ b }}=", target="a + b", metrics=["exact_match", "solved@1", "solved@2"]
    )
    engine = Learner()
    report = evaluate_checkpoint(task, engine)
    assert {m: report.estimate(m).value for m in ("exact_match", "solved@1", "solved@2")} == {
        "exact_match": 0.5,
        "solved@1": 0.0,
        "solved@2": 0.5,
    }
    assert len(engine.seen) == 20 + 20 + 10
    assert engine.seen[20].prompt == "0+1=x no: "


class TestExactlyOnce:
    def test_what_was_evaluated_is_read_from_the_store(self):
        with Run("p", "r") as run:
            engine = Fake(half_right)
            first = evaluate_checkpoint(sums(), engine, run=run, progress=Progress(5))
            again = evaluate_checkpoint(sums(), engine, run=run, progress=Progress(5))
            assert again == first
            assert len(engine.seen) == 20
            for change in ({"progress": Progress(6)}, {"seed": 1}):
                assert (
                    evaluate_checkpoint(sums(), engine, run=run, **{"progress": Progress(5), **change}).id != first.id
                )
            other = evaluate_checkpoint(sums(), Fake(half_right, version="2"), run=run, progress=Progress(5))
            assert other.id != first.id

    @pytest.mark.parametrize("stop", [KeyboardInterrupt, ZeroDivisionError])
    def test_what_was_begun_is_completed(self, stop):
        class Interrupted(Fake):
            def run(self, requests):
                for index, output in enumerate(super().run(requests)):
                    if index == 12:
                        raise stop
                    yield output

        with Run("p", "r") as run:
            with pytest.raises(stop):
                evaluate_checkpoint(sums(), Interrupted(half_right), run=run)
            engine = Fake(half_right)
            report = evaluate_checkpoint(sums(), engine, run=run)
            assert len(engine.seen) == 8
            assert report.cost.num_requests == 20
        assert report.estimates[0] == evaluate_checkpoint(sums(), Fake(half_right)).estimates[0]

    def test_an_engine_that_dies_gives_a_partial_report_and_is_completed_later(self):
        with Run("p", "r") as run:
            report = evaluate_checkpoint(sums(), Fake(half_right, die_after=5), run=run)
            found = report.estimate("exact_match")
            assert (report.status, found.counts, found.n, found.partial) == (
                "failed",
                {"ok": 5, "not_run": 15},
                20,
                True,
            )
            assert "died after 5 outputs" in next(iter(report.errors))
            engine = Fake(half_right)
            again = evaluate_checkpoint(sums(), engine, run=run)
            assert (again.status, len(engine.seen), again.id) == ("done", 15, report.id)
            assert [r.status for r in run.store.reports(run.id)] == ["done"]

    def test_failed_items_are_tried_again(self):
        with Run("p", "r") as run:
            report = evaluate_checkpoint(sums(), Fake(right, fail=["000003"]), run=run)
            assert report.status == "partial"
            assert report.errors == {"error: scripted failure": 1}
            assert report.estimate("exact_match").counts == {"ok": 19, "error": 1}
            engine = Fake(right)
            assert evaluate_checkpoint(sums(), engine, run=run).status == "done"
            assert [r.item_id for r in engine.seen] == ["000003"]


@given(order=st.permutations(range(20)), cut=st.integers(0, 20))
def test_any_order_and_any_interruption_give_the_same_bits(tmp_path_factory, order, cut):
    class Shuffled(Fake):
        def __init__(self, cut=None):
            super().__init__(half_right)
            self.cut_at = cut

        def run(self, requests):
            answered = {o.request_id: o for o in super().run(requests)}
            ids = [f"{i:06d}/0/0" for i in order if f"{i:06d}/0/0" in answered]
            for index, key in enumerate(ids):
                if index == self.cut_at:
                    raise RuntimeError("cut")
                yield answered[key]

    wanted = evaluate_checkpoint(sums(), Fake(half_right)).estimates
    path = tmp_path_factory.mktemp("s")
    with Run("p", "r", store=str(path / "s.db")) as run:
        if cut < 20:
            with pytest.raises(RuntimeError):
                evaluate_checkpoint(sums(), Shuffled(cut), run=run)
        found = evaluate_checkpoint(sums(), Shuffled(), run=run).estimates

    def quality(estimates):
        return [e for e in estimates if not e.method.startswith("measured")]

    assert quality(found) == quality(wanted)


class TestRefusals:
    def test_what_the_engine_cannot_do_is_refused_before_anything_runs(self):
        engine = Fake(answers=None)
        with pytest.raises(CapabilityError, match="task 'sums' needs an engine that can answer 'generate'"):
            evaluate_checkpoint(sums(), engine)
        with pytest.raises(CapabilityError, match="task 'sums' needs a model with a chat template"):
            evaluate_checkpoint(sums(chat="always"), Fake("x"))
        assert engine.seen == []

    def test_metrics_are_checked_before_anything_runs(self):
        with pytest.raises(MetricError, match="pass@2 needs 2 samples"):
            evaluate_checkpoint(sums(metrics=["exact_match", "pass@2"]), Fake("x"))

    def test_an_engine_that_answers_what_it_was_not_asked(self):
        class Confused(Fake):
            def run(self, requests):
                yield Output("elsewhere/0/0", text="x")

        with pytest.raises(EngineError, match="answered a request that it was not given; got 'elsewhere/0/0'"):
            evaluate_checkpoint(sums(), Confused("x"))

    def test_an_engine_that_answers_twice_or_not_at_all(self):
        class Careless(Fake):
            def run(self, requests):
                outputs = list(super().run(requests))
                yield from outputs[:10]
                yield Output(outputs[0].request_id, text="something else")

        report = evaluate_checkpoint(sums(), Careless(right))
        found = report.estimate("exact_match")
        assert (found.value, found.counts, report.status) == (1.0, {"ok": 10, "not_run": 10}, "partial")

    def test_the_front_doors(self):
        pairs = Task(
            "pairs",
            [{"c": "good", "r": "bad"}] * 1,
            kind="preference",
            prompt="x",
            chosen="c",
            rejected="r",
            metrics=["pairwise_accuracy"],
        )
        engine = Fake("x", rewards={"good": 1.0, "bad": 0.0})
        assert evaluate_rw(engine, pairs).estimate("pairwise_accuracy").value == 1.0
        assert engine.evaluate_rw(pairs).estimate("pairwise_accuracy").value == 1.0
        assert engine.evaluate_lm(sums(), seed=1).seed == 1
        with pytest.raises(ConfigError, match="task 'pairs' ranks answers by reward; use evaluate_rw"):
            evaluate_lm(engine, pairs)
        with pytest.raises(ConfigError, match="task 'sums' is for language models; use evaluate_lm"):
            evaluate_rw(engine, sums())


class TestStates:
    def test_nan_log_probabilities_are_errors_not_zeros(self):
        task = Task("t", SUMS, kind="loglikelihood", text="{{ a }}", metrics=["perplexity", "bits_per_byte"])
        values = {str(a): -1.0 for a in range(20)} | {"3": float("nan"), "4": float("-inf")}
        report = evaluate_checkpoint(task, Fake(logprobs=values))
        found = report.estimate("perplexity")
        assert (found.counts, found.value, found.stderr) == ({"ok": 19, "error": 1}, float("inf"), None)
        assert report.errors == {"error: log-probability is NaN": 1}

    def test_empty_and_cut_answers_are_counted(self):
        report = evaluate_checkpoint(sums(), Fake(lambda r: "" if r.item_id < "000005" else right(r), cut=["000007"]))
        found = report.estimate("exact_match")
        assert found.counts == {"ok": 14, "unparsed": 5, "truncated": 1}
        assert (found.value, found.coverage, report.status) == (0.75, 1.0, "done")

    def test_one_item(self):
        report = evaluate_checkpoint(sums().limited(1), Fake(right))
        found = report.estimate("exact_match")
        assert (found.value, found.stderr, found.n) == (1.0, None, 1)
        assert found.ci_low < 0.5

    def test_entropy_that_the_engine_does_not_give(self):
        class Plain(Fake):
            provides = frozenset()

        report = evaluate_checkpoint(sums(metrics=["exact_match", "token_entropy"]), Plain(right))
        assert report.estimate("token_entropy").note == "the fake engine gives no entropy"
        assert report.status == "done"


class TestUsersMetrics:
    class RiskSensitiveMetric(BaseMetric):
        """Share of wrong answers, squared; nothing but compute."""

        higher_is_better = False

        def compute(self, predictions, labels):
            return (sum(p != str(y) for p, y in zip(predictions, labels, strict=True)) / len(labels)) ** 2

    def test_stored_plotted_and_bounded_like_a_built_in(self, tmp_path):
        from midflight.show.panels import panels_of
        from midflight.show.plot import draw

        with Run("p", "r") as run:
            for step in (0, 10):
                evaluate_checkpoint(
                    sums(),
                    Fake(half_right),
                    run=run,
                    progress=Progress(step),
                    registered={"risk_score": self.RiskSensitiveMetric},
                )
            found = [r.estimate("risk_score") for r in run.store.reports(run.id)]
            panels = panels_of(run.store, [run.info], "risk_score")
            draw(panels, tmp_path / "risk.png")
        assert [e.value for e in found] == [0.25, 0.25]
        assert all(e.ci_low < e.value < e.ci_high and e.stderr > 0 for e in found)
        assert (tmp_path / "risk.png").stat().st_size > 5000

    def test_as_a_class_in_a_task(self):
        report = evaluate_checkpoint(sums(metrics=["exact_match", self.RiskSensitiveMetric]), Fake(half_right))
        assert report.estimate("risk_sensitive_metric").value == 0.25
        with pytest.raises(ConfigError, match="metric 'int'; got <class 'int'>"):
            evaluate_checkpoint(sums(metrics=[int]), Fake(half_right))

    def test_one_that_raises_fails_alone_and_is_reported(self):
        class Grader(SampleMetric):
            def grade(self, sample):
                return 1.0 / (int(sample.item.id) % 5)

        class Compute(BaseMetric):
            def compute(self, predictions, labels):
                raise KeyError("column")

        class Slope(RatioMetric):
            def terms(self, sample):
                return float(sample.item.id), 1.0

            def slope(self, ratio):
                raise OSError("no table")

        class Measure(CostMetric):
            def measure(self, cost):
                return {}["watts"]

        classes = [Grader, Compute, Slope, Measure]
        report = evaluate_checkpoint(sums(metrics=["exact_match", *classes]), Fake(half_right))
        assert report.status == "partial"
        assert report.estimate("exact_match").value == 0.5
        assert report.estimate("grader").counts == {"ok": 16, "error": 4}
        assert report.errors == {
            "error: grader: grade raised ZeroDivisionError: float division by zero": 4,
            "error: compute: compute raised KeyError: 'column'": 1,
            "error: slope: the estimate raised OSError: no table": 1,
            "error: measure: measure raised KeyError: 'watts'": 1,
        }
        for key in ("compute", "slope", "measure"):
            assert (report.estimate(key).value, report.estimate(key).method) == (None, "failed")
            assert report.estimate(key).note

    def test_one_that_never_scores_says_why(self):
        class Never(SampleMetric):
            def grade(self, sample):
                raise ValueError("no such column")

        found = evaluate_checkpoint(sums(metrics=[Never]), Fake(right)).estimate("never")
        assert (found.value, found.note) == (None, "no item has a score: grade raised ValueError: no such column")

    def test_it_enters_the_fingerprint(self):
        plain = evaluate_checkpoint(sums(), Fake(right))
        more = evaluate_checkpoint(sums(), Fake(right), registered={"risk_score": self.RiskSensitiveMetric})
        assert plain.fingerprint_parts["items"] == more.fingerprint_parts["items"]
        assert plain.fingerprint_parts["grader"] != more.fingerprint_parts["grader"]


class TestSchema:
    def example(self) -> EvalReport:
        task = sums(slices={"set": "set"}, metrics=["exact_match", "token_entropy"])
        return evaluate_checkpoint(task, Fake(half_right, fail=["000003"]), progress=Progress(3, 0.25, 9))

    def test_another_tool_validates_and_reads_it(self):
        schema = report_schema()
        jsonschema.Draft202012Validator.check_schema(schema)
        text = report_to_json(self.example())
        content = json.loads(text, parse_constant=pytest.fail)  # standard JSON: no bare NaN
        jsonschema.validate(content, schema)
        assert content["schema_version"] == 1
        for change in ({"status": "fine"}, {"estimates": 3}):
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate({**content, **change}, schema)

    def test_a_field_that_a_later_release_has_gained_is_no_error(self):
        report = self.example()
        content = json.loads(report_to_json(report))
        content["gained"] = content["cost"]["gained"] = content["estimates"][0]["gained"] = 1
        jsonschema.validate(content, report_schema())
        assert report_from_json(json.dumps(content)) == report

    def test_it_says_how_the_task_was_asked(self):
        sampling = {"temperature": 0.5, "top_p": 0.9, "max_tokens": 7}
        task = sums(samples=2, sampling=sampling, fewshot={"num": 3}, slices={"set": "set"}).limited(5, seed=4)
        content = json.loads(report_to_json(evaluate_checkpoint(task, Fake("1"))))
        jsonschema.validate(content, report_schema())
        assert content["settings"] == {
            **{"kind": "generate", "samples": 2, "temperature": 0.5, "top_p": 0.9, "top_k": 0, "max_tokens": 7},
            **{"num_fewshot": 3, "limit": 5, "limit_seed": 4, "source": {"kind": "function", "function": "rows"}},
        }
        parts = {estimate["slice"]: estimate["part"] for estimate in content["estimates"]}
        assert parts == {
            "": None,
            "set=even": {"name": "set", "value": "even"},
            "set=odd": {"name": "set", "value": "odd"},
        }
        text = Task("t", SUMS, kind="loglikelihood", text="{{ a }}", metrics=["perplexity"])
        assert evaluate_checkpoint(text, Fake()).settings.temperature is None

    def test_round_trip(self):
        report = self.example()
        assert report_from_json(report_to_json(report, indent=2)) == report

    @pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), None])
    def test_numbers_that_json_does_not_know(self, value):
        estimate = Estimate("m", "", value, None, None, None, 0.95, 1, 1, "t", {"ok": 1})
        report = EvalReport("i", "t", "f", {}, {}, "", "done", Progress(), [estimate], Cost(), 0, 0.0)
        text = report_to_json(report)
        jsonschema.validate(json.loads(text, parse_constant=pytest.fail), report_schema())
        assert str(report_from_json(text).estimates[0].value) == str(value)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("{", "not a report of schema 1: Expecting"),
            ("[]", "not a report of schema 1"),
            ('{"id": 1}', "not a report of schema 1: id: Input should be a valid string"),
            ('{"schema_version": 2}', "schema_version; got 2; allowed: up to 1; upgrade midflight"),
            (b"\xff\xfe", "not a report of schema 1"),
            ("[" * 100_000, "not a report of schema 1: it is nested too deeply"),
            ("9" * 5000, "not a report of schema 1: Exceeds the limit"),
        ],
    )
    def test_what_is_no_report(self, text, message):
        with pytest.raises(ConfigError, match=message):
            report_from_json(text)


def test_a_new_engine_is_one_class():
    """All that an engine has to be."""

    class Oracle(BaseEngine):
        name = "oracle"

        @property
        def capabilities(self):
            return frozenset({"generate"})

        def run(self, requests):
            for request in requests:
                yield Output(request.id, text=right(request))

        def fingerprint(self):
            return {"engine": self.name}

    report = evaluate_checkpoint(sums(metrics=["exact_match"]), Oracle())
    assert report.estimate("exact_match").value == 1.0
    assert report.estimate("tokens_per_second").value is None  # it counts no tokens: missing, not zero

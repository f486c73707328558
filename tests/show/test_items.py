"""Items as they are shown: whole, in order, and as data whatever a model or a row says."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from midflight.engines import Fake
from midflight.metrics import BaseMetric
from midflight.pipeline import evaluate_checkpoint
from midflight.run import Run
from midflight.show.items import print_items, results_of
from midflight.show.tables import console, slices_table
from midflight.tasks import Task

NASTY = "[bold red]x[/bold red]\x1b[31m\x1b]0;owned\x07\u202e\ud800\nsecond line " + "long " * 100


def answer(request):
    return NASTY if request.item_id == "b/2" else "yes"


def task(**spec):
    rows = [
        {"id": name, "q": NASTY.replace("\ud800", ""), "kind": kind}
        for name, kind in (("a", "x"), ("b/2", "x"), ("c", "y"), ("d", "y"))
    ]
    fields = {
        "prompt": "{{ q }}",
        "id": "id",
        "target": "'yes'",
        "metrics": ["exact_match"],
        "slices": {"kind": "kind"},
    }
    return Task("t", rows, **{**fields, **spec})


@pytest.fixture
def evaluate(store):
    def evaluate(engine, **spec):
        with Run("p", "r", store=store) as run:
            return evaluate_checkpoint(task(**spec), engine, run=run)

    return evaluate


def printed(results, full=False, width=80) -> str:
    out = io.StringIO()
    print_items(Console(file=out, width=width), results, full)
    return out.getvalue()


def test_each_item_with_its_answer_score_and_reason(store, evaluate):
    report = evaluate(Fake(answer, fail=["c"], cut=["d"]))
    results = results_of(store, report)
    assert [(r.item.id, r.state, r.failed) for r in results] == [
        ("a", "ok", False),
        ("b/2", "ok", True),
        ("c", "error", True),
        ("d", "truncated", True),
    ]
    assert results[1].outputs[0].text == NASTY
    text = printed(results)
    assert "a  ok  exact_match 1  [kind=x]" in text
    assert "scripted failure" in text
    assert "cut at max_tokens" in text


@pytest.mark.parametrize("full", [False, True])
def test_hostile_text_is_escaped(store, evaluate, full):
    text = printed(results_of(store, evaluate(Fake(answer))), full)
    assert "[bold red]x[/bold red]\\x1b[31m" in text
    assert not set("\x1b\x07\u202e\ud800") & set(text)


def test_a_text_is_a_line_of_the_screen_or_all_of_it(store, evaluate):
    results = results_of(store, evaluate(Fake(answer)))
    assert max(map(len, printed(results).splitlines())) <= 80
    assert "long " * 100 not in printed(results)
    assert "\n            second line " + "long " * 100 in printed(results, full=True)


def test_many_items_are_shown_on_request(store, evaluate):
    results = results_of(store, evaluate(Fake("yes"))) * 10
    assert "20 of 40 items; --full shows all" in printed(results)
    assert "items; --full" not in printed(results, full=True)


def test_likelihoods_and_rewards_are_no_texts(store, evaluate):
    report = evaluate(Fake(logprobs=-2.5), kind="loglikelihood", text="{{ id }}", metrics=["perplexity"])
    results = results_of(store, report)
    assert "log-probability -2.5 over 1 tokens" in printed(results)
    assert not any(result.failed for result in results)


def test_a_metric_of_the_whole_set_leaves_items_to_their_outputs(store, evaluate):
    class Risk(BaseMetric):
        """Of all items at once."""

        def compute(self, predictions, labels):
            return 1.0

    results = results_of(store, evaluate(Fake(answer, fail=["c"]), metrics=[Risk]))
    assert [(r.state, r.note) for r in results[1:3]] == [("ok", ""), ("error", "scripted failure")]


def test_as_json(store, evaluate):
    from midflight.schema import to_json

    plain = [result.plain() for result in results_of(store, evaluate(Fake(answer)))]
    again = json.loads(to_json(plain))
    assert again[0]["scores"] == {"exact_match": {"value": 1.0, "state": "ok"}}
    assert again[1]["outputs"][0]["text"] == NASTY.replace("\ud800", "\\ud800")


def test_json_can_be_encoded_whatever_is_in_it():
    from midflight.schema import to_json

    text = to_json({"\ud800": ["\ud800", float("nan"), {1: object}]})
    assert json.loads(text.encode()) == {"\ud800": ["\\ud800", "NaN", {"1": "<class 'object'>"}]}


def test_slices_are_rows(store, evaluate):
    screen = console()
    with screen.capture() as text:
        screen.print(slices_table(evaluate(Fake(answer))))
    assert [line.split()[0] for line in text.get().splitlines()[2:]] == ["all", "kind=x", "kind=y"]

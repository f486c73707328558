"""Answers as readers meet them: how an item is known, a conversation read, findings ordered."""

from __future__ import annotations

import math

import pytest
from serving import answered

from midflight.panel.answers.items import title
from midflight.panel.panel import Panel
from midflight.panel.plain import bounded, readable
from midflight.records import Item
from midflight.run import Run

TALK = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]


@pytest.mark.parametrize(
    ("row", "known_by"),
    [
        ({"id": "q", "kind": "k", "question": " How many? "}, "How many?"),
        ({"id": "q", "talk": TALK, "note": "n"}, "Why?"),
        ({"talk": [{"from": "human", "value": "Who?"}]}, "Who?"),
        ({"id": "q", "sentence": "One."}, "One."),
        ({"a": 16, "b": [1, 2]}, "a = 16, b = [1, 2]"),
        ({"problem": "x" * 500}, "x" * 120),
    ],
)
def test_an_item_is_known_by_how_its_question_begins(row, known_by):
    assert title(Item("q", row)) == known_by
    assert title(None) == ""


def test_a_conversation_is_read_turn_by_turn():
    assert readable(TALK)["text"] == "system: Be brief.\n\nuser: Why?"
    assert readable(TALK, 7) == {"text": "system:", "length": 29}
    for other in (
        "text",
        [1, 2],
        [],
        {"role": "user", "content": "x"},
        [{"role": "user"}],
        [{"role": 1, "content": "x"}],
    ):
        assert readable(other) == bounded(other)


def test_an_item_says_what_its_parts_are_and_what_its_scores_are_worth(filled):
    panel = Panel(filled, background=False)
    answer = answered(panel, "/api/item?item=i0&runs=1&task=sums")
    assert [answer[key] for key in ("kind", "lowest", "highest", "higher_is_better")] == ["generate", 0.0, 1.0, True]
    answer = answered(panel, "/api/item?item=x&runs=1&task=bpb")
    assert [answer[key] for key in ("kind", "highest", "higher_is_better")] == ["loglikelihood", None, False]


def test_the_gravest_finding_is_the_first(store):
    with Run("p", "r", store=store) as run:
        for step in range(1, 60):
            run.log(step, loss=math.nan if step == 50 else 1.0, grad_norm=90.0 if step == 40 else 1.0 + step % 3 / 10)
    found = answered(Panel(store, background=False), "/api/findings")["runs"][0]["diagnosis"]["findings"]
    assert [(one["kind"], one["severity"]) for one in found][:2] == [("nonfinite", "stop"), ("grad_explosion", "warn")]
    assert found[0]["onset"] > found[1]["onset"]

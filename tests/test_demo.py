"""The demo, in short: everything it does, on a few steps."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest

from midflight.demo import arithmetic, conductor, training
from midflight.errors import ConfigError
from midflight.records import Output
from midflight.schema import report_from_json, report_schema
from midflight.store import open_store


def test_a_short_demo_tells_the_truth_about_its_own_training(monkeypatch, capsys):
    monkeypatch.setattr(training, "WARM_STEPS", 60)
    assert conductor.run_demo(Path("out"), seeds=1, steps=4) == 0
    said = capsys.readouterr().out
    store = open_store("out/midflight.db", create=False)
    runs = {run.name: run for run in store.runs()}
    assert set(runs) == {"mt2-seed0", "mt4-seed0", "hot-seed0"}
    assert {run.status for run in runs.values()} == {"finished"}
    for name, run in runs.items():
        reports = store.reports(run.id)
        assert [(r.task, r.progress.step) for r in reports] == [(t, s) for s in (0, 4) for t in ("solutions", "sums")]
        assert len(store.read_points(run.id, "raw_loss").steps) == 4
        last = reports[-1].estimate("solved@4")
        row = next(line for line in said.splitlines() if line.startswith(f"{name}  4"))
        assert f"{last.value:.2f}"[:4] in row
    assert Path("out/curves.png").read_bytes()[:4] == b"\x89PNG"
    files = sorted(Path("out/reports").glob("*.json"))
    assert len(files) == 12
    for file in files:
        jsonschema.validate(json.loads(file.read_text()), report_schema())
    pair = [report_from_json(Path(f"out/reports/{s}-seed0-sums-step0004.json").read_text()) for s in ("mt4", "mt2")]
    a, b = (report.estimate("solved@4").value for report in pair)
    sentence = re.search(
        r"mt4 against mt2, solved within 4 turns: ([\d.]+) against ([\d.]+), difference ([+-][\d.]+) \[", said
    )
    assert [float(x) for x in sentence.groups()] == pytest.approx([a, b, a - b], abs=6e-4)
    first = {name: store.reports(run.id, "sums")[0] for name, run in runs.items()}
    assert first["mt2-seed0"].weights == first["mt4-seed0"].weights  # both begin with the same warm model

    # the gate judged the run that was set up to collapse, and the better one of the others
    (hot,) = store.verdicts(training.PROJECT, "hot-seed0")
    (best,) = (verdict for verdict in store.verdicts(training.PROJECT) if verdict.id != hot.id)
    assert hot.candidate.weights == store.reports(runs["hot-seed0"].id, "sums")[-1].weights
    assert hot.outcome != "pass"
    production = Path("out/production")
    assert production.exists() == (best.outcome == "pass")
    if production.exists():
        assert production.resolve() == Path(f"out/checkpoints/{best.candidate.run}/checkpoint-4").resolve()

    with pytest.raises(ConfigError, match="the folder holds something else"):
        Path("mine").mkdir()
        Path("mine/precious.txt").write_text("x")
        conductor.run_demo(Path("mine"))


class TestArithmetic:
    def test_held_out_sums_are_never_trained_on(self):
        trained = set(arithmetic.problems(1, 5000, held_out=False))
        tested = set(arithmetic.problems(0, arithmetic.NUM_ITEMS, held_out=True))
        assert len(tested) == arithmetic.NUM_ITEMS
        assert not trained & tested

    @pytest.mark.parametrize(("answer", "told"), [("42", None), ("41", ".<"), ("43", ".>"), ("x", ".>"), ("", ".>")])
    def test_feedback(self, answer, told):
        assert arithmetic.feedback(17, 25, answer) == told

    def test_reward_is_discounted_by_turn(self):
        assert [arithmetic.reward(t, True) for t in (1, 2, 4)] == pytest.approx([1.0, 0.9, 0.729])
        assert arithmetic.reward(1, False) == 0.0


class TestRollouts:
    def converse(self, *answers: Output, turns=4):
        tokenizer = training.make_tokenizer()
        rollouts = training.Rollouts(tokenizer, turns, seed=0)
        talk = training.Conversation.of("17+25=")
        for number, answer in enumerate(answers, start=1):
            rollouts._take(talk, answer, last=number == turns)
        text = tokenizer.convert_tokens_to_string(tokenizer.convert_ids_to_tokens(talk.tokens))
        return talk, text.replace(" ", ""), "".join(map(str, talk.own))

    def test_what_the_policy_wrote_is_told_from_what_it_was_told(self):
        talk, text, own = self.converse(Output("", text="41"), Output("", text="42"))
        assert (text, own) == ("41.<42.", "1110111")
        assert (talk.solved, talk.turns) == (True, 2)

    def test_the_last_turn_gets_no_feedback(self):
        talk, text, own = self.converse(Output("", text="4"), Output("", text="5"), turns=2)
        assert (text, own, talk.solved) == ("4.<5.", "11011", False)

    def test_an_answer_that_does_not_stop_is_not_right(self):
        talk, text, own = self.converse(Output("", text="42", finish="length"), Output("", text="42"))
        assert (text, own, talk.solved, talk.turns) == ("42.>42.", "1100111", True, 2)

    def test_training_and_evaluation_see_the_same_conversation(self):
        task = arithmetic.tasks()[0]
        item = task.items[0]
        wrong = Output("", text="0")
        first = task.requests(item, chat=False)[0]
        second = task.next_request(item, first, [wrong], 0)
        talk = training.Conversation.of(first.prompt)
        tokenizer = training.make_tokenizer()
        rollouts = training.Rollouts(tokenizer, 4, 0)
        rollouts._take(talk, wrong, last=False)
        assert talk.prompt + rollouts._said(talk) == second.prompt

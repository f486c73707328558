"""Training ends on evidence: findings to stop, or tasks that no longer improve; in a loop, a Trainer, over a resume."""

from __future__ import annotations

import json
import random

import pytest

import midflight as mf
from midflight.errors import ConfigError
from midflight.pipeline import evaluate_checkpoint
from midflight.records import Progress

ROWS = [{"a": a} for a in range(200)]


def task(**spec):
    fields = {"prompt": "{{ a }}+1=", "target": "a + 1", "metrics": ["exact_match"]}
    return mf.Task("sums", ROWS, **{**fields, **spec})


class Model(mf.engines.Fake):
    """Solves a share of the items that the loop sets."""

    share = 0.0

    def __init__(self):
        super().__init__(self.answer)

    def answer(self, request):
        number = int(request.item_id)
        lucky = random.Random(f"{number}/{self.version}").random() < self.share
        return str(number + 1) if lucky else "-1"


def loop(run, config, share, steps, log=lambda step: {}, start=1, state=None):
    """Where training ended, and its evaluator."""
    engine = Model()
    evaluator = mf.Evaluator(config, [task()], engine, run, quiet=True)
    if state is not None:
        evaluator.load_state_dict(state)
    evaluator.start()
    for step in range(start, steps + 1):
        engine.share, engine.version = share(step), str(step)
        run.log(step, **log(step))
        run.flush()
        evaluator.step(step)
        if evaluator.should_stop:
            return step, evaluator
    return None, evaluator


def rising_then_flat(step):
    return min(0.8, 0.02 * step)


def test_a_task_that_no_longer_improves_ends_training_and_names_the_best_checkpoint(store):
    with mf.Run("p", "r", store=store) as run:
        config = mf.EvaluatorConfig(freq_steps=5, early_stop="stop", min_gain=2.0)
        ended, evaluator = loop(run, config, rising_then_flat, 400)
    assert 60 <= ended <= 120
    advice = evaluator.stop_advice
    assert (advice.kind, advice.step) == ("no_gain", ended)
    best = max(evaluator.reports, key=lambda report: report.estimate("exact_match").value)
    assert advice.return_to == best.progress.step
    assert f"the best checkpoint before is that of step {best.progress.step}" in str(advice)


def test_one_that_still_improves_goes_on(store):
    with mf.Run("p", "r", store=store) as run:
        config = mf.EvaluatorConfig(freq_steps=5, early_stop="stop")
        ended, _ = loop(run, config, lambda step: 0.008 * step, 100)
    assert ended is None


def test_a_finding_to_stop_ends_training_and_a_warning_does_not(store, caplog):
    def broken(step):
        return {"loss": float("nan") if step >= 40 else 1.0}

    with mf.Run("p", "stopped", store=store) as run:
        ended, evaluator = loop(
            run, mf.EvaluatorConfig(freq_steps=10, early_stop="stop"), lambda s: s / 100, 60, broken
        )
    assert (ended, evaluator.stop_advice.kind, evaluator.stop_advice.return_to) == (40, "nonfinite", 40)
    with mf.Run("p", "warned", store=store) as run:
        ended, evaluator = loop(run, mf.EvaluatorConfig(freq_steps=10), lambda s: s / 100, 60, broken)
    assert (ended, evaluator.should_stop, evaluator.stop_advice.kind) == (None, False, "nonfinite")
    assert "training should end at step 40: nonfinite: loss is nan" in caplog.text
    with mf.Run("p", "off", store=store) as run:
        ended, evaluator = loop(run, mf.EvaluatorConfig(freq_steps=10, early_stop="off"), lambda s: s / 100, 60, broken)
    assert (ended, evaluator.stop_advice) == (None, None)


def test_a_resumed_run_decides_as_if_it_had_never_stopped(store):
    config = mf.EvaluatorConfig(freq_steps=5, early_stop="stop", min_gain=2.0)
    with mf.Run("p", "whole", store=store) as run:
        whole, _ = loop(run, config, rising_then_flat, 400)
    run = mf.Run("p", "cut", store=store)
    ended, evaluator = loop(run, config, rising_then_flat, 50)
    assert ended is None
    state = evaluator.state_dict()
    run.finish("failed")
    with mf.Run("p", "cut", store=store) as run:
        ended, _ = loop(run, config, rising_then_flat, 400, start=51, state=state)
    assert ended == whole


def test_the_trainer_stops(store, tiny_model, word_tokenizer, tmp_path):
    from datasets import Dataset
    from transformers import Trainer, TrainingArguments

    from midflight.integrations.transformers import MidflightCallback

    rows = Dataset.from_list([{"input_ids": [3, 4, 5], "labels": [3, 4, 5]}] * 64)
    arguments = TrainingArguments(
        str(tmp_path / "out"), max_steps=64, per_device_train_batch_size=1, logging_steps=1, save_strategy="no",
        report_to=[], disable_tqdm=True, use_cpu=True, logging_nan_inf_filter=False,
    )  # fmt: skip
    config = mf.EvaluatorConfig(early_stop="stop")
    with mf.Run("p", "r", store=store) as run:
        callback = MidflightCallback(config=config, run=run)
        trainer = Trainer(tiny_model, arguments, train_dataset=rows, callbacks=[callback])

        def poison(*_, **__):
            if trainer.state.global_step == 9:
                run.log(10, reward=float("nan"))
                run.flush()

        tiny_model.register_forward_pre_hook(poison)
        trainer.train()
    assert 10 <= trainer.state.global_step < 20


def test_a_word_that_is_none_is_refused():
    with pytest.raises(ConfigError, match="early_stop"):
        mf.EvaluatorConfig(early_stop="maybe")


def test_the_watcher_writes_a_file_that_training_can_wait_for(store, tmp_path, capsys):
    from midflight.cli.watch import _after, _Told
    from midflight.show.tables import console

    stop = tmp_path / "STOP"
    with mf.Run("p", "r", store=store) as run:
        after = _after(run, [task()], _Told(console()), stop, None)
        engine = Model()
        falling = [0.8, 0.81, 0.79, 0.74, 0.7, 0.66, 0.6, 0.55]
        for step, share in enumerate(falling, start=1):
            engine.share, engine.version = share, str(step)
            evaluate_checkpoint(task(), engine, run=run, progress=Progress(10 * step))
            assert after(tmp_path / f"checkpoint-{10 * step}")
            if stop.exists():
                break
    told = json.loads(stop.read_text())
    assert (told["kind"], told["step"]) == ("no_gain", 10 * step)
    assert told["return_to"] <= 30
    assert "training should end at step" in capsys.readouterr().out

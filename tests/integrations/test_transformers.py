"""One callback, five trainers: evaluated in flight, training metrics logged, training untouched."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from transformers import LlamaConfig, LlamaForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

import midflight as mf
from conftest import tiny_llama
from midflight.errors import ConfigError
from midflight.integrations.transformers import RAW_LOSS, STATE_FILE, MidflightCallback

COMMON = {
    "output_dir": "out",
    "max_steps": 6,
    "per_device_train_batch_size": 2,
    "logging_steps": 2,
    "report_to": [],
    "use_cpu": True,
    "disable_tqdm": True,
    "save_strategy": "no",
    "learning_rate": 1e-3,
    "bf16": False,
    "seed": 0,
}
SUMS = [{"a": a, "b": a + 1} for a in range(4)]
PAIRS = [{"p": f"Say {w}", "c": w, "r": "no"} for w in ("yes", "License", "Work", "terms")]


def sums(**changes) -> mf.Task:
    fields = {
        "prompt": "{{ a }}+{{ b }}=",
        "target": "a + b",
        "metrics": ["exact_match", "token_entropy"],
        "chat": "never",
        "sampling": {"max_tokens": 3},
    }
    return mf.Task("sums", SUMS, **{**fields, **changes})


def callback(*tasks, async_mode=False, **options) -> MidflightCallback:
    config = mf.EvaluatorConfig(freq_steps=4, eval_before_train=True, async_mode=async_mode, max_waiting=9)
    return MidflightCallback(tasks or [sums()], config, project="p", **options)


def rows(word_tokenizer, count=32):
    torch.manual_seed(1)
    tokens = torch.randint(3, len(word_tokenizer), (count, 10)).tolist()
    return [{"input_ids": t, "labels": t} for t in tokens]


def read(key):
    store = mf.open_store()
    points = store.read_points(store.runs()[0].id, key)
    return dict(zip(points.steps.tolist(), points.values.tolist(), strict=True))


def measured(task="sums"):
    store = mf.open_store()
    return [r.progress.step for r in store.reports(store.runs()[0].id, task)]


class TestTrainer:
    def train(self, word_tokenizer, *callbacks, model=None, trainer=Trainer, **options):
        model = model or tiny_llama(word_tokenizer, attention_dropout=0.1)
        arguments = TrainingArguments(**{**COMMON, **options})
        done = trainer(
            model,
            arguments,
            train_dataset=rows(word_tokenizer),
            processing_class=word_tokenizer,
            callbacks=list(callbacks),
        )
        done.train(resume_from_checkpoint=options.get("resume_from_checkpoint"))
        return done

    def test_evaluates_and_logs(self, word_tokenizer):
        self.train(word_tokenizer, callback(), gradient_accumulation_steps=2)
        assert measured() == [0, 4, 6]
        assert sorted(read("loss")) == [2, 4, 6]
        assert sorted(read(RAW_LOSS)) == [1, 2, 3, 4, 5, 6]
        raw, logged = read(RAW_LOSS), read("loss")
        assert logged[2] == pytest.approx((raw[1] + raw[2]) / 2, rel=1e-4)
        assert mf.open_store().runs()[0].status == "finished"
        assert mf.open_store().reports(1)[0].progress.epoch == 0.0

    @pytest.mark.parametrize("async_mode", [False, True])
    def test_training_is_bit_identical_with_and_without(self, word_tokenizer, async_mode):
        plain = self.train(word_tokenizer)
        watched = self.train(word_tokenizer, callback(async_mode=async_mode))
        assert measured() == [0, 4, 6]
        assert [e["loss"] for e in plain.state.log_history if "loss" in e] == [
            e["loss"] for e in watched.state.log_history if "loss" in e
        ]
        for (name, a), (_, b) in zip(plain.model.state_dict().items(), watched.model.state_dict().items(), strict=True):
            assert torch.equal(a, b), name

    def test_it_sees_the_loss_that_the_trainers_log_hides(self, word_tokenizer, caplog):
        class Spiky(Trainer):
            def compute_loss(self, *arguments, **options):
                loss = super().compute_loss(*arguments, **options)
                return loss + float("inf") if self.state.global_step == 2 else loss

        done = self.train(word_tokenizer, callback(), trainer=Spiky)
        assert all(math.isfinite(e["loss"]) for e in done.state.log_history if "loss" in e)
        assert [step for step, value in read(RAW_LOSS).items() if not math.isfinite(value)] == [3]
        assert "the loss of step 3 is inf; the Trainer's log may hide it" in caplog.text
        assert "training_step" not in vars(done)  # the trainer is left as it was

    def test_last_weights_are_measured_before_the_best_ones_are_loaded(self, word_tokenizer, tmp_path):
        seen = []

        class Watching(MidflightCallback):
            def on_train_end(self, args, state, control, model=None, **given):
                seen.append(self.engine.weights())
                super().on_train_end(args, state, control, **given)

        config = mf.EvaluatorConfig()
        watch = Watching([sums()], config, project="p")
        arguments = TrainingArguments(
            **{
                **COMMON,
                "save_strategy": "steps",
                "save_steps": 2,
                "eval_strategy": "steps",
                "eval_steps": 2,
                "load_best_model_at_end": True,
                "metric_for_best_model": "loss",
                "greater_is_better": True,
            }
        )
        model = tiny_llama(word_tokenizer)
        Trainer(
            model,
            arguments,
            train_dataset=rows(word_tokenizer),
            eval_dataset=rows(word_tokenizer, 4),
            processing_class=word_tokenizer,
            callbacks=[watch],
        ).train()
        (report,) = mf.open_store().reports(1)
        assert report.progress.step == 6
        assert report.weights != seen[0]

    def test_resume_goes_on_where_it_was(self, word_tokenizer):
        self.train(word_tokenizer, callback(), save_strategy="steps", save_steps=3, max_steps=3)
        state = json.loads(Path(f"out/checkpoint-3/{STATE_FILE}").read_text())
        assert state["freq_ctl"]["progress"][0] == 3
        run = mf.Run("p", "out", resume="must")
        self.train(word_tokenizer, callback(run=run), max_steps=6, resume_from_checkpoint="out/checkpoint-3")
        run.finish()
        assert measured() == [0, 3, 4, 6]

    def test_a_run_of_the_users_stays_open(self, word_tokenizer):
        with mf.Run("mine", "r") as run:
            self.train(word_tokenizer, callback(run=run))
            run.log(7, after=1.0)
        assert read("after") == {7: 1.0}

    def test_without_tasks_it_logs(self, word_tokenizer):
        arguments = TrainingArguments(**COMMON)
        model = tiny_llama(word_tokenizer)
        Trainer(
            model, arguments, train_dataset=rows(word_tokenizer), callbacks=[MidflightCallback(project="p")]
        ).train()
        assert sorted(read("loss")) == [2, 4, 6]

    def test_a_trainer_without_a_tokenizer(self, word_tokenizer):
        trainer = Trainer(
            tiny_llama(word_tokenizer),
            TrainingArguments(**COMMON),
            train_dataset=rows(word_tokenizer),
            callbacks=[callback()],
        )
        with pytest.raises(ConfigError, match="the trainer has no processing_class"):
            trainer.train()

    def test_a_second_training_is_a_run_of_its_own(self, word_tokenizer):
        trainer = self.train(word_tokenizer, callback())
        first = mf.open_store().reports(1, "sums")[-1].weights
        trainer.train()
        store = mf.open_store()
        assert sorted((r.id, r.status) for r in store.runs()) == [(1, "finished"), (2, "finished")]
        for run in (1, 2):
            assert [r.progress.step for r in store.reports(run, "sums")] == [0, 4, 6]
            assert store.read_points(run, RAW_LOSS).steps.tolist() == [1, 2, 3, 4, 5, 6]
        assert store.reports(2, "sums")[0].weights == first
        assert "training_step" not in vars(trainer)

    def test_a_training_after_one_that_raised(self, word_tokenizer):
        class Failing(Trainer):
            fails = True

            def compute_loss(self, *arguments, **options):
                if self.fails and self.state.global_step == 3:
                    raise KeyError("scripted")
                return super().compute_loss(*arguments, **options)

        trainer = Failing(
            tiny_llama(word_tokenizer),
            TrainingArguments(**COMMON),
            train_dataset=rows(word_tokenizer),
            processing_class=word_tokenizer,
            callbacks=[callback()],
        )
        with pytest.raises(KeyError):
            trainer.train()
        trainer.fails = False
        trainer.train()
        store = mf.open_store()
        assert [(r.id, r.status, r.attempts) for r in store.runs()] == [(1, "finished", 2)]  # as after a restart
        assert store.read_points(1, RAW_LOSS).steps.tolist() == [1, 2, 3, 4, 5, 6]
        assert "training_step" not in vars(trainer)

    def test_two_callbacks_and_a_step_that_was_wrapped_before(self, word_tokenizer):
        trainer = Trainer(
            tiny_llama(word_tokenizer),
            TrainingArguments(**COMMON),
            train_dataset=rows(word_tokenizer),
            processing_class=word_tokenizer,
            callbacks=[MidflightCallback(project=p) for p in ("p", "q")],
        )
        original, calls = trainer.training_step, []

        def wrapped(*arguments, **options):
            calls.append(1)
            return original(*arguments, **options)

        trainer.training_step = wrapped
        trainer.train()
        assert len(calls) == 6
        assert vars(trainer)["training_step"] is wrapped
        store = mf.open_store()
        losses = [store.read_points(run.id, RAW_LOSS).values.tolist() for run in store.runs()]
        assert len(losses) == 2
        assert losses[0] == losses[1]
        assert len(losses[0]) == 6

    def test_somebody_who_wraps_the_step_during_training_keeps_it(self, word_tokenizer):
        class Wrapping(TrainerCallback):
            def on_step_begin(self, args, state, control, **given):
                if state.global_step == 2:
                    inner = trainer.training_step
                    trainer.training_step = lambda *arguments, **options: inner(*arguments, **options)

        trainer = Trainer(
            tiny_llama(word_tokenizer),
            TrainingArguments(**COMMON),
            train_dataset=rows(word_tokenizer),
            callbacks=[MidflightCallback(project="p"), Wrapping()],
        )
        trainer.train()
        theirs = vars(trainer)["training_step"]
        assert theirs.__name__ == "<lambda>"
        trainer.train()
        store = mf.open_store()
        for run in (1, 2):
            assert store.read_points(run, RAW_LOSS).steps.tolist() == [1, 2, 3, 4, 5, 6]

    def test_users_metrics(self, word_tokenizer):
        class Risk(mf.BaseMetric):
            def compute(self, predictions, labels):
                return 0.25

        self.train(word_tokenizer, callback(metrics={"risk_score": Risk}))
        assert mf.open_store().reports(1)[0].estimate("risk_score").value == 0.25


def test_sft(word_tokenizer):
    from trl import SFTConfig, SFTTrainer

    data = Dataset.from_list([{"text": f"The License {i} applies to the Work"} for i in range(16)])
    SFTTrainer(
        tiny_llama(word_tokenizer),
        SFTConfig(**COMMON, max_length=16),
        train_dataset=data,
        processing_class=word_tokenizer,
        callbacks=[callback()],
    ).train()
    assert measured() == [0, 4, 6]
    assert len(read(RAW_LOSS)) == 6
    assert {"loss", "grad_norm", "mean_token_accuracy"} <= set(mf.open_store().keys(1))


def test_dpo(word_tokenizer):
    from trl import DPOConfig, DPOTrainer

    data = Dataset.from_list([{"prompt": p["p"], "chosen": p["c"], "rejected": p["r"]} for p in PAIRS * 4])
    likelier = mf.Task(
        "pairs",
        PAIRS,
        kind="preference",
        prompt="{{ p }}",
        chosen="c",
        rejected="r",
        scored_by="loglikelihood",
        chat="never",
        metrics=["pairwise_accuracy", "reward_margin"],
    )
    DPOTrainer(
        tiny_llama(word_tokenizer),
        tiny_llama(word_tokenizer),
        args=DPOConfig(**COMMON),
        train_dataset=data,
        processing_class=word_tokenizer,
        callbacks=[callback(likelier)],
    ).train()
    assert measured("pairs") == [0, 4, 6]
    assert {"rewards/chosen", "rewards/margins"} <= set(mf.open_store().keys(1))


def test_reward(word_tokenizer):
    from trl import RewardConfig, RewardTrainer

    torch.manual_seed(0)
    model = LlamaForSequenceClassification(
        LlamaConfig(
            vocab_size=len(word_tokenizer),
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_labels=1,
            pad_token_id=word_tokenizer.pad_token_id,
        )
    )
    data = Dataset.from_list([{"chosen": p["p"] + p["c"], "rejected": p["p"] + p["r"]} for p in PAIRS * 4])
    pairs = mf.Task(
        "pairs",
        PAIRS,
        kind="preference",
        prompt="{{ p }}",
        chosen="c",
        rejected="r",
        chat="never",
        metrics=["pairwise_accuracy", "reward_margin", "reward_mean"],
    )
    RewardTrainer(
        model,
        RewardConfig(**{**COMMON, "learning_rate": 1e-2}),
        train_dataset=data,
        processing_class=word_tokenizer,
        callbacks=[callback(pairs)],
    ).train()
    assert measured("pairs") == [0, 4, 6]
    reports = mf.open_store().reports(1, "pairs")
    assert reports[-1].estimate("reward_margin").value > reports[0].estimate("reward_margin").value


def test_grpo(word_tokenizer):
    from trl import GRPOConfig, GRPOTrainer

    data = Dataset.from_list([{"prompt": f"The {i}"} for i in range(8)])
    options = {
        **COMMON,
        "per_device_train_batch_size": 4,
        "num_generations": 2,
        "max_completion_length": 4,
        "max_steps": 4,
    }
    GRPOTrainer(
        tiny_llama(word_tokenizer),
        lambda completions, **_: [float(len(c)) for c in completions],
        GRPOConfig(**options),
        train_dataset=data,
        processing_class=word_tokenizer,
        callbacks=[callback()],
    ).train()
    assert measured() == [0, 4]
    assert {"reward", "entropy", "frac_reward_zero_std", RAW_LOSS} <= set(mf.open_store().keys(1))

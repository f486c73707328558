"""What is trained how is told by names, by where series begin, and by who wrote the log; else it is unknown."""

from __future__ import annotations

import json
import math

import pytest

from midflight.analyse.algorithm import guess_algorithm, named_algorithm
from midflight.analyse.diagnose import diagnose_log, facts_of_config
from midflight.analyse.importers import read_any
from midflight.analyse.names import canonical_names

HF = ("loss", "grad_norm", "learning_rate", "epoch")
LLAMA_FACTORY = ("loss", "lr", "epoch", "percentage", "elapsed_time", "remaining_time")
LN_2 = math.log(2)


def guess(logged, formats=(), **first):
    names = {canonical: original for original, canonical in canonical_names(logged).items()}
    return guess_algorithm(names, first, formats)


@pytest.mark.parametrize(
    ("logged", "first", "algorithm"),
    [
        # a language model that knows nothing: ln(vocabulary), or little less where the log begins later
        (["loss"], {"loss": 10.9}, "pretrain"),
        (["loss", "tokens_per_second", "mfu"], {"loss": 6.6}, "pretrain"),
        (["xent", "ppl", "acc"], {"loss": 5.1}, "pretrain"),
        (["lm_loss", "consumed_tokens"], {"loss": 5.3}, "pretrain"),
        (["loss", "tokens"], {"loss": 3.4, "tokens": 3.8e9}, "pretrain"),
        (["loss", "tokens"], {"loss": 3.4, "tokens": 3.8e7}, "unknown"),
        (["loss"], {"loss": 6.6}, "unknown"),  # of what?
        (["loss"], {"loss": 12.2}, "unknown"),  # of 200,000 tokens, or a sum
        (["loss"], {"loss": 180.0}, "unknown"),
        (["loss", "grad_norm"], {"loss": 1.9}, "unknown"),
        (["train_loss", "val_loss", "val_acc"], {"loss": 2.5}, "unknown"),
        # HF's Trainer and its kin
        (HF, {"loss": 1.9}, "sft"),
        ([f"train/{name}" for name in HF], {"loss": 2.7}, "sft"),
        (HF, {"loss": 62.1}, "sft"),  # summed over accumulation
        (HF, {"loss": 10.8}, "pretrain"),
        ([*HF, "token_acc"], {"loss": 8.8, "token_accuracy": 0.55}, "sft"),  # a sum again: it knows half of the tokens
        ([*HF, "mean_token_accuracy", "entropy"], {"loss": 0.69, "token_accuracy": 0.8}, "sft"),
        (LLAMA_FACTORY, {"loss": 2.2}, "sft"),
        ([*LLAMA_FACTORY, "accuracy"], {"loss": 0.65}, "preference"),
        # two from each other: a ranking, or a classifier of two classes
        (HF, {"loss": 0.6914}, "unknown"),
        (["loss", "rewards/margins"], {"loss": LN_2}, "preference"),
        (["dpo_loss"], {"loss": LN_2}, "preference"),
        (["loss", "logps/chosen"], {"loss": 2.6}, "preference"),
        (["loss", "acc", "chosen_reward", "reject_reward"], {"loss": LN_2, "rewards_chosen": 0.0004}, "preference"),
        (["loss", "acc", "chosen_reward", "reject_reward"], {"loss": 0.71, "rewards_chosen": -0.8}, "reward_model"),
        (["Loss", "Positive Score", "Negative Score"], {"loss": 1.0, "rewards_chosen": 0.46}, "reward_model"),
        (["loss", "accuracy", "margin", "mean_reward", "min_reward"], {"loss": LN_2}, "reward_model"),
        # reinforcement learning
        (["loss", "reward", "rewards/format/mean"], {"loss": 0.0}, "rl"),
        (["actor/pg_loss", "actor/pg_clipfrac"], {}, "rl"),
        (["loss", "mean_advantage"], {"loss": -0.02}, "rl"),
        ([], {}, "unknown"),
    ],
)
def test_names_and_where_series_begin(logged, first, algorithm):
    assert guess(logged, **first) == algorithm


@pytest.mark.parametrize(
    ("trainer", "loss", "algorithm"),
    [
        ("nanogpt", 4.2, "pretrain"),
        ("olmo_console", 6.2, "pretrain"),
        ("marian", 91.6, "pretrain"),
        ("fairseq", 16.5, "pretrain"),  # bits
        ("fairseq", 3.1, "unknown"),
        ("keras_console", 10.5, "unknown"),
        ("mmengine_console", 8.5, "unknown"),
        ("mlx_lm", 2.2, "sft"),
        ("litgpt", 10.9, "pretrain"),
        ("hf_console", 0.02, "sft"),
        ("hf_tables", 2.9, "unknown"),
        ("console_pairs", 2.9, "unknown"),
    ],
)
def test_who_wrote_the_log(trainer, loss, algorithm):
    assert guess(["loss", "epoch"], [trainer], loss=loss) == algorithm


def test_a_log_that_does_not_tell_is_judged_by_what_holds_everywhere(tmp_path):
    """A step loss that is NaN is one in any run; that a flat loss is a waste depends on what is trained."""
    path = tmp_path / "log.jsonl"
    rows = [{"step": n, "loss": 1.0 if n > 20 else 3 - n / 10} for n in range(400)]
    path.write_text("\n".join(map(json.dumps, [*rows, {"step": 400, "loss": math.nan}])))
    (run,) = read_any(path)
    found = diagnose_log(run)
    assert (found.algorithm, [one.kind for one in found.findings]) == ("unknown", ["nonfinite"])


@pytest.mark.parametrize(
    ("config", "algorithm"),
    [
        ({"algorithm": "GRPO", "lr": 1e-5}, "rl"),
        ({"algorithm": {"adv_estimator": "gae", "kl_ctrl": {"kl_coef": 0.1}}}, "rl"),
        ({"trainer.stage": "dpo"}, "preference"),
        ({"stage": "rm"}, "reward_model"),
        ({"training_stage": "pre-training"}, "pretrain"),
        ({"stage": 3, "algorithm": ["sft"], "algo": "adamw"}, None),
    ],
)
def test_a_configuration_that_names_it_is_believed(config, algorithm):
    assert named_algorithm(config) == algorithm
    assert facts_of_config(config, {"loss": "loss"}, {"loss": ([1], [0.4])}).algorithm == (algorithm or "unknown")

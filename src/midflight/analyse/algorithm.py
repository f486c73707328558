"""What is trained how, from what a run logs: names of series, where they begin, and who wrote the log."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from midflight.analyse.detectors.base import Algorithm

_RL = frozenset(
    {"reward", "reward_std", "frac_reward_zero_std", "clip_ratio", "value_loss", "importance_ratio", "version_lag",
     "advantage_mean", "kl_to_old"}
)  # fmt: skip
_FROM_SCRATCH = frozenset(
    {"llmc", "nanogpt", "modded_nanogpt", "nanochat", "megatron_console", "megatron_golden", "torchtitan_console",
     "composer_console", "olmo_console", "marian"}
)  # fmt: skip
"""Importers of trainers that begin with random weights, as a rule."""
_FINE_TUNING = frozenset({"hf_console", "hf_trainer_state", "litgpt", "mlx_lm"})
"""Importers of trainers that begin with a model, as a rule."""
_ANY_MODEL = frozenset({"keras_console", "mmengine_console", "espnet"})
"""Importers of trainers of anything, whose losses need not be in nats a token."""
_HF = frozenset({"loss", "grad_norm", "learning_rate", "epoch"})
"""What HF's Trainer and its kin log at each record, by these very names."""
_LLAMA_FACTORY = frozenset({"loss", "lr", "epoch", "percentage", "elapsed_time", "remaining_time"})
"""What LLaMA-Factory writes to trainer_log.jsonl; `accuracy` there is TRL's rewards/accuracies."""
_OF_LANGUAGE = frozenset({"tokens", "throughput", "perplexity", "eval_perplexity", "token_accuracy", "mfu"})
"""Series that a language model has: with them, a loss is one in nats a token."""

_KNOWING_NOTHING = (7.0, 12.0)
"""Loss of a language model that knows nothing, ln(vocabulary): 8.3 of 4,096 tokens, 11.9 of 152,000. Fine-tuning
begins far below, and a loss beyond is a sum, or none of a language."""
_KNOWING_LITTLE = (5.0, 13.0)
"""The same where other series say that it is a language model: small vocabularies, and logs that begin later."""
_IN_BITS = 10.0
"""The same for fairseq, whose losses are in bits; log2(1,024)."""
_MANY_TOKENS = 1e9
"""Tokens that no fine-tuning sees."""
_KNOWING = 0.2
"""Share of tokens that only a trained model gets right at the start."""
_PAIR = (math.log(2), 0.02)
"""First loss of what tells two from each other, a ranking or a classifier of two classes, and how near it comes."""
_SAME_AS_REFERENCE = 0.05
"""An implicit reward of preference training is 0 at the start; a reward model's scores are anywhere."""


_NAMING = frozenset({"algorithm", "algo", "stage", "training_stage", "adv_estimator"})
"""Keys of a configuration, or the last part of one, that name it: LLaMA-Factory's `stage`, verl's `adv_estimator`."""
_NAMED: Mapping[str, Algorithm] = {
    **dict.fromkeys(("pretrain", "pretraining", "pt"), "pretrain"),
    **dict.fromkeys(("sft", "finetune", "finetuning"), "sft"),
    **dict.fromkeys(("rm", "reward", "rewardmodel"), "reward_model"),
    **dict.fromkeys(("dpo", "ipo", "kto", "orpo", "simpo", "cpo"), "preference"),
    **dict.fromkeys(("rl", "grpo", "ppo", "gae", "rloo", "reinforce", "dapo", "gspo", "drgrpo"), "rl"),
}
"""What such a key may say, without case, blanks, hyphens and underscores."""


def named_algorithm(config: Mapping[str, Any]) -> Algorithm | None:
    """What a configuration says is trained how; None if it does not.

    >>> named_algorithm({"algorithm": {"adv_estimator": "grpo"}}), named_algorithm({"stage": "2"})
    ('rl', None)
    """
    for key, value in config.items():
        if isinstance(value, Mapping):
            found = named_algorithm(value)
        else:
            is_name = key.rpartition(".")[2].lower() in _NAMING and isinstance(value, str)
            found = _NAMED.get(re.sub(r"[\s_-]", "", value.lower())) if is_name else None
        if found is not None:
            return found
    return None


def guess_algorithm(
    names: Mapping[str, str], first: Mapping[str, float] | None = None, formats: Iterable[str] = ()
) -> Algorithm:
    """What is trained how; ``unknown`` where the log does not tell.

    Args:
        names: Canonical names that are logged, with their originals.
        first: The first value of each series, by canonical name.
        formats: Importers that read the log.

    >>> guess_algorithm({"loss": "loss", "throughput": "tok/s"}, {"loss": 10.9})
    'pretrain'
    >>> guess_algorithm({"loss": "loss"}, {"loss": 0.4})
    'unknown'
    """
    start, trainers = first or {}, set(formats)
    originals = {original.removeprefix("train/") for original in names.values()}
    paired = _of_pairs(names, originals, start)
    if paired is not None:
        return paired
    if _RL & names.keys() or any(name.startswith("rewards/") for name in names):
        return "rl"
    loss = start.get("loss", math.nan)
    if _begins_with_nothing(names, start, loss, trainers):
        return "pretrain"
    ranked = abs(loss - _PAIR[0]) <= _PAIR[1]
    known = trainers & _FINE_TUNING or originals >= _HF or originals >= _LLAMA_FACTORY
    if "token_accuracy" in names or (known and not ranked):
        return "sft"
    return "unknown"


def _of_pairs(names: Mapping[str, str], originals: set[str], start: Mapping[str, float]) -> Algorithm | None:
    """Preference training or a reward model, by what is logged of a chosen and a rejected answer."""
    if {"logps_chosen", "logps_rejected"} & names.keys() or names.get("loss") == "dpo_loss":
        return "preference"
    if originals & {"rewards/margins", "rewards/chosen", "rewards/accuracies", "rewards_train/chosen"}:
        return "preference"
    if originals >= _LLAMA_FACTORY | {"accuracy"}:
        return "preference"
    if {"margins", "rewards_chosen", "rewards_rejected"} & names.keys():
        return "preference" if abs(start.get("rewards_chosen", math.inf)) < _SAME_AS_REFERENCE else "reward_model"
    return None


def _begins_with_nothing(names: Mapping[str, str], start: Mapping[str, float], loss: float, trainers: set[str]) -> bool:
    """Whether a model is trained from random weights, or by far more tokens than any fine-tuning has."""
    if start.get("token_accuracy", 0.0) > _KNOWING:
        return False
    if trainers & _FROM_SCRATCH or start.get("tokens", 0.0) >= _MANY_TOKENS:
        return True
    if trainers & _ANY_MODEL:
        return False
    if "fairseq" in trainers:
        return loss > _IN_BITS
    low, high = _KNOWING_LITTLE if _OF_LANGUAGE & names.keys() else _KNOWING_NOTHING
    return low < loss <= high

"""One vocabulary for what training logs call by many names. Originals stay visible; what is not here keeps its name.

A name is compared in lower case, with blanks and dashes as underscores, and without ``train/`` before it (``train_`` is
left out only if nothing is known of the name with it). The first row with a pattern that matches the whole of it gives
the canonical name; ``*`` stands for a group that the name takes over.
Where a run has several originals of one canonical name, the one whose pattern stands first in the row has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

_HELD_OUT = r"(?:eval|evaluation|val|valid|validation|test|dev|held_?out)"
_E = rf"{_HELD_OUT}[_/ ]"
_ACTOR = r"(?:\w*actor/|policy/)?"

NAMES: Mapping[str, tuple[str, ...]] = {
    # what was measured on held-out data
    "eval_loss": (rf"{_E}(?:lm_)?loss", "tel", rf"{_E}ce_mean(?:_words)?", rf"{_E}.*cross_?entropy(?:loss)?",
                  rf"{_E}.*[_/](?:lm_)?loss(?:/avg|_value)?", r"loss[_/](?:val|valid|validation|eval)"),
    "eval_perplexity": (rf"{_E}(?:.*_)?(?:ppl|perplexity)", rf"{_E}.*perplexity"),
    "eval_bits_per_byte": (rf"{_E}bpb", rf"{_E}bits_per_byte"),
    "eval_reward": (rf"{_E}rewards?(?:/mean)?", r"val_core/.*/reward/mean@\d+", r"val/test_score/.*",
                    rf"{_E}.*reward(?:/mean)?(?:@\d+)?"),
    "eval_accuracy": (rf"{_E}(?:acc|accuracy)", rf"{_E}(?:mean_)?token_acc(?:uracy)?", rf"{_E}.*accurac(?:y|ies)",
                      r"val_core/.*/acc/mean@\d+"),
    "eval_error": (rf"{_E}(?:wer|cer|error(?:_rate)?|mae|mse|rmse)",),
    "eval_score": ("core_metric", rf"{_E}(?:f1|macro_f1|micro_f1|exact_match|em|bleu|chrf|rouge_?l(?:sum)?|score)"),
    # losses
    "loss": ("dpo_loss", "loss", "train_loss", "training_loss", "lm_loss", "trl", "loss/train/total", "total_loss",
             "loss_metrics/global_avg_loss", "metrics/train/languagecrossentropy", "loss_total", "logits_loss",
             "reduced_train_loss", "loss_step", "loss_(?:avg|mean)", "(?:avg|mean|average)_(?:train_)?loss",
             "loss[_/]train", "cross_?entropy(?:_?loss)?", "ce_loss", "xent", "(?:batch|running|step)_loss",
             "loss_epoch", "cost"),
    "loss_max": ("loss_metrics/global_max_loss",),
    "policy_loss": (rf"{_ACTOR}pg_loss", rf"{_ACTOR}actor_loss/avg", "policy_loss", "loss/policy_avg", "actor_loss",
                    "loss_pg", "policy_gradient_loss"),
    "value_loss": ("critic/vf_loss", "value_loss", "vf_loss", "loss/value_avg", "critic_loss", "critic/loss"),
    "aux_loss": ("aux_loss", r"load_balancing_loss", "router_aux_loss", "moe_aux_loss"),
    "perplexity": ("perplexity", "ppl", "metrics/train/languageperplexity"),
    # the optimiser
    "grad_norm": ("grad_norm", "norm", "gnorm", "gradient_norm", "l2_norm/grad/global", rf"{_ACTOR}grad_norm",
                  r"grad_norm/(?:all|total|global)", "grad_norm_last", "(?:optim/)?(?:total|global)_grad_norm",
                  "grad_norm_before_clip"),
    "value_grad_norm": ("critic/grad_norm",),
    "learning_rate": ("learning_rate", "lr", rf"{_ACTOR}lr", r"lr_\w+/group0", r"optim(?:izer)?/(?:lr|learning_rate)",
                      r"optim/(?:learning_rate_group0|lr_\(group_0\))", r"lr_\w*(?:adam|sgd)\w*",
                      "(?:act|actor|policy)_lr", r"l\.r\.", r"(?:optim0_)?lr_?0"),
    "param_norm": ("params?_norm", "weight_norm"),
    "zero_gradients": ("num_zeros",),
    "loss_scale": ("loss_scale", "grad_scale"),
    "skipped_steps": ("number_of_skipped_iterations",),
    "nan_steps": ("number_of_nan_iterations",),
    # reinforcement learning: the reward
    "reward": ("reward", "critic/score/mean", rf"{_ACTOR}task_reward/avg", "reward/mean", "critic/rewards/mean",
               rf"{_ACTOR}final_reward/avg", "rollout/reward", "objective/scores", "env/all/reward/total",
               "reward/total", "mean_reward", "reward_mean", "rewards/mean", "(?:rollout/)?raw_reward",
               "(?:avg|average)_reward", "(?:rollout/)?ep_rew_mean"),
    "reward_std": ("reward_std", "reward/std", "rewards/std"),
    "reward_max": ("critic/score/max", rf"{_ACTOR}task_reward/max", "critic/rewards/max", "reward/max"),
    "reward_min": ("critic/score/min", rf"{_ACTOR}task_reward/min", "critic/rewards/min", "reward/min"),
    "frac_reward_zero_std": ("frac_reward_zero_std", "frac_zero_std"),
    "advantage_mean": ("critic/advantages/mean", rf"{_ACTOR}advantages/avg", "advantages?/mean", "mean_advantage",
                       "adv(?:antage)?_mean"),
    "advantage_max": ("critic/advantages/max", rf"{_ACTOR}advantages/max", "advantages?/max"),
    "advantage_min": ("critic/advantages/min", rf"{_ACTOR}advantages/min", "advantages?/min"),
    # preferences; before the components of a reward
    "margins": ("rewards/margins", "margins?", "rewards_train/margins"),
    "rewards_chosen": ("rewards/chosen", "chosen_rewards?", "rewards_train/chosen",
                       "(?:positive|chosen|pos|winner)_(?:mean_)?scores?"),
    "rewards_rejected": ("rewards/rejected", "reject(?:ed)?_rewards?", "rewards_train/rejected",
                         "(?:negative|reject(?:ed)?|neg|loser)_(?:mean_)?scores?"),
    "logps_chosen": ("logps/chosen",),
    "logps_rejected": ("logps/rejected",),
    "logits_chosen": ("logits/chosen",),
    "logits_rejected": ("logits/rejected",),
    "accuracy": ("rewards/accuracies", "accuracy", "acc", "train_acc(?:uracy)?", "solve_rate", r"reward/pass@1"),
    "token_accuracy": ("mean_token_accuracy", "token_acc(?:uracy)?"),
    "rewards/*/std": (r"rewards/([^/]+)/std",),
    "rewards/*": (r"rewards/([^/]+)(?:/mean)?",),
    # reinforcement learning: the policy
    "entropy": ("entropy", rf"{_ACTOR}entropy", rf"{_ACTOR}entropy/avg", rf"{_ACTOR}entropy_loss", "policy/entropy_avg",
                "objective/entropy", "optim/entropy"),
    "kl": ("kl", "objective/kl", f"{_ACTOR}kl_loss", "critic/kl", "kl/mean", "mean_kl", r"optim/kl_sample_train_v1",
           "loss_kl"),
    "kl_to_old": (f"{_ACTOR}ppo_kl", f"{_ACTOR}approx_kl/avg", "approx_?kl", "policy/approxkl_avg"),
    "kl_to_behaviour": (f"{_ACTOR}behave_approx_kl/avg",),
    "clip_ratio": ("clip_ratio/region_mean", f"{_ACTOR}pg_clipfrac", f"{_ACTOR}clip_ratio/avg", "clip_ratio",
                   "clip_?frac", "policy/clipfrac_avg", "val/clipfrac_avg"),
    "clip_ratio_high": ("clip_ratio/high_mean",),
    "clip_ratio_low": ("clip_ratio/low_mean", f"{_ACTOR}pg_clipfrac_lower"),
    "importance_ratio": (f"{_ACTOR}importance_weight/avg", "val/ratio", "sampling/importance_sampling_ratio/mean",
                         "importance_ratio", "ratio", "mean_ratio"),
    "importance_ratio_max": (f"{_ACTOR}importance_weight/max", "sampling/importance_sampling_ratio/max"),
    "behaviour_ratio": (f"{_ACTOR}behave_imp_weight/avg",),
    "version_lag": ("off_policy/lag_batches", "version_lag", "staleness(?:/(?:mean|avg))?", "lag"),
    # reinforcement learning: what it wrote
    "completion_length": ("completions/mean_length", "completion_length", "response_length/mean", "response_length",
                          "mean_completion_length", "env/all/ac_tokens_per_turn", "(?:rollout/)?response_lengths",
                          "(?:mean|avg|average)_(?:generation|response)_length", "glen"),
    "completion_length_max": ("completions/max_length", "response_length/max"),
    "completion_length_min": ("completions/min_length", "response_length/min"),
    "terminated_length": ("completions/mean_terminated_length",),
    "terminated_length_max": ("completions/max_terminated_length",),
    "terminated_length_min": ("completions/min_terminated_length",),
    "sequence_length": (f"{_ACTOR}seq_len/avg", "global_seqlen/mean"),
    "prompt_length": ("prompt_length/mean", f"{_ACTOR}prompt_len/avg", "prompt_length"),
    "clipped_ratio": ("completions/clipped_ratio", "response_length/clip_ratio", f"{_ACTOR}no_eos_ratios/avg",
                      "(?:rollout/)?truncat(?:ion|ed)_(?:rate|ratio)", "rollout/truncated"),
    # cost
    "throughput": ("tokens_per_sec(?:ond)?", "throughput/tokens_per_sec", "tok/s(?:ec)?", "tps", "wps",
                   "perf/throughput", "throughput", "train_tokens_per_second", "tok(?:ens)?_per_s(?:ec(?:ond)?)?",
                   "tokens?/s(?:ec(?:ond)?)?", "throughput/device/(?:tokens_per_second|tps(?:_.actual_avg.)?)",
                   "words/s", "(?:tokens?/s|tgs|tokens_per_sec(?:ond)?)(?:/|_per_)(?:device|gpu)"),
    "step_time": ("step_time", "timing_s/step", "perf/time_per_step", "iteration_time", r"time_metrics/end_to_end\(s\)",
                  r"elapsed_time_per_iteration_\(m?s\)", "step_avg", "dt", "timeperf/train_step", "ms", "sec/step",
                  "step_time_(?:s|sec|ms)", "iter_time", "ms/iter", "s/it", "perf/step_time", "total_step_time",
                  "(?:elapsed_)?time_per_(?:iteration|step)(?:_ms)?", "train_step_timing_in_s", "iter_time_ms"),
    "mfu": ("mfu", r"mfu\(%\)", "perf/mfu/actor", "throughput/device/mfu"),
    "memory": ("perf/max_memory_allocated_gb", "mem_max_allocated_bytes", r"memory/max_active\(gib\)", "memory",
               "memory/allocated_mem", "memory/peak_allocated_mem", "mem_allocated_bytes", r"memory\(gib\)",
               "peak_mem(?:ory)?(?:_gb)?", r"system/peak_gpu_memory_\(mb\)", "(?:gpu_)?mem(?:ory)?_gb", "vram_gb"),
    # clocks: where a run is, not how it does
    "epoch": ("epoch", "time/epoch", "trainer/epoch"),
    "tokens": ("num_tokens", "tokens", "tokens_seen", "num_input_tokens_seen", "consumed_tokens", "time/token",
               "total_tokens", "throughput/total_tokens", "(?:trained_|global_)tokens", "tokens_(?:trained|total)"),
    "samples": ("consumed_samples", "samples", "time/sample", "num_samples"),
    "elapsed_time": ("train_time", "total_time", "elapsed(?:_time)?", "runtime", "_runtime", r"relative_time_\(\w+\)",
                     "wall", "elapsed_s(?:ec(?:onds)?)?"),
    "remaining_time": ("eta", "remaining_time", "eta_s(?:ec(?:onds)?)?", "time/remaining_estimate"),
    "percentage": ("percentage", "progress"),
    "logged_step": ("global_step", "trainer/global_step", "progress/batch", "time/batch", "_step",
                    "opt(?:imizer)?_step", "micro_step"),
}  # fmt: skip
"""Canonical name to patterns of originals, the best first."""

CLOCKS = frozenset(
    {"epoch", "tokens", "samples", "elapsed_time", "remaining_time", "percentage", "logged_step", "step_time"}
)
"""Canonical names that say where a run is and how long it takes: a record of these alone measured nothing."""

_RULES = [
    (canonical, place, re.compile(pattern))
    for canonical, patterns in NAMES.items()
    for place, pattern in enumerate(patterns)
]
_TRAINING = re.compile(r"^train(?:ing)?/")
_IN_TRAINING = "train_"
_LAST = 1000
"""How good an original is that is known only without ``train_``: after all others."""
_EVALUATION = re.compile(
    rf"{_HELD_OUT}(?:[-_/. :]|$)|tel$|val_core/|val_aux/|.*[/_](?:eval|validation)/|loss[_/](?:val|valid|eval)$"
)
_NO_EVALUATION = re.compile(
    r"val/(?:ratio|ratio_var|clipfrac_avg|num_eos_tokens)|test_time.*|eval_(?:every|interval|iters|steps|batch_size)"
    r"|valid_(?:samples?|tokens?|trajector(?:y|ies)|responses?|actions?|groups?|count|rate|ratio|frac(?:tion)?)"
)
"""What TRL's PPO calls so is no validation; nor is a setting of one, or a share of what is well-formed."""
_MAX_NAMES = 1 << 16


def _normal(name: str) -> str:
    return re.sub(r"\.?[\s-]+", "_", name.strip().lower())


@lru_cache(maxsize=_MAX_NAMES)
def is_evaluation(name: str) -> bool:
    """Whether a name says that it was measured on held-out data.

    >>> [is_evaluation(name) for name in ("eval_loss", "val-core/gsm8k/acc", "tel", "timing_s/testing", "values/mean")]
    [True, True, True, False, False]
    """
    plain = _normal(name)
    return _EVALUATION.match(plain) is not None and _NO_EVALUATION.fullmatch(plain) is None


@lru_cache(maxsize=_MAX_NAMES)
def _matched(name: str) -> tuple[str, int] | None:
    """The canonical name, and how good an original it is: 0 is the best."""
    plain = _TRAINING.sub("", _normal(name), count=1)
    found = _rule(plain)
    if (
        found is None
        and plain.startswith(_IN_TRAINING)
        and (bare := _rule(plain.removeprefix(_IN_TRAINING))) is not None
    ):
        found = bare[0], bare[1] + _LAST
    return found


def _rule(plain: str) -> tuple[str, int] | None:
    for canonical, place, pattern in _RULES:
        if (found := pattern.fullmatch(plain)) is not None:
            part = next((group for group in found.groups() if group), "") if "*" in canonical else ""
            return canonical.replace("*", part), place
    return None


def canonical_name(name: str) -> str | None:
    """The canonical name of an original; None if it has none.

    >>> [canonical_name(name) for name in ("train/loss", "Response_length/clip_ratio", "rewards/format/mean", "magic")]
    ['loss', 'clipped_ratio', 'rewards/format', None]
    """
    found = _matched(name)
    return None if found is None else found[0]


def canonical_names(names: Iterable[str]) -> dict[str, str]:
    """Originals of a run that have a canonical name, each canonical name once, sorted by original.

    >>> canonical_names(["completion_length", "completions/mean_length", "magic"])
    {'completions/mean_length': 'completion_length'}
    """
    best: dict[str, tuple[int, str]] = {}
    for name in sorted(names):
        if (found := _matched(name)) is not None:
            canonical, place = found
            best[canonical] = min(best.get(canonical, (place, name)), (place, name))
    return dict(sorted((name, canonical) for canonical, (_, name) in best.items()))

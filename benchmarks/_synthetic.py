"""Training logs out of a random generator, healthy and ill: what the labelled real ones are too few for.

Each family draws its size, its logging interval, its units and its noise anew, so that a threshold that holds for one
run alone shows. Rewards come from prompts that are answered right or wrong, so that groups, spread and zero gradients
hang together as in a real run. A fault begins at a step that is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midflight.analyse.diagnose import Diagnosis, diagnose, facts_of_config
from midflight.analyse.names import canonical_names

Floats = NDArray[np.float64]


@dataclass
class Log:
    """A training run as it was logged.

    Attributes:
        family: What is trained how.
        steps: Steps of the records.
        values: Series by the name that was logged; NaN may be a value, `blank` are records that lack it.
        blank: Records that lack a series, where it is not logged at each.
        config: What the log says of the configuration.
        fault: Kind of the fault; empty in a healthy run.
        begins: Step at which the fault begins.
        seen: Step by which everybody would have seen it.
        also: Kinds that may rightly be said beside it.
    """

    family: str
    steps: NDArray[np.int64]
    values: dict[str, Floats]
    blank: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    fault: str = ""
    begins: int = 0
    seen: int = 0
    also: frozenset[str] = frozenset()

    def diagnose(self) -> Diagnosis:
        """All that is noticed in it."""
        names = {canonical: original for original, canonical in canonical_names(self.values).items()}
        columns = {}
        for canonical, original in names.items():
            there = ~self.blank.get(original, np.zeros(len(self.steps), dtype=bool))
            columns[canonical] = (self.steps[there].tolist(), self.values[original][there].tolist())
        return diagnose(self.family, columns, facts_of_config(self.config, names, columns))


# -- noise ---------------------------------------------------------------------------------------------------------


def wobble(draw: np.random.Generator, n: int, sd: float, memory: float = 0.0, heavy: float = 0.0) -> Floats:
    """Noise of a standard deviation; `memory` is the correlation from record to record, `heavy` that of fourfold."""
    raw = draw.normal(0, sd, n) * np.where(draw.random(n) < heavy, 4.0, 1.0)
    for i in range(1, n if memory else 0):
        raw[i] = memory * raw[i - 1] + math.sqrt(1 - memory**2) * raw[i]
    return raw


def norms(draw: np.random.Generator, n: int, level: float, sd: float, outliers: float = 0.003) -> Floats:
    """Gradient norms: lognormal, with some single outliers."""
    odd = np.where(draw.random(n) < outliers, draw.uniform(2, 8, n), 1.0)
    return level * np.exp(draw.normal(0, sd, n)) * odd


def schedule(draw: np.random.Generator, n: int) -> Floats:
    """A learning rate: warm-up, then constant, linear, cosine, cosine with restarts, or a late decay."""
    x, rise = np.linspace(0, 1, n), draw.choice([0.0, 0.01, 0.1])
    shapes = [
        np.ones(n), 1 - x, 0.5 * (1 + np.cos(np.pi * x)), 0.5 * (1 + np.cos(3 * np.pi * x % np.pi)),
        np.minimum(1, (1 - x) / 0.2),
    ]  # fmt: skip
    return 10 ** draw.uniform(-6, -3) * np.minimum(1, (x + 1e-9) / max(rise, 1e-9)) * shapes[draw.integers(len(shapes))]


def steps_of(draw: np.random.Generator, n: int, intervals: list[int]) -> NDArray[np.int64]:
    interval = int(draw.choice(intervals))
    first = 0 if draw.random() < 0.2 else interval
    return first + interval * np.arange(n)


def every(n: int, records: int) -> NDArray[np.bool_]:
    """Blank but each so many records."""
    blank = np.ones(n, dtype=bool)
    blank[records - 1 :: records] = False
    return blank


# -- supervised ----------------------------------------------------------------------------------------------------


def pretrain(draw: np.random.Generator) -> Log:
    """From scratch or continued: power law, warm-up, phases of data, odd batches, a late decay of the rate."""
    n = int(draw.choice([20, 60, 300, 1500, 4000], p=[0.15, 0.2, 0.25, 0.25, 0.15]))
    steps = steps_of(draw, n, [1, 5, 10, 100, 500])
    start, floor = [(10.9, 2.6), (11.8, 1.9), (4.2, 1.1), (5.55, 0.9), (2.6, 2.1)][draw.integers(5)]
    progress = np.arange(1, n + 1) / n
    curve = floor + (start - floor) * (1 + progress / draw.uniform(0.001, 0.02)) ** -draw.uniform(0.35, 0.8)
    if draw.random() < 0.3:  # another mixture of data
        curve *= np.where(progress > draw.uniform(0.4, 0.9), draw.uniform(0.9, 1.06), 1.0)
    if draw.random() < 0.3:  # a late decay of the rate
        curve -= 0.05 * curve * np.clip((progress - 0.8) / 0.2, 0, 1)
    sd = draw.choice([0.003, 0.01, 0.03])
    loss = curve * (1 + wobble(draw, n, sd, draw.choice([0.0, 0.5]), 0.01))
    loss += np.where(draw.random(n) < 0.002, draw.uniform(0.2, 1.2, n), 0)
    if start > 4 and draw.random() < 0.3:  # hot start
        loss[1:6] += draw.uniform(0, 2, 5)
    norm = norms(draw, n, draw.choice([0.2, 0.5, 1.5]), 0.15) * (1 + draw.uniform(0, 2) * progress)
    norm *= 1 + draw.uniform(3, 40) * np.exp(-np.arange(n) / draw.uniform(2, 30))
    speed = draw.uniform(1e4, 1e6) * (1 + wobble(draw, n, 0.02)) * np.where(np.arange(n) % 50 == 49, 0.4, 1.0)
    values = {"loss": loss, "grad_norm": norm, "lr": schedule(draw, n), "tokens_per_sec": speed}
    blank = {}
    if draw.random() < 0.6:
        values["val_loss"] = curve * 1.01 * (1 + wobble(draw, n, 0.002))
        blank["val_loss"] = every(n, max(1, n // 15))
    scale = draw.choice([1.0, 1.0, 1 / math.log(2), 32.0])  # bits, or summed over accumulation
    return _scaled(Log("pretrain", steps, values, blank, {"max_steps": int(steps[-1])}), scale)


def sft(draw: np.random.Generator) -> Log:
    """Fine-tuning: a quick fall, then slow; stairs at epochs; held-out loss that flattens; heavy-tailed norms."""
    n = int(draw.choice([15, 40, 100, 300, 1200], p=[0.15, 0.2, 0.25, 0.25, 0.15]))
    steps = steps_of(draw, n, [1, 5, 10, 50])
    epochs = float(draw.choice([1, 2, 3, 5]))
    epoch = epochs * np.arange(1, n + 1) / n
    start = draw.uniform(0.7, 3.5)
    final = start * draw.choice([draw.uniform(0.3, 0.8), draw.uniform(0.06, 0.15)], p=[0.8, 0.2])  # texts; classes
    fall = np.exp(-np.arange(n) / (n * draw.uniform(0.01, 0.08)))
    curve = (final + (start - final) * fall) * (1 - draw.uniform(0, 0.15) * epoch / epochs)
    held_out = curve.copy()
    curve *= draw.uniform(0.82, 1.0) ** np.floor(np.minimum(epoch, epochs - 1e-9))
    loss = curve * np.exp(wobble(draw, n, draw.choice([0.02, 0.08, 0.2]), 0, 0.01))
    norm = norms(draw, n, 10 ** draw.uniform(-1, 0.7), draw.choice([0.2, 0.5]), 0.01)
    values = {"loss": loss, "grad_norm": norm, "learning_rate": schedule(draw, n), "epoch": epoch}
    blank = {}
    if draw.random() < 0.7:
        rise = 1 + draw.uniform(0, 0.008) * np.clip(epoch / epochs - 0.6, 0, 1)
        values["eval_loss"] = held_out * rise * (1 + wobble(draw, n, 0.002))
        blank["eval_loss"] = every(n, max(1, n // int(draw.choice([3, 6, 20]))))
    if draw.random() < 0.5:
        values["entropy"], values["mean_token_accuracy"] = 0.9 * loss, np.exp(-loss / 2)
    log = _scaled(Log("sft", steps, values, blank, {"max_steps": int(steps[-1])}), draw.choice([1.0, 1.0, 4.0]))
    if curve[n // 3] - curve[-1] < 0.1 * (curve[0] - curve[-1]):  # true, whether or not it hurts
        log.also = frozenset({"plateau"})
    if "eval_loss" in values and draw.random() < 0.7:  # right or wrong on some items: the best loss has the best score
        items = int(draw.choice([100, 500, 2000]))
        right = np.clip(0.9 - 0.5 * held_out / start, 0.05, 0.95)
        log.values["eval_accuracy"] = draw.binomial(items, right) / items
        log.blank["eval_accuracy"] = blank["eval_loss"]
    return log


def preference(draw: np.random.Generator) -> Log:
    """DPO: margins grow, both log-probabilities sink, norms of any size."""
    n = int(draw.choice([20, 60, 200, 600]))
    steps = steps_of(draw, n, [1, 5, 10, 25])
    progress = np.arange(1, n + 1) / n
    beta = draw.choice([0.01, 0.1, 0.5])
    margin = draw.uniform(0.2, 3.5) * (1 - np.exp(-progress / draw.uniform(0.1, 0.6)))
    noise = draw.choice([0.05, 0.15, 0.3])
    margins = margin * (1 + wobble(draw, n, noise, 0, 0.02)) + wobble(draw, n, 0.02)
    pairs = draw.normal(margin[:, None], 0.3 + 1.1 * margin[:, None], (n, int(draw.choice([16, 64, 256]))))
    loss = np.log1p(np.exp(-pairs)).mean(1)
    length = 10 ** draw.uniform(1.3, 2.9)  # summed log-probability of an answer
    rejected = -length - np.minimum(margin / beta, 0.2 * length) + wobble(draw, n, 0.08 * length)
    chosen = -length * 0.9 - 0.4 * np.minimum(margin / beta, 0.2 * length) + wobble(draw, n, 0.08 * length)
    values = {
        "loss": loss, "grad_norm": norms(draw, n, 10 ** draw.uniform(-0.5, 2.5), 0.4, 0.01),
        "learning_rate": schedule(draw, n), "epoch": draw.choice([1.0, 2.0, 3.0]) * progress,
        "rewards/margins": margins, "rewards/accuracies": (pairs > 0).mean(1), "rewards/chosen": 0.3 * margin,
        "rewards/rejected": -0.7 * margin, "logps/chosen": chosen, "logps/rejected": rejected,
    }  # fmt: skip
    return Log("preference", steps, values, {}, {"max_steps": int(steps[-1])})


def _scaled(log: Log, scale: float) -> Log:
    """The same with another unit of the loss, which gradients follow."""
    for name in ("loss", "eval_loss", "val_loss", "grad_norm"):
        if name in log.values:
            log.values[name] = log.values[name] * scale
    return log


# -- reinforcement learning ----------------------------------------------------------------------------------------

NAMES = {
    "trl": {
        "reward": "reward", "std": "reward_std", "zero": "frac_reward_zero_std", "entropy": "entropy", "kl": "kl",
        "norm": "grad_norm", "length": "completions/mean_length", "clipped": "completions/clipped_ratio",
        "loss": "loss", "lr": "learning_rate", "ratio": "sampling/importance_sampling_ratio/mean",
    },
    "verl": {
        "reward": "critic/score/mean", "entropy": "actor/entropy", "kl": "actor/kl_loss", "norm": "actor/grad_norm",
        "length": "response_length/mean", "clipped": "response_length/clip_ratio", "loss": "actor/pg_loss",
        "lr": "actor/lr", "eval": "val-core/openai/gsm8k/reward/mean@1", "value": "critic/vf_loss",
        "value_norm": "critic/grad_norm", "speed": "perf/throughput",
    },
    "plain": {
        "reward": "reward", "std": "reward_std", "kl": "kl", "length": "completion_length", "loss": "loss",
        "norm": "grad_norm", "entropy": "entropy", "lr": "lr", "clip": "clip_frac",
    },
}  # fmt: skip


def rl(draw: np.random.Generator) -> Log:
    """GRPO and PPO: prompts of different hardness, groups of answers, a policy that learns and becomes more certain."""
    n = int(draw.choice([20, 50, 110, 250, 800], p=[0.15, 0.25, 0.25, 0.2, 0.15]))
    steps = steps_of(draw, n, [1, 1, 1, 5, 10])
    span = int(steps[1] - steps[0])
    prompts, group = [(1, 8), (4, 2), (4, 8), (16, 8), (128, 8), (64, 16)][draw.integers(6)]
    begin, end = draw.choice([0.03, 0.2, 0.5, 0.8]), draw.uniform(0.55, 0.98)
    learned = 1 - np.exp(-np.linspace(0, draw.uniform(1.5, 5), n))
    if draw.random() < 0.3:  # it takes a while to begin
        learned = 1 / (1 + np.exp(-12 * (np.linspace(0, 1, n) - draw.uniform(0.2, 0.5))))
    right = np.clip(begin + max(0.1, end - begin) * learned, 0.01, 0.99)
    spread_of_prompts = draw.uniform(1, 5)
    chance = draw.beta(
        right[:, None] * spread_of_prompts, (1 - right)[:, None] * spread_of_prompts, (n, prompts * span)
    )
    answers = draw.binomial(group, chance) / group
    mean, within = answers.mean(1), np.sqrt(answers * (1 - answers)).mean(1)
    silent = ((answers == 0) | (answers == 1)).mean(1)
    offset, scale = [(0.0, 1.0), (-1.0, 2.0), (0.0, 100.0), (-0.5, 3.0)][draw.integers(4)]
    number = prompts * span
    kl = draw.uniform(0.005, 0.25) * learned * np.exp(wobble(draw, n, 0.2)) + np.where(
        draw.random(n) < 0.005, draw.exponential(1.0, n), 0
    )
    kl[0] = 0.0
    norm = norms(draw, n, 10 ** draw.uniform(-1.5, 0.6), draw.choice([0.1, 0.4]), 0.01) * np.sqrt(1 - silent)
    entropy = draw.uniform(0.2, 1.5) * (1 - draw.uniform(-0.6, 0.6) * learned)
    entropy *= np.exp(wobble(draw, n, min(0.3, 0.6 / math.sqrt(number))))
    cap = float(draw.choice([256, 512, 2048, 8192]))
    length = cap * draw.uniform(0.1, 0.4) * np.exp(math.log(draw.uniform(0.5, 2.2)) * learned)
    length = cap * (1 - np.exp(-length / cap * np.exp(wobble(draw, n, min(0.4, 0.9 / math.sqrt(number))))))
    clipped = np.round(np.clip(length / cap - 0.3, 0, 1) * draw.uniform(0, 0.6, n) * number * group) / (number * group)
    loss = 0.04 * kl + wobble(draw, n, 1e-3) * (1 - silent)
    every_series = {
        "reward": offset + scale * mean, "std": scale * within, "zero": silent, "entropy": entropy, "kl": kl,
        "norm": norm, "length": length, "clipped": clipped, "loss": loss, "lr": schedule(draw, n),
        "ratio": 1 + wobble(draw, n, 0.02), "eval": right * (1 + wobble(draw, n, 0.01)),
        "value": 10 * np.exp(-np.arange(n) / 5) + 0.1, "value_norm": norms(draw, n, 40, 0.5),
        "speed": length * 10, "clip": np.abs(wobble(draw, n, 0.01)),
    }  # fmt: skip
    trainer = str(draw.choice(list(NAMES)))
    values = {name: every_series[key] for key, name in NAMES[trainer].items()}
    blank = {NAMES["verl"]["eval"]: every(n, max(1, n // 12))} if trainer == "verl" else {}
    if trainer == "trl":
        values["rewards/accuracy/mean"] = mean
        values["rewards/format/mean"] = np.minimum(1.0, mean + np.linspace(0.2, 1, n))
        values["rewards/overlong_penalty/mean"] = -np.where(draw.random(n) < 0.1, 0.1, 0.0)
        values["rewards/judge/mean"] = 0.2 + draw.uniform(0.3, 0.7) * mean + wobble(draw, n, draw.choice([0.01, 0.05]))
        values["rewards/concise/mean"] = 1 - length / (2 * cap)  # falls where answers grow, as the others rise
    config = {"max_steps": int(steps[-1])} if trainer == "trl" else {}
    if trainer == "trl" and draw.random() < 0.5:
        config["max_completion_length"] = int(cap)
    log = Log("rl", steps, values, blank, config)
    if np.convolve(silent, np.ones(10) / 10, "valid").max() > 0.75:  # so it is, whether or not it hurts
        log.also = frozenset({"no_signal"})
    return log


FAMILIES: Mapping[str, Callable[[np.random.Generator], Log]] = {
    "pretrain": pretrain, "sft": sft, "preference": preference, "rl": rl,
}  # fmt: skip

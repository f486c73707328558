"""Faults that are put into healthy synthetic logs: one function a kind, with the step by which it can be seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from _synthetic import FAMILIES, Floats, Log, wobble

SHORTEST = 40
"""Records that a log has to have for a fault that needs some before it and some after."""


def ill(kind: str, draw: np.random.Generator) -> Log:
    """A log with a fault of a kind, in a family where it happens."""
    fault, families, records = FAULTS[kind]
    family = str(draw.choice(families))
    while True:
        log = FAMILIES[family](draw)
        if len(log.steps) >= records and set(SERIES.get(kind, log.values)) & set(log.values):
            break
    log.fault = kind
    begin = int(len(log.steps) * draw.uniform(0.3, 0.6))
    log.begins = int(log.steps[begin])
    seen = fault(draw, log, begin)
    log.seen = int(log.steps[min(seen, len(log.steps) - 1)])
    return log


def name_of(log: Log, *words: str) -> str:
    """The series whose name has one of the words."""
    return next(name for word in words for name in log.values if word in name)


def ramp(log: Log, begin: int, records: int) -> Floats:
    """From 0 at a record to 1 so many records later, then 1."""
    return np.clip((np.arange(len(log.steps)) - begin) / records, 0, 1)


def nonfinite(draw: np.random.Generator, log: Log, begin: int) -> int:
    """NaN from a step on; in one of two only the gradient says so, as behind HF's filter."""
    if draw.random() < 0.5:
        log.values["loss"][begin:] = np.nan
        return begin
    log.values["grad_norm"][begin:] = np.nan
    log.values["loss"][begin:] = log.values["loss"][:begin].mean()
    return begin + 3


def loss_spike(draw: np.random.Generator, log: Log, begin: int) -> int:
    """Up by a third or more for some records, then back."""
    after = np.arange(len(log.steps)) - begin
    height = draw.uniform(0.35, 2.0) * np.where(after >= 0, np.exp(-np.maximum(after, 0) / draw.uniform(5, 40)), 0)
    log.values["loss"] *= 1 + height
    return begin + 3


def divergence(draw: np.random.Generator, log: Log, begin: int) -> int:
    """Back up towards where it began, for good."""
    loss, up = log.values["loss"], ramp(log, begin, int(draw.integers(3, 15)))
    level = np.median(loss[:begin][-10:])
    top = level + draw.uniform(0.6, 1.3) * max(loss[:3].mean() - level, 0.3 * level)
    log.values["loss"] = (1 - up) * loss + up * top * (1 + wobble(draw, len(loss), 0.02))
    log.also = frozenset({"loss_spike", "overfit"})
    return begin + 20


def grad_explosion(draw: np.random.Generator, log: Log, begin: int) -> int:
    name = name_of(log, "grad_norm", "norm")
    records = int(draw.integers(1, 10))
    log.values[name] *= 10 ** (draw.uniform(2.5, 5) * ramp(log, begin, records))
    return begin + records


def grad_vanish(draw: np.random.Generator, log: Log, begin: int) -> int:
    log.values[name_of(log, "actor/grad_norm", "grad_norm")][begin:] *= draw.choice([0.0, 1e-7])
    return begin + 15


def overfit(draw: np.random.Generator, log: Log, begin: int) -> int:
    """The held-out loss turns, the training loss goes on falling."""
    n, count = len(log.steps), int(draw.choice([5, 10, 25]))
    x = np.arange(n) / n
    turn = begin / n
    curve = 1 + 0.4 * np.clip(turn - x, 0, 1) + draw.uniform(0.15, 1.0) * np.clip(x - turn, 0, 1)
    log.values["eval_loss"] = log.values["loss"][n // 2] * curve * (1 + wobble(draw, n, 0.002))
    log.blank["eval_loss"] = np.arange(n) % max(1, n // count) != max(1, n // count) - 1
    log.values["loss"] *= 1 - 0.4 * x
    log.also = frozenset({"plateau"})
    return min(n - 1, begin + n // count * 2 + n // 5)


def memorisation(draw: np.random.Generator, log: Log, begin: int) -> int:
    """Down where the second epoch begins."""
    n = len(log.steps)
    log.values["epoch"] = np.where(np.arange(n) < begin, 0.0, 1.0) + np.linspace(0, 0.9, n)
    log.values["epoch"] = np.minimum(log.values["epoch"], np.where(np.arange(n) < begin, 0.999, 1.999))
    curve = 1.5 + np.exp(-np.arange(n) / (0.1 * n))
    log.values["loss"] = curve * np.where(np.arange(n) < begin, 1.0, draw.uniform(0.7, 0.85))
    log.values["loss"] *= 1 + wobble(draw, n, 0.03)
    return begin + 16


def too_good(draw: np.random.Generator, log: Log, begin: int) -> int:
    n = len(log.steps)
    loss = log.values["loss"]
    log.values["loss"] = loss * np.maximum(draw.uniform(0.0005, 0.01), np.exp(-np.arange(n) / (0.1 * n)))
    log.values["epoch"] = 1.2 * np.arange(n) / n
    log.begins, log.also = int(log.steps[0]), frozenset({"grad_vanish"})
    return int(0.6 * n)


def dpo_runaway(draw: np.random.Generator, log: Log, begin: int) -> int:
    up = ramp(log, begin, 10)
    log.values["rewards/margins"] = log.values["rewards/margins"] + draw.uniform(8, 25) * up
    log.values["loss"] *= 1 - 0.97 * up
    log.values["logps/rejected"] *= 1 + draw.uniform(0.4, 1.5) * up
    log.values["rewards/accuracies"] = np.where(up > 0, 1.0, log.values["rewards/accuracies"])
    return begin + 12


def entropy_collapse(draw: np.random.Generator, log: Log, begin: int) -> int:
    begin = len(log.steps) // 10
    log.begins = int(log.steps[begin])
    records = int(len(log.steps) * draw.uniform(0.1, 0.6))
    log.values[name_of(log, "entropy")] *= draw.uniform(0.01, 0.06) ** ramp(log, begin, records)
    return begin + records


def entropy_explosion(draw: np.random.Generator, log: Log, begin: int) -> int:
    name, records = name_of(log, "entropy"), int(draw.integers(5, 30))
    level = log.values[name][:5].mean()
    log.values[name] *= (max(5.0, 3.0 / level) * draw.uniform(1, 2)) ** ramp(log, begin, records)
    return begin + records + 5


def kl_blowup(draw: np.random.Generator, log: Log, begin: int) -> int:
    name = name_of(log, "kl")
    log.values[name] += draw.uniform(3, 50) * ramp(log, begin, 5) * np.exp(wobble(draw, len(log.steps), 0.3))
    return begin + 5


def length_collapse(draw: np.random.Generator, log: Log, begin: int) -> int:
    name, records = name_of(log, "length"), int(draw.integers(1, 10))
    log.values[name] *= (draw.uniform(0.01, 0.05)) ** ramp(log, begin, records)
    log.also = frozenset({"reward_hacking"})
    return begin + records + 5


def length_explosion(draw: np.random.Generator, log: Log, begin: int) -> int:
    """Answers grow, the reward falls back to its start."""
    name, reward = name_of(log, "length"), name_of(log, "critic/score/mean", "reward")
    up = ramp(log, begin, 10)
    log.values[name] *= 1 + draw.uniform(6, 15) * up
    start = log.values[reward][:5].mean()
    spread = log.values[reward].std()
    log.values[reward] = (1 - up) * log.values[reward] + up * (start - spread * (1 + wobble(draw, len(up), 0.3)))
    log.also = frozenset({"reward_degrade", "plateau"})
    return begin + 15


def length_cap(draw: np.random.Generator, log: Log, begin: int) -> int:
    name = name_of(log, "clip_ratio", "clipped_ratio")
    log.values[name] = np.clip(log.values[name] + draw.uniform(0.75, 1.0) * ramp(log, begin, 10), 0, 1)
    return begin + 12


def reward_degrade(draw: np.random.Generator, log: Log, begin: int) -> int:
    name = name_of(log, "critic/score/mean", "reward")
    reward, down = log.values[name], ramp(log, begin, 10)
    low = reward.min() + draw.uniform(0, 0.1) * (reward.max() - reward.min())
    log.values[name] = (1 - down) * reward + down * (low + 0.3 * (reward - reward.mean()))
    log.also = frozenset({"plateau", "no_signal"})
    return begin + 40


def reward_hacking(draw: np.random.Generator, log: Log, begin: int) -> int:
    """The score on held-out problems, or a second grader, turns while the reward rises."""
    if draw.random() < 0.5 and "rewards/accuracy/mean" in log.values:
        return _second_grader(draw, log, begin)
    name = "eval_accuracy"
    log.values[name] = 0.6 * (1 + wobble(draw, len(log.steps), 0.01)) - draw.uniform(0.2, 0.5) * ramp(log, begin, 20)
    log.blank[name] = np.arange(len(log.steps)) % 10 != 9
    rise = np.linspace(0, 3 * log.values["reward"].std(), len(log.steps))
    log.values["reward"] = log.values["reward"] + rise
    return begin + 35


def _second_grader(draw: np.random.Generator, log: Log, begin: int) -> int:
    """Two components of the reward that grade the same answers: one is fooled, the other gives back what it gained."""
    n, step = len(log.steps), draw.uniform(0.2, 0.5)
    paid = 0.3 + step * ramp(log, 0, begin) + 0.5 * step * ramp(log, begin, n - begin)
    judged = 0.3 + step * ramp(log, 0, begin) - draw.uniform(0.7, 1.2) * step * ramp(log, begin, 20)
    same = wobble(draw, n, 0.05)
    log.values["rewards/accuracy/mean"] = paid + same
    log.values["rewards/judge/mean"] = judged + same + wobble(draw, n, 0.03)
    return begin + 55


def wrong_best(draw: np.random.Generator, log: Log, begin: int) -> int:
    """The held-out loss turns, the score does not; or the trainer took the larger error for the better one."""
    n, count = len(log.steps), int(draw.choice([12, 20]))
    blank = np.arange(n) % max(1, n // count) != max(1, n // count) - 1
    x, turn = np.arange(n) / n, begin / n
    if draw.random() > 0.7:
        error = 0.5 - draw.uniform(0.1, 0.4) * x + wobble(draw, n, 0.003)
        worst = int(np.flatnonzero(~blank)[np.argmax(error[~blank])])
        log.values, log.blank = log.values | {"eval_wer": error}, log.blank | {"eval_wer": blank}
        log.config |= {"best_metric": float(error[worst]), "best_global_step": int(log.steps[worst])}
        log.begins = int(log.steps[0])
        return int(np.flatnonzero(~blank)[2])
    curve = 1 + 0.4 * np.clip(turn - x, 0, 1) + draw.uniform(0.15, 1.0) * np.clip(x - turn, 0, 1)
    log.values["eval_loss"] = log.values["loss"][n // 2] * curve * (1 + wobble(draw, n, 0.002))
    log.values["eval_accuracy"] = 0.4 + draw.uniform(0.1, 0.5) * x + wobble(draw, n, 0.005)
    log.blank |= {"eval_loss": blank, "eval_accuracy": blank}
    log.also = frozenset({"overfit", "plateau"})
    return min(n - 1, begin + 5 * n // count)


def no_signal(draw: np.random.Generator, log: Log, begin: int) -> int:
    """From a step on every answer is worth the same, and not the most."""
    constant = float(np.quantile(log.values["reward"], draw.choice([0.0, 0.3])))
    log.values["reward"][begin:], log.values["reward_std"][begin:] = constant, 0.0
    if "frac_reward_zero_std" in log.values:
        log.values["frac_reward_zero_std"][begin:] = 1.0
    log.values["grad_norm"][begin:] = 0.0
    log.also = frozenset({"grad_vanish", "reward_degrade", "plateau"})
    return begin + 12


def dead_component(draw: np.random.Generator, log: Log, begin: int) -> int:
    log.values["rewards/xml_format_reward_func"] = np.zeros(len(log.steps))
    log.begins = int(log.steps[0])
    return int(np.searchsorted(log.steps, 100))


def staleness(draw: np.random.Generator, log: Log, begin: int) -> int:
    log.values["sampling/importance_sampling_ratio/mean"] *= draw.choice([0.2, 4.0]) ** ramp(log, begin, 3)
    return begin + 8


def throughput_drop(draw: np.random.Generator, log: Log, begin: int) -> int:
    log.values["tokens_per_sec"][begin:] *= draw.uniform(0.2, 0.6)
    return begin + 25


def learning_rate(draw: np.random.Generator, log: Log, begin: int) -> int:
    name = name_of(log, "learning_rate", "lr")
    log.values[name] = np.where(np.arange(len(log.steps)) < begin, 1e-4, 0.0)
    return begin + 10


def plateau(draw: np.random.Generator, log: Log, begin: int) -> int:
    """A reward that never moves."""
    name = name_of(log, "critic/score/mean", "reward")
    spread = np.diff(log.values[name]).std() / np.sqrt(2)
    log.values[name] = np.median(log.values[name]) + wobble(draw, len(log.steps), max(spread, 1e-3))
    log.begins = int(log.steps[0])
    return int(np.searchsorted(log.steps, max(log.steps[199], log.steps[-1] * 0.55)))


Fault = Callable[[np.random.Generator, Log, int], int]
"""Puts it into a log from a record on; gives the record by which everybody has seen it."""

FAULTS: Mapping[str, tuple[Fault, list[str], int]] = {
    "nonfinite": (nonfinite, ["pretrain", "sft", "preference"], 15),
    "loss_spike": (loss_spike, ["pretrain"], 60),
    "divergence": (divergence, ["pretrain", "sft"], 60),
    "grad_explosion": (grad_explosion, ["pretrain", "sft", "preference", "rl"], SHORTEST),
    "grad_vanish": (grad_vanish, ["pretrain", "sft", "preference", "rl"], SHORTEST),
    "overfit": (overfit, ["sft"], SHORTEST),
    "memorisation": (memorisation, ["sft"], SHORTEST),
    "too_good": (too_good, ["sft"], SHORTEST),
    "dpo_runaway": (dpo_runaway, ["preference"], SHORTEST),
    "entropy_collapse": (entropy_collapse, ["rl"], SHORTEST),
    "entropy_explosion": (entropy_explosion, ["rl"], SHORTEST),
    "kl_blowup": (kl_blowup, ["rl"], 20),
    "length_collapse": (length_collapse, ["rl"], SHORTEST),
    "length_explosion": (length_explosion, ["rl"], SHORTEST),
    "length_cap": (length_cap, ["rl"], 20),
    "reward_degrade": (reward_degrade, ["rl"], 110),
    "reward_hacking": (reward_hacking, ["rl"], 110),
    "no_signal": (no_signal, ["rl"], SHORTEST),
    "dead_component": (dead_component, ["rl"], 110),
    "staleness": (staleness, ["rl"], 20),
    "throughput_drop": (throughput_drop, ["pretrain"], 300),
    "learning_rate": (learning_rate, ["sft"], SHORTEST),
    "wrong_best": (wrong_best, ["sft"], SHORTEST),
    "plateau": (plateau, ["rl"], 250),
}
"""What makes it, where it happens, and the fewest records for it."""

SERIES: Mapping[str, tuple[str, ...]] = {
    "length_cap": ("completions/clipped_ratio", "response_length/clip_ratio"),
    "no_signal": ("reward_std",),
    "staleness": ("sampling/importance_sampling_ratio/mean",),
    "reward_hacking": ("reward_std",),
    "dead_component": ("rewards/format/mean",),
}
"""Series of which a log has to have one for a fault."""

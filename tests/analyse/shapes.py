"""Runs as plain as they can be: for each detector one that shows its kind, and the nearest one that must not.

Steps count from 1. Names are canonical; noise is small, seeded, and the same in both.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from midflight.analyse.detectors.base import Algorithm, Facts
from midflight.analyse.diagnose import Diagnosis, diagnose

N = 200
STEPS = np.arange(1, N + 1)
NOISE = np.random.default_rng(0).normal(size=(4, N))


@dataclass(frozen=True)
class Shape:
    """A run, and where its fault begins."""

    algorithm: Algorithm
    ill: dict[str, np.ndarray]
    healthy: dict[str, np.ndarray]
    onset: tuple[int, int]
    planned: int | None = N
    rest: dict[str, np.ndarray] = field(default_factory=dict)

    def diagnose(self, kind: str, healthy: bool = False) -> Diagnosis:
        return diagnosis({**self.rest, **(self.healthy if healthy else self.ill)}, self.algorithm, kind, self.planned)


def diagnosis(values: dict[str, np.ndarray], algorithm: Algorithm, kind: str | None = None, planned=None) -> Diagnosis:
    """All that is noticed, or one kind; NaN in a series of evaluations is a step without one."""
    columns = {}
    for name, series in values.items():
        there = ~np.isnan(series) if name.startswith(("eval_", "heldout/")) else np.ones(len(series), dtype=bool)
        steps = np.arange(1, len(series) + 1)
        columns[name] = (steps[there].tolist(), series[there].tolist())
    return diagnose("shape", columns, Facts(algorithm, planned), [kind] if kind else None)


def step(at: int, before: float, after: float) -> np.ndarray:
    return np.where(at > STEPS, before, after)


def ramp(begin: int, end: int, low: float, high: float) -> np.ndarray:
    return np.interp(STEPS, [begin, end], [low, high])


def noisy(series, sd: float, row: int = 0) -> np.ndarray:
    return series * (1 + sd * NOISE[row])


def every(records: int, series) -> np.ndarray:
    """An evaluation each so many records."""
    return np.where(STEPS % records == 0, series, np.nan)


FALLING = noisy(1 + 2 * np.exp(-STEPS / 20), 0.02)
RISING = noisy(0.2 + 0.6 * (1 - np.exp(-STEPS / 60)), 0.05)


def with_at(series, **changes: float) -> np.ndarray:
    """The same with single values: ``s100=7.0``."""
    changed = series.copy()
    for place, value in changes.items():
        changed[int(place[1:]) - 1] = value
    return changed


def spike(records: int, height: float = 2.0) -> np.ndarray:
    return np.where((STEPS >= 100) & (100 + records > STEPS), FALLING + height, FALLING)


SHAPES: dict[str, Shape] = {
    "nonfinite": Shape("sft", {"loss": with_at(FALLING, s100=np.nan)}, {"loss": FALLING}, (100, 100)),
    "loss_spike": Shape("pretrain", {"loss": spike(10)}, {"loss": spike(1)}, (100, 100)),
    "divergence": Shape(  # for good, or for a while
        "pretrain", {"loss": FALLING + ramp(100, 130, 0, 2.5)}, {"loss": spike(6, 2.5)}, (100, 130)
    ),
    "grad_explosion": Shape(  # beyond all before; as large as in the warm-up
        "sft",
        {"grad_norm": with_at(noisy(0 * STEPS + 0.5, 0.2), s120=40.0)},
        {"grad_norm": with_at(noisy(0 * STEPS + 0.5, 0.2), s120=4.0, s2=30.0)},
        (120, 120),
    ),
    "grad_vanish": Shape(  # a plateau of nothing; zeros of single groups without spread
        "rl",
        {"grad_norm": noisy(step(100, 1.0, 1e-9), 0.2)},
        {"grad_norm": np.where(NOISE[1] > 0, 0.0, noisy(0 * STEPS + 1.0, 0.2))},
        (100, 100),
    ),
    "overfit": Shape(
        "sft",
        {"eval_loss": every(20, 1.5 + np.abs(STEPS - 100) / 200)},
        {"eval_loss": every(20, 1.5 + np.maximum(0, 100 - STEPS) / 200 + 0.005 * (STEPS > 110))},
        (100, 100),
        rest={"loss": FALLING - 0.002 * STEPS},
    ),
    "memorisation": Shape(
        "sft", {"loss": noisy(step(101, 1.0, 0.7), 0.05)}, {"loss": noisy(step(101, 1.0, 0.98), 0.05)}, (101, 101),
        rest={"epoch": (STEPS - 1) // 100 + 0.5},
    ),
    "too_good": Shape(
        "sft", {"loss": noisy(0.003 + 2 * np.exp(-STEPS / 5), 0.1)}, {"loss": noisy(0.15 + 2 * np.exp(-STEPS / 5), 0.1)},
        (1, 40), rest={"epoch": STEPS / 250},
    ),
    "plateau": Shape("rl", {"reward": 0.3 + 0.1 * NOISE[0]}, {"reward": 0.3 + 0.1 * NOISE[0] + 0.001 * STEPS}, (1, 1)),
    "dpo_runaway": Shape(
        "preference",
        {"margins": ramp(20, 100, 0, 25), "loss": ramp(20, 60, 0.69, 0.001), "logps_rejected": ramp(20, 150, -200, -500)},
        {"margins": ramp(20, 100, 0, 4), "loss": ramp(20, 60, 0.69, 0.15), "logps_rejected": ramp(20, 150, -200, -230)},
        (40, 150),
    ),
    "entropy_collapse": Shape(
        "rl", {"entropy": noisy(np.maximum(0.01, ramp(20, 100, 1.0, 0.01)), 0.1)},
        {"entropy": noisy(ramp(20, 100, 1.0, 0.35), 0.1)}, (75, 100),
    ),
    "entropy_explosion": Shape(
        "rl", {"entropy": noisy(ramp(50, 100, 0.4, 5.0), 0.1)}, {"entropy": noisy(ramp(50, 100, 0.4, 0.9), 0.1)}, (55, 80)
    ),
    "kl_blowup": Shape("rl", {"kl": ramp(50, 60, 0.05, 20)}, {"kl": with_at(ramp(1, 200, 0, 0.3), s70=30.0)}, (51, 53)),
    "length_collapse": Shape(
        "rl", {"completion_length": noisy(step(90, 400, 6), 0.1)}, {"completion_length": noisy(step(90, 400, 150), 0.1)},
        (90, 92),
    ),
    "length_explosion": Shape(  # the reward does not rise with it; it does
        "rl", {"reward": noisy(0 * STEPS + 0.3, 0.02) - 0.001 * STEPS}, {"reward": RISING}, (80, 130),
        rest={"completion_length": noisy(ramp(80, 150, 200, 1500), 0.05)},
    ),
    "length_cap": Shape(
        "rl", {"clipped_ratio": ramp(50, 60, 0.1, 0.9)}, {"clipped_ratio": ramp(50, 60, 0.1, 0.4)}, (52, 60)
    ),
    "reward_degrade": Shape(
        "rl", {"reward": noisy(np.minimum(ramp(1, 100, 0.2, 0.8), ramp(110, 130, 0.8, 0.25)), 0.1)},
        {"reward": noisy(np.minimum(ramp(1, 100, 0.2, 0.8), ramp(110, 130, 0.8, 0.7)), 0.1)}, (110, 140),
    ),
    "reward_hacking": Shape(
        "rl", {"eval_accuracy": every(20, ramp(80, 200, 0.6, 0.2))}, {"eval_accuracy": every(20, ramp(80, 200, 0.6, 0.58))},
        (60, 100), rest={"reward": RISING},
    ),
    "no_signal": Shape(  # all wrong for good; all right for a while
        "rl",
        {"reward": np.where(STEPS < 100, RISING, 0.0), "reward_std": step(100, 0.3, 0.0)},
        {"reward": with_at(RISING, **{f"s{at}": 1.0 for at in range(100, 110)}),
         "reward_std": np.where((STEPS >= 100) & (STEPS < 110), 0.0, 0.3)},
        (100, 100),
    ),
    "dead_component": Shape(
        "rl", {"rewards/format": 0.0 * STEPS}, {"rewards/format": np.where(STEPS < 40, 0.0, 0.5)}, (1, 1),
        rest={"reward": RISING},
    ),
    "staleness": Shape(
        "rl", {"importance_ratio": step(100, 1.0, 3.0)}, {"importance_ratio": with_at(step(100, 1.0, 1.1), s80=5.0)},
        (100, 100),
    ),
    "throughput_drop": Shape(
        "pretrain", {"throughput": noisy(step(120, 1e5, 5e4), 0.02)},
        {"throughput": np.where(STEPS % 25 == 0, 3e4, noisy(0 * STEPS + 1e5, 0.02))}, (120, 130),
    ),
    "wrong_best": Shape(  # accuracy goes on after the best loss, or stays
        "sft",
        {"eval_accuracy": every(10, noisy(ramp(1, 200, 0.4, 0.8), 0.01))},
        {"eval_accuracy": every(10, noisy(ramp(1, 90, 0.4, 0.6), 0.01))},
        (80, 80),
        rest={"eval_loss": every(10, 1.5 + np.maximum(0, 80 - STEPS) / 100 + np.maximum(0, STEPS - 80) / 1e4)},
    ),
    "learning_rate": Shape(
        "sft", {"learning_rate": step(100, 1e-4, 0.0)}, {"learning_rate": step(195, 1e-4, 0.0)}, (100, 100)
    ),
}  # fmt: skip

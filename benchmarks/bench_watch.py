"""What detectors cost beside training: a logged step of 30 values, half of them known, and GradientWatch's looks.

    python benchmarks/bench_watch.py

Detectors work in the writer's thread and GradientWatch in the training loop, so CPU time counts, the best of rounds.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time

from _measure import verdict

from midflight.analyse.live import LiveWatch
from midflight.run import Run

STEPS = 4000
ROUNDS = 5
RL = (
    "reward", "reward_std", "frac_reward_zero_std", "entropy", "kl", "grad_norm", "loss", "learning_rate", "epoch",
    "completions/mean_length", "completions/clipped_ratio", "rewards/format", "rewards/accuracy", "importance_ratio",
    "step_time",
)  # fmt: skip
SFT = (
    "loss", "grad_norm", "learning_rate", "epoch", "tokens_per_sec", "eval_loss", "mean_token_accuracy", "entropy",
    "mfu", "memory", "step_time", "tokens", "samples", "param_norm", "loss_max",
)  # fmt: skip


def records(names: tuple[str, ...], draw: random.Random) -> list[dict[str, float]]:
    """Steps of a healthy run, with as many values again that no detector knows."""
    unknown = [f"other/{i}" for i in range(30 - len(names))]
    rows = [{name: 0.5 + 0.01 * draw.random() for name in (*names, *unknown)} for _ in range(STEPS)]
    for step, row in enumerate(rows):  # it learns, so that nothing is found
        row["loss"] += 1 / (1 + step / 50)
        if "reward" in row:
            row["reward"] -= 1 / (1 + step / 50)
    return rows


def detectors(names: tuple[str, ...]) -> float:
    """Microseconds a step of the writer's thread: the median of blocks of 100 steps, in the best round."""
    rows = [(step, 0.0, row) for step, row in enumerate(records(names, random.Random(0)))]
    best = float("inf")
    for number in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder, Run("p", f"{number}", store=f"{folder}/s.db", watch=False) as run:
            watch, times = LiveWatch(run.store, run.info, 1), []
            for first in range(0, STEPS, 100):
                began = time.thread_time()
                watch.look(rows[first : first + 100])
                times.append((time.thread_time() - began) / 100)
            assert not watch.findings, watch.findings
        best = min(best, sorted(times)[len(times) // 2])
    return best * 1e6


def main() -> int:
    print("detectors, a step of 30 values")
    met = [verdict(kind, detectors(names), 20, "µs") for kind, names in (("RL", RL), ("fine-tuning", SFT))]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())

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
LOOKS = 20
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


def looks() -> float:
    """Share of a training step that GradientWatch takes at every=50: steps with a look against those beside them."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from midflight.analyse.gradient_watch import GradientWatch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    config = LlamaConfig(
        vocab_size=4096, hidden_size=256, intermediate_size=688, num_hidden_layers=6, num_attention_heads=4
    )
    model = LlamaForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(0, 4096, (4, 128))
    times: dict[bool, list[float]] = {True: [], False: []}
    with GradientWatch(model, optimizer, every=2) as watch:  # every other step looks: both see the same machine
        for step in range(2 * LOOKS + 4):
            began = time.process_time()
            model(input_ids=tokens, labels=tokens).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if step >= 4:
                times[step % 2 == 1].append(time.process_time() - began)
        assert len(watch.layers) > config.num_hidden_layers
    looked, plain = (sorted(times[look])[LOOKS // 2] for look in (True, False))
    size = sum(parameter.numel() for parameter in model.parameters()) / 1e6
    print(
        f"GradientWatch, {size:.0f} M parameters: a look is {looked / plain - 1:.1%} of a step of {plain * 1e3:.0f} ms"
    )
    return (looked / plain - 1) / 50


def main() -> int:
    print("detectors, a step of 30 values")
    met = [verdict(kind, detectors(names), 20, "µs") for kind, names in (("RL", RL), ("fine-tuning", SFT))]
    met.append(verdict("a step at every=50", 100 * looks(), 1, "%"))
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())

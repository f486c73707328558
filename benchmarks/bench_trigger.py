"""What the decision to evaluate costs a training step, beside the one that the HF Trainer takes at every step."""

from __future__ import annotations

import sys
from types import SimpleNamespace

from _measure import alternate, timed
from transformers import TrainerControl, TrainingArguments
from transformers.trainer_callback import DefaultFlowCallback, TrainerState

from midflight.evaluator import Evaluator, EvaluatorConfig

STEPS = 100_000
PEER = "HF Trainer's flow callback"


def ours(**config: object) -> float:
    evaluator = Evaluator(EvaluatorConfig(**config), quiet=True)
    evaluator.start()

    def loop() -> None:
        for step in range(1, STEPS + 1):
            evaluator.step(step, step / 1000, step)

    return timed(loop) / STEPS


def theirs() -> float:
    flow, control, state = DefaultFlowCallback(), TrainerControl(), TrainerState()
    arguments = TrainingArguments(
        "out", eval_strategy="steps", eval_steps=10**9, logging_steps=10**9, save_steps=10**9, report_to=[]
    )
    state.logging_steps = state.eval_steps = state.save_steps = state.max_steps = 10**9

    def loop() -> None:
        for step in range(1, STEPS + 1):
            state.global_step = step
            flow.on_step_end(arguments, state, control)

    return timed(loop) / STEPS


def modulo() -> float:
    state = SimpleNamespace(due=0)

    def loop() -> None:
        for step in range(1, STEPS + 1):
            if step % 1000 == 0:
                state.due += 1

    return timed(loop) / STEPS


def main() -> int:
    found = alternate(
        {
            "midflight, steps": lambda: ours(freq_steps=10**9),
            "midflight, epochs, steps, seconds and tokens": lambda: ours(
                freq_epochs=1e9, freq_steps=10**9, freq_secs=1e9, freq_tokens=10**12
            ),
            PEER: theirs,
            "a bare modulo": modulo,
        },
        rounds=5,
    )
    print("trigger decision a step")
    for name, seconds in found.items():
        print(f"  {seconds * 1e6:8.2f} µs  {name}")
    print(f"  {found['midflight, steps'] / found[PEER]:8.2f}     of the Trainer's")
    return 0


if __name__ == "__main__":
    sys.exit(main())

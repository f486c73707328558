"""A store for the end-to-end tests: three runs with evaluations, one that goes wrong, texts that mean harm.

Usage: python make_store.py STORE
"""

import math
import random
import sys

from midflight.engines import Fake
from midflight.pipeline import evaluate_checkpoint
from midflight.records import Progress
from midflight.run import Run
from midflight.tasks import Task

HARM = '<img src=x onerror="document.title=1"><script>document.title=2</script>\u202egnp.exe\u0007\u200b'
NUM_ITEMS, NUM_STEPS, EVERY = 60, 600, 100

rows = [
    {
        "id": f"q{i}",
        "question": f"{i} + {i}? {HARM if i == 3 else ''}",
        "gold": str(2 * i),
        "half": "odd" if i % 2 else "even",
    }
    for i in range(NUM_ITEMS)
]
task = Task(
    "sums",
    rows,
    id="id",
    prompt="{{ question }}",
    target="gold",
    metrics=["exact_match", "response_length"],
    slices={"half": "half"},
)


def answer(item: int, skill: float, hardness: list[float]) -> str:
    """Right where the skill is enough, else something else, and on one item harm."""
    if item == 3:
        return HARM + "long " * 2000
    return str(2 * item) if hardness[item] < skill else f"I think {item}"


def train(store: str, name: str, seed: int) -> None:
    """A run that gets better."""
    chance = random.Random(seed)
    hardness = [chance.random() for _ in rows]
    config = {"lr": 1e-5 * (1 + seed), "model": "tiny", "seed": seed}
    run = Run("sums", name, config=config, tags=["demo", f"seed{seed}"], store=store, resume="never")
    for step in range(NUM_STEPS + 1):
        run.log(
            step,
            loss=2 * math.exp(-step / 300) + 0.1 * chance.random(),
            reward=chance.gauss(0, 1),
            epoch=step / 200,
            num_tokens=step * 2048,
        )
        if step % EVERY == 0:
            skill = 0.2 + step / 1200 + 0.05 * chance.gauss(0, 1)
            engine = Fake(
                lambda request, s=skill: answer(int(request.item_id[1:]), s, hardness), version=f"{seed}-{step}"
            )
            evaluate_checkpoint(task, engine, run=run, progress=Progress(step, step / 200, step * 2048))
    run.finish()


def fail(store: str) -> None:
    """A run with a spike, values that are no numbers, and an entropy that collapses."""
    chance = random.Random(7)
    run = Run("sums", "unlucky <b>", config={"lr": 3e-4, "model": "tiny"}, tags=["<i>tag"], store=store, resume="never")
    for step in range(1, 801):
        run.log(
            step,
            **{
                "loss": math.nan if step in (420, 421) else 1 + chance.random(),
                "grad_norm": math.inf if step == 500 else 1 + chance.random() + (40 if step == 333 else 0),
                "train/entropy": max(0.02, 1.6 - 0.004 * max(0, step - 250)) * (1 + 0.05 * chance.random()),
            },
        )
    run.finish()


if __name__ == "__main__":
    for number in range(3):
        train(sys.argv[1], f"sft-seed{number}", number)
    fail(sys.argv[1])

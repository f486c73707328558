"""A store for the end-to-end tests.

Three runs with evaluations, one that goes wrong, texts that mean harm; what a gate said of four checkpoints and what a
workflow did with them; a training on one, two and four workers.

Usage: python make_store.py STORE
"""

import json
import math
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from midflight.analyse.evidence import side_of
from midflight.engines import Fake
from midflight.gate import decide, read_policy
from midflight.gate.workflow import WorkflowExecutor
from midflight.pipeline import evaluate_checkpoint
from midflight.records import Item, Output, Progress, Request
from midflight.run import Run
from midflight.store import open_store
from midflight.store.base import Block
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
    run = Run(
        "sums",
        "unlucky <b>",
        config={"lr": 3e-4, "model": "tiny", "algorithm": "sft"},
        tags=["<i>tag"],
        store=store,
        resume="never",
    )
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


POLICY = """\
alpha = 0.05

[[rules]]
task = "sums"
metric = "exact_match"
at_least = 0.45

[[rules]]
task = "sums"
metric = "exact_match"
max_drop = 0.05

[[rules]]
task = "sums"
metric = "exact_match"
slice = "half=*"
at_least = 0.45
tier = "advisory"
"""
SMOKE = "import os, pathlib, sys; sys.exit(pathlib.Path(os.environ['MIDFLIGHT_CHECKPOINT'], 'broken').exists())"
WORKFLOW = f"""\
name = "release"

[[steps]]
name = "production"
kind = "promote"
target = "models/production"

[[steps]]
name = "smoke"
kind = "command"
run = {json.dumps([sys.executable, "-S", "-c", SMOKE])}

[[steps]]
name = "tell"
kind = "command"
run = {json.dumps([sys.executable, "-S", "-c", "print('not released')"])}
when = ["fail", "inconclusive"]
"""
GATED = (("sft-seed1", 100), ("sft-seed2", 500), ("sft-seed0", 600), ("sft-seed1", 600))
"""Proved to be bad, neither, good, and good but with a checkpoint that its smoke test does not survive."""


def gate(url: str, folder: Path) -> None:
    """Judges checkpoints and carries out what follows, as `midflight gate` and `midflight act` do."""
    store = open_store(url)
    (folder / "release.toml").write_text(POLICY)
    (folder / "workflow.toml").write_text(WORKFLOW)
    policy = read_policy(folder / "release.toml")
    for number, (run, step) in enumerate(GATED):
        checkpoint = folder / "runs" / run / f"checkpoint-{step}"
        checkpoint.mkdir(parents=True)
        (checkpoint / "config.json").write_text('{"model_type": "llama"}')
        (checkpoint / "model.safetensors").write_bytes(f"{run} {step}".encode() * 100)
        if number == len(GATED) - 1:
            (checkpoint / "broken").touch()
        sides = side_of(store, f"{run}@{step}"), side_of(store, f"{run}@0")
        verdict = decide(policy, *sides, store, id=f"verdict{number}", created_at=time.time())
        WorkflowExecutor(folder / "workflow.toml", store).run(checkpoint, verdict)


def scale(url: str) -> None:
    """The same training on more workers, two runs each, a tenth of which does not split."""
    store, chance = open_store(url), random.Random(3)
    for workers in (1, 2, 4):
        for seed in (0, 1):
            pace = (0.1 + 0.9 / workers) * (1 + 0.02 * chance.gauss(0, 1))
            environment, config = {"world_size": workers}, {"workers": workers}
            info = store.create_run("scaling", f"n{workers}-{seed}", owner="x", environment=environment, config=config)
            steps = np.arange(0, 401, 10)
            values = 3 * np.exp(-steps / 150)
            store.append_points(info.id, 1, [Block(("loss",), steps, info.created + pace * steps, values[None])])
            store.finish_run(info.id, "finished")


class Tries(Task):
    """Sums in a conversation: who is wrong is told so, and tries again, three turns at most."""

    def follow_up(self, item: Item, turns: Sequence[Output]) -> str | None:
        """What is said back."""
        done = turns[-1].text == str(item.target) or len(turns) == 3
        return None if done else "No. Again: "


def talk(url: str) -> None:
    """Two attempts at each item over several turns: the first is right in its second turn, the other one never."""
    asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is it, doubled?"}]
    given = [{"id": f"t{i}", "talk": asked, "a": i, "hints": {"half": [i / 2] * 40}} for i in range(4)]
    fields = {"id": "id", "prompt": "{{ a }}: ", "target": "a + a", "metrics": ["exact_match"]}
    tries = Tries("tries", given, samples=2, sampling={"temperature": 1.0}, **fields)

    def said(request: Request) -> str:
        item, sample, turn = request.id.split("/")
        return str(2 * int(item[1:])) if (sample, turn) == ("0", "1") else "7"

    with Run("talk", "tries", store=url, resume="never") as run:
        for step in (0, 10):
            run.log(step, loss=1.0)
            evaluate_checkpoint(tries, Fake(said, version=f"tries-{step}"), run=run, progress=Progress(step))


if __name__ == "__main__":
    for number in range(3):
        train(sys.argv[1], f"sft-seed{number}", number)
    fail(sys.argv[1])
    gate(sys.argv[1], Path(sys.argv[1].partition(":///")[2]).parent)
    scale(sys.argv[1])
    talk(sys.argv[1])

"""Half an hour of training steps with evaluations beside them; memory has to stay flat (``make soak``).

    python benchmarks/soak.py [--minutes 30] [--kill]

With --kill the worker is killed now and then: every evaluation still ends, and each item counts once.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from _measure import verdict

import midflight as mf
from midflight.demo.model import make_model, make_tokenizer
from midflight.environ import Limits

GROWTH_MB = 64.0


def rss_mb(pid: int) -> float:
    """Resident memory of a process, without pages that it shares with others."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1000
    return 0.0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--kill", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    os.chdir(tempfile.mkdtemp())
    tokenizer, model = make_tokenizer(), make_model(seed=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    task = mf.Task(
        "sums", [{"a": a} for a in range(40)], prompt="{{ a }}+1=", target="a + 1", sampling={"max_tokens": 8},
        metrics=["exact_match", "token_entropy"],
    )  # fmt: skip
    run = mf.Run("soak", "soak")
    config = mf.EvaluatorConfig(freq_steps=25, async_mode=True, max_waiting=2, limits=Limits(threads=1))
    evaluator = mf.Evaluator(config, [task], mf.engines.HF(model, tokenizer), run, quiet=True)
    draw, step, ends = random.Random(0), 0, time.monotonic() + 60 * given.minutes
    own, workers, kills, next_look, next_kill = [], [], 0, 0.0, 0.0
    tokens = torch.randint(0, len(tokenizer), (8, 24))
    evaluator.start()
    while time.monotonic() < ends:
        step += 1
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        run.log(step, loss=loss.item())
        evaluator.step(step)
        if time.monotonic() < next_look:
            continue
        next_look = time.monotonic() + max(0.2, given.minutes / 10)
        worker = evaluator._way.dispatcher._workers[0]._process
        if worker is not None and worker.poll() is None:
            own.append(rss_mb(os.getpid()))
            workers.append(rss_mb(worker.pid))
            if given.kill and time.monotonic() > next_kill:
                next_kill = time.monotonic() + draw.uniform(8, 30)  # a worker takes some seconds to start
                os.kill(worker.pid, signal.SIGKILL)
                kills += 1
    evaluator.finish()
    run.finish()
    reports = run.store.reports(run.id)
    print(f"  {step:,} steps, {len(reports)} evaluations, {kills} workers killed, {len(own)} looks at memory")
    ok = verdict("evaluations that are not whole", sum(r.status != "done" for r in reports), 0, "")
    ok &= verdict("items counted", max(r.estimate("exact_match").n for r in reports), 40, "")
    for name, found in (("training", own), ("worker", workers)):
        settled = np.array(found[len(found) // 3 :])
        growth = np.polyfit(np.arange(len(settled)), settled, 1)[0] * len(settled) if len(settled) > 2 else 0.0
        ok &= verdict(f"growth of the {name}'s memory in the last two thirds", growth, GROWTH_MB, "MB")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())

"""Real processes that speak over gloo."""

from __future__ import annotations

import json
import subprocess
import sys

RANK = """
import json, os, sys, time
import torch.distributed as dist
import midflight as mf
from midflight.distributed import agreement
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}/rendezvous", rank=int(sys.argv[2]), world_size=2)
agree = agreement()
assert agree([float(dist.get_rank()) + 5, 2.0]) == [5.0, 2.0]
engine = mf.engines.Fake("1")
task = mf.Task("t", [{"q": 1}], prompt="{{ q }}", target="1", metrics=["exact_match"])
run = mf.Run("p", "r", store=f"{sys.argv[1]}/s.db")
ev = mf.Evaluator(mf.EvaluatorConfig(freq_secs=0.05, freq_steps=40), [task], engine, run, quiet=True)
decided = []
with ev:
    for step in range(1, 101):
        time.sleep(0.001 * (1 + 3 * dist.get_rank()))
        run.log(step, loss=1.0)
        if ev.freq_ctl.is_due(mf.evaluator.Progress(step)):
            decided.append(step)
        ev.step(step)
        dist.barrier()
run.finish()
print(json.dumps({"decided": decided, "place": ev.place.launcher, "asked": len(engine.seen)}))
dist.destroy_process_group()
"""


def test_ranks_with_different_clocks_decide_the_same_and_one_records(tmp_path):
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(tmp_path), str(i)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for i in range(2)
    ]
    outputs = [r.communicate(timeout=120) for r in ranks]
    assert [r.returncode for r in ranks] == [0, 0], outputs
    first, second = (json.loads(out.splitlines()[-1]) for out, _ in outputs)
    assert first["decided"] == second["decided"]
    assert {40, 80} < set(first["decided"])  # the clock decided too, how often depends on the machine
    assert (first["place"], second["asked"]) == ("torch.distributed", 0)
    from midflight.store import open_store

    store = open_store(f"{tmp_path}/s.db")
    (run,) = store.runs()
    assert len(store.read_points(run.id, "loss").steps) == 100
    steps = [r.progress.step for r in store.reports(run.id)]
    assert steps == sorted({*first["decided"], 100})

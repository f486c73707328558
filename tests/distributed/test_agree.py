"""Real processes that speak over gloo."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


def run_ranks(script: str, folder, *args: str) -> list[dict]:
    """Two processes; what each printed last."""
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(folder), str(i), *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for i in range(2)
    ]
    outputs = [rank.communicate(timeout=120) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], outputs
    return [json.loads(out.splitlines()[-1]) for out, _ in outputs]


RANK = """
import json, os, sys, time
import torch.distributed as dist
import midflight as mf
from midflight.distributed import agreement
from midflight.records import Progress
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
        if ev.freq_ctl.is_due(Progress(step)):
            decided.append(step)
        ev.step(step)
        dist.barrier()
run.finish()
print(json.dumps({"decided": decided, "place": ev.place.launcher, "asked": len(engine.seen)}))
dist.destroy_process_group()
"""

FAILING = """
import json, sys
import torch.distributed as dist
import midflight as mf
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}/rendezvous", rank=int(sys.argv[2]), world_size=2)
class Failing(mf.engines.Fake):
    def run(self, requests):
        raise MemoryError("no room")
task = mf.Task("t", [{"q": 1}], prompt="{{ q }}", target="1", metrics=["exact_match"])
ev = mf.Evaluator(mf.EvaluatorConfig(freq_steps=10, on_error=sys.argv[3]), [task], Failing("1"), quiet=True)
raised = ""
with ev:
    for step in range(1, 13):
        try:
            ev.step(step)
        except Exception as error:
            raised += f"{step}:{type(error).__name__} "
    failing = ev.state_dict()["evaluations"]["failing"]
    ev._between._measured["t"] = 12  # nothing left for the end
print(json.dumps({"failing": failing, "raised": raised}))
dist.destroy_process_group()
"""


@pytest.mark.parametrize("on_error", ["warn", "raise"])
def test_what_fails_on_rank_0_is_known_to_all_and_retried_by_all(tmp_path, on_error):
    first, second = run_ranks(FAILING, tmp_path, on_error)
    assert first["failing"] == second["failing"] == {"t": [2, 13]}
    assert first["raised"] == ("10:MemoryError 11:MemoryError " if on_error == "raise" else "")
    assert second["raised"] == first["raised"].replace("MemoryError", "EvaluationError")


def test_ranks_with_different_clocks_decide_the_same_and_one_records(tmp_path):
    first, second = run_ranks(RANK, tmp_path)
    assert first["decided"] == second["decided"]
    assert {40, 80} < set(first["decided"])  # the clock decided too, how often depends on the machine
    assert (first["place"], second["asked"]) == ("torch.distributed", 0)
    from midflight.store import open_store

    store = open_store(f"{tmp_path}/s.db")
    (run,) = store.runs()
    assert len(store.read_points(run.id, "loss").steps) == 100
    steps = [r.progress.step for r in store.reports(run.id)]
    assert steps == sorted({*first["decided"], 100})

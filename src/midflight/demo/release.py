"""What the demo ends with: a gate judges the trained weights, and the best of them that pass become production."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from midflight.demo.training import CHECKPOINTS, HOT, PROJECT, STRATEGIES
from midflight.gate.workflow import WorkflowExecutor
from midflight.show.lines import say
from midflight.show.verdict import verdict_table
from midflight.store import RunInfo, Store

POLICY = """name = "release"
description = "What trained weights have to prove against those that training began with."

[[rules]]
task = "sums"
metric = "reward"
must_improve = 0.0

[[rules]]
task = "sums"
metric = "solved@4"
max_drop = 0.05
"""

WORKFLOW = """name = "release"

[[steps]]
name = "judge"
kind = "gate"
policy = "policy.toml"
arguments = ["--baseline", "{baseline}@first"]

[[steps]]
name = "production"
kind = "promote"            # only after pass
target = "production"
"""


def release(store: Store, out: Path, screen: Console) -> None:
    """Judges the run that collapsed, then the best one; promotes what passes.

    Args:
        store: Where the runs are.
        out: The demo's folder.
        screen: Where to tell.
    """
    runs = {run.name: run for run in store.runs(PROJECT)}
    trained = [run for name, run in runs.items() if name.partition("-")[0] in STRATEGIES]
    baseline = min(run.name for run in trained)  # all begin with the same weights
    (out / "policy.toml").write_text(POLICY, encoding="utf-8")
    (out / "workflow.toml").write_text(WORKFLOW.format(baseline=baseline), encoding="utf-8")
    candidates = [run for name, run in runs.items() if name.startswith(HOT)]
    candidates.append(max(trained, key=lambda run: (_reward(store, run), run.name)))
    for run in candidates:
        (checkpoint,) = (out / CHECKPOINTS / run.name).iterdir()
        WorkflowExecutor(out / "workflow.toml", store).run(checkpoint, project=PROJECT, run=run.name)
        screen.print(verdict_table(store.verdicts(PROJECT, run.name)[0]))
    production = out / "production"
    where = f"points to {production.resolve().relative_to(out.resolve())}" if production.exists() else "is not there"
    say(f"{production} {where}; who promoted what on which evidence: midflight audit --store {out}/midflight.db")


def _reward(store: Store, run: RunInfo) -> float:
    """Reward of a run's last weights."""
    value = store.reports(run.id, "sums")[-1].estimate("reward").value
    return float("-inf") if value is None else value

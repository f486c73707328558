"""Sides with real evaluations behind them, of a scripted model in a real store."""

from __future__ import annotations

import dataclasses

from midflight.analyse.evidence import Evidence, Side, StoredEvidence, side_of
from midflight.engines import Fake
from midflight.gate import Policy, judge
from midflight.pipeline import evaluate_checkpoint
from midflight.records import Progress
from midflight.run import Run
from midflight.tasks import Task

N = 60


def task(name="sums", n=N, **spec) -> Task:
    rows = [{"id": f"i{a}", "a": a, "kind": "even" if a % 2 == 0 else "odd"} for a in range(n)]
    fields = {
        "id": "id",
        "prompt": "{{ a }}+1=",
        "target": "a + 1",
        "metrics": ["exact_match", "response_length"],
        "slices": {"kind": "kind"},
    }
    return Task(name, rows, **{**fields, **spec})


def solves(*solved: int, fail=()) -> Fake:
    """A model that answers these items right, and these not at all."""
    return Fake(
        lambda request: str(int(request.item_id[1:]) + 1 if int(request.item_id[1:]) in solved else -1), fail=fail
    )


def evaluate(store, run: str, engine: Fake, *tasks: Task, step=0, seed=0, weights="") -> Side:
    engine.version = weights or f"{run}-{step}"
    with Run("p", run, store=store, resume="attach") as opened:
        for one in tasks:
            evaluate_checkpoint(one, engine, run=opened, progress=Progress(step), seed=seed)
    return side_of(store, f"{run}@{step}")


def changed(side: Side, task: str, **fields) -> Side:
    """The side with other fields in the report of a task."""
    return replaced(side, task, dataclasses.replace(side.evidence[task].report, **fields))


def with_estimate(side: Side, task: str, **fields) -> Side:
    """The side with other fields in the first estimate of a task."""
    report = side.evidence[task].report
    first, *others = report.estimates
    return changed(side, task, estimates=[dataclasses.replace(first, **fields), *others])


def replaced(side: Side, task: str, report) -> Side:
    found = side.evidence[task]
    new = StoredEvidence(report, found.store) if isinstance(found, StoredEvidence) else Evidence(report)
    return Side(side.label, {**side.evidence, task: new})


def rule(**fields) -> dict:
    return {"task": "sums", "metric": "exact_match", **fields}


def policy(*rules: dict, **fields) -> Policy:
    return Policy.model_validate({"name": "release", "rules": rules, **fields})


def verdict(asked: Policy, candidate: Side, baseline: Side | None = None, look=0):
    return judge(asked, candidate, baseline, id="v", created_at=0.0, look=look)

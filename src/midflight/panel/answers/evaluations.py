"""Evaluations of all runs: what runs, what waits, what it cost, who works on what, what did not take place."""

from __future__ import annotations

import math
from collections.abc import Sequence

from typing_extensions import TypedDict

from midflight.panel.panel import Panel
from midflight.panel.parameters import Choice, Ids, Number, Text
from midflight.panel.plain import cost, estimate
from midflight.panel.shapes import CostShape, EstimateShape
from midflight.store import EvaluationRow, RunInfo

PATH = "/api/evaluations"
STATUSES = ("done", "partial", "failed", "running", "cancelled")
PARAMETERS = (
    Text("project", "Only runs of this project."),
    Number("run", "Only this run.", default=None, high=(1 << 59)),
    Ids("runs", "Only these runs."),
    Choice("status", "Only evaluations that stand so.", values=STATUSES),
    Number("limit", "Evaluations of a page.", default=200, low=1, high=1000),
    Number("offset", "Evaluations before it.", default=0, high=1_000_000_000),
)
MOST_LEASES = 1000
MOST_MISSING = 500


class EvaluationShape(TypedDict):
    """An evaluation."""

    id: str
    run: int
    run_name: str
    project: str
    task: str
    step: int
    status: str
    started: float
    seconds: float
    num_answered: int
    num_items: int
    estimate: EstimateShape | None
    cost: CostShape | None
    errors: dict[str, int]


class LeaseShape(TypedDict):
    """Who works on something: what was given back is history, and there is one of it for each checkpoint."""

    name: str
    number: int
    owner: str
    beat: int


class MissingShape(TypedDict):
    """An evaluation that was due and did not take place."""

    run: int
    run_name: str
    task: str
    step: int
    reason: str


class CostOfRun(TypedDict):
    """What the evaluations of a run took."""

    run: int
    run_name: str
    seconds: float
    train_share: float | None
    num_evaluations: int
    output_tokens: int


class Answer(TypedDict):
    """Evaluations, the newest first."""

    total: int
    offset: int
    now: float
    evaluations: list[EvaluationShape]
    leases: list[LeaseShape]
    missing: list[MissingShape]
    by_run: list[CostOfRun]


def answer(
    panel: Panel, *, project: str, run: int | None, runs: Sequence[int], status: str, limit: int, offset: int
) -> Answer:
    """A page of evaluations, and the costs of their runs."""
    ids = [*runs, *([run] if run is not None else [])]
    chosen = panel.chosen(ids) if ids else panel.store.runs(project or None)
    named = {one.id: one for one in chosen}
    total, rows = panel.store.evaluations(list(named), [status] if status else [], limit, offset)
    shown = list(dict.fromkeys(row.run for row in rows))
    missing: list[MissingShape] = [
        {"run": id, "run_name": named[id].name, "task": task, "step": step, "reason": reason}
        for id in shown
        for task, step, reason in panel.store.missing(id)
    ]
    leases: list[LeaseShape] = [
        {"name": one.name[:1000], "number": one.number, "owner": one.owner, "beat": one.beat}
        for one in panel.store.leases()
        if one.beat >= 0
    ]
    return {
        "total": total,
        "offset": offset,
        "now": panel.clock(),
        "evaluations": [_shape(panel, row, named[row.run]) for row in rows],
        "leases": leases[:MOST_LEASES],
        "missing": missing[:MOST_MISSING],
        "by_run": [_cost(panel, named[id]) for id in shown],
    }


def _shape(panel: Panel, row: EvaluationRow, run: RunInfo) -> EvaluationShape:
    report = row.report
    first = report.judging[0] if report is not None and report.judging else None
    if first is None:
        num_answered, num_items = panel.store.num_answered(row.id), panel.store.num_items(row.task_fingerprint)
    else:
        num_answered, num_items = first.num_scored, first.n
    return {
        "id": row.id,
        "run": row.run,
        "run_name": run.name,
        "project": run.project,
        "task": row.task,
        "step": row.step,
        "status": row.status,
        "started": row.started,
        "seconds": row.seconds,
        "num_answered": num_answered,
        "num_items": num_items,
        "estimate": None if first is None else estimate(first),
        "cost": None if report is None else cost(report.cost),
        "errors": {} if report is None else {reason[:1000]: n for reason, n in list(report.errors.items())[:20]},
    }


def _cost(panel: Panel, run: RunInfo) -> CostOfRun:
    reports = panel.store.reports(run.id)
    shares = [r.cost.train_share for r in sorted(reports, key=lambda r: r.started_at) if r.cost.train_share is not None]
    return {
        "run": run.id,
        "run_name": run.name,
        "seconds": math.fsum(report.cost.seconds for report in reports),
        "train_share": shares[-1] if shares else None,
        "num_evaluations": len(reports),
        "output_tokens": sum(report.cost.output_tokens for report in reports),
    }

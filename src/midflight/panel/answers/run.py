"""A run's first screen: better or noise, which items changed, what is wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence

from typing_extensions import TypedDict

from midflight.panel.charts import Axes, axes_of, in_order, still_series
from midflight.panel.markers import Marker, markers_of
from midflight.panel.panel import Panel
from midflight.panel.parameters import Level, Number, Text
from midflight.panel.plain import flat
from midflight.panel.references import ALLOWED
from midflight.panel.rows import rows_of
from midflight.panel.shapes import DiagnosisShape, Json, RunShape
from midflight.panel.task_curves import TaskCurve, task_curves
from midflight.records import EvalReport
from midflight.store import Head, RunInfo, UnfinishedEvaluation

PATH = "/api/runs/{id}"
RUN_ID = Number("id", "The run.", in_path=True, high=(1 << 59))
PARAMETERS = (
    RUN_ID,
    Text("reference", f"What the newest evaluations are held against: {ALLOWED}.", default="start"),
    Text("metric", "The metric, of the tasks that have it; else the first of each task."),
    Level("level", "Confidence level."),
)


class ReferenceChoice(TypedDict):
    """Something to hold the run against."""

    id: str
    label: str
    step: int | None


class SeriesHead(TypedDict):
    """The newest value of a training series."""

    key: str
    step: int
    at: float
    value: float
    num_points: int
    group: str


class Missing(TypedDict):
    """An evaluation that was due and did not take place."""

    task: str
    step: int
    reason: str


class RunCost(TypedDict):
    """What its evaluations took."""

    seconds: float
    train_share: float | None
    prompt_tokens: int
    output_tokens: int
    peak_memory_bytes: int | None


class Answer(TypedDict):
    """A run."""

    run: RunShape
    environment: dict[str, Json]
    config: dict[str, Json]
    since: str
    reference: str
    references: list[ReferenceChoice]
    tasks: list[TaskCurve]
    series: list[SeriesHead]
    axes: Axes
    diagnosis: DiagnosisShape
    markers: list[Marker]
    unfinished: list[UnfinishedEvaluation]
    missing: list[Missing]
    cost: RunCost


def answer(panel: Panel, *, id: int, reference: str, metric: str, level: float) -> Answer:
    """The run as it stands."""
    since, run = panel.token, panel.run(id)
    pulse = panel.pulse(id)
    reports, heads = panel.store.reports(id), panel.store.heads(id)
    missing = [{"task": task, "step": step, "reason": reason} for task, step, reason in panel.store.missing(id)]
    by_key = {head.key: head for head in heads}
    still: set[str] = panel.kept.get(("still", id, pulse.num_points), lambda: still_series(panel.store, [id]))
    return {
        "run": rows_of(panel, [run], {id: pulse}, None)[0],
        "environment": flat(run.environment),
        "config": flat(run.config),
        "since": since,
        "reference": reference,
        "references": _references(panel, run, reports),
        "tasks": task_curves(panel, run, reference, metric, level),
        "series": [_head(by_key[key]) for key in in_order(list(by_key), still)],
        "axes": axes_of(by_key),
        "diagnosis": panel.diagnoses.of(run, pulse),
        "markers": markers_of(panel, run, reports, missing, level),
        "unfinished": panel.store.unfinished(id),
        "missing": missing,  # type: ignore[typeddict-item]
        "cost": _cost(reports),
    }


def _head(head: Head) -> SeriesHead:
    return {
        "key": head.key,
        "step": head.step,
        "at": head.wall,
        "value": head.value,
        "num_points": head.num_points,
        "group": head.key.rpartition("/")[0],
    }


def _references(panel: Panel, run: RunInfo, reports: Sequence[EvalReport]) -> list[ReferenceChoice]:
    first = min((report.progress.step for report in reports), default=None)
    found: list[ReferenceChoice] = [
        {"id": "start", "label": "start", "step": first},
        {"id": "best", "label": "best", "step": None},
        {"id": "previous", "label": "previous", "step": None},
    ]
    evaluated = {pulse.run for pulse in panel.store.pulses() if pulse.num_evaluations}
    others = panel.store.runs(run.project, ids=sorted(evaluated - {run.id}))
    return found + [{"id": f"run:{one.id}", "label": one.name, "step": None} for one in others[:200]]


def _cost(reports: Sequence[EvalReport]) -> RunCost:
    shares = [r.cost.train_share for r in sorted(reports, key=lambda r: r.started_at) if r.cost.train_share is not None]
    peaks = [report.cost.peak_memory_bytes for report in reports if report.cost.peak_memory_bytes is not None]
    return {
        "seconds": math.fsum(report.cost.seconds for report in reports),
        "train_share": shares[-1] if shares else None,
        "prompt_tokens": sum(report.cost.prompt_tokens for report in reports),
        "output_tokens": sum(report.cost.output_tokens for report in reports),
        "peak_memory_bytes": max(peaks, default=None),
    }

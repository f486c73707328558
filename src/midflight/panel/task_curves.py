"""The tasks of a run over its checkpoints: how good, since when, better than what, and which items changed."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from midflight.analyse.best import Best
from midflight.analyse.compare import compare, judged
from midflight.analyse.curves import Curve
from midflight.analyse.evidence import Side, StoredEvidence
from midflight.analyse.flips import FlipPoint, flip_curve, flips
from midflight.analyse.slope import PER, Slope
from midflight.analyse.stability import Noise
from midflight.errors import MidflightError
from midflight.panel.answers.items import title
from midflight.panel.panel import Panel
from midflight.panel.plain import bounded, estimate
from midflight.panel.references import Reference, reference_of
from midflight.panel.shapes import EstimateShape
from midflight.records import Difference, EvalReport
from midflight.store import RunInfo

MOST_POINTS = 2000
MOST_FLIPS = 200
MOST_TITLES = 6
MOST_SLICES = 200


class Point(TypedDict):
    """An evaluation on a curve."""

    step: int
    epoch: float
    tokens: int
    at: float
    evaluation: str
    weights: str
    seconds: float
    status: str
    estimate: EstimateShape


class ReferencePoint(TypedDict):
    """What the newest evaluation is held against."""

    run: int
    run_name: str
    step: int
    evaluation: str
    estimate: EstimateShape


class Flips(TypedDict):
    """Items that changed since the reference; `titles` are a few words of the first of each."""

    learned: int
    forgotten: int
    n: int
    learned_items: list[str]
    forgotten_items: list[str]
    titles: dict[str, str]


class MetricValue(TypedDict):
    """Another metric of the newest evaluation."""

    metric: str
    estimate: EstimateShape


class SliceValue(TypedDict):
    """A slice of the newest evaluation."""

    slice: str
    estimate: EstimateShape


class TaskCurve(TypedDict):
    """A task over the checkpoints of the run."""

    task: str
    label: str
    metric: str
    unit: str
    higher_is_better: bool | None
    lowest: float | None
    highest: float | None
    level: float
    num_points: int
    points: list[Point]
    now: int | None
    best: Best | None
    reference: ReferencePoint | None
    difference: Difference | None
    difference_note: str
    trend: Slope | None
    per_steps: int
    trend_note: str
    noise: Noise | None
    flips: Flips | None
    flips_note: str
    flip_curve: list[FlipPoint]
    metrics: list[MetricValue]
    slices: list[SliceValue]


def task_curves(panel: Panel, run: RunInfo, reference: str, metric: str, level: float) -> list[TaskCurve]:
    """The curves of a run; p-values of the differences are adjusted over all of them."""
    curves = _curves(panel, run, metric)
    trends = [panel.trend(run, curve, level) for curve in curves]
    sides = [reference_of(panel, reference, run, curve, trend) for curve, trend in zip(curves, trends, strict=True)]
    compared = [_difference(panel, curve, side, level) for curve, side in zip(curves, sides, strict=True)]
    rows = judged([row for row, _ in compared if row is not None], level)
    found = []
    for curve, trend, side, (row, note) in zip(curves, trends, sides, compared, strict=True):
        shown: dict[str, Any] = {**_curve(panel, curve), **_since(panel, curve, side)}
        shown["difference"] = None if row is None else rows.pop(0)
        shown["difference_note"] = note
        slope, noise, best = (trend.slope, trend.noise, trend.best) if trend is not None else (None, None, None)
        shown["trend"], shown["per_steps"] = slope, PER
        notes = ["fewer than three checkpoints"] if slope is None else []
        shown["trend_note"] = "; ".join([*notes, *(trend.notes if trend is not None else ())])
        shown["noise"] = noise
        shown["best"] = best
        found.append(shown)
    return found  # type: ignore[return-value]


def _curves(panel: Panel, run: RunInfo, metric: str) -> list[Curve]:
    """The curves of a run: by a metric where the task has it, else by the first of the task."""
    plain = panel.curves(run)
    if not metric:
        return plain
    named = {(curve.task, curve.label): curve for curve in panel.curves(run, metric=metric)}
    return [named.get((curve.task, curve.label), curve) for curve in plain]


def _curve(panel: Panel, curve: Curve) -> dict[str, Any]:
    newest, last = curve.reports[-1], curve.estimates[-1]
    shown = curve.reports[-MOST_POINTS:]
    return {
        "task": curve.task,
        "label": curve.label,
        "metric": curve.metric,
        "unit": last.unit,
        "higher_is_better": last.higher_is_better,
        "lowest": last.lowest,
        "highest": last.highest,
        "level": last.level,
        "num_points": len(curve.reports),
        "points": [_point(report, curve.metric) for report in shown],
        "now": len(shown) - 1,
        "metrics": [
            {"metric": one.metric, "estimate": estimate(one)}
            for one in newest.estimates
            if not one.slice and one.metric != curve.metric
        ],
        "slices": [
            {"slice": one.slice, "estimate": estimate(one)}
            for one in newest.estimates
            if one.slice and one.metric == curve.metric
        ][:MOST_SLICES],
    }


def _point(report: EvalReport, metric: str) -> Point:
    return {
        "step": report.progress.step,
        "epoch": report.progress.epoch,
        "tokens": report.progress.tokens,
        "at": report.started_at,
        "evaluation": report.id,
        "weights": bounded(report.weights, 100)["text"],
        "seconds": report.cost.seconds,
        "status": report.status,
        "estimate": estimate(report.estimate(metric)),
    }


def _difference(panel: Panel, curve: Curve, side: Reference, level: float) -> tuple[Difference | None, str]:
    """Newest − reference, paired by item; or why there is none."""
    newest = curve.reports[-1]
    if side.report is None:
        return None, side.note
    if side.report.id == newest.id:
        return None, "the newest checkpoint is the reference itself"
    key = ("difference", newest.id, side.report.id, curve.metric, level)
    ours = Side(f"{newest.run}@{newest.progress.step}", {curve.task: StoredEvidence(newest, panel.store)})
    theirs = Side(
        f"{side.report.run}@{side.report.progress.step}", {curve.task: StoredEvidence(side.report, panel.store)}
    )
    try:
        rows = panel.kept.get(key, lambda: compare(theirs, ours, metrics=[curve.metric], level=level).differences)
    except MidflightError as error:  # it was not asked the same
        return None, error.message
    return rows[0], ""


def _since(panel: Panel, curve: Curve, side: Reference) -> dict[str, Any]:
    """The reference, and the items that changed since."""
    newest, report = curve.reports[-1], side.report
    found: dict[str, Any] = {"reference": None, "flips": None, "flips_note": side.note, "flip_curve": []}
    try:
        key = ("flip curve", tuple(one.id for one in curve.reports), curve.metric)
        points = panel.kept.get(key, lambda: flip_curve(curve.reports, panel.store, curve.metric))
        found["flip_curve"] = points[-MOST_POINTS:]
        if report is not None:
            found["flips"] = _flips(panel, newest, report, curve.metric)
    except MidflightError as error:
        found["flips_note"] = error.message
    if report is not None:
        found["reference"] = {
            "run": side.run.id,
            "run_name": side.run.name,
            "step": report.progress.step,
            "evaluation": report.id,
            "estimate": estimate(report.estimate(curve.metric)),
        }
    return found


def _flips(panel: Panel, newest: EvalReport, reference: EvalReport, metric: str) -> Flips:
    ours, theirs = StoredEvidence(newest, panel.store), StoredEvidence(reference, panel.store)
    changed = panel.kept.get(("flips", newest.id, reference.id, metric), lambda: flips(ours, theirs, metric))
    learned = [flip.item for flip in changed if flip.learned]
    forgotten = [flip.item for flip in changed if not flip.learned]
    n = min(newest.estimate(metric).num_scored, reference.estimate(metric).num_scored)
    titled = [*learned[:MOST_TITLES], *forgotten[:MOST_TITLES]]
    titles = {id: title(panel.store.item(newest.task_fingerprint, id)) for id in titled}
    return {
        "learned": len(learned),
        "forgotten": len(forgotten),
        "n": n,
        "learned_items": learned[:MOST_FLIPS],
        "forgotten_items": forgotten[:MOST_FLIPS],
        "titles": {id: words for id, words in titles.items() if words},
    }

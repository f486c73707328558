"""Checkpoints and runs against a baseline, paired by item, with their curves and what differs in configuration."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

from typing_extensions import TypedDict

from midflight.analyse.compare import compare, judged
from midflight.analyse.curves import Curve
from midflight.analyse.evidence import Side, StoredEvidence
from midflight.errors import ConfigError, MidflightError
from midflight.panel.panel import Panel
from midflight.panel.parameters import Flag, Level, Names, Text
from midflight.panel.plain import estimate, evenly, flat, metrics_of
from midflight.panel.shapes import EstimateShape, Json
from midflight.records import Difference, EvalReport, OverallIndex
from midflight.store import RunInfo

PATH = "/api/compare"
PARAMETERS = (
    Text("baseline", "ID, ID@STEP, ID@first, ID@last or ID@best (of each task's first metric)."),
    Names("candidates", "One or more of the same.", most=50),
    Text("task", "Only this task."),
    Text("metric", "The metric, or `all`; else the first of each task."),
    Flag("slices", "Whether slices are compared too."),
    Flag("common", "Whether the items that both have are compared where they have not the same."),
    Level("level", "Confidence level."),
)
MOST_ROWS = 2000
MOST_POINTS = 10_000


class SideShape(TypedDict):
    """One side."""

    label: str
    run: int
    name: str
    step: int | None


class Refused(TypedDict):
    """A candidate that was not asked the same."""

    candidate: str
    message: str


class CurvePoint(TypedDict):
    """A point of a curve."""

    step: int
    estimate: EstimateShape


class CurveShape(TypedDict):
    """A task over the checkpoints of a run."""

    run: int
    task: str
    label: str
    metric: str
    points: list[CurvePoint]


class ConfigRow(TypedDict):
    """A value of the configurations, a run each."""

    key: str
    values: list[Json]
    differs: bool


class Config(TypedDict):
    """The configurations side by side."""

    keys: list[ConfigRow]
    runs: list[int]


class Answer(TypedDict):
    """A comparison."""

    baseline: SideShape
    candidates: list[SideShape]
    metrics: list[str]
    differences: list[Difference]
    overall: list[OverallIndex]
    left_out: list[str]
    refused: list[Refused]
    curves: list[CurveShape]
    config: Config


def answer(
    panel: Panel,
    *,
    baseline: str,
    candidates: Sequence[str],
    task: str,
    metric: str,
    slices: bool,
    common: bool,
    level: float,
) -> Answer:
    """The comparison; p-values are adjusted over all of its rows."""
    if not baseline or not candidates:
        raise ConfigError("parameters baseline and candidates", allowed="both")
    first, *others = (_side(panel, wanted) for wanted in (baseline, *dict.fromkeys(candidates)))
    rows: list[Difference] = []
    overall: list[OverallIndex] = []
    left_out: list[str] = []
    refused: list[Refused] = []
    options: dict[str, Any] = {
        "tasks": [task] if task else [],
        "metrics": [metric] if metric else [],
        "slices": slices,
        "only_common_items": common,
        "level": level,
    }
    for side, info in others:
        ids = tuple(tuple(e.report.id for e in one.evidence.values()) for one in (first[0], side))
        key = ("compare", ids, repr(options))
        try:
            for one, run in (first, (side, info)):
                if not one.evidence:
                    raise ConfigError(f"run {run.name!r} has no finished evaluation")
            found = panel.kept.get(key, partial(compare, first[0], side, **options))
        except MidflightError as error:
            refused.append({"candidate": side.label, "message": error.message})
            continue
        rows += found.differences
        overall += found.overall
        left_out += found.left_out
    runs = list({run.id: run for _, run in (first, *others)}.values())
    return {
        "baseline": _shape(*first),
        "candidates": [_shape(*other) for other in others],
        "metrics": _metrics([side for side, _ in (first, *others)], task),
        "differences": judged(rows, level)[:MOST_ROWS],
        "overall": overall,
        "left_out": left_out + ([f"{MOST_ROWS} of {len(rows)} rows"] if len(rows) > MOST_ROWS else []),
        "refused": refused,
        "curves": _curves(panel, runs, task, metric),
        "config": config_of(runs),
    }


def _side(panel: Panel, wanted: str) -> tuple[Side, RunInfo]:
    """The evaluations that a text names, and their run."""
    named = re.fullmatch(r"([0-9]{1,18})(?:@(first|last|best|[0-9]{1,18}))?", wanted)
    if named is None:
        raise ConfigError("side of a comparison", got=wanted, allowed="ID, ID@STEP, ID@first, ID@last or ID@best")
    run, at = panel.run(int(named[1])), named[2]
    reports = panel.store.reports(run.id)
    if not reports:
        return Side(wanted, {}), run
    if at == "best":
        chosen = _best(panel, run)
    else:
        steps = sorted({report.progress.step for report in reports})
        step = {"first": steps[0], "last": steps[-1]}.get(at, int(at) if (at or "").isdecimal() else None)
        chosen = [report for report in reports if step is None or report.progress.step == step]
        if not chosen:
            raise ConfigError(f"step of run {run.name!r}", got=at, allowed=f"first, last, {', '.join(map(str, steps))}")
    newest = {one.task: one for one in sorted(chosen, key=lambda one: (one.progress.step, one.started_at))}
    return Side(wanted, {task: StoredEvidence(one, panel.store) for task, one in sorted(newest.items())}), run


def _best(panel: Panel, run: RunInfo) -> list[EvalReport]:
    """The best evaluation of each task; the newest where a metric has no better direction."""
    found = []
    for curve in panel.curves(run):
        trend = panel.trend(run, curve, 0.95)
        if trend is not None:
            step = trend.best.step if trend.best is not None else trend.step
            found += [report for report in curve.reports if report.progress.step == step]
    return found


def _metrics(sides: Sequence[Side], task: str) -> list[str]:
    """Metrics of the evaluations that are compared."""
    reports = [one.report for side in sides for name, one in side.evidence.items() if task in ("", name)]
    return list(dict.fromkeys(metric for report in reports for metric in metrics_of(report)))


def _shape(side: Side, run: RunInfo) -> SideShape:
    return {"label": side.label, "run": run.id, "name": run.name, "step": side.subject.step}


def _curves(panel: Panel, runs: Sequence[RunInfo], task: str, metric: str) -> list[CurveShape]:
    """The curves of all runs; evenly thinned where together they have too many points."""
    found: list[tuple[RunInfo, Curve]] = []
    for run in runs:
        try:
            curves = panel.curves(run, task or None, metric if metric not in ("", "all") else None)
        except MidflightError:  # this run has no such task or metric
            continue
        found += [(run, curve) for curve in curves]
    room = max(10, MOST_POINTS // max(1, len(found)))
    shapes: list[CurveShape] = []
    for run, curve in found:
        steps, estimates = curve.steps, curve.estimates
        points: list[CurvePoint] = [
            {"step": steps[at], "estimate": estimate(estimates[at])} for at in evenly(len(steps), room)
        ]
        shapes.append(
            {"run": run.id, "task": curve.task, "label": curve.label, "metric": curve.metric, "points": points}
        )
    return shapes


def config_of(runs: Sequence[RunInfo]) -> Config:
    """The configurations of runs side by side, what differs first."""
    flats = [flat(run.config) for run in runs]
    keys: list[ConfigRow] = []
    for key in dict.fromkeys(key for one in flats for key in one):
        values = [one.get(key) for one in flats]
        differs = len({repr(value) for value in values}) > 1 or any(key not in one for one in flats)
        keys.append({"key": key, "values": values, "differs": differs})
    return {"keys": sorted(keys, key=lambda row: not row["differs"]), "runs": [run.id for run in runs]}

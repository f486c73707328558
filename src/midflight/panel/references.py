"""What a run is held against: its start, its best or its previous checkpoint, a step of it, or another run."""

from __future__ import annotations

import re
from dataclasses import dataclass

from midflight.analyse.curves import Curve
from midflight.analyse.trend import Trend
from midflight.catalog import unknown
from midflight.errors import ConfigError
from midflight.panel.panel import Panel
from midflight.records import EvalReport
from midflight.store import RunInfo

ALLOWED = "start, best, previous, STEP, run:ID or run:ID@STEP"


@dataclass(frozen=True, slots=True)
class Reference:
    """An evaluation to hold the newest one of a curve against; None if there is none, and `note` says why."""

    run: RunInfo
    report: EvalReport | None
    note: str = ""


def reference_of(panel: Panel, wanted: str, run: RunInfo, curve: Curve, trend: Trend | None) -> Reference:
    """The evaluation that is meant.

    Args:
        panel: Where runs are looked for.
        wanted: ``start``, ``best``, ``previous``, a step, ``run:ID`` (its newest) or ``run:ID@STEP``.
        run: The run of the curve.
        curve: The curve.
        trend: What its checkpoints say together.

    Raises:
        ConfigError: If it is none of these.
        NotFoundError: If there is no such run.
    """
    other = re.fullmatch(r"run:([0-9]{1,18})(?:@([0-9]{1,18}))?", wanted)
    if other is not None:
        return _of_run(panel, panel.run(int(other[1])), curve, other[2])
    if re.fullmatch("[0-9]{1,18}", wanted):
        return _at(run, curve, int(wanted))
    if wanted == "start":
        return Reference(run, curve.reports[0])
    if wanted == "previous":
        return Reference(run, curve.reports[-2]) if len(curve.reports) > 1 else _none(run, "only one checkpoint so far")
    if wanted == "best":
        if trend is None or trend.best is None:
            return _none(run, f"{curve.metric} has no better direction")
        return _at(run, curve, trend.best.step)
    raise ConfigError("parameter reference", got=wanted, allowed=ALLOWED)


def _of_run(panel: Panel, other: RunInfo, curve: Curve, step: str | None) -> Reference:
    try:
        curves = panel.curves(other, curve.task, curve.metric)
    except ConfigError:
        curves = []
    if not curves:
        return _none(other, f"{other.name} has no evaluation of {curve.task} by {curve.metric}")
    same = next((c for c in curves if c.kind == curve.kind), curves[0])
    return _at(other, same, int(step)) if step is not None else Reference(other, same.reports[-1])


def _at(run: RunInfo, curve: Curve, step: int) -> Reference:
    found = next((report for report in curve.reports if report.progress.step == step), None)
    return Reference(run, found, "" if found is not None else f"not evaluated at step {step}")


def _none(run: RunInfo, note: str) -> Reference:
    return Reference(run, None, note)


def curve_named(panel: Panel, run: RunInfo, task: str, label: str, metric: str) -> Curve:
    """A curve of a run by its task and what tells it from others of this task; the first if nothing is said.

    Raises:
        UnknownKeyError: If there is no such task, label or metric.
    """
    curves = panel.curves(run, task, metric or None)
    if not curves:
        raise ConfigError(f"run {run.name!r} has no evaluation of {task} with a value")
    labels = [curve.label for curve in curves]
    if label and label not in labels:
        raise unknown(f"ways in which {task} was evaluated", label, labels)
    return next(curve for curve in curves if not label or curve.label == label)

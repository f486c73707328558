"""What a terminal shows of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from midflight.analyse.names import canonical_names
from midflight.panel.charts import in_order
from midflight.panel.pace import Pace, pace_of
from midflight.panel.panel import Panel
from midflight.panel.rows import SPARK, rows_of
from midflight.panel.shapes import DiagnosisShape, EstimateShape
from midflight.panel.state import State
from midflight.panel.task_curves import TaskCurve, task_curves
from midflight.records import Difference
from midflight.store import Head, Pulse, RunInfo, UnfinishedEvaluation

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class TaskLine:
    """A task as it stands.

    Attributes:
        task: The task.
        label: What tells this way of evaluating it from others; empty if there is one.
        step: Step of the newest evaluation.
        estimate: Its first metric.
        difference: Newest − first checkpoint, paired by item; None, and `note` says why.
        note: Why there is no difference.
        improving: Whether it still improves: yes, no, cannot tell; None if the metric has no better direction, or there
            are fewer than three checkpoints.
        learned: Items that it can do now and could not at the first checkpoint; None where none is right or wrong.
        forgotten: The other way round.
        values: The metric at its checkpoints, NaN where it has no value.
    """

    task: str
    label: str
    step: int
    estimate: EstimateShape
    difference: Difference | None
    note: str
    improving: str | None
    learned: int | None
    forgotten: int | None
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Leading:
    """The training series that tells best how a run goes: its reward, else its loss, else the first.

    Attributes:
        key: Its name.
        value: Its newest value.
        values: The series in so many buckets; NaN where one holds a value that is not finite.
    """

    key: str
    value: float
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """What is read of a run when it has changed.

    Attributes:
        pace: How far and how fast it is.
        leading: Its leading series; None if it has none.
        tasks: Its tasks.
        diagnosis: What the detectors say.
        unfinished: Evaluations without a result.
        num_missing: Evaluations that were due and did not take place.
        train_share: Share of the run's time that evaluations took; None if that is not known.
    """

    pace: Pace
    leading: Leading | None
    tasks: tuple[TaskLine, ...]
    diagnosis: DiagnosisShape
    unfinished: tuple[UnfinishedEvaluation, ...]
    num_missing: int
    train_share: float | None


@dataclass(frozen=True, slots=True)
class Row:
    """A run; `found` is None until there was time to read it, and where it cannot be read: `damage` says why."""

    info: RunInfo
    pulse: Pulse
    state: State
    found: Found | None = None
    damage: str = ""


def found_of(panel: Panel, info: RunInfo, pulse: Pulse) -> Found:
    """Reads what is shown of a run."""
    store = panel.store
    heads = store.heads(info.id) if pulse.num_series else []
    return Found(
        pace_of(store, info, heads),
        _leading(panel, info, heads),
        tuple(map(task_line, task_curves(panel, info, "start", "", LEVEL))) if pulse.num_evaluations else (),
        panel.diagnoses.of(info, pulse),
        tuple(store.unfinished(info.id)) if pulse.num_unfinished else (),
        len(store.missing(info.id)),
        rows_of(panel, [info], {info.id: pulse}, None)[0]["train_share"],
    )


def _leading(panel: Panel, info: RunInfo, heads: Sequence[Head]) -> Leading | None:
    if not heads:
        return None
    by_key = {head.key: head for head in heads}
    named = {canonical: key for key, canonical in canonical_names(by_key).items()}
    key = named.get("reward") or in_order(list(by_key))[0]
    found = panel.store.read_overviews([info.id], [key], buckets=SPARK)
    values = found.mean[0].astype(float) if len(found.series) else np.empty(0)
    for one in found.non_finite:
        values[one.bucket] = np.nan
    return Leading(key, by_key[key].value, tuple(values.tolist()))


def task_line(curve: TaskCurve) -> TaskLine:
    """A task's curve in short."""
    newest, flips = curve["points"][-1], curve["flips"]
    values = [point["estimate"]["value"] for point in curve["points"][-SPARK:]]
    return TaskLine(
        curve["task"],
        curve["label"],
        newest["step"],
        newest["estimate"],
        curve["difference"],
        curve["difference_note"],
        None if curve["trend"] is None else curve["trend"].improving,
        None if flips is None else flips["learned"],
        None if flips is None else flips["forgotten"],
        tuple(float("nan") if value is None else value for value in values),
    )

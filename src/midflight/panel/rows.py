"""Rows of the table of runs; what costs time to find is kept until the run changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from midflight.analyse.curves import Curve
from midflight.analyse.variants import newest_of_each
from midflight.errors import StoreError
from midflight.panel.pace import Pace, pace_of, planned_steps
from midflight.panel.panel import Panel
from midflight.panel.plain import bounded, estimate, evenly, flat
from midflight.panel.shapes import Counts, Latest, RunShape, Spark
from midflight.panel.state import State, state_of
from midflight.records import EvalReport
from midflight.store import Pulse, RunInfo

SPARK = 64
"""Points of a small curve."""
MOST_TASKS = 50
ENDED = 0.95
"""A run that logged up to this share of its planned steps did not end early: not every step is logged."""


def rows_of(panel: Panel, runs: Sequence[RunInfo], pulses: dict[int, Pulse], leading: str | None) -> list[RunShape]:
    """The rows of runs.

    Args:
        panel: Where they are.
        runs: The runs.
        pulses: Signs of life by run.
        leading: The series that is drawn small of runs without an evaluation.
    """
    sparks = _series_sparks(panel, [run for run in runs if not pulses[run.id].num_evaluations], pulses, leading)
    return [_row(panel, run, pulses[run.id], sparks.get(run.id)) for run in runs]


def is_meant(run: RunInfo, search: str) -> bool:
    """Whether a text is in a run's name, a tag, or ``key=value`` of its configuration; any case."""
    if not search:
        return True
    texts = (run.name, *run.tags, *(f"{key}={value}" for key, value in flat(run.config).items()))
    return any(search.casefold() in text.casefold() for text in texts)


def _row(panel: Panel, run: RunInfo, pulse: Pulse, spark: Spark | None) -> RunShape:
    try:
        read, damage = _read(panel, run, pulse), run.damage
    except StoreError as error:  # of this run: it hides no other
        read, damage = _Read({}, Pace(), "", None), error.message
    evaluated, pace = read.evaluated, read.pace
    last_step = _last_step(pulse, evaluated)
    state = state_of(panel.store, pulse)
    return {
        "id": run.id,
        "project": run.project,
        "name": run.name,
        "state": state,
        "created": run.created,
        "heartbeat": pulse.heartbeat,
        "finished": run.finished,
        "seconds": max(0.0, (run.finished or pulse.heartbeat) - run.created),
        "attempts": run.attempts,
        "tags": list(run.tags)[:MOST_TASKS],
        "config": flat(run.config),
        "git": {name: str(value)[:200] for name, value in list(run.git.items())[:10]},
        "damage": bounded(damage)["text"],
        "lost_points": run.lost_points,
        "last_step": last_step,
        "planned_steps": pace.planned_steps,
        "seconds_left": pace.seconds_left,
        "ended_early": _ended_early(state, last_step, pace),
        "stopped_by": read.stopped_by,
        "num_series": pulse.num_series,
        "num_points": pulse.num_points,
        "num_evaluations": pulse.num_evaluations,
        "num_unfinished": pulse.num_unfinished,
        "train_share": evaluated.get("train_share"),
        "evaluation_seconds": pulse.evaluation_seconds,
        "spark": evaluated.get("spark") or spark,
        "latest": evaluated.get("latest", []),
        "findings": read.findings,
    }


class _Read(NamedTuple):
    """What is read of a run for its row, beside its pulse."""

    evaluated: dict[str, Any]
    pace: Pace
    stopped_by: str
    findings: Counts | None


def _read(panel: Panel, run: RunInfo, pulse: Pulse) -> _Read:
    evaluated = _evaluated(panel, run, pulse) if pulse.num_evaluations else {}
    state = state_of(panel.store, pulse)
    pace = _pace(panel, run, pulse) if state == "running" else Pace(planned_steps=planned_steps(run))
    ended_early = _ended_early(state, _last_step(pulse, evaluated), pace)
    stopped_by = _stopped_by(panel, run) if ended_early and pulse.num_findings else ""
    return _Read(evaluated, pace, stopped_by, panel.diagnoses.counts(run, pulse))


def _last_step(pulse: Pulse, evaluated: Mapping[str, Any]) -> int | None:
    return max((s for s in (pulse.last_step, evaluated.get("last_step")) if s is not None), default=None)


def _ended_early(state: State, last_step: int | None, pace: Pace) -> bool:
    return state == "finished" and (last_step or 0) < ENDED * (pace.planned_steps or 0)


def _pace(panel: Panel, run: RunInfo, pulse: Pulse) -> Pace:
    key = ("pace", run.id, pulse.num_points, run.attempts)
    found: Pace = panel.kept.get(key, lambda: pace_of(panel.store, run, panel.store.heads(run.id)))
    return found


def _stopped_by(panel: Panel, run: RunInfo) -> str:
    """Kind of the first finding of severity `stop` that the run's own process had; empty if it had none."""
    return next((one.kind for one in panel.store.findings(run.id) if one.severity == "stop"), "")


def _evaluated(panel: Panel, run: RunInfo, pulse: Pulse) -> dict[str, Any]:
    """What the evaluations of a run add to its row."""
    key = ("row", run.id, pulse.num_evaluations, pulse.num_unfinished, pulse.evaluation_seconds, run.attempts)
    found: dict[str, Any] = panel.kept.get(key, lambda: _of_reports(panel, run))
    return found


def _of_reports(panel: Panel, run: RunInfo) -> dict[str, Any]:
    reports = panel.store.reports(run.id)
    if not reports:
        return {}
    shares = [r.cost.train_share for r in sorted(reports, key=lambda r: r.started_at) if r.cost.train_share is not None]
    curve = next(iter(panel.curves(run)), None)
    return {
        "last_step": max(report.progress.step for report in reports),
        "train_share": shares[-1] if shares else None,
        "latest": [latest(report, label) for report, label in newest_of_each(reports)[:MOST_TASKS]],
        "spark": None if curve is None else _spark(curve),
    }


def latest(report: EvalReport, label: str) -> Latest:
    """The newest evaluation of a task, by the first metric that judges."""
    first = report.judging[0]
    return {
        "task": report.task,
        "label": label,
        "metric": first.metric,
        "step": report.progress.step,
        "evaluation": report.id,
        "estimate": estimate(first),
    }


def _spark(curve: Curve) -> Spark:
    kept = evenly(len(curve.steps), SPARK)
    return {
        "kind": "evaluation",
        "key": f"{curve.task} {curve.metric}",
        "steps": [curve.steps[at] for at in kept],
        "values": [curve.values[at] for at in kept],
    }


def _series_sparks(
    panel: Panel, runs: Sequence[RunInfo], pulses: dict[int, Pulse], leading: str | None
) -> dict[int, Spark]:
    if leading is None or not runs:
        return {}
    key = ("sparks", leading, tuple((run.id, pulses[run.id].num_points) for run in runs))
    found: dict[int, Spark] = panel.kept.get(key, lambda: _read_sparks(panel, runs, leading))
    return found


def _read_sparks(panel: Panel, runs: Sequence[RunInfo], leading: str) -> dict[int, Spark]:
    found = panel.store.read_overviews([run.id for run in runs], [leading], buckets=SPARK)
    sparks: dict[int, Spark] = {}
    for (run, key), mean in zip(found.series, found.mean, strict=True):
        there = np.isfinite(mean)
        sparks[run] = {
            "kind": "series",
            "key": key,
            "steps": found.steps[there].tolist(),
            "values": mean[there].tolist(),
        }
    return sparks

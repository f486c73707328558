"""In hindsight: when a run would have been stopped, what that would have saved, and what it would have cost."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, TypeAlias

from midflight.analyse.algorithm import guess_algorithm
from midflight.analyse.detectors.base import OPENING, Algorithm
from midflight.analyse.diagnose import Watch, records_of
from midflight.analyse.history import History
from midflight.analyse.learning_curve import CurvePoint
from midflight.records import SEVERITIES, Finding, Severity

Unit: TypeAlias = Literal["seconds", "steps"]
Records: TypeAlias = Sequence[tuple[int, dict[str, float]]]


@dataclass(frozen=True, slots=True)
class Savings:
    """What stopping a run at its first grave finding would have done.

    Attributes:
        run: Its name.
        algorithm: What was trained how, as the detectors took it.
        status: What the store says of it; empty for a log.
        finding: What it would have been stopped for; None = nothing.
        stopped_at: Step at which it would have been stopped; None = not at all.
        last_step: Last step that was run.
        planned_steps: Steps that were planned; None = not known, or fewer than were run.
        unit: What compute is counted in: wall seconds where they are known, else steps.
        spent: Compute that was really run.
        saved: How much of it would have been saved, 0 or more.
        share: `saved` ÷ `spent`; 0 for a run without records.
        planned_share: Steps that would not have been run, of those that were planned; None where these are not known.
        metric: What the run is judged by; empty = nothing.
        held_out: Whether that was measured on held-out data; else it is a smoothed training series.
        higher_is_better: Its direction.
        best: The best of the whole run; None if there is no value.
        best_before: The best up to the stop; None if there is none by then.
        cost: How much worse the best before the stop is than the best of all, 0 or more, in the metric's unit; None
            where one of them has no value.
        relative_cost: `cost` ÷ |best of all|; None where it cannot be told, as with a best of 0.
        note: What a reader has to know.
    """

    run: str
    algorithm: Algorithm
    status: str
    finding: Finding | None
    stopped_at: int | None
    last_step: int
    planned_steps: int | None
    unit: Unit
    spent: float
    saved: float
    share: float
    planned_share: float | None
    metric: str
    held_out: bool
    higher_is_better: bool | None
    best: CurvePoint | None
    best_before: CurvePoint | None
    cost: float | None
    relative_cost: float | None
    note: str


@dataclass(frozen=True, slots=True)
class TotalSavings:
    """Savings over several runs.

    Attributes:
        num_runs: Runs.
        num_stopped: Those that would have been stopped.
        mean_share: Mean of the shares saved, each run counting alike; None without runs.
        seconds_spent: Wall seconds of the runs whose time is known.
        seconds_saved: How many of them would have been saved.
        num_timed: Runs whose time is known.
        num_costly: Stopped runs whose best came after the stop.
        num_without_cost: Stopped runs of which the cost cannot be told.
        worst_relative_cost: The largest relative cost; None if there is none to tell.
    """

    num_runs: int
    num_stopped: int
    mean_share: float | None
    seconds_spent: float
    seconds_saved: float
    num_timed: int
    num_costly: int
    num_without_cost: int
    worst_relative_cost: float | None


def savings_of(history: History, on: Severity = "stop") -> Savings:
    """What stopping at the first finding would have saved and cost.

    The stop is found as a live watch finds it: record by record, from what was logged until then alone. The detectors
    are today's, so that all runs are judged alike; what those of its time said while it ran is not looked at.

    Args:
        history: The run.
        on: Severity from which a finding stops it.
    """
    records = list(records_of(history.columns))
    algorithm, finding, stopped_at = _first_stop(history, records, on)
    last_step = records[-1][0] if records else 0
    unit, spent, saved = _compute(history, records, stopped_at)
    planned = history.facts.planned_steps
    if planned is not None and planned < last_step:
        planned = None
    planned_share = None if planned is None else 0.0 if stopped_at is None else (planned - stopped_at) / planned
    curve = history.curve
    best = curve.best() if curve is not None else None
    before = curve.best(stopped_at) if curve is not None else None
    cost = 0.0 if stopped_at is None else abs(best.value - before.value) if best and before else None
    return Savings(
        run=history.name,
        algorithm=algorithm,
        status=history.status,
        finding=finding,
        stopped_at=stopped_at,
        last_step=last_step,
        planned_steps=planned,
        unit=unit,
        spent=spent,
        saved=saved,
        share=saved / spent if spent else 0.0,
        planned_share=planned_share,
        metric=curve.metric if curve is not None else "",
        held_out=curve is not None and curve.held_out,
        higher_is_better=curve.higher_is_better if curve is not None else None,
        best=best,
        best_before=before,
        cost=cost,
        relative_cost=_relative(cost, best),
        note=_note(history, stopped_at, planned, best, before),
    )


def total_of(rows: Sequence[Savings]) -> TotalSavings:
    """The sum of several runs' savings."""
    stopped = [row for row in rows if row.stopped_at is not None]
    timed = [row for row in rows if row.unit == "seconds"]
    return TotalSavings(
        num_runs=len(rows),
        num_stopped=len(stopped),
        mean_share=math.fsum(row.share for row in rows) / len(rows) if rows else None,
        seconds_spent=math.fsum(row.spent for row in timed),
        seconds_saved=math.fsum(row.saved for row in timed),
        num_timed=len(timed),
        num_costly=sum(bool(row.cost) for row in stopped),
        num_without_cost=sum(row.cost is None for row in stopped),
        worst_relative_cost=max((row.relative_cost for row in rows if row.relative_cost is not None), default=None),
    )


def _first_stop(history: History, records: Records, on: Severity) -> tuple[Algorithm, Finding | None, int | None]:
    """What is trained how, the finding that stops the run, and the step at which it does."""
    algorithm, known_at = _opening(history, records)
    watch = Watch(replace(history.facts, algorithm=algorithm))
    for step, values in records if known_at is not None else ():
        for finding in watch.record(step, values):
            if SEVERITIES.index(finding.severity) >= SEVERITIES.index(on):
                return algorithm, finding, max(step, known_at or 0)
    return algorithm, None, None


def _opening(history: History, records: Records) -> tuple[Algorithm, int | None]:
    """What is trained how, and the step at which that shows: nobody stops a run before; None = it never does.

    It shows at the first record with a loss or a reward, and at the 16th at the latest.
    """
    names: dict[str, str] = {}
    first: dict[str, float] = {}
    for step, values in records[:OPENING]:
        first = {**values, **first}
        names |= {name: history.facts.names.get(name, name) for name in values}
        if names.keys() & {"loss", "reward"}:
            return history.named or guess_algorithm(names, first, history.formats), step
    known_at = records[OPENING - 1][0] if len(records) >= OPENING else None
    return history.named or guess_algorithm(names, first, history.formats), known_at


def _compute(history: History, records: Records, stopped_at: int | None) -> tuple[Unit, float, float]:
    """Unit of compute, how much was run, and how much of it after the stop."""
    if history.clock is not None:
        spent = history.clock.seconds()
        return "seconds", spent, spent - history.clock.seconds(stopped_at)
    if not records:
        return "steps", 0.0, 0.0
    steps = [step for step, _ in records]
    between = statistics.median(b - a for a, b in pairwise(steps)) if len(steps) > 1 else steps[0]
    began = max(0.0, steps[0] - between)  # a log may begin anywhere: what came before is not in it
    return "steps", steps[-1] - began, 0.0 if stopped_at is None else float(steps[-1] - stopped_at)


def _relative(cost: float | None, best: CurvePoint | None) -> float | None:
    if cost is None or cost == 0:
        return cost
    return cost / abs(best.value) if best is not None and best.value else None


def _note(
    history: History, stopped_at: int | None, planned: int | None, best: CurvePoint | None, before: CurvePoint | None
) -> str:
    curve, notes = history.curve, []
    if not any(len(steps) for steps, _ in history.columns.values()):
        notes.append("nothing was logged that a detector reads")
    if history.facts.planned_steps != planned:
        notes.append(f"ran beyond the {history.facts.planned_steps} steps that were planned")
    if history.status == "running":
        notes.append("still running: so far")
    if stopped_at is not None and best is None:
        notes.append("cost not known: it has no metric with a direction and a value")
    elif stopped_at is not None and before is None and curve is not None:
        notes.append(f"cost not known: no value of {curve.metric} before the stop")
    return "; ".join(notes)

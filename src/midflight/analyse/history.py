"""What happened in a run, wherever it was written down: in a store, or in the log of another tool."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from midflight.analyse.diagnose import Columns
from midflight.analyse.learning_curve import LearningCurve, evaluated, measured, smoothed
from midflight.analyse.parameters import flat
from midflight.store import Points, RunInfo, Store
from midflight.store.base import Floats, Ints

if TYPE_CHECKING:
    from midflight.analyse.importers.base import ImportedRun

_PLANNED = frozenset(
    ("max_steps", "total_steps", "num_steps", "train_steps", "num_train_steps", "total_training_steps", "max_iters")
)
_LENGTHS = frozenset(("max_completion_length", "max_new_tokens", "max_response_length"))
"""Names under which configurations keep them."""


@dataclass(frozen=True, slots=True)
class Clock:
    """When the records of a run were written.

    Attributes:
        began: When the run began, in seconds since the epoch.
        steps: Steps (N ≥ 1), increasing.
        walls: Seconds since the epoch (N), never falling.
    """

    began: float
    steps: Ints
    walls: Floats

    def seconds(self, step: int | None = None) -> float:
        """Seconds from the beginning to the last record, at or before a step."""
        count = len(self.steps) if step is None else int(np.searchsorted(self.steps, step, side="right"))
        return float(self.walls[count - 1]) - self.began if count else 0.0


@dataclass(frozen=True)
class History:
    """A run in hindsight.

    Attributes:
        name: Its name.
        columns: Its series, by canonical name.
        logged_as: Canonical name to the name that was logged.
        curve: What it is judged by; None if it has nothing of the kind.
        clock: When it was written; None if that is not known, or does not tell how long training took.
        planned_steps: Steps that were planned; None = not known.
        length_limit: Tokens that a completion may have; None = not known.
        status: What the store says of it; empty for a log.
    """

    name: str
    columns: Columns
    logged_as: Mapping[str, str] = field(default_factory=dict)
    curve: LearningCurve | None = None
    clock: Clock | None = None
    planned_steps: int | None = None
    length_limit: int | None = None
    status: str = ""


def histories(wanted: Sequence[str], store: str | None = None) -> list[History]:
    """What a person names: files and folders of logs, else runs of the store, which is opened only if there are any.

    Args:
        wanted: Paths, or numbers, names or project/names of runs.
        store: URL of the store; None = the default one.

    Raises:
        ConfigError: If there is no such run, or a file cannot be read.
        StoreError: If a run is named and there is no store.
    """
    from midflight.analyse.evidence import find_run
    from midflight.store import open_store

    opened = None
    found: list[History] = []
    for one in wanted:
        if Path(one).exists():
            from midflight.analyse.importers import read_any

            found += map(history_of_log, read_any(Path(one)))
        else:
            opened = opened or open_store(store, create=False)
            found.append(history_of_run(opened, find_run(opened, one)))
    return found


def history_of_run(store: Store, run: RunInfo) -> History:
    """A run of a store. Evaluations count at the step whose weights they measured, however late they came."""
    from midflight.analyse.names import canonical_names

    logged_as = _originals(canonical_names(store.keys(run.id)))
    points = {name: store.read_points(run.id, key) for name, key in logged_as.items()}
    columns: dict[str, tuple[Sequence[int], Sequence[float]]] = {
        name: (one.steps.tolist(), one.values.tolist()) for name, one in points.items()
    }
    reports = store.reports(run.id)
    held_out = []
    for task in sorted({report.task for report in reports}):
        first = next(report for report in reversed(reports) if report.task == task).judging[0]
        curve = evaluated(reports, task, first.metric)
        if curve is None:
            continue
        held_out.append(curve)
        if curve.higher_is_better:
            columns[f"heldout/{curve.metric}"] = curve.steps.tolist(), curve.values.tolist()
    config = flat(run.config)
    return History(
        run.name,
        columns,
        logged_as,
        _most_measured(held_out) or curve_of(columns),
        _clock(run, list(points.values())),
        _number_among(config, _PLANNED),
        _number_among(config, _LENGTHS),
        run.status,
    )


def history_of_log(run: ImportedRun) -> History:
    """A run as the log of another tool tells it."""
    logged_as = _originals(run.canonical)
    columns: dict[str, tuple[Sequence[int], Sequence[float]]] = {}
    clock = None
    for name, original in logged_as.items():
        series = run.series[original]
        columns[name] = series.steps.tolist(), series.values.tolist()
        longest = 0 if clock is None else len(clock.steps)
        if series.walls is not None and original not in run.eval_keys and len(series) > longest:
            rising = bool((np.diff(series.walls) >= 0).all()) and not run.num_superseded
            clock = Clock(float(series.walls[0]), series.steps, series.walls) if rising else None
    config = flat(run.config)
    return History(
        run.name,
        columns,
        logged_as,
        curve_of(columns),
        clock,
        run.planned_steps,
        _number_among(config, _LENGTHS),
    )


def _originals(canonical: Mapping[str, str]) -> dict[str, str]:
    """The name that was logged for each canonical one; where there are several, that which its vocabulary prefers."""
    from midflight.analyse.names import first_of

    names = sorted(set(canonical.values()))
    return {name: original for name in names if (original := first_of(name, canonical)) is not None}


def curve_of(columns: Columns) -> LearningCurve | None:
    """What logged series judge a run by: held-out loss or score, else training reward or loss, in this order.

    Args:
        columns: Steps and values, by canonical name.
    """
    held_out = [measured("eval_loss", False, *columns["eval_loss"])] if "eval_loss" in columns else []
    held_out = held_out or [measured(name, True, *columns[name]) for name in sorted(columns) if _is_score(name)]
    found = _most_measured(held_out)
    if found is not None:
        return found
    for name, higher_is_better in (("reward", True), ("loss", False)):
        if name in columns:
            steps, values = columns[name]
            curve = smoothed(name, higher_is_better, np.asarray(steps, np.int64), np.asarray(values, np.float64))
            if len(curve):
                return curve
    return None


def _is_score(name: str) -> bool:
    return name.startswith("heldout/")


def _most_measured(curves: Sequence[LearningCurve]) -> LearningCurve | None:
    """The curve with most points, the first of equals; None if none has any."""
    found = max(curves, key=len, default=None)
    return found if found is not None and len(found) else None


def _clock(run: RunInfo, series: Sequence[Points]) -> Clock | None:
    """When each step was first written; None for a run that was resumed: what lies between attempts is no training."""
    if run.attempts > 1 or not any(len(points.steps) for points in series):
        return None
    first: dict[int, float] = {}
    for points in series:
        for step, wall in zip(points.steps.tolist(), points.walls.tolist(), strict=True):
            first[step] = min(wall, first.get(step, math.inf))
    steps = np.array(sorted(first), np.int64)
    walls = np.array([first[step] for step in steps.tolist()])
    if not np.isfinite(walls).all() or (np.diff(walls) < 0).any():
        return None
    return Clock(min(run.created, float(walls[0])), steps, walls)


def _number_among(config: Mapping[str, Any], names: frozenset[str]) -> int | None:
    """The whole number above 0 that a configuration has under one of these names; None if there is not exactly one."""
    found = {
        value
        for key, value in config.items()
        if key.rpartition(".")[2] in names and isinstance(value, int) and not isinstance(value, bool) and value > 0
    }
    return found.pop() if len(found) == 1 else None

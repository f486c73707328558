"""What happened in a run, wherever it was written down: in a store, or in the log of another tool."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from midflight.analyse.algorithm import named_algorithm
from midflight.analyse.curves import curves_of
from midflight.analyse.detectors.base import Algorithm, Facts
from midflight.analyse.diagnose import Columns, columns_of, columns_of_log, facts_of_log, facts_of_run
from midflight.analyse.evidence import find_run, is_there
from midflight.analyse.importers import ImportedRun, import_details, read_any
from midflight.analyse.learning_curve import JUDGES, LearningCurve, evaluated, logged
from midflight.store import RunInfo, Store, open_store
from midflight.store.base import Floats, Ints


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
        facts: What is known of it beside them.
        formats: Importers that read the log.
        named: What its configuration says is trained how; None if it does not.
        curve: What it is judged by; None if it has nothing of the kind.
        clock: When it was written; None if that is not known, or does not tell how long training took.
        status: What the store says of it; empty for a log.
    """

    name: str
    columns: Columns
    facts: Facts
    formats: Sequence[str] = ()
    named: Algorithm | None = None
    curve: LearningCurve | None = None
    clock: Clock | None = None
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
    opened = None
    found: list[History] = []
    for one in dict.fromkeys(wanted):
        if is_there(one):
            found += map(history_of_log, read_any(one))
        else:
            opened = opened or open_store(store, create=False)
            found.append(history_of_run(opened, find_run(opened, one)))
    return found


def history_of_run(store: Store, run: RunInfo) -> History:
    """A run of a store. Evaluations count at the step whose weights they measured, however late they came."""
    columns, names = columns_of(store, run.id)
    held_out = [curve for one in curves_of(store, [run]) if (curve := evaluated(one)) is not None]
    return History(
        name=run.name,
        columns=columns,
        facts=facts_of_run(run, names, columns),
        formats=import_details(run).get("formats", ()),
        named=named_algorithm(run.config),
        curve=_most_measured(held_out) or curve_of(columns),
        clock=_clock_of_run(store, run, list(names.values())),
        status=run.status,
    )


def history_of_log(log: ImportedRun) -> History:
    """A run as the log of another tool tells it."""
    columns = columns_of_log(log)
    return History(
        name=log.name,
        columns=columns,
        facts=facts_of_log(log, columns),
        formats=log.formats,
        named=named_algorithm(log.config),
        curve=curve_of(columns),
        clock=_clock_of_log(log),
    )


def curve_of(columns: Columns) -> LearningCurve | None:
    """What logged series judge a run by: held-out loss, else held-out score, else training reward, else training loss.

    Args:
        columns: Steps and values, by canonical name.
    """
    for name, higher_is_better in JUDGES.items():
        if name in columns:
            steps, values = columns[name]
            curve = logged(name, higher_is_better, np.asarray(steps, np.int64), np.asarray(values, np.float64))
            if len(curve):
                return curve
    return None


def _most_measured(curves: Sequence[LearningCurve]) -> LearningCurve | None:
    """The curve with most points, the first of equals; None if none has any."""
    found = max(curves, key=len, default=None)
    return found if found is not None and len(found) else None


def _clock_of_run(store: Store, run: RunInfo, keys: Sequence[str]) -> Clock | None:
    """When each step was first written; None for a run that was resumed: what lies between attempts is no training."""
    first: dict[int, float] = {}
    for key in keys if run.attempts == 1 else ():
        points = store.read_points(run.id, key)
        for step, wall in zip(points.steps.tolist(), points.walls.tolist(), strict=True):
            first[step] = min(wall, first.get(step, math.inf))
    return _clock(first, run.created)


def _clock_of_log(log: ImportedRun) -> Clock | None:
    """By the series of training with most values whose times are known; None if parts of it were trained twice."""
    timed = [log.series[key] for key in sorted(log.trained) if log.series[key].walls is not None]
    longest = max(timed, key=len, default=None)
    if longest is None or longest.walls is None or log.num_superseded:
        return None
    return _clock(dict(zip(longest.steps.tolist(), longest.walls.tolist(), strict=True)), math.inf)


def _clock(walls: Mapping[int, float], began: float) -> Clock | None:
    """A clock, unless the times do not rise with the steps: then they tell of something else than training."""
    steps = sorted(walls)
    times = np.array([walls[step] for step in steps])
    if not steps or not np.isfinite(times).all() or (np.diff(times) < 0).any():
        return None
    began = min(began, float(times[0]))
    return Clock(began, np.array(steps, np.int64), times) if times[-1] > began else None

"""The same training on more workers: speed-up, efficiency, and what Amdahl's law says of it.

A run's clock starts at its first logged step: loading does not count. Evaluations between steps do, as they are part of
what a job takes. The work is the same for all runs: the steps that all of them have logged, or the goal that is named.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from midflight.analyse.curves import curves_of, run_names
from midflight.catalog import unknown
from midflight.errors import ConfigError
from midflight.estimate.amdahl import Amdahl, fit_amdahl
from midflight.store import Points, RunInfo, Store


@dataclass(frozen=True, slots=True)
class Timing:
    """How long one run took for the work.

    Attributes:
        run: Its name.
        count: Its workers.
        seconds: Wall time of the work; None if it has not come so far.
        rate: Work a second: steps, or what the goal counts; None where the goal is a level and no amount.
        speedup: Mean time of the runs with the fewest workers ÷ its time.
        efficiency: Speed-up ÷ how many times as many workers it has.
        note: Why there is no time, or what is in it.
    """

    run: str
    count: int
    seconds: float | None
    rate: float | None
    speedup: float | None = None
    efficiency: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Scaling:
    """Runs that differ in their number of workers.

    Attributes:
        work: The work that was timed, in words.
        unit: What is counted as workers: `ranks`, or the name of a config key.
        timings: The runs, by workers and name.
        law: Amdahl's law; None with fewer than two different counts.
    """

    work: str
    unit: str
    timings: tuple[Timing, ...]
    law: Amdahl | None


@dataclass(frozen=True, slots=True)
class _Clocked:
    """What is known of a run's progress: its points in time."""

    info: RunInfo
    name: str
    points: Points


def scaling_of(
    store: Store,
    runs: Sequence[RunInfo],
    *,
    counts: Mapping[str, int] = {},
    by: str = "",
    goal: str = "",
    level: float = 0.95,
) -> Scaling:
    """Times runs and fits Amdahl's law to them.

    Args:
        store: Where the runs are.
        runs: The runs.
        counts: Workers of runs by name, before anything else.
        by: Config key that says how many workers a run has; empty = the number of ranks that it recorded.
        goal: ``step=1000``, ``SERIES=value`` or ``task/metric=value``; empty = the steps that all runs have logged.
        level: Confidence level.

    Raises:
        ConfigError: If a run has no steps or no number of workers, or the goal is not understood.
    """
    names = run_names(runs)
    _check_names(counts, names)
    clocked = [_Clocked(run, names[run.id], _clock(store, run)) for run in {run.id: run for run in runs}.values()]
    workers = {one.name: _workers(one, counts, by) for one in clocked}
    work, measure = _measure(store, clocked, goal)
    timings = []
    for one in sorted(clocked, key=lambda one: (workers[one.name], one.name)):
        seconds, rate, note = measure(one)
        if one.info.attempts > 1:
            note = "; ".join(filter(None, (note, f"{one.info.attempts} attempts, the time between them is in it")))
        timings.append(Timing(one.name, workers[one.name], seconds, rate, note=note))
    known = [(timing.count, timing.seconds) for timing in timings if timing.seconds is not None]
    law = fit_amdahl([count for count, _ in known], [seconds for _, seconds in known], level)
    return Scaling(work, by or ("workers" if counts else "ranks"), _relative(timings), law)


def _relative(timings: Sequence[Timing]) -> tuple[Timing, ...]:
    """The timings with their speed-up over the smallest runs."""
    known = [timing for timing in timings if timing.seconds is not None]
    fewest = min((timing.count for timing in known), default=0)
    base = [timing.seconds for timing in known if timing.count == fewest and timing.seconds is not None]
    found = []
    for timing in timings:
        if timing.seconds is None:
            found.append(timing)
            continue
        speedup = math.fsum(base) / len(base) / timing.seconds
        efficiency = speedup * fewest / timing.count
        found.append(Timing(timing.run, timing.count, timing.seconds, timing.rate, speedup, efficiency, timing.note))
    return tuple(found)


# -- workers ---------------------------------------------------------------------------------------------------------


def _check_names(counts: Mapping[str, int], names: Mapping[int, str]) -> None:
    for name in counts:
        if name not in names.values():
            raise unknown("runs that are compared", name, sorted(names.values()))


def _workers(one: _Clocked, counts: Mapping[str, int], by: str) -> int:
    source = f"config key {by!r}" if by else "recorded world_size"
    found = counts.get(one.name, one.info.config.get(by) if by else one.info.environment.get("world_size"))
    if isinstance(found, bool) or not isinstance(found, int) or found < 1:
        raise ConfigError(
            f"workers of run {one.name!r}: {source}",
            got=found,
            allowed="a whole number from 1",
            hint="name the config key that holds it, or say the number itself",
        )
    return found


# -- time ------------------------------------------------------------------------------------------------------------


def _clock(store: Store, run: RunInfo) -> Points:
    """The training series with the most points: when which step was reached."""
    heads = store.heads(run.id)
    longest = max(heads, key=lambda head: (head.num_points, head.key), default=None)
    points = None if longest is None else store.read_points(run.id, longest.key)
    if points is None or not len(points.steps):
        raise ConfigError(f"run {run.name!r} has logged no training series", hint="its steps are what is timed")
    return points


_Measure = Callable[[_Clocked], tuple[float | None, float | None, str]]
"""Seconds, work a second, and why there is none."""


def _measure(store: Store, runs: Sequence[_Clocked], goal: str) -> tuple[str, _Measure]:
    """The work in words, and how a run is timed for it."""
    if not goal:
        last = min(int(one.points.steps[-1]) for one in runs)
        return _of_steps(runs, last)
    key, _, text = goal.rpartition("=")
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not key or not math.isfinite(value):
        raise ConfigError("goal", got=goal, allowed="step=1000, SERIES=value, or task/metric=value")
    if key == "step":
        return _of_steps(runs, int(value))
    if any(key in store.keys(one.info.id) for one in runs):
        return f"until {key} reaches {value:zg}", _of_series(store, runs, key, value)
    return f"until {key} reaches {value:zg}", _of_metric(store, runs, key, value)


def _of_steps(runs: Sequence[_Clocked], last: int) -> tuple[str, _Measure]:
    """Steps from the first that all runs have logged to `last`; at the pace between the points within."""
    first = max(int(one.points.steps[0]) for one in runs)
    if last <= first:
        raise ConfigError(
            "no steps that all runs have logged", got=f"step {first} to {last}", hint="leave runs out, or name a goal"
        )

    def measure(one: _Clocked) -> tuple[float | None, float | None, str]:
        steps, walls = one.points.steps, one.points.walls
        if steps[-1] < last:
            return None, None, f"has only come to step {steps[-1]}"
        low, high = int(steps.searchsorted(first)), int(steps.searchsorted(last, side="right")) - 1
        seconds = float(walls[high] - walls[low]) if high > low else 0.0
        if seconds <= 0:
            return None, None, "too few points to time"
        pace = seconds / float(steps[high] - steps[low])
        return pace * (last - first), 1 / pace, ""

    return f"for steps {first} to {last}", measure


def _of_series(store: Store, runs: Sequence[_Clocked], key: str, value: float) -> _Measure:
    """Until a training series passes a value: the way that the runs go which end beyond it, else from where it starts.

    The way is told by all runs: one that begins beyond the value has come to it before it was timed.
    """
    series = {one.info.id: _finite(store.read_points(one.info.id, key)) for one in runs}
    logged = [points.values for points in series.values() if len(points.values)]
    ways = {bool(v[0] < value) for v in logged if (v[0] < value) != (v[-1] < value)}

    def measure(one: _Clocked) -> tuple[float | None, float | None, str]:
        points = series[one.info.id]
        if not len(points.values):
            return None, None, f"has not logged {key}"
        first, last = float(points.values[0]), float(points.values[-1])
        rises = next(iter(ways)) if len(ways) == 1 else first < value
        reached = points.values >= value if rises else points.values <= value
        if not reached.any():
            away = last < first if rises else last > first
            return None, None, "has not reached it" + (f": moves away, from {first:zg} to {last:zg}" if away else "")
        at = int(reached.argmax())
        if at == 0:
            return None, None, f"was there at its first point: {first:zg} at step {points.steps[0]}"
        seconds = float(points.walls[at] - one.points.walls[0])
        if seconds <= 0:
            return None, None, "was there before its first step"
        return seconds, float(points.values[at] - first) / seconds if rises else None, ""

    return measure


def _finite(points: Points) -> Points:
    kept = np.isfinite(points.values)
    return Points(points.steps[kept], points.walls[kept], points.values[kept])


def _of_metric(store: Store, runs: Sequence[_Clocked], key: str, value: float) -> _Measure:
    """Until an evaluation finds a metric at a value or better; at its first evaluation nobody knows when it came."""
    task, _, metric = key.rpartition("/")
    curves = curves_of(store, [one.info for one in runs], task or None, metric)

    def measure(one: _Clocked) -> tuple[float | None, float | None, str]:
        own = [curve for curve in curves if curve.run == one.name and curve.reports]
        if len(own) != 1:
            return None, None, f"{len(own)} curves of {key}" if own else f"was not evaluated by {key}"
        values, reports = own[0].values, own[0].reports
        sign = -1.0 if own[0].estimates[-1].higher_is_better is False else 1.0
        at = next((at for at, found in enumerate(values) if sign * found >= sign * value), None)
        if at is None:
            return None, None, "has not reached it"
        if at == 0:
            return None, None, f"was there at its first evaluation: {values[0]:zg} at step {reports[0].progress.step}"
        seconds = reports[at].started_at - float(one.points.walls[0])
        return (seconds, None, "") if seconds > 0 else (None, None, "was there before its first step")

    return measure

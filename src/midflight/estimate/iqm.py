"""One number over runs and tasks that an outlier does not move: Agarwal et al. 2021 (arXiv:2108.13264), rliable."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from midflight.errors import MetricError
from midflight.estimate.intervals import Interval

Scores: TypeAlias = npt.NDArray[np.float64]
"""A score for each run and task: (runs, tasks)."""

REPLICATES = 2000


def interquartile_mean(scores: Sequence[Sequence[float]], *, level: float = 0.95, seed: int = 0) -> Interval:
    """Mean of the middle half of all scores, whatever run and task they are of.

    A quarter of the runs × tasks scores, rounded down, is cut off at either end, as rliable does. Runs are resampled
    within each task (stratified bootstrap); the interval is the percentile one.

    Args:
        scores: A row a run, a column a task; tasks have to be on one scale.
        level: Confidence level.
        seed: Seed of the resampling, from 0.

    Raises:
        MetricError: If a score is missing or not finite.

    >>> interquartile_mean([[0.1, 0.2], [0.3, 9.0]]).value
    0.25
    """
    table = _checked(scores)
    value = float(_middle_mean(table[None])[0])
    if len(table) < 2:
        return Interval(value, None, None, None, len(table), "interquartile mean, one run")
    return _bootstrapped(
        value, "interquartile mean", len(table), lambda r: _middle_mean(_resampled(r, table)), level, seed
    )


def probability_of_improvement(
    first: Sequence[Sequence[float]], second: Sequence[Sequence[float]], *, level: float = 0.95, seed: int = 0
) -> Interval:
    """How likely a run of the second group is better on a task than one of the first, averaged over the tasks.

    On each task the share of pairs of runs in which the second is better, ties half (Mann–Whitney's U ÷ pairs).

    Args:
        first: A row a run, a column a task; larger is better.
        second: The same tasks; the number of runs may differ.
        level: Confidence level.
        seed: Seed of the resampling, from 0.

    Raises:
        MetricError: If a score is missing or not finite, or the tasks are not equally many.
    """
    a, b = _checked(first), _checked(second)
    if a.shape[1] != b.shape[1]:
        raise MetricError("tasks of two groups", got=(a.shape[1], b.shape[1]), allowed="the same tasks")
    value = float(_better(a[None], b[None])[0])
    runs = min(len(a), len(b))
    if runs < 2:
        return Interval(value, None, None, None, runs, "probability of improvement, one run")
    return _bootstrapped(
        value,
        "probability of improvement",
        runs,
        lambda random: _better(_resampled(random, a), _resampled(random, b)),
        level,
        seed,
    )


def _checked(scores: Sequence[Sequence[float]]) -> Scores:
    lengths = {len(row) for row in scores}
    if len(lengths) != 1 or lengths == {0}:
        raise MetricError("scores of runs and tasks", got=sorted(lengths), allowed="each run has a score on each task")
    table = np.asarray(scores, dtype=np.float64)
    if not np.isfinite(table).all():
        raise MetricError("scores of runs and tasks: one is not finite")
    return np.sort(table, axis=0)  # within a task the runs have no order: the result must not depend on it


def _middle_mean(tables: Scores) -> Scores:
    """Mean of the middle half of each (runs, tasks) table."""
    flat = np.sort(tables.reshape(len(tables), -1), axis=1)
    cut = flat.shape[1] // 4
    middle = flat[:, cut : flat.shape[1] - cut]
    return np.array([math.fsum(row) / len(row) for row in middle])


def _better(first: Scores, second: Scores) -> Scores:
    """Share of pairs in which the second is larger, for each pair of tables."""
    difference = second[:, :, None, :] - first[:, None, :, :]
    found: Scores = ((difference > 0) + 0.5 * (difference == 0)).mean(axis=(1, 2, 3))
    return found


def _resampled(random: np.random.Generator, table: Scores) -> Scores:
    """Tables of runs drawn with replacement, each task for itself: (replicates, runs, tasks)."""
    rows = random.integers(0, len(table), (REPLICATES, *table.shape))
    found: Scores = table[rows, np.arange(table.shape[1])]
    return found


def _bootstrapped(
    value: float, name: str, runs: int, draw: Callable[[np.random.Generator], Scores], level: float, seed: int
) -> Interval:
    found = draw(np.random.default_rng(seed))
    method = f"{name}, stratified bootstrap, {REPLICATES}, seed {seed}"
    if found.min() == found.max():
        return Interval(value, None, None, None, runs, f"{method}, no variation")
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, float(np.std(found, ddof=1)), float(low), float(high), runs, method)

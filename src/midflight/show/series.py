"""A training series as it is drawn: its points themselves, or buckets where there are more than a picture has room for.

The buckets are ranges of steps of equal width, fixed by the first and the last step alone: the same data give the same
picture, however it was flushed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from midflight.store import Points, Store
from midflight.store.base import Floats, Ints

MAX_POINTS = 2000
"""Points that are drawn as they are."""
BUCKETS = 800
"""Buckets of a longer series: more than a panel has columns of pixels."""


@dataclass(frozen=True, slots=True)
class Overview:
    """A long series in few buckets; a spike of one step is still in its bucket's minimum or maximum.

    Attributes:
        steps: First step of each bucket (B).
        low: Smallest finite value (B); NaN if the bucket has none.
        high: Largest finite value (B).
        mean: Mean of the finite values (B).
        num_points: Points in the series.
        num_non_finite: How many of them are NaN or infinite.
    """

    steps: Ints
    low: Floats
    high: Floats
    mean: Floats
    num_points: int
    num_non_finite: int


def read_series(store: Store, run: int, key: str) -> Overview:
    """A series to be drawn: a bucket for each point, or `BUCKETS` ranges of steps."""
    points = store.read_points(run, key)
    n = len(points.steps)
    return _bucketed(points, np.arange(n) if n <= MAX_POINTS else _starts(points))


def _starts(points: Points) -> Ints:
    """Index of the first point of each range of steps that holds one."""
    edges = np.linspace(points.steps[0], points.steps[-1], BUCKETS, endpoint=False)
    return np.unique(np.searchsorted(points.steps, edges))


def _bucketed(points: Points, starts: Ints) -> Overview:
    n = len(points.steps)
    if not n:
        return Overview(points.steps, points.values, points.values, points.values, 0, 0)
    is_finite = np.isfinite(points.values)
    known = np.where(is_finite, points.values, np.nan)
    count = np.add.reduceat(is_finite.astype(np.int64), starts)
    with np.errstate(invalid="ignore", divide="ignore"):  # a bucket without a finite value has no mean
        mean = np.add.reduceat(np.where(is_finite, points.values, 0.0), starts) / count
    low, high = np.fmin.reduceat(known, starts), np.fmax.reduceat(known, starts)
    steps = points.steps[starts]
    steps[-1] = points.steps[-1]  # the curve ends where the series does
    return Overview(steps, low, high, mean, n, n - int(is_finite.sum()))

"""The best checkpoint, without the luck of having been picked: the largest of many values is too large.

The bias of the maximum is found by a bootstrap (Efron & Tibshirani 1993, section 17.6, the optimism of a rule that was
chosen on the data that judge it): items, or their clusters, are resampled, the best checkpoint is picked in each
resample, and its value there is compared with its value in the world that was resampled. Checkpoints share their items,
so a resample moves them together, as it should.

The world that is resampled is not the measured curve, which scatters more than the true one, so that its best stands
out more: with ten checkpoints alike the plain bootstrap finds 70 % of the bias. The values are first shrunk towards a
local line, by the share of their scatter around it that item noise explains (empirical Bayes: Morris 1983, Journal of
the American Statistical Association 78:47; Efron 2011 on selection bias, same journal 106:1602).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from midflight.analyse.curves import Curve
from midflight.analyse.paired import ItemScores
from midflight.store.base import Floats

RESAMPLES = 1024
_CHUNK = 64
"""Resamples at a time, so that memory stays small."""
NEAREST = 7
"""Checkpoints that a local line goes through."""


@dataclass(frozen=True, slots=True)
class Best:
    """The checkpoint with the best measured value.

    Attributes:
        step: Its step.
        measured: Its value as measured: the best of `n`, so too good on average.
        value: The value without that; None if there are no item scores to tell how large it is.
        optimism: Mean of what picking adds, in the better direction.
        ci_low: Lower end of the checkpoint's own interval, moved by the optimism; None where there is none.
        ci_high: Upper end.
        level: Confidence level.
        share: Share of resamples in which this checkpoint is the best.
        n: Checkpoints that it was picked from.
        num_items: Items that are paired over all of them; None without item scores.
        method: How it was corrected, or why not.
    """

    step: int
    measured: float
    value: float | None
    optimism: float | None
    ci_low: float | None
    ci_high: float | None
    level: float
    share: float | None
    n: int
    num_items: int | None
    method: str


def best_of(curve: Curve, scores: ItemScores | None, *, seed: int = 0) -> Best | None:
    """The best checkpoint of a curve; None if it has no point or the metric no better direction.

    Of checkpoints that are equally good it is the first.

    Args:
        curve: The curve.
        scores: Its item scores.
        seed: Seed of the resampling, from 0.
    """
    if not curve.reports or curve.estimates[-1].higher_is_better is None:
        return None
    sign = 1.0 if curve.estimates[-1].higher_is_better else -1.0
    means = curve.values if scores is None else scores.means
    at = int(np.argmax(sign * np.array(means)))
    estimate, measured, n = curve.estimates[at], curve.values[at], len(curve.reports)
    if n < 2 or scores is None:
        method = "not corrected: there are no scores of items" if n > 1 else "the only checkpoint"
        value = measured if n < 2 else None
        ends = (estimate.ci_low, estimate.ci_high) if n < 2 else (None, None)
        return Best(curve.steps[at], measured, value, None, *ends, estimate.level, None, n, None, method)
    optimism, share = _optimism(curve.steps, scores, sign, at, seed)
    return Best(
        step=curve.steps[at],
        measured=measured,
        value=measured - sign * optimism,
        optimism=optimism,
        ci_low=None if estimate.ci_low is None else estimate.ci_low - sign * optimism,
        ci_high=None if estimate.ci_high is None else estimate.ci_high - sign * optimism,
        level=estimate.level,
        share=share,
        n=n,
        num_items=scores.num_items,
        method=f"shrunken bootstrap of items, {RESAMPLES}, seed {seed}",
    )


def _optimism(steps: list[int], scores: ItemScores, sign: float, at: int, seed: int) -> tuple[float, float]:
    """What picking the largest adds on average, and in how many resamples checkpoint `at` is the largest."""
    scale = sign * (float(np.abs(scores.values).max()) or 1.0)  # squares of huge values do not fit into a float
    sums, sizes = scores.cluster_sums(scores.values / scale)
    means = np.array(scores.means) / scale
    world = _shrunken(steps, means, _covariance(sums, sizes, means))
    random = np.random.default_rng(seed)
    count = len(sizes)
    gained, wins = [], 0
    for _ in range(RESAMPLES // _CHUNK):
        rows = random.integers(0, count, (_CHUNK, count)) + count * np.arange(_CHUNK)[:, None]
        times = np.bincount(rows.ravel(), minlength=_CHUNK * count).reshape(_CHUNK, count).astype(np.float64)
        drawn = (times @ sums.T) / (times @ sizes)[:, None]
        wins += int((drawn.argmax(axis=1) == at).sum())
        moved = drawn - means + world
        gained += (moved.max(axis=1) - world[moved.argmax(axis=1)]).tolist()
    return abs(scale) * math.fsum(gained) / len(gained), wins / len(gained)


def _covariance(sums: Floats, sizes: Floats, means: Floats) -> Floats:
    """Covariance of the checkpoints' means over items: C/(C−1) · Σ_c d_c·d_cᵀ ÷ n²."""
    left = sums - means[:, None] * sizes
    count = len(sizes)
    found: Floats = left @ left.T * (count / max(1, count - 1)) / sizes.sum() ** 2
    return found


def _shrunken(steps: list[int], means: Floats, covariance: Floats) -> Floats:
    """The means, drawn to a local line by the share of their scatter around it that item noise explains."""
    smooth = _local_lines(steps)
    rough = np.eye(len(steps)) - smooth
    left = rough @ means
    scatter = float(left @ left)
    expected = float(np.trace(rough @ covariance @ rough.T))
    kept = max(0.0, 1 - expected / scatter) if scatter > 0 else 0.0
    found: Floats = means - left * (1 - kept)
    return found


def _local_lines(steps: list[int]) -> Floats:
    """The matrix that puts each point on the line through its nearest ones; with three or less, on their mean."""
    n = len(steps)
    width = min(NEAREST, n)
    found = np.zeros((n, n))
    for at in range(n):
        first = min(max(0, at - width // 2), n - width)
        near = slice(first, first + width)
        x = np.array(steps[near], dtype=np.float64)
        offsets = x - x.mean()
        found[at, near] = 1 / width
        if width > 3:
            found[at, near] += (steps[at] - x.mean()) * offsets / (offsets @ offsets)
    return found

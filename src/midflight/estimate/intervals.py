"""Means and ratios with their standard errors and intervals, exact to the bit in any order of the items.

Sums are Shewchuk's exact ones (`math.fsum`), so the same scores give the same estimate however they were sharded,
batched or retried. Formulas and sources: Miller 2024 (arXiv:2411.00640) for clustered errors; Wilson 1927, and
Bowyer et al. 2025 (arXiv:2503.01747) for why not the normal approximation at small n.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from midflight.estimate.quantiles import normal_quantile, t_quantile


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with its error.

    Attributes:
        value: The estimate.
        stderr: Its standard error; None with fewer than two clusters.
        low: Lower end; None where it is not defined.
        high: Upper end.
        clusters: Independent groups.
        method: How error and interval were computed.
    """

    value: float
    stderr: float | None
    low: float | None
    high: float | None
    clusters: int
    method: str


def mean_interval(
    values: Sequence[float],
    clusters: Sequence[str] | None = None,
    *,
    level: float = 0.95,
    low: float | None = None,
    high: float | None = None,
) -> Interval:
    """The mean of scores.

    The standard error is √(C/(C−1) · Σ_c (Σ_{i∈c} (sᵢ − s̄))²) ÷ n, which for C = n is the usual s/√n. The interval is
    Wilson's for independent scores of 0 and 1, else Student's t with C − 1 degrees of freedom. For proportions in
    clusters, and for scores that are all alike, it is Wilson's with the effective number of items and the t quantile,
    since the error of a few equal scores is not 0.

    Args:
        values: One score an item, at least one.
        clusters: The cluster of each item; None = every item is its own.
        level: Confidence level.
        low: Smallest possible score; the interval does not leave it.
        high: Largest possible score.

    >>> mean_interval([1.0, 1.0, 0.0, 1.0], low=0.0, high=1.0).value
    0.75
    """
    n = len(values)
    mean = math.fsum(values) / n
    independent = clusters is None or len(set(clusters)) == n
    count = n if clusters is None else len(set(clusters))
    stderr = None
    if count > 1 and math.isfinite(mean):
        sums = _cluster_sums([value - mean for value in values], clusters)
        stderr = math.sqrt(count / (count - 1) * math.fsum(s * s for s in sums)) / n
    share = (low, high) == (0.0, 1.0)
    binary = share and all(value in (0.0, 1.0) for value in values)
    if binary and independent:
        ends = wilson(mean, n, normal_quantile((1 + level) / 2))
        return Interval(mean, stderr, *ends, count, "wilson")
    if stderr is None:
        return Interval(mean, None, None, None, count, "mean")
    t = t_quantile((1 + level) / 2, count - 1)
    kind = "t" if independent else "clustered t"
    if share and (stderr == 0 or binary):
        effective = mean * (1 - mean) / stderr**2 if stderr > 0 else count
        return Interval(mean, stderr, *wilson(mean, effective, t), count, f"wilson, effective n, {kind}")
    ends = (_clip(mean - t * stderr, low, high), _clip(mean + t * stderr, low, high))
    return Interval(mean, stderr, *ends, count, kind)


def wilson(p: float, n: float, z: float) -> tuple[float, float]:
    """Wilson's score interval of a proportion.

    Args:
        p: Observed proportion.
        n: Items.
        z: Quantile: 1.96 for 95 %.

    >>> tuple(round(end, 4) for end in wilson(0.9, 30, 1.959963984540054))
    (0.7438, 0.9654)
    """
    scale = 1 + z * z / n
    centre = (p + z * z / (2 * n)) / scale
    half = z / scale * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    # at p = 0 and 1 the ends are exactly these; rounding would put them beside
    return (0.0 if p == 0 else max(0.0, centre - half), 1.0 if p == 1 else min(1.0, centre + half))


def ratio_interval(
    tops: Sequence[float],
    bottoms: Sequence[float],
    clusters: Sequence[str] | None = None,
    *,
    level: float = 0.95,
    transform: Callable[[float], float] = float,
    slope: Callable[[float], float] = lambda _: 1.0,
) -> Interval | None:
    """A sum over a sum, such as perplexity; None if the denominator is 0.

    The error of r = Σx ÷ Σy is √(C/(C−1) · Σ_c (Σ_{i∈c} (xᵢ − r·yᵢ))²) ÷ Σy (linearisation; Cochran 1977, section 6).
    The interval is t's for r, transformed; the standard error is carried over by the delta method.

    Args:
        tops: Numerator of each item.
        bottoms: Denominator of each item.
        clusters: The cluster of each item; None = every item is its own.
        level: Confidence level.
        transform: The value from r; increasing.
        slope: Its derivative.
    """
    bottom = math.fsum(bottoms)
    if bottom == 0:
        return None
    ratio = math.fsum(tops) / bottom if all(map(math.isfinite, tops)) else sum(tops) / bottom
    count = len(tops) if clusters is None else len(set(clusters))
    value = transform(ratio)
    if count < 2 or not math.isfinite(value):
        return Interval(value, None, None, None, count, "ratio")
    sums = _cluster_sums([x - ratio * y for x, y in zip(tops, bottoms, strict=True)], clusters)
    stderr = math.sqrt(count / (count - 1) * math.fsum(s * s for s in sums)) / bottom
    t = t_quantile((1 + level) / 2, count - 1)
    method = "ratio, t" if count == len(tops) else "ratio, clustered t"
    ends = (transform(ratio - t * stderr), transform(ratio + t * stderr))
    return Interval(value, slope(ratio) * stderr, *ends, count, method)


def _cluster_sums(deviations: Sequence[float], clusters: Sequence[str] | None) -> list[float]:
    if clusters is None:
        return list(deviations)
    groups: dict[str, list[float]] = {}
    for deviation, cluster in zip(deviations, clusters, strict=True):
        groups.setdefault(cluster, []).append(deviation)
    return [math.fsum(group) for group in groups.values()]


def _clip(value: float, low: float | None, high: float | None) -> float:
    value = value if low is None else max(low, value)
    return value if high is None else min(high, value)

"""Means and ratios with their standard errors and intervals, exact to the bit in any order of the items.

Sums are Shewchuk's exact ones (`math.fsum`), so the same scores give the same estimate however they were sharded,
batched or retried. Formulas and sources: Miller 2024 (arXiv:2411.00640) for clustered errors; Wilson 1927, and
Bowyer et al. 2025 (arXiv:2503.01747) for why not the normal approximation at small n.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from midflight.errors import MetricError
from midflight.estimate.quantiles import normal_quantile, t_quantile

_ROUNDING = 1e-15
"""Relative error of a difference of means, or of products, of floats: what is below it is no variation."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with its error.

    Attributes:
        value: The estimate.
        stderr: Its standard error; None with fewer than two clusters, or where resampling shows none.
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
    Wilson's for independent scores that are each the smallest or the largest possible, else Student's t with C − 1
    degrees of freedom. For proportions in clusters it is Wilson's with the effective number of items, n at most, and
    the t quantile. Scores that are all alike, or whose deviations cancel in every cluster, have a standard error of 0
    that proves nothing. Where they have two bounds, their interval is Wilson's with as many items as clusters (with
    all items, where they cancel), since of all such scores those at the bounds vary most; else there is none.

    Args:
        values: One score an item, at least one.
        clusters: The cluster of each item; None = every item is its own.
        level: Confidence level.
        low: Smallest possible score; the interval does not leave it.
        high: Largest possible score.

    Raises:
        MetricError: If the scores have no mean: infinite ones of both signs.

    >>> mean_interval([1.0, 1.0, 0.0, 1.0], low=0.0, high=1.0).value
    0.75
    """
    n = len(values)
    count = n if clusters is None else len(set(clusters))
    independent = count == n
    alike = min(values) == max(values)  # exactly: the rounding of a mean must not look like variation
    mean = values[0] if alike else _sum(values) / n
    if math.isnan(mean):
        raise MetricError("infinite scores of both signs have no mean")
    stderr = None
    if count > 1 and math.isfinite(mean):
        stderr = _error([value - mean for value in values], clusters, count, values) / n
    if low is not None and high is not None:
        ends, method = _share(values, mean, stderr, count, level, low, high)
        if method:
            return Interval(mean, stderr, *ends, count, method)
    if stderr is None:
        return Interval(mean, None, None, None, count, "mean")
    kind = "t" if independent else "clustered t"
    if stderr == 0:
        return Interval(mean, stderr, None, None, count, f"{kind}, no variation")
    t = t_quantile((1 + level) / 2, count - 1)
    ends = (_clip(mean - t * stderr, low, high), _clip(mean + t * stderr, low, high))
    return Interval(mean, stderr, *ends, count, kind)


def _share(
    values: Sequence[float], mean: float, stderr: float | None, count: int, level: float, low: float, high: float
) -> tuple[tuple[float, float], str]:
    """Wilson's interval of scores between two bounds, and its method; empty where t's is the right one."""
    n, width = len(values), high - low
    p = (mean - low) / width
    binary = all(value in (low, high) for value in values)
    if binary and count == n:
        ends, method = wilson(p, n, normal_quantile((1 + level) / 2)), "wilson"
    elif stderr is not None and (stderr == 0 or binary):
        if stderr > 0:
            effective = min(float(n), p * (1 - p) * width**2 / stderr**2)
        else:
            effective = float(count if min(values) == max(values) else n)
        ends = wilson(p, effective, t_quantile((1 + level) / 2, count - 1))
        method = f"wilson, effective n, {'t' if count == n else 'clustered t'}"
    else:
        return (0.0, 0.0), ""
    return (low + width * ends[0], low + width * ends[1]), method


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
    low: float | None = None,
    high: float | None = None,
) -> Interval | None:
    """A sum over a sum, such as perplexity; None if the denominator is 0.

    The error of r = Σx ÷ Σy is √(C/(C−1) · Σ_c (Σ_{i∈c} (xᵢ − r·yᵢ))²) ÷ Σy (linearisation; Cochran 1977, section 6).
    The interval is t's for r, transformed and kept within the bounds; the standard error is carried over by the delta
    method. Items whose ratios are all alike give no interval: they do not prove that the error is 0.

    Args:
        tops: Numerator of each item.
        bottoms: Denominator of each item.
        clusters: The cluster of each item; None = every item is its own.
        level: Confidence level.
        transform: The value from r; increasing.
        slope: Its derivative.
        low: Smallest possible value.
        high: Largest possible value.

    Raises:
        MetricError: If the ratio is no number, as with infinite terms of both signs.
    """
    bottom = _sum(bottoms)
    if bottom == 0:
        return None
    ratio = _sum(tops) / bottom
    if math.isnan(ratio):
        raise MetricError("the ratio is no number: infinite terms")
    count = len(tops) if clusters is None else len(set(clusters))
    value = transform(ratio)
    if count < 2 or not math.isfinite(value):
        return Interval(value, None, None, None, count, "ratio")
    stderr = _error([x - ratio * y for x, y in zip(tops, bottoms, strict=True)], clusters, count, tops) / bottom
    t = t_quantile((1 + level) / 2, count - 1)
    method = "ratio, t" if count == len(tops) else "ratio, clustered t"
    if stderr == 0:
        return Interval(value, 0.0, None, None, count, f"{method}, no variation")
    ends = (_clip(transform(ratio - t * stderr), low, high), _clip(transform(ratio + t * stderr), low, high))
    return Interval(value, slope(ratio) * stderr, *ends, count, method)


def _error(deviations: Sequence[float], clusters: Sequence[str] | None, count: int, values: Sequence[float]) -> float:
    """√(C/(C−1) · Σ_c (Σ_{i∈c} dᵢ)²); 0 where it is no more than the rounding of the values."""
    sums = _cluster_sums(deviations, clusters)
    found = math.sqrt(count / (count - 1) * math.fsum(s * s for s in sums))
    return found if found > _ROUNDING * math.fsum(map(abs, values)) else 0.0


def _cluster_sums(deviations: Sequence[float], clusters: Sequence[str] | None) -> list[float]:
    if clusters is None:
        return list(deviations)
    groups: dict[str, list[float]] = {}
    for deviation, cluster in zip(deviations, clusters, strict=True):
        groups.setdefault(cluster, []).append(deviation)
    return [math.fsum(group) for group in groups.values()]


def _sum(values: Sequence[float]) -> float:
    """The exact sum; infinite, or NaN for infinities of both signs, where it is."""
    return math.fsum(values) if all(map(math.isfinite, values)) else sum(values)


def _clip(value: float, low: float | None, high: float | None) -> float:
    value = value if low is None else max(low, value)
    return value if high is None else min(high, value)

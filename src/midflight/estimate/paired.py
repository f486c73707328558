"""The difference of two sets of scores over the same items: value, error, interval, and what it proves.

Pairing takes out what both find hard or easy; the error is that of the differences (Miller 2024, arXiv:2411.00640,
section 4.2). Which method, by what the scores are:

- each score the smallest or the largest possible, items independent: Tango's score interval and test (Tango 1998,
  Statistics in Medicine 17:891), which keep their level where few items differ and t does not; and for the p-value of
  no difference McNemar's exact test;
- no variation between the items (or clusters): exact, from how rare an unseen, different item may be;
- else Student's t over items, or over clusters where items come in clusters; for the p-value with few clusters the
  exact sign-flip permutation test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from midflight.errors import MetricError
from midflight.estimate.intervals import Interval, mean_interval
from midflight.estimate.quantiles import binomial_tail, normal_quantile, normal_tail, root, t_cdf, t_quantile

EXACT_FLIPS = 16
"""Clusters up to which all 2^C sign flips are tried; t is as good beyond."""


@dataclass(frozen=True)
class PairedDifference:
    """Candidate − baseline, item by item.

    Attributes:
        differences: One an item, n ≥ 1.
        clusters: The cluster of each item; None = every item is its own.
        width: Largest possible difference; None = no bound.
        binary: Whether each score is the smallest or the largest possible, so that a difference is −width, 0 or width.
    """

    differences: Sequence[float]
    clusters: Sequence[str] | None = None
    width: float | None = None
    binary: bool = False

    def __post_init__(self) -> None:
        if not self.differences:
            raise MetricError("no pairs of scores")
        if not all(map(math.isfinite, self.differences)):
            raise MetricError("infinite scores have no difference")

    @cached_property
    def _mean(self) -> Interval:
        return mean_interval(self.differences, self.clusters)

    @property
    def n(self) -> int:
        """Pairs."""
        return len(self.differences)

    @property
    def num_clusters(self) -> int:
        """Independent groups of pairs."""
        return self._mean.clusters

    @property
    def value(self) -> float:
        """The mean difference."""
        return self._mean.value

    @property
    def stderr(self) -> float | None:
        """Its standard error; None with fewer than two clusters."""
        return self._mean.stderr

    @cached_property
    def num_better(self) -> int:
        """Items on which the candidate scores higher."""
        return sum(d > 0 for d in self.differences)

    @cached_property
    def num_worse(self) -> int:
        """Items on which the candidate scores lower."""
        return sum(d < 0 for d in self.differences)

    @property
    def _independent(self) -> bool:
        return self.num_clusters == self.n

    @property
    def method(self) -> str:
        """How interval and tests are computed."""
        if self._varies:
            kind = "score (Tango)" if self._is_tango else "t" if self._independent else "clustered t"
        else:
            kind = "no variation, exact" if self.width is not None else "no variation"
        return f"paired, {kind}"

    @property
    def _varies(self) -> bool:
        return bool(self.stderr)

    @property
    def _is_tango(self) -> bool:
        return self.binary and self._independent and self.width is not None

    def interval(self, level: float = 0.95) -> Interval:
        """The mean difference and its interval; without ends where there is too little to tell."""
        alpha, low, high = (1 - level) / 2, None, None
        if self._varies and self._is_tango:
            low, high = self._tango_end(alpha, below=True), self._tango_end(alpha, below=False)
        elif self._varies and self.stderr is not None:
            half = t_quantile(1 - alpha, self.num_clusters - 1) * self.stderr
            low, high = self.value - half, self.value + half
        elif self.width is not None:
            rare = 1 - alpha ** (1 / self.num_clusters)  # share of unseen items that may still be otherwise
            low, high = self.value - rare * (self.value + self.width), self.value + rare * (self.width - self.value)
        if low is not None and high is not None and self.width is not None:
            low, high = max(-self.width, low), min(self.width, high)
        return Interval(self.value, self.stderr, low, high, self.num_clusters, self.method)

    def p_above(self, bound: float) -> float | None:
        """p-value against "the true difference is at most `bound`": small = it is proved to be above.

        It is at most α exactly if the lower end of the interval of level 1 − 2α is at or above `bound`. None where
        nothing can be told.
        """
        if self._varies and self._is_tango and self.width is not None:
            return normal_tail(self._tango_z(bound / self.width))
        if self._varies and self.stderr is not None:
            return t_cdf(-(self.value - bound) / self.stderr, self.num_clusters - 1)
        if self.width is None:
            return None
        if bound >= self.value:
            return 1.0
        if bound <= -self.width:
            return 0.0
        # a share f of other items, each as low as may be, brings the mean down to the bound; all n miss it: (1 − f)^n
        return float((1 - (self.value - bound) / (self.value + self.width)) ** self.num_clusters)

    def p_below(self, bound: float) -> float | None:
        """p-value against "the true difference is at least `bound`": small = it is proved to be below."""
        return self._reversed.p_above(-bound)

    @cached_property
    def _reversed(self) -> PairedDifference:
        return PairedDifference([-d for d in self.differences], self.clusters, self.width, self.binary)

    @property
    def p_value(self) -> tuple[float | None, str]:
        """Two-sided p-value of no difference, and the test."""
        if self.binary and self._independent:
            worse, better = self.num_worse, self.num_better
            return min(1.0, 2 * binomial_tail(max(worse, better), worse + better, 0.5)), "exact McNemar"
        sums = self._cluster_sums
        if len(sums) <= EXACT_FLIPS:
            return _sign_flip(sums), "exact sign-flip"
        if not self._varies or self.stderr is None:
            return (1.0 if self.value == 0 else None), "none"
        return 2 * t_cdf(-abs(self.value) / self.stderr, self.num_clusters - 1), self.method.removeprefix("paired, ")

    @property
    def _cluster_sums(self) -> list[float]:
        if self.clusters is None:
            return list(self.differences)
        groups: dict[str, list[float]] = {}
        for difference, cluster in zip(self.differences, self.clusters, strict=True):
            groups.setdefault(cluster, []).append(difference)
        return [math.fsum(group) for group in groups.values()]

    def _tango_z(self, delta: float) -> float:
        """Tango's score statistic against a true difference of `delta`, in units of the width."""
        n, better, worse = self.n, self.num_better, self.num_worse
        if abs(delta) >= 1:
            return math.copysign(math.inf, -delta)
        a, c = 2 * n, -worse * delta * (1 - delta)
        b = -better - worse + (2 * n - better + worse) * delta
        rare = (math.sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)  # likeliest share of items that got worse
        variance = n * (2 * rare + delta * (1 - delta))
        gap = better - worse - n * delta
        return gap / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, gap) if gap else 0.0

    def _tango_end(self, alpha: float, below: bool) -> float:
        assert self.width is not None
        z = normal_quantile(1 - alpha) * (1 if below else -1)
        start = self.value / self.width
        inside, outside = start, -1.0 if below else 1.0
        return self.width * root(lambda delta: (self._tango_z(delta) - z) * (1 if below else -1), inside, outside)


def paired_difference(
    candidate: Sequence[float],
    baseline: Sequence[float],
    clusters: Sequence[str] | None = None,
    *,
    low: float | None = None,
    high: float | None = None,
) -> PairedDifference:
    """Candidate − baseline over the same items.

    Args:
        candidate: One score an item.
        baseline: The other's score of the same items, in the same order.
        clusters: The cluster of each item; None = every item is its own.
        low: Smallest possible score; None = no bound.
        high: Largest possible score.

    Raises:
        MetricError: If there is no pair, or a score is infinite.

    >>> difference = paired_difference([1, 1, 1, 0, 1, 1], [0, 1, 0, 0, 1, 0], low=0, high=1)
    >>> difference.value, difference.num_better, difference.num_worse, difference.p_value[1]
    (0.5, 3, 0, 'exact McNemar')
    """
    bounded = low is not None and high is not None and high > low
    return PairedDifference(
        [a - b for a, b in zip(candidate, baseline, strict=True)],
        clusters,
        high - low if bounded and low is not None and high is not None else None,
        bounded and all(score in (low, high) for scores in (candidate, baseline) for score in scores),
    )


def paired_ratio(
    candidate: Sequence[tuple[float, float]],
    baseline: Sequence[tuple[float, float]],
    clusters: Sequence[str] | None = None,
    *,
    transform: Callable[[float], float] = float,
    slope: Callable[[float], float] = lambda _: 1.0,
) -> PairedDifference:
    """The difference of two sums over sums, such as perplexities, over the same items.

    Each side is linearised around its ratio r = Σx ÷ Σy: an item's pseudo-value is g(r) + g′(r)·(xᵢ − r·yᵢ)·n ÷ Σy,
    whose mean is g(r) and whose error is the delta method's (Cochran 1977, section 6; Miller 2024 for pairs).

    Args:
        candidate: Numerator and denominator of each item.
        baseline: The other's, in the same order.
        clusters: The cluster of each item; None = every item is its own.
        transform: g, the value from the ratio.
        slope: Its derivative.

    Raises:
        MetricError: If there is no pair, a denominator is 0, or a ratio is infinite.
    """
    sides = [pseudo_values(terms, transform, slope) for terms in (candidate, baseline)]
    return PairedDifference([a - b for a, b in zip(*sides, strict=True)], clusters)


def pseudo_values(
    terms: Sequence[tuple[float, float]], transform: Callable[[float], float], slope: Callable[[float], float]
) -> list[float]:
    """One value an item, so that their mean is the ratio and its error theirs; see `paired_ratio`."""
    if not all(math.isfinite(x) and math.isfinite(y) for x, y in terms):
        raise MetricError("infinite scores have no difference")
    bottom = math.fsum(y for _, y in terms)
    if bottom == 0:
        raise MetricError("the denominator is 0" if terms else "no pairs of scores")
    ratio = math.fsum(x for x, _ in terms) / bottom
    value, rise = transform(ratio), slope(ratio)
    return [value + rise * (x - ratio * y) * len(terms) / bottom for x, y in terms]


def _sign_flip(sums: Sequence[float]) -> float:
    """Share of the 2^C ways to flip the clusters' signs that are at least as far from 0 as what was seen."""
    totals = np.zeros(1)
    for value in sorted(sums, key=abs):
        totals = np.concatenate([totals + value, totals - value])
    seen = abs(math.fsum(sums))
    rounding = 1e-12 * math.fsum(map(abs, sums))
    return float(np.mean(np.abs(totals) >= seen - rounding))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values: at most α where the family-wise error is kept at α (Holm 1979).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted

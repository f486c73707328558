"""One estimate held against a bound, and two of them that have no items in common: what a report alone proves.

Which method, by how the estimate was computed:

- share of independent items, each scored the smallest or the largest possible: the exact binomial test (Clopper &
  Pearson 1934), which errs no more often than it says at any n and any share, where Wilson's does;
- share of items in clusters, or scores that are all alike between two bounds: the score test (Wilson 1927) with the
  effective number of items and Student's t;
- else Student's t with the standard error: means, ratios (delta method), metrics with a bootstrap error.

The difference of two estimates adds their distances to the ends of their intervals as if they were independent
(Newcombe 1998, method 10; Zou & Donner 2008). Over the same items that is more cautious than pairing, never less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from midflight.estimate.intervals import wilson
from midflight.estimate.quantiles import binomial_tail, root, t_cdf, t_quantile
from midflight.records import Estimate

SMALLEST_P = 1e-12
"""The difference of two estimates is searched for no smaller p-values."""


@dataclass(frozen=True, slots=True)
class Single:
    """One estimate.

    Attributes:
        value: The estimate.
        stderr: Its standard error.
        clusters: Independent groups.
        low: Smallest possible value; None = no bound.
        high: Largest possible value.
        share_of: Items, or effective items, that it is a share of; None = it is no share.
        exact: Whether these are independent items.
    """

    value: float
    stderr: float | None
    clusters: int
    low: float | None = None
    high: float | None = None
    share_of: float | None = None
    exact: bool = False

    @property
    def method(self) -> str:
        """How interval and tests are computed."""
        return "exact binomial" if self.exact else "t" if self.share_of is None else "score, effective n, t"

    def p_above(self, bound: float) -> float | None:
        """p-value against "the true value is at most `bound`": small = it is proved to be above. None = untold."""
        if self.share_of is None:
            if not self.stderr or self.clusters < 2 or not math.isfinite(self.stderr):
                return None
            return t_cdf(-(self.value - bound) / self.stderr, self.clusters - 1)
        share, limit = self._share(self.value), self._share(bound)
        if not 0 <= limit < 1:
            return 0.0 if limit < 0 else 1.0
        if self.exact:
            return binomial_tail(round(share * self.share_of), round(self.share_of), limit)
        if self.clusters < 2:
            return None
        spread = math.sqrt(limit * (1 - limit) / self.share_of)
        return t_cdf(-(share - limit) / spread, self.clusters - 1) if spread else float(share <= limit)

    def p_below(self, bound: float) -> float | None:
        """p-value against "the true value is at least `bound`": small = it is proved to be below."""
        return self._mirrored().p_above(-bound)

    def interval(self, level: float) -> tuple[float | None, float | None]:
        """The values that neither test refuses at (1 − level) ÷ 2; without ends where there is too little to tell."""
        tail = (1 - level) / 2
        if self.exact and self.low is not None and self.high is not None:
            low, width, share = self.low, self.high - self.low, self._share(self.value)
            start = root(lambda limit: tail - (self.p_above(low + width * limit) or 0.0), share, 0.0)
            end = root(lambda limit: tail - (self.p_below(low + width * limit) or 0.0), share, 1.0)
            return low + width * start, low + width * end
        return self.limits(tail) or (None, None)

    def limits(self, tail: float) -> tuple[float, float] | None:
        """Wilson's or Student's limits with so much in each tail; None where there is too little to tell."""
        if self.share_of is None:
            if not self.stderr or self.clusters < 2:
                return None
            half = t_quantile(1 - tail, self.clusters - 1) * self.stderr
            return (
                self.value - half if self.low is None else max(self.low, self.value - half),
                self.value + half if self.high is None else min(self.high, self.value + half),
            )
        if self.clusters < 2 or self.low is None or self.high is None:
            return None
        width = self.high - self.low
        ends = wilson(self._share(self.value), self.share_of, t_quantile(1 - tail, self.clusters - 1))
        return self.low + width * ends[0], self.low + width * ends[1]

    def _share(self, value: float) -> float:
        assert self.low is not None
        assert self.high is not None
        return (value - self.low) / (self.high - self.low)

    def _mirrored(self) -> Single:
        low = None if self.high is None else -self.high
        return replace(self, value=-self.value, low=low, high=None if self.low is None else -self.low)


def single_of(estimate: Estimate) -> Single | None:
    """An estimate as its report has it; None without a finite value."""
    value, low, high = estimate.value, estimate.lowest, estimate.highest
    if value is None or not math.isfinite(value):
        return None
    found = Single(value, estimate.stderr, estimate.clusters, low, high)
    if low is None or high is None or not high > low or not estimate.method.startswith("wilson"):
        return found
    share = (value - low) / (high - low)
    if estimate.method == "wilson":
        return replace(found, share_of=float(estimate.num_scored), exact=True)
    if not estimate.stderr:  # all alike, or cancelled in every cluster: as many as there are clusters, to be cautious
        return replace(found, share_of=float(estimate.clusters))
    effective = share * (1 - share) * (high - low) ** 2 / estimate.stderr**2
    return replace(found, share_of=min(float(estimate.num_scored), effective))


@dataclass(frozen=True, slots=True)
class Unpaired:
    """candidate − times · baseline, of two estimates whose items are not paired.

    Attributes:
        candidate: One estimate.
        baseline: The other.
        times: What the baseline is multiplied with.
    """

    candidate: Single
    baseline: Single
    times: float = 1.0

    @property
    def value(self) -> float:
        """The difference."""
        return self.candidate.value - self.times * self.baseline.value

    @property
    def method(self) -> str:
        """How interval and tests are computed."""
        return "unpaired (Newcombe)"

    def interval(self, level: float) -> tuple[float | None, float | None]:
        """The difference's interval; without ends where there is too little to tell."""
        return self._limits((1 - level) / 2) or (None, None)

    def p_above(self, bound: float) -> float | None:
        """p-value against "the true difference is at most `bound`"."""
        if self._limits(0.25) is None:
            return None
        if self.value <= bound:
            return 1 - self._tail(bound, 1)
        return self._tail(bound, 0)

    def p_below(self, bound: float) -> float | None:
        """p-value against "the true difference is at least `bound`"."""
        above = self.p_above(bound)
        return None if above is None else 1 - above

    def _tail(self, bound: float, end: int) -> float:
        """The tail at which one end of the interval meets a bound."""

        def gap(exponent: float) -> float:
            found = self._limits(10**exponent)
            assert found is not None
            return found[end] - bound if end == 0 else bound - found[end]

        return 10 ** root(gap, math.log10(SMALLEST_P), math.log10(0.5))

    def _limits(self, tail: float) -> tuple[float, float] | None:
        a, b = self.candidate.limits(tail), self.baseline.limits(tail)
        if a is None or b is None:
            return None
        own, other = self.candidate.value, self.baseline.value
        return (
            self.value - math.hypot(own - a[0], self.times * (b[1] - other)),
            self.value + math.hypot(a[1] - own, self.times * (other - b[0])),
        )

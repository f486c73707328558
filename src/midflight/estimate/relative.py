"""One set of scores relative to another over the same items: is the candidate above a share of the baseline?

The question "candidate ÷ baseline > r" is put as "candidate − r · baseline > 0", item by item, so that nothing is
divided by a baseline that may be near 0. Where scores are 0 or the largest possible and items are independent it is the
score test of Nam & Blackwelder (2002, Statistics in Medicine 21:689), which keeps its level where few items differ and
t does not; else Student's t of the contrast.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from midflight.estimate.paired import PairedDifference
from midflight.estimate.quantiles import normal_tail, root
from midflight.estimate.single import Single, Unpaired

LARGEST_RATIO = 1000.0
"""An end of an interval beyond this is none."""


@dataclass(frozen=True)
class PairedRatio:
    """candidate ÷ baseline over the same items, at least one.

    Attributes:
        candidate: One score an item.
        baseline: The other's, in the same order.
        clusters: The cluster of each item; None = every item is its own.
        low: Smallest possible score; None = no bound.
        high: Largest possible score.
    """

    candidate: Sequence[float]
    baseline: Sequence[float]
    clusters: Sequence[str] | None = None
    low: float | None = None
    high: float | None = None

    @cached_property
    def _counts(self) -> tuple[int, int, int] | None:
        """Items that only the candidate gets right, only the baseline, and both; None if they are not of this kind."""
        independent = self.clusters is None or len(set(self.clusters)) == len(self.clusters)
        scores = set(self.candidate) | set(self.baseline)
        if not independent or self.low != 0 or self.high is None or not scores <= {0, self.high}:
            return None
        pairs = list(zip(map(bool, self.candidate), map(bool, self.baseline), strict=True))
        return pairs.count((True, False)), pairs.count((False, True)), pairs.count((True, True))

    @property
    def method(self) -> str:
        """How interval and tests are computed."""
        return "paired ratio, " + ("score (Nam & Blackwelder)" if self._counts else "t of the contrast")

    def p_above(self, ratio: float) -> float | None:
        """p-value against "the candidate's true value is at most `ratio` times the baseline's"; None = untold."""
        if self._counts is not None:
            return normal_tail(self._score(ratio, *self._counts))
        return self._contrast(ratio).p_above(0.0)

    def p_below(self, ratio: float) -> float | None:
        """p-value against "the candidate's true value is at least `ratio` times the baseline's"."""
        if self._counts is not None:
            return normal_tail(-self._score(ratio, *self._counts))
        return self._contrast(ratio).p_below(0.0)

    def interval(self, level: float) -> tuple[float | None, float | None]:
        """The ratios that neither test refuses at (1 − level) ÷ 2; an end is None where there is none."""
        tail = (1 - level) / 2
        if self.p_above(1.0) is None:
            return None, None
        low = root(lambda ratio: _told(self.p_above(ratio)) - tail, 0.0, LARGEST_RATIO)
        high = root(lambda ratio: tail - _told(self.p_below(ratio)), 0.0, LARGEST_RATIO)
        return low if low < LARGEST_RATIO else None, high if high < LARGEST_RATIO else None

    def _contrast(self, ratio: float) -> PairedDifference:
        width = None
        if self.low is not None and self.high is not None:
            width = max(self.high - ratio * self.low, ratio * self.high - self.low)
        values = [a - ratio * b for a, b in zip(self.candidate, self.baseline, strict=True)]
        return PairedDifference(values, self.clusters, width)

    def _score(self, ratio: float, better: int, worse: int, both: int) -> float:
        """The score statistic against a true ratio."""
        gap = better + both - ratio * (worse + both)
        if ratio <= 0:
            return math.inf if gap > 0 else 0.0
        n, right = len(self.candidate), (better + worse + both) / len(self.candidate)
        # the likeliest share of items that only the candidate gets right, if the ratio is the true one
        a = ratio * (1 + ratio) * n
        b = ratio**2 * (both + worse + 2 * better) - (both + better)
        c = ratio * (1 - ratio) * right * better
        only_candidate = (b + math.sqrt(max(0.0, b * b + 4 * a * c))) / (2 * a)
        only_baseline = ratio * only_candidate + (1 - ratio) * right
        variance = n * ratio * (only_candidate + only_baseline)
        return gap / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, gap) if gap else 0.0


@dataclass(frozen=True, slots=True)
class UnpairedRatio:
    """The same of two estimates whose items are not paired.

    Attributes:
        candidate: One estimate.
        baseline: The other.
    """

    candidate: Single
    baseline: Single

    @property
    def method(self) -> str:
        """How interval and tests are computed."""
        return "unpaired ratio (Newcombe)"

    def p_above(self, ratio: float) -> float | None:
        """p-value against "the candidate's true value is at most `ratio` times the baseline's"; None = untold."""
        return Unpaired(self.candidate, self.baseline, ratio).p_above(0.0)

    def p_below(self, ratio: float) -> float | None:
        """p-value against "the candidate's true value is at least `ratio` times the baseline's"."""
        return Unpaired(self.candidate, self.baseline, ratio).p_below(0.0)

    def interval(self, level: float) -> tuple[float | None, float | None]:
        """The ratios that neither test refuses at (1 − level) ÷ 2; an end is None where there is none."""

        def end(ratio: float, side: int) -> float:
            return -_told(Unpaired(self.candidate, self.baseline, ratio).interval(level)[side])

        if self.p_above(1.0) is None:
            return None, None
        low, high = (root(partial(end, side=side), 0.0, LARGEST_RATIO) for side in (0, 1))
        return low if low < LARGEST_RATIO else None, high if high < LARGEST_RATIO else None


def _told(p: float | None) -> float:
    return 1.0 if p is None else p

"""May an evaluation stop now? Evidence that stays valid however often it is looked at, for a finite set of items.

The items are visited in random order, without replacement. A gambler who starts with 1 bets on each score before it is
seen, at odds that are fair if the mean of the whole set is `null`: the mean of the items that are left is then
(N·null − sum so far) ÷ (N − number so far). If the mean is at most `null`, the wealth ever reaches 1/α in at most a
share α of all orders (Ville's inequality), so that one may look after each item. Once all items are seen nothing is
left to chance: the result is exact.

Sources: Waudby-Smith & Ramdas, arXiv:2006.04347 (without replacement) and arXiv:2010.09686 (betting); the mean over
several fixed bets is a wealth too. How large the bets are was chosen by simulation (`benchmarks/bench_statistics.py`);
it decides how soon one stops, never whether the result is valid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from midflight.errors import MetricError

Floats: TypeAlias = npt.NDArray[np.float64]
Claim: TypeAlias = Literal["not_worse", "better"]
"""What is to be shown of candidate − baseline: that it is not below −margin, or that it is above margin."""

SequentialOutcome: TypeAlias = Literal["pass", "fail", "undecided"]

METHOD = "betting, without replacement"


@dataclass(frozen=True, slots=True)
class Bets:
    """Shares of the wealth that are bet, for scores on a scale from 0 to 1, and what is put on each at the start.

    Attributes:
        shares: Wealth gained for each unit that a score lies above the null mean.
        weights: Their parts of the wealth at the start; they sum to 1.
    """

    shares: tuple[float, ...]
    weights: tuple[float, ...]


DIFFERENCES = Bets((0.4, 0.8, 1.2), (0.2, 0.6, 0.2))
"""For differences between two models, of which most are 0."""

SCORES = Bets((0.1, 0.2, 0.4, 0.8), (0.25, 0.25, 0.25, 0.25))
"""For scores themselves, which vary more."""

_MOST_GROWTH = 2.0
"""The fewer items are left, the further the mean that they would need is from the truth: bets grow, up to so much."""
_MOST_LOST = 0.95
"""Largest part of the wealth that one score can cost."""
_ROUNDING = 1e-9
"""A sum that is off by no more than this is not off: scores are sums of floats."""
_BLOCK = 1024
"""Scores that are taken in at once, so that a grid of nulls does not fill the memory."""


class Evidence:
    """Evidence against: the mean of `size` numbers from 0 to 1 is at most `null`. Takes them in random order.

    Args:
        null: The mean that is doubted; an array of them is a grid.
        size: Numbers in the set.
        bets: What is bet.
    """

    def __init__(self, null: float | Floats, size: int, bets: Bets = DIFFERENCES) -> None:
        self.null, self.size = np.asarray(null, dtype=float), size
        self._shares, self._log_weights = np.array(bets.shares), np.log(bets.weights)
        self.count = 0
        self.total: Floats = np.zeros(())
        """Sum of what was taken in."""
        self.log_wealth: Floats = np.zeros(len(bets.shares))
        """Logarithm of what each bet has grown to (…, bets)."""

    def feed(self, values: Any) -> Floats:
        """Takes in numbers.

        Args:
            values: The next ones, in their order (n); or those of several orders at once (n, orders).

        Returns:
            Logarithm of the e-value after each of them (n, …orders, …grid); infinite once the null is impossible.

        Raises:
            MetricError: If there are more than the set has, or one is not between 0 and 1.
        """
        x = np.asarray(values, dtype=float)
        if self.count + len(x) > self.size:
            raise MetricError("more scores than items", got=self.count + len(x), allowed=f"up to {self.size}")
        if not np.all((x >= -_ROUNDING) & (x <= 1 + _ROUNDING)):
            raise MetricError("a score outside the bounds of its metric", allowed="scores between `low` and `high`")
        x = x.reshape(x.shape + (1,) * self.null.ndim)
        blocks = [self._feed(x[start : start + _BLOCK]) for start in range(0, len(x), _BLOCK)]
        return np.concatenate(blocks) if blocks else np.zeros((0, *np.broadcast_shapes(x.shape[1:], self.null.shape)))

    def _feed(self, x: Floats) -> Floats:
        batch = np.broadcast_shapes(x.shape[1:], self.null.shape)
        left = (self.size - self.count - np.arange(len(x), dtype=float)).reshape(-1, *[1] * len(batch))
        before = np.broadcast_to(self.total, batch)
        totals = np.cumsum(np.concatenate([before[None], np.broadcast_to(x, (len(x), *batch))]), axis=0)
        needed = np.maximum((self.size * self.null - totals[:-1]) / left, 0.0)
        growth = np.minimum(self.size / left, _MOST_GROWTH)[..., None]
        bets = np.minimum(self._shares * growth, _MOST_LOST / np.maximum(needed, _ROUNDING)[..., None])
        steps = np.log1p(bets * (x - needed)[..., None])
        start = np.broadcast_to(self.log_wealth, steps.shape[1:])
        paths = np.cumsum(np.concatenate([start[None], steps]), axis=0)
        self.count, self.total, self.log_wealth = self.count + len(x), totals[-1], paths[-1]
        proven = totals[1:] > self.size * self.null + _ROUNDING * self.size
        return np.where(proven, np.inf, np.logaddexp.reduce(paths[1:] + self._log_weights, axis=-1))


def confidence_sequence(
    lows: Sequence[float], highs: Sequence[float], size: int, *, level: float = 0.95, bets: Bets = SCORES
) -> tuple[float, float]:
    """An interval for the mean of a set, from the part of it that was seen; valid whenever one looks.

    It holds all means against which the evidence on either side is less than 2 ÷ (1 − level). With all items seen it
    is their mean.

    Args:
        lows: The numbers, from 0 to 1, in random order; where one is not known, the smallest that it can be.
        highs: The same; where one is not known, the largest that it can be.
        size: Numbers in the set.
        level: Confidence level.
        bets: What is bet.
    """
    threshold = math.log(2 / (1 - level))
    low = _lower_end(lows, size, threshold, bets)
    high = 1 - _lower_end([1 - value for value in highs], size, threshold, bets)
    if len(lows) == size:
        low, high = math.fsum(lows) / size, math.fsum(highs) / size
    return low, high


def _lower_end(values: Sequence[float], size: int, threshold: float, bets: Bets) -> float:
    """The largest mean that the evidence rules out, to six decimals, rounded down: wealth falls as the null rises."""
    low, width = 0.0, 1.0
    for _ in range(3):
        grid = np.linspace(low, low + width, 101)
        evidence = Evidence(grid, size, bets)
        log_e = evidence.feed(values)
        ruled_out = np.flatnonzero(log_e[-1] >= threshold) if len(log_e) else np.array([], dtype=int)
        low, width = (float(grid[ruled_out[-1]]) if len(ruled_out) else low), width / 100
    return max(low, math.fsum(values) / size)


class SequentialTest:
    """Decides a claim about candidate − baseline over a finite set of items, as soon as it can be decided.

    Two gamblers play against the two sides of the claim. Only one side is true, so that the decision is wrong in at
    most a share `alpha` of all orders. An item of which the difference is not known counts against either decision:
    with the smallest difference that it can have against `pass`, with the largest against `fail`.

    Args:
        claim: ``not_worse``: the mean difference is at least −margin; ``better``: it is above margin.
        margin: In the unit of the scores.
        size: Items in the set.
        width: Largest score − smallest score.
        alpha: Error rate.

    Attributes:
        outcome: What is decided so far.
        log_e: Logarithm of the e-value at the decision; without one, the larger of both so far.
        lows: Smallest differences that the items looked at can have, up to the decision.
        highs: Largest ones.
    """

    def __init__(self, claim: Claim, margin: float, size: int, *, width: float = 1.0, alpha: float = 0.05) -> None:
        self.claim, self.size, self.width, self.alpha = claim, size, width, alpha
        self.bound = -margin if claim == "not_worse" else margin
        null = float(self._scaled([self.bound])[0])
        self._for, self._against = Evidence(null, size), Evidence(1 - null, size)
        self.outcome: SequentialOutcome = "undecided"
        self.log_e = 0.0
        self.lows: list[float] = []
        self.highs: list[float] = []

    @property
    def n(self) -> int:
        """Items that were looked at, up to the decision."""
        return len(self.lows)

    def _scaled(self, differences: Sequence[float]) -> Floats:
        return (np.asarray(differences, dtype=float) / self.width + 1) / 2

    def feed(self, lows: Sequence[float], highs: Sequence[float]) -> SequentialOutcome:
        """Takes in the differences of the next items in their order; what comes after a decision changes nothing.

        Args:
            lows: Candidate − baseline of each item; where it is not known, the smallest that it can be.
            highs: The same; where it is not known, the largest that it can be.

        Raises:
            MetricError: If there are more than the set has, or one is larger than the scale of the scores.
        """
        if self.outcome != "undecided" or not lows:
            return self.outcome
        paths = self._for.feed(self._scaled(lows)), self._against.feed(1 - self._scaled(highs))
        crossed = np.flatnonzero(np.maximum(*paths) >= -math.log(self.alpha))
        last = int(crossed[0]) if len(crossed) else len(lows) - 1
        self.lows += lows[: last + 1]
        self.highs += highs[: last + 1]
        self.log_e = float(max(path[last] for path in paths))
        if len(crossed):
            self.outcome = "pass" if paths[0][last] > paths[1][last] else "fail"
        elif self.n == self.size:
            self._settle_tie()
        return self.outcome

    def _settle_tie(self) -> None:
        """All items are seen and none of the strict inequalities is proven: is the mean at the bound itself?"""
        slack = _ROUNDING * self.size * self.width
        if self.claim == "not_worse" and math.fsum(self.lows) >= self.size * self.bound - slack:
            self.outcome, self.log_e = "pass", math.inf
        elif self.claim == "better" and math.fsum(self.highs) <= self.size * self.bound + slack:
            self.outcome, self.log_e = "fail", math.inf

    @property
    def level(self) -> float:
        """Level of `interval`: each end errs with probability `alpha`, so that it agrees with the decision."""
        return 1 - 2 * self.alpha

    def interval(self) -> tuple[float, float]:
        """The interval of the mean difference over the whole set, as it was at the decision."""
        ends = confidence_sequence(
            self._scaled(self.lows).tolist(),
            self._scaled(self.highs).tolist(),
            self.size,
            level=self.level,
            bets=DIFFERENCES,
        )
        return (2 * ends[0] - 1) * self.width, (2 * ends[1] - 1) * self.width

"""A straight line through points, with the errors of what is read from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """A straight line fitted by least squares, held at the weighted mean of x: height and slope are independent there.

    Attributes:
        slope: Rise for each unit of x.
        height: Value at `centre`.
        centre: Weighted mean of x.
        spread: Σ w·(x − centre)².
        weight: Σ w.
        df: Points that the fit leaves over: n − 2.
        variance: Σ w·r² ÷ df, the variance of a point of weight 1 around the line; None if `df` is 0.
    """

    slope: float
    height: float
    centre: float
    spread: float
    weight: float
    df: int
    variance: float | None

    def at(self, x: float) -> float:
        """Height of the line at x."""
        return self.height + self.slope * (x - self.centre)

    def variance_at(self, x: float) -> float | None:
        """Variance of that height."""
        return (
            None if self.variance is None else self.variance * (1 / self.weight + (x - self.centre) ** 2 / self.spread)
        )

    @property
    def slope_stderr(self) -> float | None:
        """Standard error of the slope."""
        return None if self.variance is None else math.sqrt(self.variance / self.spread)


def fit_line(x: Sequence[float], y: Sequence[float], weights: Sequence[float] | None = None) -> Line | None:
    """The line with the least Σ w·(y − ŷ)² (Draper & Smith 1998, chapters 1 and 9); None with fewer than two x.

    Args:
        x: Where, finite.
        y: What was measured there, finite.
        weights: Inverse of the variance of each point, up to a factor; None = all alike.

    >>> line = fit_line([0, 1, 2], [1.0, 3.0, 5.0])
    >>> line.slope, line.at(10)
    (2.0, 21.0)
    """
    if len(set(x)) < 2:
        return None
    w = [1.0] * len(x) if weights is None else weights
    total = math.fsum(w)
    centre = math.fsum(a * b for a, b in zip(w, x, strict=True)) / total
    height = math.fsum(a * b for a, b in zip(w, y, strict=True)) / total
    offsets = [value - centre for value in x]
    spread = math.fsum(a * d * d for a, d in zip(w, offsets, strict=True))
    slope = math.fsum(a * d * (b - height) for a, d, b in zip(w, offsets, y, strict=True)) / spread
    rest = math.fsum(a * (b - height - slope * d) ** 2 for a, d, b in zip(w, offsets, y, strict=True))
    df = len(x) - 2
    return Line(slope, height, centre, spread, total, df, rest / df if df else None)

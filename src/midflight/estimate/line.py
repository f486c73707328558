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
        scatter: √(Σ w·r² ÷ df), the standard deviation of a point of weight 1 around the line; None if `df` is 0.
    """

    slope: float
    height: float
    centre: float
    spread: float
    weight: float
    df: int
    scatter: float | None

    def at(self, x: float) -> float:
        """Height of the line at x."""
        return self.height + self.slope * (x - self.centre)

    def stderr_at(self, x: float) -> float | None:
        """Standard error of that height."""
        if self.scatter is None:
            return None
        return self.scatter * math.sqrt(1 / self.weight + (x - self.centre) ** 2 / self.spread)

    @property
    def slope_stderr(self) -> float | None:
        """Standard error of the slope."""
        return None if self.scatter is None else self.scatter / math.sqrt(self.spread)


def fit_line(x: Sequence[float], y: Sequence[float], weights: Sequence[float] | None = None) -> Line | None:
    """The line with the least Σ w·(y − ŷ)² (Draper & Smith 1998, chapters 1 and 9).

    None with fewer than two different x that have a weight.

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
    scale = max(map(abs, y)) or 1.0  # squares of values such as a diverged perplexity do not fit into a float
    total = math.fsum(w)
    centre = math.fsum(a * b for a, b in zip(w, x, strict=True)) / total
    height = math.fsum(a * (b / scale) for a, b in zip(w, y, strict=True)) / total
    offsets = [value - centre for value in x]
    spread = math.fsum(a * d * d for a, d in zip(w, offsets, strict=True))
    rises = [b / scale - height for b in y]
    if spread == 0:
        return None
    slope = math.fsum(a * d * rise for a, d, rise in zip(w, offsets, rises, strict=True)) / spread
    rest = math.fsum(a * (rise - slope * d) ** 2 for a, d, rise in zip(w, offsets, rises, strict=True))
    df = len(x) - 2
    scatter = math.sqrt(rest / df) * scale if df else None
    return Line(slope * scale, height * scale, centre, spread, total, df, scatter)

"""The difference of the means of two groups of independent runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from midflight.estimate.intervals import mean_interval
from midflight.estimate.quantiles import t_cdf, t_interval


@dataclass(frozen=True, slots=True)
class MeanDifference:
    """Mean of the second group − mean of the first.

    Attributes:
        value: The difference.
        stderr: Its standard error; None where it is not defined.
        ci_low: Lower end of the interval; None where it is not defined.
        ci_high: Upper end.
        level: Confidence level.
        p_value: Two-sided, of no difference.
        df: Degrees of freedom.
        n: Runs in the first and in the second group.
        method: How error and interval were computed, or why there is none.
    """

    value: float
    stderr: float | None
    ci_low: float | None
    ci_high: float | None
    level: float
    p_value: float | None
    df: float | None
    n: tuple[int, int]
    method: str


def welch_difference(first: Sequence[float], second: Sequence[float], level: float = 0.95) -> MeanDifference:
    """Difference of two independent means, variances not assumed equal (Welch 1947).

    Args:
        first: A value a run, at least one, all finite.
        second: The same of the other group.
        level: Confidence level.

    >>> round(welch_difference([1.0, 2.0, 3.0], [2.0, 4.0, 6.0]).df, 2)
    2.94
    """
    a, b = mean_interval(first), mean_interval(second)
    value, n = b.value - a.value, (len(first), len(second))
    if a.stderr is None or b.stderr is None:
        return MeanDifference(value, None, None, None, level, None, None, n, "no error: a group has one run")
    stderr = math.hypot(a.stderr, b.stderr)
    if stderr == 0:
        return MeanDifference(value, 0.0, None, None, level, None, None, n, "Welch's t, no variation")
    df = 1 / ((a.stderr / stderr) ** 4 / (n[0] - 1) + (b.stderr / stderr) ** 4 / (n[1] - 1))
    return _with_interval(value, stderr, df, n, level, "Welch's t")


def paired_runs_difference(first: Sequence[float], second: Sequence[float], level: float = 0.95) -> MeanDifference:
    """Mean difference of runs that belong together pair by pair, as those of one seed do.

    Args:
        first: A value a run, at least one, all finite.
        second: The value of each one's partner.
        level: Confidence level.
    """
    found = mean_interval([b - a for a, b in zip(first, second, strict=True)])
    n = (len(first), len(second))
    if found.stderr is None:
        return MeanDifference(found.value, None, None, None, level, None, None, n, "no error: one pair")
    if found.stderr == 0:
        return MeanDifference(found.value, 0.0, None, None, level, None, None, n, "paired t, no variation")
    return _with_interval(found.value, found.stderr, len(first) - 1, n, level, "paired t")


def _with_interval(
    value: float, stderr: float, df: float, n: tuple[int, int], level: float, method: str
) -> MeanDifference:
    p_value = 2 * t_cdf(-abs(value / stderr), df)
    return MeanDifference(value, stderr, *t_interval(value, stderr, df, level), level, p_value, df, n, method)

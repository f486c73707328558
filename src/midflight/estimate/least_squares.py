"""Ordinary least squares with Student's intervals, and which coefficients the data can tell apart at all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from midflight.estimate.quantiles import t_cdf, t_interval

Floats: TypeAlias = npt.NDArray[np.float64]

_RANK = 1e-9
"""Singular values below this share of the largest are 0: what is left of collinear columns after rounding."""
_CONFOUNDED = 1e-7
_ROUNDING = 1e-13
"""Residuals below this share of the values are rounding."""


@dataclass(frozen=True, slots=True)
class Coefficient:
    """What one column does, the others held still.

    Attributes:
        value: Change of the outcome by one unit of the column; None if the data cannot tell it.
        stderr: Its standard error; None without residual degrees of freedom.
        low: Lower end of the interval; None where there is no error, or a perfect fit leaves no variation.
        high: Upper end.
        p_value: Two-sided, of no effect; None where there is no interval.
        inflation: Its variance ÷ what it would be if the column was alone (variance inflation factor).
        confounded_with: Columns whose effect cannot be told from this one's.
    """

    value: float | None
    stderr: float | None = None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    inflation: float | None = None
    confounded_with: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LeastSquares:
    """A linear model with intercept.

    Attributes:
        coefficients: One a column.
        df: Residual degrees of freedom: rows − 1 − rank of the columns.
        residual_sd: √(sum of squared residuals ÷ df); None without degrees of freedom.
        explained: Share of the outcome's variance that the model explains (R²); None if there is none to explain.
    """

    coefficients: Sequence[Coefficient]
    df: int
    residual_sd: float | None
    explained: float | None


def least_squares(columns: Floats, outcome: Floats, level: float = 0.95) -> LeastSquares:
    """Fits outcome = intercept + columns · coefficients.

    A coefficient is estimable if no vector of the columns' null space touches it (Searle 1971, Linear Models, section
    5.4); it is confounded with those that the projection onto the null space ties it to. The covariance is s²·(XᵀX)⁺,
    the intervals are Student's with the residual degrees of freedom.

    Args:
        columns: Rows × columns (N, K), finite, N ≥ 1.
        outcome: One value a row (N), finite.
        level: Confidence level.
    """
    n, width = columns.shape
    centred = columns - columns.mean(axis=0)
    scale = np.abs(centred).max(axis=0, initial=0.0)
    scale[scale <= _ROUNDING * np.abs(columns).max(axis=0, initial=0.0)] = np.inf  # constant: no effect can be told
    unit = float(np.abs(outcome).max()) or 1.0  # squares of large outcomes would overflow
    y = outcome / unit - math.fsum(outcome / unit) / n
    standard = centred / scale
    left, singular, right = np.linalg.svd(standard, full_matrices=False)
    rank = int((singular > _RANK * max(1.0, singular.max(initial=0.0))).sum())
    left, singular, right = left[:, :rank], singular[:rank], right[:rank]
    free = np.eye(width) - right.T @ right
    weights = right.T / singular
    beta = weights @ (left.T @ y)
    residuals = y - standard @ beta
    rest, total = _squares(residuals, outcome / unit), _squares(y, outcome / unit)
    df = n - 1 - rank
    sd = unit * math.sqrt(rest / df) if df > 0 else None
    found = []
    for index in range(width):
        ties = [int(other) for other in np.flatnonzero(np.abs(free[index]) > _CONFOUNDED) if other != index]
        if free[index, index] > _CONFOUNDED:
            found.append(Coefficient(None, confounded_with=tuple(ties)))
            continue
        spread = math.fsum(weights[index] ** 2)
        error = None if sd is None else sd * math.sqrt(spread) / float(scale[index])
        inflation = spread * math.fsum(standard[:, index] ** 2)
        found.append(_coefficient(unit * float(beta[index] / scale[index]), error, df, level, inflation))
    return LeastSquares(found, df, sd, 1 - rest / total if total else None)


def _coefficient(value: float, error: float | None, df: int, level: float, inflation: float) -> Coefficient:
    if not error:
        return Coefficient(value, error, inflation=inflation)
    p_value = 2 * t_cdf(-abs(value) / error, df)
    return Coefficient(value, error, *t_interval(value, error, df, level), p_value, inflation)


def _squares(deviations: Floats, values: Floats) -> float:
    """Sum of squares; 0 where it is no more than rounding."""
    found = math.fsum(deviations**2)
    return found if found > len(values) * (_ROUNDING * float(np.abs(values).max(initial=0.0))) ** 2 else 0.0

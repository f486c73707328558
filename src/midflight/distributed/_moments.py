"""Exact sums of values and of their squares: adding is then free of order, batches and ranks, to the bit.

A float64 is a whole multiple of 2⁻¹⁰⁷⁴ and its square one of 2⁻²¹⁴⁸, so sums are kept as Python integers. A long array
becomes few integers by error-free extraction: rounded to a grid so coarse that float64 adds the multiples without
error, then the rests, until nothing is left (Rump, Ogita & Oishi 2008, "Accurate floating-point summation part I",
algorithm 3.2; squares are split by Veltkamp and Dekker).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

_BITS = 1074
"""The smallest positive float64 is 2 to the minus this."""

_BLOCK = 1 << 15
"""Values that are summed at a time: they stay in the processor's cache."""

_FEW = 32
"""Up to so many values, integers one by one are faster than arrays."""


@dataclass(slots=True)
class Moments:
    """What is known of a set of values; infinite ones and NaN are counted, the finite ones summed.

    Attributes:
        finite, nan, plus_inf, minus_inf: How many.
        low, high: Extremes of the finite values; +inf and −inf where there is none.
        total: Sum of the finite values, in units of 2⁻¹⁰⁷⁴.
        squares: Sum of their squares, in units of 2⁻²¹⁴⁸.
    """

    finite: int = 0
    nan: int = 0
    plus_inf: int = 0
    minus_inf: int = 0
    low: float = math.inf
    high: float = -math.inf
    total: int = 0
    squares: int = 0

    def add(self, other: Moments) -> None:
        """Takes the values of another set in."""
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def count(self) -> int:
        """Values of any kind."""
        return self.finite + self.nan + self.plus_inf + self.minus_inf

    def sum(self) -> float | None:
        """Their sum by the rules of IEEE 754, rounded once; None of nothing."""
        return self._or_not_finite(lambda: _ratio(self.total, 1 << _BITS))

    def mean(self) -> float | None:
        """Their mean, rounded once; None of nothing."""
        return self._or_not_finite(lambda: _ratio(self.total, self.finite << _BITS))

    def variance(self) -> float | None:
        """Their sample variance, over n − 1, rounded once; None of fewer than two, NaN if one is not finite."""
        if self.count < 2:
            return None
        if self.finite < self.count:
            return math.nan
        n = self.finite
        return _ratio(n * self.squares - self.total**2, n * (n - 1) << 2 * _BITS)

    def min(self) -> float | None:
        """The least; NaN if one is; None of nothing."""
        extreme = -math.inf if self.minus_inf else self.low
        return math.nan if self.nan else extreme if self.count else None

    def max(self) -> float | None:
        """The greatest; NaN if one is; None of nothing."""
        extreme = math.inf if self.plus_inf else self.high
        return math.nan if self.nan else extreme if self.count else None

    def _or_not_finite(self, value: Callable[[], float]) -> float | None:
        if self.finite == self.count:
            return value() if self.count else None
        if self.nan or (self.plus_inf and self.minus_inf):
            return math.nan
        return math.inf if self.plus_inf else -math.inf


_COUNTS = ("finite", "nan", "plus_inf", "minus_inf")
_SUMS = (*_COUNTS, "total", "squares")


def moments(values: Array) -> Moments:
    """The moments of a one-dimensional array."""
    found = Moments()
    for start in range(0, len(values), _BLOCK):
        found.add(_of_block(values[start : start + _BLOCK] + 0.0))  # −0 becomes 0: else the order decided on extremes
    return found


def _of_block(values: Array) -> Moments:
    finite = values[np.isfinite(values)]
    lost = len(values) - len(finite)
    plus, minus = (int((values == sign * math.inf).sum()) if lost else 0 for sign in (1, -1))
    found = Moments(len(finite), lost - plus - minus, plus, minus)
    if len(finite):
        found.low, found.high = float(finite.min()), float(finite.max())
        found.total, found.squares = _sums(finite)
    return found


def _sums(values: Array) -> tuple[int, int]:
    """Sum and sum of squares of finite values, exactly."""
    size = np.abs(values)
    if len(values) <= _FEW:
        alone = np.ones(len(values), dtype=bool)
    else:  # the squares of these, or the low parts of them, are no float64
        alone = (size > 2.0**500) | ((size < 2.0**-400) & (size > 0))
    integers = [_integer(value) for value in values[alone].tolist()]
    many = values[~alone]
    high = _upper(many, 26)
    low = many - high  # high + low = value, each of at most 26 bits: the products below are exact
    products = np.concatenate([high * high, 2 * high * low, low * low]) if low.any() else high * high
    total = sum(integers) + _exact_sum(many)
    return total, sum(n * n for n in integers) + (_exact_sum(products) << _BITS)


def _upper(values: Array, bits: int) -> Array:
    """The values rounded to so many significant bits (Veltkamp 1968)."""
    stretched: Array = values * float(2 ** (53 - bits) + 1)
    rounded: Array = stretched - (stretched - values)
    return rounded


def _exact_sum(values: Array) -> int:
    """The sum in units of 2⁻¹⁰⁷⁴, without any error."""
    total = 0
    while len(values):
        _, exponent = math.frexp(float(np.abs(values).max()))
        grid = math.ldexp(1.0, exponent + len(values).bit_length())
        multiples = (values + grid) - grid
        total += _integer(float(multiples.sum()))  # all partial sums are representable, in whatever order
        values = values - multiples
        values = values[values != 0]
    return total


def _integer(value: float) -> int:
    numerator, denominator = value.as_integer_ratio()
    return numerator << _BITS + 1 - denominator.bit_length()


def _ratio(numerator: int, denominator: int) -> float:
    try:
        return numerator / denominator  # Python rounds this correctly, whatever the size
    except OverflowError:
        return math.copysign(math.inf, numerator)


def to_columns(by_key: Mapping[str, Moments]) -> dict[str, list[Any]]:
    """Moments of many keys as few long lists, which travel cheaply; integers without their trailing zeros."""
    all_of = by_key.values()
    columns: dict[str, list[Any]] = {"key": list(by_key)}
    for name in (*_COUNTS, "low", "high"):
        columns[name] = [getattr(each, name) for each in all_of]
    for name in ("total", "squares"):
        numbers = [getattr(each, name) for each in all_of]
        zeros = [(n & -n).bit_length() - 1 if n else 0 for n in numbers]
        columns[name] = [n >> zero for n, zero in zip(numbers, zeros, strict=True)]
        columns[f"{name} zeros"] = zeros
    return columns


def from_columns(columns: Mapping[str, list[Any]]) -> dict[str, Moments]:
    """What `to_columns` made columns of."""
    shifted = {
        name: [n << zero for n, zero in zip(columns[name], columns[f"{name} zeros"], strict=True)]
        for name in ("total", "squares")
    }
    rows = zip(
        *(columns[name] for name in (*_COUNTS, "low", "high")), shifted["total"], shifted["squares"], strict=True
    )
    return {key: Moments(*row) for key, row in zip(columns["key"], rows, strict=True)}

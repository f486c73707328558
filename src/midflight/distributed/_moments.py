"""Exact sums of values and of their squares: adding is then free of order, batches and ranks, to the bit.

A float64 is a whole multiple of 2⁻¹⁰⁷⁴ and its square one of 2⁻²¹⁴⁸, so sums are kept as Python integers. A long array
becomes few integers by error-free extraction: rounded to a grid so coarse that float64 adds the multiples without
error, then the rests, until nothing is left (Rump, Ogita & Oishi 2008, "Accurate floating-point summation part I",
algorithm 3.2; squares are split by Veltkamp and Dekker).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Indices: TypeAlias = np.ndarray[Any, np.dtype[np.intp]]

_BITS = 1074
"""The smallest positive float64 is 2 to the minus this."""

_BLOCK = 1 << 15
"""Values that are summed at a time: they stay in the processor's cache."""


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
        self.finite += other.finite
        self.nan += other.nan
        self.plus_inf += other.plus_inf
        self.minus_inf += other.minus_inf
        self.total += other.total
        self.squares += other.squares

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


def moments(arrays: Sequence[Array]) -> list[Moments]:
    """The moments of each of several one-dimensional arrays, summed together: keys are many and their arrays short."""
    found = [Moments() for _ in arrays]
    values = np.concatenate(arrays) + 0.0  # −0 becomes 0: which of the two is the extreme would depend on the order
    owner = np.repeat(np.arange(len(arrays)), [len(array) for array in arrays])
    for start in range(0, len(values), _BLOCK):
        block = slice(start, start + _BLOCK)
        _add_block(found, values[block], owner[block])
    return found


def _add_block(found: list[Moments], values: Array, owner: Indices) -> None:
    finite = np.isfinite(values)
    if not finite.all():
        for index, value in zip(owner[~finite].tolist(), values[~finite].tolist(), strict=True):
            found[index].nan += math.isnan(value)
            found[index].plus_inf += value == math.inf
            found[index].minus_inf += value == -math.inf
        values, owner = values[finite], owner[finite]
    if not len(values):
        return
    starts = np.flatnonzero(np.diff(owner, prepend=-1))  # `owner` ascends
    counts = np.diff(starts, append=len(values))
    totals, squares = _sums(values, np.repeat(np.arange(len(starts)), counts), len(starts))
    columns = (counts, np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts))
    rows = zip(*(column.tolist() for column in columns), totals, squares, strict=True)
    for index, (count, low, high, total, square) in zip(owner[starts].tolist(), rows, strict=True):
        found[index].add(Moments(count, 0, 0, 0, low, high, total, square))


def _sums(values: Array, owner: Indices, owners: int) -> tuple[list[int], list[int]]:
    """Sums of finite values and of their squares, for each owner, exactly."""
    size = np.abs(values)
    alone = (size > 2.0**500) | ((size < 2.0**-400) & (size > 0))  # squares of these, or parts of them, are no float64
    many, owner_of_many = (values, owner) if not alone.any() else (values[~alone], owner[~alone])
    high = _upper(many, 26)
    low = many - high  # high + low = value, each of at most 26 bits: the products below are exact
    products, owner_of_products = high * high, owner_of_many
    if low.any():
        products = np.concatenate([products, 2 * high * low, low * low])
        owner_of_products = np.tile(owner_of_many, 3)
    totals = _exact_sums(many, owner_of_many, owners)
    squares = [total << _BITS for total in _exact_sums(products, owner_of_products, owners)]
    for index, value in zip(owner[alone].tolist(), values[alone].tolist(), strict=True):
        integer = _integer(value)
        totals[index] += integer
        squares[index] += integer * integer
    return totals, squares


def _upper(values: Array, bits: int) -> Array:
    """The values rounded to so many significant bits (Veltkamp 1968)."""
    stretched: Array = values * float(2 ** (53 - bits) + 1)
    rounded: Array = stretched - (stretched - values)
    return rounded


def _exact_sums(values: Array, owner: Indices, owners: int) -> list[int]:
    """The sum of each owner's values in units of 2⁻¹⁰⁷⁴, without any error."""
    totals = [0] * owners
    most = int(np.bincount(owner, minlength=1).max())
    while len(values):
        _, exponent = math.frexp(float(np.abs(values).max()))
        grid = math.ldexp(1.0, exponent + most.bit_length())
        multiples = (values + grid) - grid
        sums = np.bincount(owner, multiples, owners)  # exact: all partial sums are representable, in whatever order
        totals = [total + _integer(each) for total, each in zip(totals, sums.tolist(), strict=True)]
        values = values - multiples
        left = values != 0
        if not left.all():
            values, owner = values[left], owner[left]
    return totals


def _integer(value: float) -> int:
    numerator, denominator = value.as_integer_ratio()
    return numerator << _BITS + 1 - denominator.bit_length()


def _ratio(numerator: int, denominator: int) -> float:
    try:
        return numerator / denominator  # Python rounds this correctly, whatever the size
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


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

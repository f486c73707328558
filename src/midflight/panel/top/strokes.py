"""Curves drawn with characters: a line of blocks, and a chart of braille dots."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.floating]

BLOCKS = "▁▂▃▄▅▆▇█"
NOT_FINITE = "×"
_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
"""Bit of each dot of a braille character, a row of the matrix a row of dots."""


def sparkline(values: Sequence[float], width: int) -> str:
    """A curve of one line, the newest value at its right end; × where a value is not finite.

    Args:
        values: The values; neighbours share a character by their mean where there are more than it has room for.
        width: Characters at most.

    >>> sparkline([0, 1, 2, 3], 8), sparkline([1, 1], 8), sparkline([0, float("nan"), 7], 8), sparkline([], 8)
    ('▁▃▆█', '▄▄', '▁×█', '')
    """
    parts = [np.asarray(part, float) for part in np.array_split(values, min(width, len(values)))] if len(values) else []
    means = np.array([part.mean() if np.isfinite(part).all() else np.nan for part in parts])
    levels = _levels(means, len(BLOCKS))
    return "".join(NOT_FINITE if level < 0 else BLOCKS[level] for level in levels)


def chart(x: Values, mean: Values, low: Values, high: Values, width: int, height: int) -> list[list[tuple[str, bool]]]:
    """A curve of several lines: its means joined by lines, over the range from minimum to maximum.

    Args:
        x: Where each bucket stands (B), increasing.
        mean: Mean of its finite values (B); NaN if there is none.
        low: Smallest of them (B).
        high: Largest (B).
        width: Characters of a line.
        height: Lines.

    Returns:
        Lines from the top; each as pieces of text with whether the line of the means goes through them.

    >>> flat = np.arange(4.0)
    >>> chart(flat, flat, flat, flat, 2, 1), chart(flat[:2], flat[:2], flat[:2] - 1, flat[:2] + 1, 1, 1)
    ([[('⡠⠊', True)]], [[('⡾', True)]])
    """
    band = np.zeros((height * 4, width * 2), bool)
    line = band.copy()
    there = np.isfinite(low) & np.isfinite(high) & np.isfinite(mean)
    if there.any():
        bottom, top = float(low[there].min()), float(high[there].max())
        columns = _scaled(x[there], float(x[0]), float(x[-1]), width * 2)
        first, last, means = (_scaled(array[there], bottom, top, height * 4) for array in (low, high, mean))
        for column, one, other in zip(columns, first, last, strict=True):
            band[one : other + 1, column] = True
        line[means, columns] = True
        for (a, b), (c, d) in pairwise(zip(columns.tolist(), means.tolist(), strict=True)):
            dots = max(c - a, abs(d - b)) + 1
            line[np.linspace(b, d, dots).round().astype(int), np.linspace(a, c, dots).round().astype(int)] = True
    codes, bright = _codes(band | line, height, width), _codes(line, height, width)
    return [_pieces(row, lit) for row, lit in zip(codes.tolist(), bright.tolist(), strict=True)]


def _codes(dots: npt.NDArray[np.bool_], height: int, width: int) -> npt.NDArray[np.int_]:
    """The dots of each character as the number of its braille sign; the first row is the top."""
    cells = dots[::-1].reshape(height, 4, width, 2).transpose(0, 2, 1, 3)
    return np.asarray((cells * _DOTS).sum(axis=(2, 3)), int)


def _pieces(codes: list[int], bright: list[int]) -> list[tuple[str, bool]]:
    signs = zip(codes, bright, strict=True)
    return [
        ("".join(chr(0x2800 + code) for code, _ in group), lit) for lit, group in groupby(signs, lambda one: one[1] > 0)
    ]


def _scaled(values: Values, low: float, high: float, size: int) -> npt.NDArray[np.int_]:
    span = high / 2 - low / 2  # halves: the whole may be larger than a float
    if not np.isfinite(span) or span <= 0:
        return np.full(len(values), (size - 1) // 2)
    share = (np.asarray(values, float) / 2 - low / 2) / span
    return np.clip((share * (size - 1)).round(), 0, size - 1).astype(int)


def _levels(values: Values, size: int) -> list[int]:
    """Place of each value between the smallest and the largest; -1 where it is not finite."""
    there = np.isfinite(values)
    levels = np.full(len(values), -1)
    if there.any():
        levels[there] = _scaled(values[there], float(values[there].min()), float(values[there].max()), size)
    return [int(level) for level in levels]

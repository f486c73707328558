"""Curves of many runs in one row of buckets, in SQLite: one read for all of them, so that they share their x values.

A bucket spans a power of two of steps and begins at a multiple of it: it stays where it is while a run grows. Where so
few steps were logged that each can have a bucket of its own, the points themselves are given.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from midflight.store._database import Database
from midflight.store._pieces import ChunkPlace, Opened, RunPieces, key_ids, opened_of, pieces_of, read_chunks, series_in
from midflight.store._points import BUCKET, Sketch
from midflight.store.nouns import Floats, Ints, NonFinite, Overviews

_TOGETHER = 1 << 14
"""Points that are read and summed at once."""
_FINE = 8
"""A bucket that spans so many rows of a sketch is taken from it: it is off by less than an eighth of its width."""


class OverviewTable:
    """Reads many series at once."""

    database: Database

    def read_overviews(
        self,
        runs: Sequence[int],
        keys: Sequence[str],
        low: int | None = None,
        high: int | None = None,
        buckets: int = 400,
    ) -> Overviews:
        """Series of runs in at most so many buckets that all of them share.

        Args:
            runs: Numbers of the runs.
            keys: Names of the series.
            low: First step; None = from the first that there is.
            high: Last step, inclusive.
            buckets: At most so many.
        """
        with self.database.snapshot() as db:
            names = key_ids(db, keys)
            pieces = pieces_of(db, runs, list(names.values()))
            rows = [(run, key) for run in pieces for key in keys if key in names and _has(pieces[run], names[key])]
            grid = _grid(db, pieces, list(names.values()), low, high, buckets)
            sums = _Sums(len(rows), grid)
            index = {(run, names[key]): row for row, (run, key) in enumerate(rows)}
            _add_runs(db, sums, pieces, index)
        return sums.overviews(rows)


def _has(pieces: RunPieces, key: int) -> bool:
    return key in pieces.chunks or key in pieces.num_open


# -- buckets ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Grid:
    """The buckets: ranges of `width` steps from `start` on, or, if `width` is 0, one for each of `steps`."""

    low: int
    high: int
    width: int
    start: int
    count: int
    steps: Ints | None = None

    @property
    def is_exact(self) -> bool:
        """Whether no two steps share a bucket."""
        return self.width <= 1

    def find(self, steps: Ints) -> Ints:
        """The bucket of each step; the steps are within the range."""
        if self.steps is not None:
            return np.searchsorted(self.steps, steps)
        return (steps - self.start) // self.width

    def firsts(self) -> Ints:
        """First step of each bucket."""
        return self.steps if self.steps is not None else self.start + self.width * np.arange(self.count, dtype=np.int64)


def _grid(
    db: sqlite3.Connection,
    pieces: dict[int, RunPieces],
    keys: Sequence[int],
    low: int | None,
    high: int | None,
    buckets: int,
) -> _Grid:
    spans = [span for found in pieces.values() for key in keys for span in _spans(found, key, low, high)]
    if not spans:
        return _Grid(0, -1, 0, 0, 0, np.empty(0, np.int64))
    first = max(min(span[0] for span in spans), low if low is not None else -1)
    last = min(max(span[1] for span in spans), high if high is not None else 1 << 62)
    if last - first < buckets:
        return _Grid(first, last, 1, first, max(0, last - first + 1))
    most = max(sum(c.n for c in p.chunks.get(k, ())) + p.num_open.get(k, 0) for p in pieces.values() for k in keys)
    if most <= buckets:
        steps = _logged_steps(db, pieces, first, last)
        if len(steps) <= buckets:
            return _Grid(first, last, 0, 0, len(steps), steps)
    width = 1 << ((last - first) // buckets).bit_length()
    while last // width - first // width >= buckets:
        width *= 2
    start = first // width * width
    return _Grid(first, last, width, start, (last - start) // width + 1)


def _spans(found: RunPieces, key: int, low: int | None, high: int | None) -> Iterator[tuple[int, int]]:
    """First and last step of each piece of a series that reaches into the range."""
    spans = [(chunk.first, chunk.last) for chunk in found.chunks.get(key, ())]
    if key in found.first:
        spans.append((found.first[key], found.last[key]))
    for first, last in spans:
        if (low is None or last >= low) and (high is None or first <= high):
            yield first, last


def _logged_steps(db: sqlite3.Connection, pieces: dict[int, RunPieces], first: int, last: int) -> Ints:
    """All steps of the series, those that were superseded included: they leave an empty bucket, which is dropped."""
    steps = [chunk.read(db)[0] for found in pieces.values() for chunks in found.chunks.values() for chunk in chunks]
    steps += [block.steps for run, found in pieces.items() if found.num_open for block in opened_of(db, run)]
    every = np.unique(np.concatenate(steps))
    return every[(every >= first) & (every <= last)]


# -- filling them ----------------------------------------------------------------------------------------------------


def _add_runs(
    db: sqlite3.Connection, sums: _Sums, pieces: dict[int, RunPieces], index: Mapping[tuple[int, int], int]
) -> None:
    """Adds series, by run and key and their row; the oldest attempt at each run first, so that the last word counts."""
    limits = {row: pieces[run].limits(key) for (run, key), row in index.items()}
    for place in range(max((len(found.attempts) for found in pieces.values()), default=0)):
        now = {run: found.attempts[-1 - place][0] for run, found in pieces.items() if place < len(found.attempts)}
        own = [(run, key, row, limits[row][now[run]]) for (run, key), row in index.items() if run in now]
        _add_chunks(
            db,
            sums,
            (
                (row, chunk, limit)
                for run, key, row, limit in own
                for chunk in pieces[run].chunks.get(key, ())
                if chunk.attempt == now[run] and _is_needed(sums.grid, chunk, limit)
            ),
        )
        opened: dict[int, dict[int, tuple[int, float]]] = {}
        for run, key, row, limit in own:
            if pieces[run].num_open:
                opened.setdefault(run, {})[key] = row, limit
        for run, rows in opened.items():
            _add_opened(sums, opened_of(db, run, now[run]), now[run], rows)


def _add_opened(sums: _Sums, blocks: Sequence[Opened], attempt: int, rows: Mapping[int, tuple[int, float]]) -> None:
    """Adds the open flushes of an attempt to the rows of their keys, each up to its limit."""
    count = Counter(key for block in blocks for key in block.keys)
    for block in blocks:
        _add_block(sums, block, {key: where for key, where in rows.items() if count[key] == 1})
    for key, (row, limit) in rows.items():
        for steps, _, values in series_in(blocks, attempt, key) if count[key] > 1 else ():
            sums.add([row], steps, values[None], limit)  # it was logged beside other keys now and then


def _add_block(sums: _Sums, block: Opened, rows: Mapping[int, tuple[int, float]]) -> None:
    by_limit: dict[float, list[int]] = {}
    for at, key in enumerate(block.keys):
        if key in rows:
            by_limit.setdefault(rows[key][1], []).append(at)
    for limit, kept in by_limit.items():
        sums.add([rows[block.keys[at]][0] for at in kept], block.steps, block.values[kept], limit)


def _add_chunks(db: sqlite3.Connection, sums: _Sums, chunks: Iterable[tuple[int, ChunkPlace, float]]) -> None:
    """Adds chunks to their rows, each up to its limit; those with the same steps are taken together, of all runs.

    Those of a row are added in the order in which they were written, as a step may be written again.
    """
    alike: dict[tuple[int, int, int, int, float], list[tuple[int, ChunkPlace]]] = {}
    places: Counter[int] = Counter()
    for row, chunk, limit in chunks:
        if _is_fine(sums.grid, chunk, limit):
            sums.add_sketch(row, chunk.read_sketch(db))
        else:
            alike.setdefault((places[row], chunk.first, chunk.last, chunk.n, limit), []).append((row, chunk))
            places[row] += 1
    for key in sorted(alike):
        found, (*_, n, limit) = alike[key], key
        size = max(1, _TOGETHER // n)
        for start in range(0, len(found), size):
            _add_together(db, sums, found[start : start + size], limit)


def _add_together(db: sqlite3.Connection, sums: _Sums, chunks: Sequence[tuple[int, ChunkPlace]], limit: float) -> None:
    by_steps: dict[bytes, tuple[Ints, list[int], list[Floats]]] = {}
    for (row, _), (steps, _, values) in zip(chunks, read_chunks(db, [chunk for _, chunk in chunks]), strict=True):
        _, rows, columns = by_steps.setdefault(steps.tobytes(), (steps, [], []))
        rows.append(row)
        columns.append(values)
    for steps, rows, columns in by_steps.values():
        sums.add(rows, steps, np.stack(columns), limit)


def _is_needed(grid: _Grid, chunk: ChunkPlace, limit: float) -> bool:
    return chunk.last >= grid.low and chunk.first <= grid.high and chunk.first < limit


def _is_fine(grid: _Grid, chunk: ChunkPlace, limit: float) -> bool:
    """Whether the statistics of a chunk do as well as its points."""
    span = (chunk.last - chunk.first + 1) / -(-chunk.n // BUCKET)
    return grid.width >= _FINE * span and grid.low <= chunk.first and chunk.last <= grid.high and chunk.last < limit


class _Sums:
    """What is known of each series (S) in each bucket (B)."""

    def __init__(self, num_series: int, grid: _Grid) -> None:
        shape = (num_series, grid.count)
        self.grid = grid
        self.low, self.high = np.full(shape, np.nan, np.float32), np.full(shape, np.nan, np.float32)
        self.total, self.finite = np.zeros(shape), np.zeros(shape, np.int32)
        self.points = np.zeros(num_series, np.int64)
        self.logged = np.zeros(grid.count, bool)
        self.broken: dict[tuple[int, int], tuple[int, str]] = {}

    def add(self, rows: list[int], steps: Ints, values: Floats, limit: float) -> None:
        """Adds points of several series at the same steps."""
        keep = (steps >= self.grid.low) & (steps <= self.grid.high) & (steps < limit)
        if not keep.all():
            steps, values = steps[keep], values[:, keep]
        if not len(steps):
            return
        at = self.grid.find(steps)
        if (at[1:] < at[:-1]).any():
            order = np.argsort(at, kind="stable")
            at, values = at[order], values[:, order]
        starts = np.flatnonzero(np.append(True, at[1:] != at[:-1]))
        cells = at[starts]
        if self.grid.is_exact:  # the last value of a step counts
            values = values[:, np.append(starts[1:], len(at)) - 1]
            at, starts = cells, np.arange(len(cells))
            self._forget(rows, cells)
        self.points[rows] += values.shape[1]
        is_finite = np.isfinite(values)
        if is_finite.all():
            lows, highs = np.minimum.reduceat(values, starts, axis=1), np.maximum.reduceat(values, starts, axis=1)
            finite = np.diff(np.append(starts, len(at)))
        else:
            self._note_broken(rows, at, values)
            known = np.where(is_finite, values, np.nan)
            lows, highs = np.fmin.reduceat(known, starts, axis=1), np.fmax.reduceat(known, starts, axis=1)
            finite = np.add.reduceat(is_finite, starts, axis=1, dtype=np.int64)
            values = np.where(is_finite, values, 0.0)
        with np.errstate(over="ignore", invalid="ignore"):  # a sum that no float holds is infinite, or none
            totals = np.add.reduceat(values, starts, axis=1)
        self._merge(rows, cells, lows, highs, totals, finite)

    def add_sketch(self, row: int, sketch: Sketch) -> None:
        """Adds a chunk by its statistics."""
        at = self.grid.find(sketch.steps)
        order = np.argsort(at, kind="stable")
        at = at[order]
        starts = np.flatnonzero(np.append(True, at[1:] != at[:-1]))
        with np.errstate(over="ignore", invalid="ignore"):
            low, high, total, finite, count = (
                rule.reduceat(column[order], starts)
                for rule, column in (
                    (np.fmin, sketch.low), (np.fmax, sketch.high), (np.add, sketch.total), (np.add, sketch.finite),
                    (np.add, sketch.count),
                )
            )  # fmt: skip
        self._merge([row], at[starts], low[None], high[None], total[None], finite)
        self.points[row] += int(count.sum())
        for cell, broken in zip(at[starts].tolist(), (count - finite).tolist(), strict=True):
            if broken:
                known = self.broken.get((row, cell), (0, ""))[0]
                self.broken[row, cell] = (known + broken, "")

    def _merge(self, rows: list[int], cells: Ints, lows: Floats, highs: Floats, totals: Floats, finite: Ints) -> None:
        where = _place(rows, cells)
        with np.errstate(over="ignore", invalid="ignore"):  # what is beyond float32 is drawn at infinity
            self.low[where] = np.fmin(self.low[where], lows.astype(np.float32))
            self.high[where] = np.fmax(self.high[where], highs.astype(np.float32))
            self.total[where] += totals
        self.finite[where] += finite.astype(np.int32)
        self.logged[cells] = True

    def _forget(self, rows: list[int], cells: Ints) -> None:
        """Takes back what was said of steps that are written again."""
        if not self.points[rows].any():
            return
        again = _place(rows, cells)
        self.points[rows] -= (self.finite[again] > 0).sum(axis=1)
        self.low[again], self.high[again], self.total[again], self.finite[again] = np.nan, np.nan, 0.0, 0
        for row, cell in {(row, cell) for row in rows for cell in cells.tolist()} & self.broken.keys():
            self.points[row] -= self.broken.pop((row, cell))[0]

    def _note_broken(self, rows: list[int], cells: Ints, values: Floats) -> None:
        for at, point in zip(*np.nonzero(~np.isfinite(values)), strict=True):
            value, where = float(values[at, point]), (rows[at], int(cells[point]))
            kind = "nan" if np.isnan(value) else "inf" if value > 0 else "-inf"
            known, before = self.broken.get(where, (0, kind))
            self.broken[where] = (known + 1, kind if kind == before else "")

    def overviews(self, rows: Sequence[tuple[int, str]]) -> Overviews:
        """The result; buckets in which nothing was logged are left out."""
        kept = np.flatnonzero(self.logged)
        places = {int(cell): at for at, cell in enumerate(kept)}
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            mean = (self.total / self.finite).astype(np.float32)
        if self.grid.is_exact:  # a sum of one, but not of what is too large for a float32
            mean = self.low
        broken = [NonFinite(row, places[cell], *found) for (row, cell), found in sorted(self.broken.items())]
        return Overviews(
            steps=self.grid.firsts()[kept],
            width=0 if self.grid.is_exact else self.grid.width,
            series=tuple(rows),
            num_points=self.points,
            mean=mean[:, kept],
            low=self.low[:, kept],
            high=self.high[:, kept],
            non_finite=broken,
        )


def _place(rows: list[int], cells: Ints) -> tuple[Any, Any]:
    """Where rows meet cells in an array; as slices, which are much faster, where they follow each other."""
    if rows == list(range(rows[0], rows[0] + len(rows))) and cells[-1] - cells[0] == len(cells) - 1:
        return slice(rows[0], rows[0] + len(rows)), slice(int(cells[0]), int(cells[-1]) + 1)
    return np.array(rows)[:, None], cells

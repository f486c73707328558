"""Where the points of series lie: chunks and open flushes, attempt by attempt, each up to the step that supersedes it.

A later attempt supersedes from where it says it began, or from the step of the series that it wrote first: points that
it adds late, further back, replace single points only.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from midflight.store._points import Sketch, decode_blocks, decode_chunk, decode_steps
from midflight.store._stored import legible, stored
from midflight.store.base import Floats, Ints

NO_LIMIT = float("inf")


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """A chunk of one series, not yet read."""

    attempt: int
    start: int
    first: int
    last: int
    n: int
    codec: int
    blob: int

    def read(self, db: sqlite3.Connection) -> tuple[Ints, Floats, Floats]:
        """Its steps, walls and values."""
        row = db.execute("SELECT data FROM blob WHERE id = ?", (self.blob,)).fetchone()
        return stored(lambda row: decode_chunk(self.n, self.codec, row[0]), row, "blob", self.blob, "data")

    def read_sketch(self, db: sqlite3.Connection) -> Sketch:
        """Its statistics, without its points."""
        row = db.execute("SELECT sketch FROM blob WHERE id = ?", (self.blob,)).fetchone()
        return stored(lambda row: Sketch.decode(row[0]), row, "blob", self.blob, "sketch")


@dataclass(frozen=True, slots=True)
class Opened:
    """Open flushes of an attempt that have the same keys, as one block.

    Attributes:
        attempt: The attempt.
        keys: Numbers of the keys (K).
        order: When each row was flushed: rows of other blocks lie between them (N).
        steps: Steps (N).
        walls: Seconds since the epoch (N).
        values: Values (K, N).
    """

    attempt: int
    keys: tuple[int, ...]
    order: Ints
    steps: Ints
    walls: Floats
    values: Floats


@dataclass(slots=True)
class RunPieces:
    """What there is of a run's series.

    Attributes:
        attempts: Attempts, the newest first, with the step that each says it began at; infinite if it does not say.
        chunks: Chunks by key, in the order in which they were written.
        openings: First step in open flushes, by attempt and key.
        num_open: Rows in open flushes, by key.
        first: Smallest step in open flushes, by key; superseded ones included.
        last: Largest.
    """

    attempts: list[tuple[int, float]] = field(default_factory=list)
    chunks: dict[int, list[ChunkPlace]] = field(default_factory=dict)
    openings: dict[tuple[int, int], int] = field(default_factory=dict)
    num_open: dict[int, int] = field(default_factory=dict)
    first: dict[int, int] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)

    def limits(self, key: int) -> dict[int, float]:
        """Attempts, each with the step from which on its points of a series are superseded; the oldest first."""
        found, limit = {}, NO_LIMIT
        for attempt, told in self.attempts:
            found[attempt] = limit
            chunk = next((c.start for c in self.chunks.get(key, ()) if c.attempt == attempt), None)
            start = chunk if chunk is not None else self.openings.get((attempt, key), NO_LIMIT)
            limit = min(limit, told, start)
        return dict(reversed(found.items()))

    def note(self, attempt: int, keys: Sequence[int], steps: Ints) -> None:
        """Takes note of an open flush."""
        first, last = int(steps.min()), int(steps.max())
        for key in keys:
            self.openings.setdefault((attempt, key), int(steps[0]))
            self.num_open[key] = self.num_open.get(key, 0) + len(steps)
            self.first[key] = min(first, self.first.get(key, first))
            self.last[key] = max(last, self.last.get(key, last))


def key_ids(db: sqlite3.Connection, names: Sequence[str]) -> dict[str, int]:
    """Numbers of series by name, as far as there are such; a damaged name is known by what is shown of it."""
    query = "SELECT id FROM key WHERE name = ?"
    rows = {name: db.execute(query, (name,)).fetchone() for name in names}
    found = {name: int(row[0]) for name, row in rows.items() if row is not None}
    if any(name not in found and "\\x" in name for name in rows):
        shown = {legible(raw): id for id, raw in db.execute("SELECT id, CAST(name AS BLOB) FROM key")}
        found |= {name: shown[name] for name in rows if name not in found and name in shown}
    return found


def pieces_of(db: sqlite3.Connection, runs: Sequence[int], keys: Sequence[int]) -> dict[int, RunPieces]:
    """What there is of some series of runs; of points, only the steps of open flushes are read."""
    found = {run: RunPieces() for run in runs}
    wanted, numbers = json.dumps(list(found)), json.dumps(list(keys))
    for run, attempt, told in db.execute(
        "SELECT run, number, from_step FROM attempt WHERE run IN (SELECT value FROM json_each(?))"
        " ORDER BY run, number DESC",
        (wanted,),
    ):
        found[run].attempts.append((attempt, NO_LIMIT if told is None else told))
    for run, key, *place in db.execute(
        "SELECT run, key, attempt, start, first, last, n, codec, blob FROM chunk WHERE run IN (SELECT value FROM"
        " json_each(?)) AND key IN (SELECT value FROM json_each(?)) ORDER BY run, key, attempt, blob",
        (wanted, numbers),
    ):
        found[run].chunks.setdefault(key, []).append(ChunkPlace(*place))
    for id, run, attempt, packed, data in db.execute(
        "SELECT id, run, attempt, keys, substr(data, 1, 8 * n) FROM flush WHERE run IN (SELECT value FROM json_each(?))"
        " ORDER BY run, attempt, id",
        (wanted,),
    ):
        stored(partial(_note, found[run], attempt, packed, keys), data, "flush", id, "keys or data")
    return found


def read_chunks(db: sqlite3.Connection, chunks: Sequence[ChunkPlace]) -> Iterator[tuple[Ints, Floats, Floats]]:
    """Steps, walls and values of each chunk, by one request."""
    wanted = json.dumps([chunk.blob for chunk in chunks])
    query = "SELECT id, data FROM blob WHERE id IN (SELECT value FROM json_each(?))"
    data: dict[int, bytes] = dict(db.execute(query, (wanted,)))
    return (decode_chunk(chunk.n, chunk.codec, data[chunk.blob]) for chunk in chunks)


def _note(pieces: RunPieces, attempt: int, packed: bytes, keys: Sequence[int], data: bytes) -> None:
    asked = set(np.frombuffer(packed, "<i4").tolist()).intersection(keys)
    pieces.note(attempt, sorted(asked), decode_steps(data))


def opened_of(db: sqlite3.Connection, run: int, attempt: int | None = None) -> list[Opened]:
    """Open flushes of a run, or of one attempt at it, joined where their keys are the same."""
    groups: dict[tuple[int, bytes], dict[int, list[tuple[int, bytes]]]] = {}
    for at, (number, n, keys, data) in enumerate(
        db.execute(
            "SELECT attempt, n, keys, data FROM flush WHERE run = ? AND (? IS NULL OR attempt = ?)"
            " ORDER BY attempt, id",
            (run, attempt, attempt),
        )
    ):
        groups.setdefault((number, keys), {}).setdefault(n, []).append((at, data))
    return [
        stored(partial(_joined, number, keys), by_size, "flush", f"of run {run}", "keys or data")
        for (number, keys), by_size in groups.items()
    ]


def _joined(attempt: int, packed: bytes, by_size: dict[int, list[tuple[int, bytes]]]) -> Opened:
    """Flushes of one set of keys as one block, in the order in which they were written; those of a size at once."""
    keys = tuple(np.frombuffer(packed, "<i4").tolist())
    parts = [
        (np.repeat([at for at, _ in flushes], n), *decode_blocks(len(keys), n, [data for _, data in flushes]))
        for n, flushes in by_size.items()
    ]
    order, steps, walls, values = (np.concatenate(columns, axis=-1) for columns in zip(*parts, strict=True))
    if len(parts) > 1:
        sorting = np.argsort(order, kind="stable")
        order, steps, walls, values = order[sorting], steps[sorting], walls[sorting], values[:, sorting]
    return Opened(attempt, keys, order, steps, walls, values)


def series_in(blocks: Sequence[Opened], attempt: int, key: int) -> Iterator[tuple[Ints, Floats, Floats]]:
    """Steps, walls and values of a series in an attempt's open flushes, in the order in which they were written."""
    own = [(block, block.keys.index(key)) for block in blocks if block.attempt == attempt and key in block.keys]
    if not own:
        return
    order = np.concatenate([block.order for block, _ in own])
    sorting = np.argsort(order, kind="stable")
    steps = np.concatenate([block.steps for block, _ in own])[sorting]
    walls = np.concatenate([block.walls for block, _ in own])[sorting]
    yield steps, walls, np.concatenate([block.values[row] for block, row in own])[sorting]

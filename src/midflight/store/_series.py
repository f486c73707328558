"""Series of points, in SQLite: flushes as they come, compacted into chunks as these fill."""

from __future__ import annotations

import sqlite3
import struct
import time
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np

from midflight.store._database import Database
from midflight.store._pieces import key_ids, opened_of, pieces_of, series_in
from midflight.store._points import CHUNK, encode_block, encode_chunks
from midflight.store._stored import legible, stored
from midflight.store.base import Block, Floats, Head, Ints, Points


class SeriesTable:
    """Adds and reads points."""

    database: Database
    _key_ids: dict[str, int]

    # -- writing -----------------------------------------------------------------------------------------------------

    def append_points(self, run: int, attempt: int, blocks: Sequence[Block]) -> None:
        """Adds points; all of them or, if it raises, none."""
        blocks = [block for block in blocks if len(block.steps)]
        if not blocks:
            return
        with self.database.writing() as db:
            ids = self._ids(db, sorted({key for block in blocks for key in block.keys}))
            self._update_heads(db, run, ids, blocks)
            db.execute("UPDATE run SET heartbeat = ? WHERE id = ?", (time.time(), run))
            rows = sum(len(block.steps) for block in blocks)
            opened = db.execute("SELECT sum(n) FROM flush WHERE run = ? AND attempt = ?", (run, attempt)).fetchone()[0]
            if (opened or 0) + rows < CHUNK:
                for block in blocks:
                    packed = np.array([ids[key] for key in block.keys], "<i4").tobytes()
                    db.execute(
                        "INSERT INTO flush (run, attempt, n, keys, data) VALUES (?, ?, ?, ?, ?)",
                        (run, attempt, len(block.steps), packed, encode_block(block)),
                    )
            else:
                self._compact(db, run, attempt, ids, blocks)
        self._key_ids.update(ids)  # not before: a transaction that fails takes its new keys with it

    def _ids(self, db: sqlite3.Connection, keys: Sequence[str]) -> dict[str, int]:
        found = {key: self._key_ids[key] for key in keys if key in self._key_ids}
        missing = [key for key in keys if key not in found]
        db.executemany("INSERT OR IGNORE INTO key (name) VALUES (?)", [(key,) for key in missing])
        for key in missing:
            found[key] = db.execute("SELECT id FROM key WHERE name = ?", (key,)).fetchone()[0]
        return found

    def _update_heads(self, db: sqlite3.Connection, run: int, ids: dict[str, int], blocks: Sequence[Block]) -> None:
        heads: dict[int, list[object]] = {}
        for block in blocks:
            step, wall = int(block.steps[-1]), float(block.walls[-1])
            for key, value in zip(block.keys, block.values[:, -1].tolist(), strict=True):
                known = heads.setdefault(ids[key], [step, wall, b"", 0])
                known[:3] = [step, wall, struct.pack("<d", value)]
                known[3] = int(known[3]) + len(block.steps)  # type: ignore[call-overload]
        db.executemany(
            "INSERT INTO head VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (run, key) DO UPDATE SET"
            " step = excluded.step, wall = excluded.wall, value = excluded.value, n = n + excluded.n",
            [(run, key, *head) for key, head in heads.items()],
        )

    def _compact(
        self, db: sqlite3.Connection, run: int, attempt: int, ids: dict[str, int], blocks: Sequence[Block]
    ) -> None:
        """Open flushes and new blocks become chunks."""
        parts = open_parts(db, run, attempt)
        for block in blocks:
            for row, name in enumerate(block.keys):
                parts.setdefault(ids[name], []).append((block.steps, block.walls, block.values[row]))
        write_chunks(db, run, attempt, parts)

    # -- reading -----------------------------------------------------------------------------------------------------

    def keys(self, run: int) -> list[str]:
        """Names of a run's series, sorted."""
        return [head.key for head in self.heads(run)]

    def heads(self, run: int) -> list[Head]:
        """Newest value of each series, by name."""
        with self.database.reading() as db:
            rows = db.execute(
                "SELECT CAST(name AS BLOB), step, wall, value, n FROM head JOIN key ON key.id = head.key"
                " WHERE run = ? ORDER BY name",
                (run,),
            ).fetchall()
        return [
            Head(legible(name), step, wall, stored(_double, value, "head", f"{run} {legible(name)}", "value"), n)
            for name, step, wall, value, n in rows
        ]

    def read_points(self, run: int, key: str, low: int | None = None, high: int | None = None) -> Points:
        """A series, or its steps from `low` to `high` inclusive."""
        low = -(1 << 62) if low is None else low
        high = (1 << 62) if high is None else high
        with self.database.snapshot() as db:  # though a writer compacts beside us
            kept = list(self._parts(db, run, key, low, high))
        if not kept:
            return Points(np.empty(0, np.int64), np.empty(0), np.empty(0))
        steps, walls, values = (np.concatenate(columns) for columns in zip(*kept, strict=True))
        order = np.argsort(steps, kind="stable")
        steps, walls, values = steps[order], walls[order], values[order]
        newest = np.append(steps[1:] != steps[:-1], True)[: len(steps)]
        return Points(steps[newest], walls[newest], values[newest])

    def _parts(
        self, db: sqlite3.Connection, run: int, key: str, low: int, high: int
    ) -> Iterator[tuple[Ints, Floats, Floats]]:
        """Pieces of a series in the order in which they were written, without what is out of range or superseded."""
        id = key_ids(db, [key]).get(key)
        if id is None:
            return
        pieces = pieces_of(db, [run], [id])[run]
        opened = opened_of(db, run) if pieces.num_open else []
        for attempt, limit in pieces.limits(id).items():
            parts = [
                chunk.read(db)
                for chunk in pieces.chunks.get(id, ())
                if chunk.attempt == attempt and chunk.last >= low and chunk.first <= high and chunk.first < limit
            ]
            for steps, walls, values in (*parts, *series_in(opened, attempt, id)):
                keep = (steps < limit) & (steps >= low) & (steps <= high)
                yield steps[keep], walls[keep], values[keep]


def _double(raw: bytes) -> float:
    return float(struct.unpack("<d", raw)[0])


Parts: TypeAlias = dict[int, list[tuple[Ints, Floats, Floats]]]
"""Steps, walls and values by key, in the order in which they were logged."""


def open_parts(db: sqlite3.Connection, run: int, attempt: int) -> Parts:
    """What is in the open flushes of an attempt."""
    opened = opened_of(db, run, attempt)
    return {key: list(series_in(opened, attempt, key)) for key in sorted({key for one in opened for key in one.keys})}


def write_chunks(db: sqlite3.Connection, run: int, attempt: int, parts: Parts) -> None:
    """Puts chunks in the place of an attempt's open flushes."""
    db.execute("DELETE FROM flush WHERE run = ? AND attempt = ?", (run, attempt))
    for key, series in parts.items():
        steps, walls, values = (np.concatenate(columns) for columns in zip(*series, strict=True))
        for chunk in encode_chunks(steps, walls, values):
            blob = db.execute("INSERT INTO blob (sketch, data) VALUES (?, ?)", (chunk.sketch, chunk.data)).lastrowid
            row_values = (run, key, attempt, chunk.start, chunk.first, chunk.last, chunk.n, chunk.codec, blob)
            db.execute("INSERT INTO chunk VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row_values)


def close_flushes(db: sqlite3.Connection, run: int) -> None:
    """Open flushes of a run that writes no more become chunks, which are read key by key."""
    attempts = db.execute("SELECT DISTINCT attempt FROM flush WHERE run = ?", (run,)).fetchall()
    for (attempt,) in attempts:
        write_chunks(db, run, attempt, open_parts(db, run, attempt))

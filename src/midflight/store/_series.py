"""Series of points, in SQLite: flushes as they come, compacted into chunks as these fill."""

from __future__ import annotations

import sqlite3
import struct
import time
from collections.abc import Sequence

import numpy as np

from midflight.store._database import Database
from midflight.store._points import CHUNK, Sketch, decode_block, decode_chunk, encode_block, encode_chunks
from midflight.store._runs import attempts_of
from midflight.store.base import Block, Floats, Head, Ints, Overview, Points


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
        """Open flushes and new blocks become chunks, key by key, in the order in which they were logged."""
        parts: dict[int, list[tuple[Ints, Floats, Floats]]] = {}
        for key_ids, block in self._open_blocks(db, run, attempt):
            for row, key in enumerate(key_ids):
                parts.setdefault(key, []).append((block.steps, block.walls, block.values[row]))
        for block in blocks:
            for row, name in enumerate(block.keys):
                parts.setdefault(ids[name], []).append((block.steps, block.walls, block.values[row]))
        db.execute("DELETE FROM flush WHERE run = ? AND attempt = ?", (run, attempt))
        for key, series in parts.items():
            steps, walls, values = (np.concatenate(columns) for columns in zip(*series, strict=True))
            for chunk in encode_chunks(steps, walls, values):
                blob = db.execute("INSERT INTO blob (sketch, data) VALUES (?, ?)", (chunk.sketch, chunk.data)).lastrowid
                row_values = (run, key, attempt, chunk.start, chunk.first, chunk.last, chunk.n, chunk.codec, blob)
                db.execute("INSERT INTO chunk VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row_values)

    def _open_blocks(self, db: sqlite3.Connection, run: int, attempt: int) -> list[tuple[list[int], Block]]:
        """Open flushes of an attempt with the numbers of their keys."""
        found = []
        for n, keys, data in db.execute(
            "SELECT n, keys, data FROM flush WHERE run = ? AND attempt = ? ORDER BY id", (run, attempt)
        ).fetchall():
            key_ids = np.frombuffer(keys, "<i4").tolist()
            found.append((key_ids, decode_block(tuple(map(str, key_ids)), n, data)))
        return found

    # -- reading -----------------------------------------------------------------------------------------------------

    def keys(self, run: int) -> list[str]:
        """Names of a run's series, sorted."""
        return [head.key for head in self.heads(run)]

    def heads(self, run: int) -> list[Head]:
        """Newest value of each series, by name."""
        with self.database.reading() as db:
            rows = db.execute(
                "SELECT name, step, wall, value, n FROM head JOIN key ON key.id = head.key WHERE run = ? ORDER BY name",
                (run,),
            ).fetchall()
        return [Head(name, step, wall, struct.unpack("<d", value)[0], n) for name, step, wall, value, n in rows]

    def read_points(self, run: int, key: str, low: int | None = None, high: int | None = None) -> Points:
        """A series, or its steps from `low` to `high` inclusive."""
        low = -(1 << 62) if low is None else low
        high = (1 << 62) if high is None else high
        with self.database.reading() as db:
            db.execute("BEGIN")  # one snapshot, though a writer compacts beside us
            try:
                parts = self._parts(db, run, key, low, high)
            finally:
                db.execute("COMMIT")
        kept = []
        for steps, walls, values, limit in parts:
            keep = (steps < limit) & (steps >= low) & (steps <= high)
            kept.append((steps[keep], walls[keep], values[keep]))
        if not kept:
            return Points(np.empty(0, np.int64), np.empty(0), np.empty(0))
        steps, walls, values = (np.concatenate(columns) for columns in zip(*kept, strict=True))
        order = np.argsort(steps, kind="stable")
        steps, walls, values = steps[order], walls[order], values[order]
        newest = np.append(steps[1:] != steps[:-1], True)[: len(steps)]
        return Points(steps[newest], walls[newest], values[newest])

    def _parts(
        self, db: sqlite3.Connection, run: int, key: str, low: int, high: int
    ) -> list[tuple[Ints, Floats, Floats, float]]:
        """Stored pieces of a series as they were written, each with the step from which it is superseded."""
        found: list[tuple[Ints, Floats, Floats, float]] = []
        key_id = self._find_key(db, key)
        for attempt, limit, opened in self._attempts(db, run, key_id) if key_id is not None else ():
            for n, codec, data in db.execute(
                "SELECT n, codec, data FROM chunk JOIN blob ON blob.id = chunk.blob WHERE run = ? AND key = ?"
                " AND attempt = ? AND last >= ? AND first <= ? AND first < ? ORDER BY blob",
                (run, key_id, attempt, low, high, limit),
            ):
                found.append((*decode_chunk(n, codec, data), limit))
            found += [(block.steps, block.walls, block.values[row], limit) for block, row in opened]
        return found

    def _attempts(self, db: sqlite3.Connection, run: int, key: int) -> list[tuple[int, float, list[tuple[Block, int]]]]:
        """Attempts at a run, the oldest first: number, step from which on a series is superseded, its open blocks.

        A later attempt supersedes from where it says it began, or from the step of the series that it wrote first:
        points that it adds late, further back, replace single points only.
        """
        found = []
        limit = float("inf")
        for attempt, told in attempts_of(db, run):
            opened = [
                (block, key_ids.index(key)) for key_ids, block in self._open_blocks(db, run, attempt) if key in key_ids
            ]
            found.append((attempt, limit, opened))
            row = db.execute(
                "SELECT start FROM chunk WHERE run = ? AND key = ? AND attempt = ? ORDER BY blob LIMIT 1",
                (run, key, attempt),
            ).fetchone()
            starts = [row[0]] if row else [int(block.steps[0]) for block, _ in opened[:1]]
            limit = min(limit, told, *starts)
        return found[::-1]

    def _find_key(self, db: sqlite3.Connection, key: str) -> int | None:
        row = db.execute("SELECT id FROM key WHERE name = ?", (key,)).fetchone()
        return None if row is None else int(row[0])

    def read_overview(self, run: int, key: str, buckets: int) -> Overview:
        """A series in at most so many buckets, from the sketches; what is open or half superseded is read whole."""
        sketches: list[Sketch] = []
        with self.database.reading() as db:
            db.execute("BEGIN")
            try:
                key_id = self._find_key(db, key)
                for attempt, limit, opened in self._attempts(db, run, key_id) if key_id is not None else ():
                    sketches += self._sketches(db, run, key_id, attempt, limit)
                    sketches += [_sketch(block.steps, block.values[row], limit) for block, row in opened]
            finally:
                db.execute("COMMIT")
        sketches = [sketch for sketch in sketches if len(sketch.steps)]
        if not sketches:
            empty = np.empty(0)
            return Overview(np.empty(0, np.int64), empty, empty, empty, 0, 0)
        joined = Sketch.join(sketches)
        merged = joined.merged(buckets)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = merged.total / merged.finite
        count = int(merged.count.sum())
        return Overview(merged.steps, merged.low, merged.high, mean, count, count - int(merged.finite.sum()))

    def _sketches(self, db: sqlite3.Connection, run: int, key: int | None, attempt: int, limit: float) -> list[Sketch]:
        found = []
        for last, blob, n, codec, sketch in db.execute(
            "SELECT last, blob.id, n, codec, sketch FROM chunk JOIN blob ON blob.id = chunk.blob"
            " WHERE run = ? AND key = ? AND attempt = ? AND first < ? ORDER BY blob",
            (run, key, attempt, limit),
        ).fetchall():
            if last < limit:
                found.append(Sketch.decode(sketch))
                continue
            data = db.execute("SELECT data FROM blob WHERE id = ?", (blob,)).fetchone()[0]
            steps, _, values = decode_chunk(n, codec, data)
            found.append(_sketch(steps, values, limit))
        return found


def _sketch(steps: Ints, values: Floats, limit: float) -> Sketch:
    keep = steps < limit
    return Sketch.of(steps[keep], values[keep])

"""Upkeep of the file: is all of it readable, what takes room for nothing, a copy while others write."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from midflight import environ
from midflight.errors import MidflightError, StoreError, shorten
from midflight.schema import report_from_json
from midflight.store._database import Database
from midflight.store._pieces import ChunkPlace
from midflight.store._points import Sketch, decode_blocks
from midflight.store._series import close_flushes
from midflight.store._stored import legible, place

MOST_PROBLEMS = 100


class UpkeepTable:
    """Checks, compacts and copies."""

    database: Database

    def check(self) -> list[str]:
        """What is wrong with the file: pages, texts, series and reports that cannot be read; empty if nothing is."""
        found: list[str] = []
        with self.database.snapshot() as db:
            for look in (_pages, _texts, _heads, _chunks, _flushes, _reports):
                try:
                    for problem in look(db):
                        found.append(problem)
                        if len(found) == MOST_PROBLEMS:
                            return [*found, "… and more"]
                except sqlite3.DatabaseError as error:  # a page that is broken ends one look, not the others
                    found.append(f"SQLite: {error}")
        return found

    def compact(self) -> tuple[int, int]:
        """Puts the open flushes of runs that write no more into chunks, and gives free pages back.

        Returns:
            Bytes of the file before and after.
        """
        before = self._size()
        with self.database.reading() as db:
            runs = db.execute("SELECT id, status, owner, heartbeat FROM run ORDER BY id").fetchall()
        for run, status, owner, heartbeat in runs:
            if status != "running" or not environ.is_alive(owner, heartbeat):
                with self.database.writing() as db:
                    close_flushes(db, run)
        with self.database.reading() as db:
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return before, self._size()

    def backup(self, target: Path) -> int:
        """Copies the store as it is at one moment, while others write.

        Args:
            target: The new file.

        Returns:
            Its size in bytes.

        Raises:
            StoreError: If it is there already, or cannot be written.
        """
        if target.exists():
            raise StoreError(f"{target} is there already", hint="name another file, or move it away")
        part = target.with_name(f"{target.name}.part")
        try:
            part.unlink(missing_ok=True)
            copy = sqlite3.connect(part)
            try:
                with self.database.reading() as db:
                    db.backup(copy)
                copy.execute("PRAGMA journal_mode=DELETE")  # one file, without a log beside it
            finally:
                copy.close()
            os.replace(part, target)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"{target} cannot be written: {error}") from None
        return target.stat().st_size

    def _size(self) -> int:
        path = self.database.path
        return sum(one.stat().st_size for one in (path, path.with_name(f"{path.name}-wal")) if one.exists())


def _pages(db: sqlite3.Connection) -> Iterator[str]:
    """What SQLite finds.

    Versions 3.40.0 to 3.41.0 take columns between those of a primary key for NULL in a table without row ids. The
    one table of ours that has such columns is read in whole beside it.
    """
    for (line,) in db.execute(f"PRAGMA integrity_check({1 << 30})"):
        if line != "ok" and not line.startswith("NULL value in chunk."):
            yield f"SQLite: {line}"


_JSON = {
    ("run", "config"), ("run", "tags"), ("run", "environment"), ("run", "git"),
    ("item", "content"), ("output", "content"), ("score", "samples"), ("finding", "content"), ("verdict", "content"),
    ("step", "state"), ("step", "result"), ("audit", "git"), ("audit", "detail"),
}  # fmt: skip
"""Columns that hold JSON; reports have a look of their own."""


def _texts(db: sqlite3.Connection) -> Iterator[str]:
    """Texts that are no UTF-8, or no JSON where they should be, in each table that there is; reports apart."""
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    for table in tables:
        columns = db.execute(f"PRAGMA table_info({table})").fetchall()
        texts = [name for _, name, kind, *_ in columns if kind == "TEXT" and name != "report"]
        key = [name for _, name, _, _, _, part in sorted(columns, key=lambda column: column[5]) if part]
        raw = ", ".join(f"CAST({name} AS BLOB)" for name in [*key, *texts])
        for row in db.execute(f"SELECT {raw} FROM {table}") if texts else ():
            for column, value in zip(texts, row[len(key) :], strict=True):
                problem = None if value is None else _problem(value, (table, column) in _JSON)
                if problem:
                    where = " ".join(legible(part or b"") for part in row[: len(key)])
                    yield f"{place(table, where, column)}: {problem}"


def _problem(value: bytes, is_json: bool) -> str:
    """What is wrong with a text; empty if nothing is."""
    try:
        text = value.decode()
        if is_json:
            json.loads(text)
    except UnicodeDecodeError as error:
        return f"no UTF-8 ({error.reason} at byte {error.start}: {shorten(legible(value), 60)})"
    except (ValueError, RecursionError) as error:
        return f"no JSON ({shorten(str(error))})"
    return ""


def _heads(db: sqlite3.Connection) -> Iterator[str]:
    """Newest values that are no number of 8 bytes, or of a series that is not known."""
    for run, key, size, known in db.execute("SELECT run, key, length(value), key IN (SELECT id FROM key) FROM head"):
        if size != 8:
            yield f"{place('head', f'{run} {key}', 'value')}: {size} bytes, not 8"
        if not known:
            yield f"{place('head', f'{run} {key}', 'key')}: no such series"


def _chunks(db: sqlite3.Connection) -> Iterator[str]:
    """Chunks that are not what their row and their sketch say."""
    for run, name, *where in db.execute(
        "SELECT run, CAST(name AS BLOB), attempt, start, first, last, n, codec, blob"
        " FROM chunk LEFT JOIN key ON key.id = chunk.key"
    ).fetchall():
        chunk = ChunkPlace(*where)
        series = f"run {run}, series {legible(name or b'')!r}"
        try:
            steps, _, values = chunk.read(db)
            sketch = chunk.read_sketch(db)
            finite = np.isfinite(values)
            as_told = (int(steps.min()), int(steps.max()), len(steps)) == (chunk.first, chunk.last, chunk.n)
            wanted = Sketch.of(steps, values)
            whole = as_told and int(sketch.finite.sum()) == int(finite.sum()) and sketch.encode() == wanted.encode()
        except (ValueError, TypeError, IndexError, MidflightError) as error:
            yield f"{series}: chunk {chunk.blob} cannot be read ({error})"
        else:
            if not whole:
                yield f"{series}: chunk {chunk.blob} is not what its row says"


def _flushes(db: sqlite3.Connection) -> Iterator[str]:
    known = {id for (id,) in db.execute("SELECT id FROM key")}
    for id, run, n, keys, data in db.execute("SELECT id, run, n, keys, data FROM flush"):
        try:
            numbers = np.frombuffer(keys, "<i4").tolist()
            decode_blocks(len(numbers), n, [data])
            strange = set(numbers) - known
        except ValueError as error:
            yield f"run {run}: flush {id} cannot be read ({error})"
        else:
            if strange:
                yield f"run {run}: flush {id} has keys that are not known"


def _reports(db: sqlite3.Connection) -> Iterator[str]:
    columns = "CAST(id AS BLOB), run, CAST(report AS BLOB)"
    for raw, run, report in db.execute(f"SELECT {columns} FROM evaluation WHERE report IS NOT NULL"):
        id = legible(raw)
        try:
            if report_from_json(report).id != id:
                yield f"run {run}: evaluation {id} has the report of another one"
        except MidflightError as error:
            yield f"{place('evaluation', id, 'report')} (run {run}): {error.message}"

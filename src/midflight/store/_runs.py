"""Runs and their attempts, in SQLite."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Mapping, Sequence
from typing import Any

from midflight.errors import StoreError
from midflight.store._database import Database
from midflight.store._series import close_flushes
from midflight.store._stored import legible, stored_json
from midflight.store.base import RunInfo, RunStatus

_TEXTS = ("project", "name", "status")
_JSON = {"config": dict, "tags": list, "environment": dict, "git": dict}
_NUMBERS = ("id", "created", "heartbeat", "finished", "lost_points")


class RunTable:
    """Adds, finds and ends runs."""

    database: Database

    def create_run(
        self,
        project: str,
        name: str,
        *,
        owner: str,
        config: Mapping[str, Any] = {},
        tags: Sequence[str] = (),
        environment: Mapping[str, Any] = {},
        git: Mapping[str, str] = {},
        unless_named: bool = False,
    ) -> RunInfo:
        """Adds a run and its first attempt; with `unless_named`, gives the newest of that name if there is one."""
        now = time.time()
        texts = [json.dumps(value, default=str) for value in (dict(config), list(tags), dict(environment), dict(git))]
        with self.database.writing() as db:
            if unless_named:
                query = "SELECT max(id) FROM run WHERE project = ? AND name = ?"
                known = db.execute(query, (project, name)).fetchone()[0]
                if known is not None:  # another process was faster
                    return self._run_infos("WHERE run.id = ?", (known,))[0]
            cursor = db.execute(
                "INSERT INTO run (project, name, status, created, heartbeat, owner, config, tags, environment, git)"
                " VALUES (?, ?, 'running', ?, ?, ?, ?, ?, ?, ?)",
                (project, name, now, now, owner, *texts),
            )
            run = cursor.lastrowid
            db.execute("INSERT INTO attempt VALUES (?, 1, ?, NULL, NULL)", (run, now))
        return self._run_infos("WHERE run.id = ?", (run,))[0]

    def runs(
        self, project: str | None = None, name: str | None = None, ids: Sequence[int] | None = None
    ) -> list[RunInfo]:
        """Runs, newest first; one that is damaged says so, and hides no other."""
        numbers = None if ids is None else json.dumps(list(ids))
        wanted = [("project = ?", project), ("name = ?", name), ("id IN (SELECT value FROM json_each(?))", numbers)]
        conditions = [condition for condition, value in wanted if value is not None]
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        return self._run_infos(where, tuple(value for _, value in wanted if value is not None))

    def run_ids(self) -> set[int]:
        """Numbers of all runs."""
        with self.database.reading() as db:
            return {id for (id,) in db.execute("SELECT id FROM run")}

    def _run_infos(self, where: str, values: tuple[Any, ...]) -> list[RunInfo]:
        raw = ", ".join(f"CAST({column} AS BLOB)" for column in (*_TEXTS, *_JSON))
        attempts = (
            "(SELECT count(*) FROM attempt WHERE attempt.run = run.id),"
            " (SELECT coalesce(sum(ended - started), 0) FROM attempt WHERE attempt.run = run.id)"
        )
        query = f"SELECT {', '.join(_NUMBERS)}, {attempts}, {raw} FROM run {where} ORDER BY run.id DESC"
        with self.database.reading() as db:
            rows = db.execute(query, values).fetchall()
        names = (*_NUMBERS, "attempts", "earlier_seconds", *_TEXTS, *_JSON)
        return [_run_info(dict(zip(names, row, strict=True))) for row in rows]

    def owner(self, run: int) -> str:
        """Who writes to a run."""
        with self.database.reading() as db:
            return str(db.execute("SELECT owner FROM run WHERE id = ?", (run,)).fetchone()[0])

    def resume_run(self, run: int, *, owner: str, before: str) -> int | None:
        """Begins another attempt at a run; its number. None if the run is no longer the one of owner `before`."""
        now = time.time()
        with self.database.writing() as db:
            db.execute(
                "UPDATE attempt SET ended = (SELECT heartbeat FROM run WHERE id = attempt.run)"
                " WHERE run = ? AND ended IS NULL AND (SELECT owner FROM run WHERE id = attempt.run) = ?",
                (run, before),
            )
            taken = db.execute(
                "UPDATE run SET status = 'running', owner = ?, heartbeat = ?, finished = NULL"
                " WHERE id = ? AND owner = ?",
                (owner, now, run, before),
            ).rowcount
            if not taken:  # another process was faster
                return None
            number = int(db.execute("SELECT max(number) + 1 FROM attempt WHERE run = ?", (run,)).fetchone()[0])
            db.execute("INSERT INTO attempt VALUES (?, ?, ?, NULL, NULL)", (run, number, now))
        return number

    def attempts(self, run: int) -> list[tuple[int, float, int | None]]:
        """Attempts at a run: number, when it began, and its first step if it was told where it resumed."""
        with self.database.reading() as db:
            return db.execute(
                "SELECT number, started, from_step FROM attempt WHERE run = ? ORDER BY number", (run,)
            ).fetchall()

    def begin_attempt(self, run: int, attempt: int, step: int) -> None:
        """Says that an attempt goes on behind a step: what earlier attempts have after it is superseded."""
        with self.database.writing() as db:
            db.execute("UPDATE attempt SET from_step = ? WHERE run = ? AND number = ?", (step + 1, run, attempt))

    def beat(self, run: int) -> None:
        """Says that the run's process is alive."""
        with self.database.writing() as db:
            db.execute("UPDATE run SET heartbeat = ? WHERE id = ?", (time.time(), run))

    def set_tags(self, run: int, tags: Sequence[str]) -> None:
        """Puts labels in the place of a run's own."""
        with self.database.writing() as db:
            db.execute("UPDATE run SET tags = ? WHERE id = ?", (json.dumps(list(tags)), run))

    def finish_run(self, run: int, status: RunStatus, lost_points: int = 0) -> None:
        """Ends a run."""
        now = time.time()
        with self.database.writing() as db:
            db.execute(
                "UPDATE run SET status = ?, finished = ?, heartbeat = ?, lost_points = lost_points + ? WHERE id = ?",
                (status, now, now, lost_points, run),
            )
            close_flushes(db, run)


def _run_info(row: dict[str, Any]) -> RunInfo:
    """A run; of a damaged row what can be read, and what cannot."""
    damage = []
    for column in _TEXTS:
        text = legible(row[column])
        if text.encode() != row[column]:
            damage.append(f"table run, row {row['id']}, column {column} is damaged: no UTF-8")
        row[column] = text
    for column, kind in _JSON.items():
        try:
            value = stored_json(row[column], "run", row["id"], column)
            if not isinstance(value, kind):
                raise StoreError(f"table run, row {row['id']}, column {column} is damaged: no {kind.__name__}")
        except StoreError as error:
            damage.append(error.message)
            value = kind()
        row[column] = value
    return RunInfo(**row, damage="; ".join(damage))


def attempts_of(db: sqlite3.Connection, run: int) -> list[tuple[int, float]]:
    """Attempts at a run, the newest first, each with the step that it says it began at; infinite if it does not say."""
    rows = db.execute("SELECT number, from_step FROM attempt WHERE run = ? ORDER BY number DESC", (run,)).fetchall()
    return [(number, float("inf") if from_step is None else from_step) for number, from_step in rows]

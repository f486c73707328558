"""Executions of workflows, their steps and the audit trail, in SQLite."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from midflight.errors import LeaseLostError
from midflight.records import Actor, AuditEvent, Execution, ExecutionStatus, WorkflowStep
from midflight.schema import to_json
from midflight.store._database import Database
from midflight.store._stored import stored_json

_STEP = "position, name, kind, status, attempts, reason, state, result"
_EVENT = "at, who, git, execution, workflow, project, checkpoint, weights, step, event, detail"
_EXECUTION = "id, workflow, workflow_digest, project, checkpoint, weights, verdict, status, reason, created"


class WorkflowTable:
    """Begins, advances and reads executions. The trail only grows: triggers in the file refuse all else."""

    database: Database

    def begin_execution(
        self, execution: Execution, sitting: int, by: Actor, evidence: Mapping[str, Any] = {}
    ) -> Execution:
        """The execution of that id: a new one, or the one that was begun before; from now on `sitting` writes to it.

        Args:
            execution: A new one, as it would begin.
            sitting: Number of the lease on it.
            by: Who begins.
            evidence: What it is begun on, for the trail.

        Raises:
            LeaseLostError: If a later sitting has begun meanwhile.
        """
        with self.database.writing(durable=True) as db:
            known = db.execute("SELECT sitting FROM execution WHERE id = ?", (execution.id,)).fetchone()
            if known is None:
                values = [getattr(execution, column) for column in _EXECUTION.split(", ")]
                db.execute(
                    f"INSERT INTO execution ({_EXECUTION}, sitting) VALUES ({', '.join('?' * len(values))}, ?)",
                    (*values, sitting),
                )
                for step in execution.steps:
                    _write_step(db, execution.id, step)
            elif known[0] >= sitting:
                raise _lost(execution.id)
            db.execute("UPDATE execution SET sitting = ? WHERE id = ?", (sitting, execution.id))
            detail = {"workflow_digest": execution.workflow_digest, **evidence}
            _append(db, execution.id, "", "begun" if known is None else "resumed", by, detail)
        found = self.execution(execution.id)
        assert found is not None
        return found

    def execution(self, id: str) -> Execution | None:
        """An execution with its steps; None if it was never begun."""
        with self.database.reading() as db:
            row = db.execute(f"SELECT {_EXECUTION} FROM execution WHERE id = ?", (id,)).fetchone()
            steps = db.execute(f"SELECT {_STEP} FROM step WHERE execution = ? ORDER BY position", (id,)).fetchall()
            if row is None:
                return None
        found = [WorkflowStep(**_named("step", id, _STEP, step, ("state", "result"))) for step in steps]
        return Execution(**_named("execution", id, _EXECUTION, row), steps=found)

    def executions(self, project: str | None = None) -> list[Execution]:
        """Executions with their steps, the newest first."""
        with self.database.reading() as db:
            ids = db.execute(
                "SELECT id FROM execution WHERE (?1 IS NULL OR project = ?1) ORDER BY created DESC, id", (project,)
            ).fetchall()
        return [found for (id,) in ids if (found := self.execution(id)) is not None]

    def record_step(
        self,
        execution: str,
        sitting: int,
        step: WorkflowStep,
        event: str,
        by: Actor,
        detail: Mapping[str, Any] = {},
    ) -> None:
        """Keeps how far a step is, and the event in the audit trail: at once, and durable when it returns.

        Raises:
            LeaseLostError: If another process carries the execution out by now.
        """
        with self._sitting(execution, sitting) as db:
            _write_step(db, execution, step)
            _append(db, execution, step.name, event, by, detail)

    def record_execution(
        self,
        execution: str,
        sitting: int,
        status: ExecutionStatus,
        event: str,
        by: Actor,
        reason: str = "",
    ) -> None:
        """Keeps how far an execution is, and the event in the audit trail.

        Raises:
            LeaseLostError: If another process carries it out by now.
        """
        with self._sitting(execution, sitting) as db:
            db.execute("UPDATE execution SET status = ?, reason = ? WHERE id = ?", (status, reason, execution))
            _append(db, execution, "", event, by, {"reason": reason} if reason else {})

    @contextmanager
    def _sitting(self, execution: str, sitting: int) -> Iterator[sqlite3.Connection]:
        """A transaction of the process that carries an execution out."""
        with self.database.writing(durable=True) as db:
            if db.execute("SELECT sitting FROM execution WHERE id = ?", (execution,)).fetchone() != (sitting,):
                raise _lost(execution)
            yield db

    def audit(self, project: str | None = None, execution: str | None = None) -> list[AuditEvent]:
        """The audit trail, oldest first.

        Args:
            project: Only this project.
            execution: Only this execution.
        """
        with self.database.reading() as db:
            rows = db.execute(
                f"SELECT id, {_EVENT} FROM"
                " (SELECT id AS execution, workflow, project, checkpoint, weights FROM execution) NATURAL JOIN audit"
                " WHERE (?1 IS NULL OR project = ?1) AND (?2 IS NULL OR execution = ?2) ORDER BY id",
                (project, execution),
            ).fetchall()
        return [AuditEvent(**_named("audit", id, _EVENT, row, ("git", "detail"))) for id, *row in rows]


def _named(table: str, id: object, columns: str, row: Sequence[Any], as_json: Sequence[str] = ()) -> dict[str, Any]:
    """A row by the names of its columns, JSON read."""
    named = dict(zip(columns.split(", "), row, strict=True))
    return {name: stored_json(value, table, id, name) if name in as_json else value for name, value in named.items()}


def _write_step(db: sqlite3.Connection, execution: str, step: WorkflowStep) -> None:
    db.execute(
        "INSERT OR REPLACE INTO step VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            execution,
            step.position,
            step.name,
            step.kind,
            step.status,
            step.attempts,
            step.reason,
            to_json(dict(step.state)),
            to_json(dict(step.result)),
        ),
    )


def _append(
    db: sqlite3.Connection,
    execution: str,
    step: str,
    event: str,
    by: Actor,
    detail: Mapping[str, Any],
) -> None:
    db.execute(
        "INSERT INTO audit (at, who, git, execution, step, event, detail) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (time.time(), by.who, json.dumps(dict(by.git)), execution, step, event, to_json(dict(detail))),
    )


def _lost(execution: str) -> LeaseLostError:
    return LeaseLostError(
        f"another process carries out execution {execution}", hint="this one had been silent for too long"
    )

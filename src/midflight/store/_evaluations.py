"""Evaluations, their outputs and scores, in SQLite: each identity exactly once, whatever crashes when."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from midflight.records import EvalReport, Item, Output, Progress, Score
from midflight.schema import report_from_json, report_to_json
from midflight.store._database import Database
from midflight.store._runs import attempts_of
from midflight.store._stored import stored, stored_json
from midflight.store.base import EvaluationHandle, ScoreColumns, UnfinishedEvaluation
from midflight.store.nouns import EvaluationRow

TEXT_LIMIT = 1 << 20
"""Characters of an output that are kept: what a model writes is bounded."""


class EvaluationTable:
    """Begins, fills, ends and reads evaluations."""

    database: Database

    def begin_evaluation(
        self,
        run: int,
        attempt: int,
        identity: str,
        task: str,
        task_fingerprint: str,
        progress: Progress,
        weights: str,
        supersede: bool = True,
    ) -> EvaluationHandle:
        """The evaluation of that identity: a new one, or the one that was begun or done before."""
        with self.database.writing() as db:
            if not supersede:  # it stands beside the training that goes on now, whichever that is
                attempt = db.execute("SELECT max(number) FROM attempt WHERE run = ?", (run,)).fetchone()[0]
            row = db.execute(
                "SELECT id, report, seconds, status FROM evaluation WHERE run = ? AND identity = ?", (run, identity)
            ).fetchone()
            if row is not None:
                db.execute("UPDATE evaluation SET attempt = ?, supersedes = 0 WHERE id = ?", (attempt, row[0]))
                done = _report(row[0], row[1]) if row[3] == "done" else None  # a partial one is completed
                return EvaluationHandle(row[0], done, row[2])
            new = uuid.uuid4().hex
            db.execute(
                "INSERT INTO evaluation (id, run, attempt, identity, supersedes, task, task_fingerprint, step, weights,"
                " status, started) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'running', ?)",
                (new, run, attempt, identity, supersede, task, task_fingerprint, progress.step, weights, time.time()),
            )
        return EvaluationHandle(new)

    def add_items(self, task_fingerprint: str, items: Iterable[Item]) -> None:
        """Keeps items, once a fingerprint."""
        with self.database.reading() as db:
            known = db.execute("SELECT 1 FROM item WHERE task_fingerprint = ? LIMIT 1", (task_fingerprint,)).fetchone()
        if known:
            return
        rows = [(task_fingerprint, item.id, _dump(item)) for item in items]
        with self.database.writing() as db:
            db.executemany("INSERT OR IGNORE INTO item VALUES (?, ?, ?)", rows)

    def items(self, task_fingerprint: str) -> dict[str, Item]:
        """Items by id."""
        with self.database.reading() as db:
            query = "SELECT id, content FROM item WHERE task_fingerprint = ?"
            rows = db.execute(query, (task_fingerprint,)).fetchall()
        items = [read_item(task_fingerprint, id, content) for id, content in rows]
        return {item.id: item for item in items}

    def add_outputs(self, evaluation: str, outputs: Sequence[Output]) -> None:
        """Keeps outputs as they come; durable when it returns."""
        rows = [(evaluation, output.request_id, _dump(_bounded(output))) for output in outputs]
        with self.database.writing() as db:
            db.executemany(
                "INSERT INTO output (evaluation, request, content) VALUES (?, ?, ?)"
                " ON CONFLICT (evaluation, request) DO UPDATE SET content = excluded.content",
                rows,
            )

    def outputs(self, evaluation: str) -> dict[str, Output]:
        """Outputs by request id."""
        with self.database.reading() as db:
            query = "SELECT request, content FROM output WHERE evaluation = ?"
            rows = db.execute(query, (evaluation,)).fetchall()
        found = [read_output(evaluation, request, content) for request, content in rows]
        return {output.request_id: output for output in found}

    def finish_evaluation(self, report: EvalReport, scores: Mapping[str, Sequence[Score]]) -> None:
        """Keeps report and scores, and ends the evaluation: at once, or not at all."""
        rows = [
            (
                report.id,
                metric,
                score.item_id,
                score.value,
                score.weight,
                score.state,
                score.note,
                json.dumps(score.samples),
            )
            for metric, found in scores.items()
            for score in found
        ]
        with self.database.writing() as db:
            db.execute(
                "UPDATE evaluation SET status = ?, seconds = ?, report = ? WHERE id = ?",
                (report.status, report.cost.seconds, report_to_json(report), report.id),
            )
            db.executemany("INSERT OR REPLACE INTO score VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def pause_evaluation(self, evaluation: str, seconds: float, status: Literal["cancelled", "failed"]) -> None:
        """Leaves an evaluation to be resumed."""
        with self.database.writing() as db:
            db.execute("UPDATE evaluation SET status = ?, seconds = ? WHERE id = ?", (status, seconds, evaluation))

    def scores(self, evaluation: str, metric: str) -> list[Score]:
        """Scores of a metric, sorted by item id."""
        with self.database.reading() as db:
            rows = db.execute(
                "SELECT item, value, weight, state, note, samples FROM score"
                " WHERE evaluation = ? AND metric = ? ORDER BY item",
                (evaluation, metric),
            ).fetchall()
        return [
            Score(item, metric, value, weight, state, note, read_samples(evaluation, metric, item, samples))
            for item, value, weight, state, note, samples in rows
        ]

    def score_columns(self, evaluation: str, metric: str) -> ScoreColumns:
        """Scores of a metric as columns, without notes and samples."""
        with self.database.reading() as db:
            rows = db.execute(
                "SELECT item, value, weight, state FROM score WHERE evaluation = ? AND metric = ? ORDER BY item",
                (evaluation, metric),
            ).fetchall()
        return ScoreColumns(*zip(*rows, strict=True)) if rows else ScoreColumns()

    def reports(self, run: int, task: str | None = None) -> list[EvalReport]:
        """Finished evaluations of a run that no later attempt superseded, by step."""
        with self.database.reading() as db:
            limits = _superseded_from(db, run)
            rows = db.execute(
                "SELECT attempt, step, id, report FROM evaluation WHERE run = ? AND report IS NOT NULL"
                " AND (? IS NULL OR task = ?) ORDER BY step, task, attempt, started",
                (run, task, task),
            ).fetchall()
        return [_report(id, text) for attempt, step, id, text in rows if step < limits[attempt]]

    def evaluations(
        self, runs: Sequence[int], statuses: Sequence[str] = (), limit: int = 200, offset: int = 0
    ) -> tuple[int, list[EvaluationRow]]:
        """How many evaluations runs have, superseded ones included, and some of them, the newest first."""
        chosen = json.dumps(list(runs)), json.dumps(list(statuses))
        where = (
            "FROM evaluation WHERE run IN (SELECT value FROM json_each(?1))"
            " AND (json_array_length(?2) = 0 OR status IN (SELECT value FROM json_each(?2)))"
        )
        columns = "id, run, task, task_fingerprint, step, status, started, seconds, report"
        with self.database.snapshot() as db:
            total = db.execute(f"SELECT count(*) {where}", chosen).fetchone()[0]
            rows = db.execute(
                f"SELECT {columns} {where} ORDER BY started DESC, id LIMIT ?3 OFFSET ?4", (*chosen, limit, offset)
            ).fetchall()
        return total, [EvaluationRow(*(*row[:8], row[8] and _report(row[0], row[8]))) for row in rows]

    def unfinished(self, run: int) -> list[UnfinishedEvaluation]:
        """Evaluations of a run without a result, that no later attempt superseded, by step."""
        with self.database.reading() as db:
            limits = _superseded_from(db, run)
            rows = db.execute(
                "SELECT attempt, id, task, step, status, (SELECT count(*) FROM item"
                " WHERE item.task_fingerprint = evaluation.task_fingerprint) FROM evaluation"
                " WHERE run = ? AND report IS NULL ORDER BY step, task, started",
                (run,),
            ).fetchall()
        return [
            UnfinishedEvaluation(task, step, status, self.num_answered(id), num_items)
            for attempt, id, task, step, status, num_items in rows
            if step < limits[attempt]
        ]

    def num_items(self, task_fingerprint: str) -> int:
        """Items of a task."""
        with self.database.reading() as db:
            query = "SELECT count(*) FROM item WHERE task_fingerprint = ?"
            return int(db.execute(query, (task_fingerprint,)).fetchone()[0])

    def num_answered(self, evaluation: str) -> int:
        """Items of an evaluation that have an answer."""
        answered = (key for key, output in self.outputs(evaluation).items() if output.error is None)
        return len({request.rsplit("/", 2)[0] for request in answered})

    def note_missing(self, run: int, attempt: int, task: str, progress: Progress, reason: str) -> None:
        """Says that an evaluation was due and did not take place."""
        with self.database.writing() as db:
            row = (run, attempt, task, progress.step, time.time(), reason)
            db.execute(
                "INSERT OR REPLACE INTO missing (run, attempt, task, step, at, reason) VALUES (?, ?, ?, ?, ?, ?)", row
            )

    def missing(self, run: int) -> list[tuple[str, int, str]]:
        """Evaluations that were due, did not take place and were not made up for: task, step and reason, by step."""
        with self.database.reading() as db:
            return db.execute(
                "SELECT task, step, reason FROM missing WHERE run = ? AND NOT EXISTS (SELECT 1 FROM evaluation WHERE"
                " evaluation.run = missing.run AND evaluation.task = missing.task AND evaluation.step = missing.step"
                " AND report IS NOT NULL) ORDER BY step, task, attempt",
                (run,),
            ).fetchall()

    def evaluation_seconds(self, run: int, without: str = "") -> float:
        """Seconds that evaluations of a run took so far, one of them left out."""
        with self.database.reading() as db:
            query = "SELECT sum(seconds) FROM evaluation WHERE run = ? AND id != ?"
            return float(db.execute(query, (run, without)).fetchone()[0] or 0.0)


def read_item(task_fingerprint: str, id: str, content: str) -> Item:
    """An item as it was kept."""
    return stored(lambda text: Item(**json.loads(text)), content, "item", f"{task_fingerprint} {id}", "content")


def read_output(evaluation: str, request: str, content: str) -> Output:
    """An output as it was kept."""
    return stored(lambda text: Output(**json.loads(text)), content, "output", f"{evaluation} {request}", "content")


def read_samples(evaluation: str, metric: str, item: str, samples: str) -> tuple[Any, ...]:
    """The samples of a score as they were kept."""
    return tuple(stored_json(samples, "score", f"{evaluation} {metric} {item}", "samples"))


def _report(id: str, text: str) -> EvalReport:
    return stored(report_from_json, text, "evaluation", id, "report")


def _superseded_from(db: sqlite3.Connection, run: int) -> dict[int, float]:
    """Attempts at a run, each with the step from which on its evaluations are superseded by later attempts."""
    began = dict(
        db.execute(
            "SELECT attempt, min(step) FROM evaluation WHERE run = ? AND supersedes GROUP BY attempt", (run,)
        ).fetchall()
    )
    limits: dict[int, float] = {}
    limit = float("inf")
    for attempt, told in attempts_of(db, run):
        limits[attempt] = limit
        limit = min(limit, told, began.get(attempt, limit))
    return limits


def _dump(record: Any) -> str:
    return json.dumps(dataclasses.asdict(record), ensure_ascii=True, default=str)


def _bounded(output: Output) -> Output:
    return output if len(output.text) <= TEXT_LIMIT else dataclasses.replace(output, text=output.text[:TEXT_LIMIT])

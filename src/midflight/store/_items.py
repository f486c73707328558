"""One item over evaluations, in SQLite: what it says, how it was scored, what was answered; no other item is read."""

from __future__ import annotations

import json
from collections.abc import Sequence

from midflight.records import Item, Output, Score
from midflight.store._database import Database


class ItemTable:
    """Reads single items."""

    database: Database

    def item(self, task_fingerprint: str, id: str) -> Item | None:
        """An item of a task; None if there is none."""
        with self.database.reading() as db:
            row = db.execute(
                "SELECT content FROM item WHERE task_fingerprint = ? AND id = ?", (task_fingerprint, id)
            ).fetchone()
        return None if row is None else Item(**json.loads(row[0]))

    def neighbours(self, task_fingerprint: str, id: str) -> tuple[str | None, str | None]:
        """Ids of the items before and after an item."""
        with self.database.reading() as db:
            before = db.execute(
                "SELECT max(id) FROM item WHERE task_fingerprint = ? AND id < ?", (task_fingerprint, id)
            ).fetchone()[0]
            after = db.execute(
                "SELECT min(id) FROM item WHERE task_fingerprint = ? AND id > ?", (task_fingerprint, id)
            ).fetchone()[0]
        return before, after

    def item_scores(self, evaluations: Sequence[str], item: str, metrics: Sequence[str]) -> dict[str, list[Score]]:
        """Scores of an item by evaluation, by metric."""
        with self.database.reading() as db:
            rows = db.execute(
                "SELECT evaluation, metric, value, weight, state, note, samples FROM score WHERE evaluation IN (SELECT"
                " value FROM json_each(?)) AND metric IN (SELECT value FROM json_each(?)) AND item = ? ORDER BY metric",
                (json.dumps(list(evaluations)), json.dumps(list(metrics)), item),
            ).fetchall()
        found: dict[str, list[Score]] = {evaluation: [] for evaluation in evaluations}
        for evaluation, metric, value, weight, state, note, samples in rows:
            found[evaluation].append(Score(item, metric, value, weight, state, note, tuple(json.loads(samples))))
        return found

    def item_outputs(self, evaluation: str, item: str) -> list[Output]:
        """What was answered to an item, by sample and part."""
        with self.database.reading() as db:
            rows = db.execute(
                "SELECT request, content FROM output WHERE evaluation = ? AND request >= ? AND request < ?",
                (evaluation, f"{item}/", f"{item}0"),  # 0 is what follows a slash
            ).fetchall()
        own = [(request.rsplit("/", 2), content) for request, content in rows]
        own = [(parts, content) for parts, content in own if parts[0] == item]
        return [Output(**json.loads(text)) for _, text in sorted(own, key=lambda one: (int(one[0][1]), int(one[0][2])))]

    def output(self, evaluation: str, request: str) -> Output | None:
        """What was answered to a request; None if nothing was."""
        with self.database.reading() as db:
            row = db.execute(
                "SELECT content FROM output WHERE evaluation = ? AND request = ?", (evaluation, request)
            ).fetchone()
        return None if row is None else Output(**json.loads(row[0]))

"""One item over evaluations, in SQLite: what it says, how it was scored, what was answered; no other item is read."""

from __future__ import annotations

import json
from collections.abc import Sequence

from midflight.records import Item, Output, Score
from midflight.store._database import Database
from midflight.store._evaluations import read_item, read_output, read_samples


class ItemTable:
    """Reads single items."""

    database: Database

    def item(self, task_fingerprint: str, id: str) -> Item | None:
        """An item of a task; None if there is none."""
        with self.database.reading() as db:
            row = db.execute(
                "SELECT content FROM item WHERE task_fingerprint = ? AND id = ?", (task_fingerprint, id)
            ).fetchone()
        return None if row is None else read_item(task_fingerprint, id, row[0])

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
            read = read_samples(evaluation, metric, item, samples)
            found[evaluation].append(Score(item, metric, value, weight, state, note, read))
        return found

    def item_outputs(self, evaluation: str, item: str) -> list[Output]:
        """What was answered to an item, by sample and part."""
        with self.database.reading() as db:
            rows = db.execute(
                "SELECT request, content FROM output WHERE evaluation = ? AND request >= ? AND request < ?",
                (evaluation, f"{item}/", f"{item}0"),  # 0 is what follows a slash
            ).fetchall()
        own = [(request.rsplit("/", 2), request, content) for request, content in rows]
        own = [one for one in own if one[0][0] == item]
        own.sort(key=lambda one: (int(one[0][1]), int(one[0][2])))
        return [read_output(evaluation, request, content) for _, request, content in own]

    def output(self, evaluation: str, request: str) -> Output | None:
        """What was answered to a request; None if nothing was."""
        with self.database.reading() as db:
            row = db.execute(
                "SELECT content FROM output WHERE evaluation = ? AND request = ?", (evaluation, request)
            ).fetchone()
        return None if row is None else read_output(evaluation, request, row[0])

"""What has changed, in SQLite: signs of life of all runs in a few milliseconds, for those who watch many of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import cast

from midflight.store._database import Database
from midflight.store._stored import legible
from midflight.store.nouns import Pulse, RunStatus, SeriesCount


class PulseTable:
    """Tells whether and where something was written."""

    database: Database

    def data_version(self) -> int:
        """A number that differs from what this thread got before if anybody has written since."""
        with self.database.reading() as db:
            return int(db.execute("PRAGMA data_version").fetchone()[0])

    def pulses(self) -> list[Pulse]:
        """Signs of life of all runs, newest first."""
        with self.database.snapshot() as db:
            texts = "CAST(status AS BLOB), heartbeat, CAST(tags AS BLOB)"
            runs = db.execute(f"SELECT id, {texts} FROM run ORDER BY id DESC").fetchall()
            heads = db.execute("SELECT run, count(*), sum(n), max(step) FROM head GROUP BY run").fetchall()
            evaluations = db.execute(
                "SELECT run, sum(status IN ('done', 'partial')), sum(status NOT IN ('done', 'partial')), sum(seconds)"
                " FROM evaluation GROUP BY run"
            ).fetchall()
            findings = dict(db.execute("SELECT run, count(*) FROM finding GROUP BY run").fetchall())
        series = {run: tuple(rest) for run, *rest in heads}
        evaluated = {run: tuple(rest) for run, *rest in evaluations}
        found = []
        for run, status, heartbeat, tags in runs:
            counts = (*series.get(run, (0, 0, None)), *evaluated.get(run, (0, 0, 0.0)), findings.get(run, 0))
            found.append(Pulse(run, cast(RunStatus, legible(status)), heartbeat, legible(tags), *counts))
        return found

    def series_counts(self, runs: Sequence[int]) -> list[SeriesCount]:
        """The series of runs, by name."""
        with self.database.reading() as db:
            rows = db.execute(
                "SELECT CAST(name AS BLOB), count(*), sum(n) FROM head JOIN key ON key.id = head.key"
                " WHERE run IN (SELECT value FROM json_each(?)) GROUP BY name ORDER BY name",
                (json.dumps(list(runs)),),
            ).fetchall()
        return [SeriesCount(legible(name), *counts) for name, *counts in rows]

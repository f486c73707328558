"""Verdicts of gates, and what each policy has looked at so far, in SQLite."""

from __future__ import annotations

from midflight.records import Verdict
from midflight.schema import verdict_from_json, verdict_to_json
from midflight.store._database import Database
from midflight.store._stored import stored


class VerdictTable:
    """Counts looks; keeps and reads verdicts."""

    database: Database

    def take_look(self, project: str, run: str, policy: str, seen: str) -> int:
        """The how manieth look of a policy at a run it is; the same thing seen again is the same look."""
        where = "project = ? AND run = ? AND policy = ?"
        with self.database.writing() as db:  # one transaction: two gates at once are two looks
            row = db.execute(
                f"SELECT number FROM look WHERE {where} AND seen = ?", (project, run, policy, seen)
            ).fetchone()
            if row is not None:
                return int(row[0])
            number = 1 + db.execute(f"SELECT count(*) FROM look WHERE {where}", (project, run, policy)).fetchone()[0]
            db.execute("INSERT INTO look VALUES (?, ?, ?, ?, ?)", (project, run, policy, seen, number))
        return int(number)

    def add_verdict(self, verdict: Verdict) -> None:
        """Keeps a verdict."""
        subject = verdict.candidate
        row = (verdict.id, subject.project, subject.run, verdict.policy, verdict.outcome, verdict.created_at)
        with self.database.writing() as db:
            db.execute("INSERT INTO verdict VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, verdict_to_json(verdict)))

    def verdicts(self, project: str | None = None, run: str | None = None) -> list[Verdict]:
        """Verdicts on candidates of a project, or of a run, newest first."""
        with self.database.reading() as db:
            rows = db.execute(
                "SELECT id, content FROM verdict WHERE (? IS NULL OR project = ?) AND (? IS NULL OR run = ?)"
                " ORDER BY created DESC, id",
                (project, project, run, run),
            ).fetchall()
        return [stored(verdict_from_json, text, "verdict", id, "content") for id, text in rows]

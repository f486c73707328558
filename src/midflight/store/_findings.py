"""What the detectors noticed, in SQLite."""

from __future__ import annotations

import dataclasses
import json
import time

from midflight.records import Finding
from midflight.schema import to_json
from midflight.store._database import Database
from midflight.store._stored import stored


class FindingTable:
    """Keeps findings of runs."""

    database: Database

    def add_finding(self, run: int, attempt: int, finding: Finding) -> None:
        """Keeps what was noticed; the newest of its kind in an attempt."""
        row = (run, attempt, finding.kind, finding.noticed, time.time(), to_json(dataclasses.asdict(finding)))
        with self.database.writing() as db:
            db.execute(
                "INSERT OR REPLACE INTO finding (run, attempt, kind, noticed, at, content) VALUES (?, ?, ?, ?, ?, ?)",
                row,
            )

    def findings(self, run: int) -> list[Finding]:
        """What was noticed in a run, by step; what earlier attempts had beyond a later one's first step is left out."""
        with self.database.reading() as db:
            rows = db.execute(
                "SELECT attempt, kind, content FROM finding WHERE run = ? AND NOT EXISTS (SELECT 1 FROM attempt WHERE"
                " attempt.run = finding.run AND number > finding.attempt AND from_step <= noticed)"
                " ORDER BY noticed, kind",
                (run,),
            ).fetchall()
        read = [
            stored(_read, content, "finding", f"{run} {attempt} {kind}", "content") for attempt, kind, content in rows
        ]
        found = {finding.kind: finding for finding in reversed(read)}
        return sorted(found.values(), key=lambda finding: (finding.noticed, finding.kind))


def _read(content: str | bytes) -> Finding:
    fields = json.loads(content)
    evidence = {name: float(value) for name, value in fields["evidence"].items()}
    return Finding(**{**fields, "evidence": evidence})

"""Leases, in SQLite: who works on what. One that is no longer renewed can be taken over, and its holder finds out."""

from __future__ import annotations

from midflight.store._database import Database
from midflight.store.nouns import Lease


class LeaseTable:
    """Grants, renews and ends leases."""

    database: Database

    def lease(self, name: str) -> tuple[int, int] | None:
        """Number of the lease on a name and how often it was renewed; None if nobody has one."""
        with self.database.reading() as db:
            row = db.execute("SELECT number, beat FROM lease WHERE name = ? AND beat >= 0", (name,)).fetchone()
        return None if row is None else (row[0], row[1])

    def leases(self) -> list[Lease]:
        """All leases, by name; those that were given back included."""
        with self.database.reading() as db:
            return [Lease(*row) for row in db.execute("SELECT name, number, owner, beat FROM lease ORDER BY name")]

    def take_lease(self, name: str, owner: str, over: tuple[int, int] | None = None) -> int | None:
        """A lease on a name.

        Args:
            name: What for.
            owner: Who takes it.
            over: Lease of another's that is taken over if it is still as it was seen; None = only if nobody has one.

        Returns:
            Its number, larger than that of any before it; None if another one has it.
        """
        with self.database.writing() as db:
            row = db.execute("SELECT number, beat FROM lease WHERE name = ?", (name,)).fetchone()
            if row is not None and row[1] >= 0 and (row[0], row[1]) != over:
                return None
            number = 1 if row is None else int(row[0]) + 1
            db.execute(
                "INSERT OR REPLACE INTO lease (name, number, owner, beat) VALUES (?, ?, ?, 0)", (name, number, owner)
            )
        return number

    def renew_lease(self, name: str, number: int) -> bool:
        """Says that the holder is alive; False if the lease is another's by now."""
        with self.database.writing() as db:
            query = "UPDATE lease SET beat = beat + 1 WHERE name = ? AND number = ? AND beat >= 0"
            return db.execute(query, (name, number)).rowcount > 0

    def end_lease(self, name: str, number: int) -> None:
        """Gives a lease back."""
        with self.database.writing() as db:
            db.execute("UPDATE lease SET beat = -1 WHERE name = ? AND number = ?", (name, number))

    def lease_owner(self, name: str) -> str:
        """Who has, or last had, the lease on a name; empty if nobody ever had."""
        with self.database.reading() as db:
            row = db.execute("SELECT owner FROM lease WHERE name = ?", (name,)).fetchone()
        return "" if row is None else str(row[0])

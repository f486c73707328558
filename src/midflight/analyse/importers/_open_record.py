"""A record of several lines: a heading opens it, and what stands below belongs to it until the next one."""

from __future__ import annotations

from midflight.analyse.importers._records import Records


class OpenRecord:
    """The record that is open.

    Attributes:
        step: Its step; None before the first heading.
        planned: Steps that the heading says are planned.
        wall: When it was written, in seconds since the epoch; None if the log does not say.
        values: What has been read of it.
    """

    def __init__(self) -> None:
        self.step: int | None = None
        self.planned: int | None = None
        self.wall: float | None = None
        self.values: dict[str, float] = {}

    def open(self, records: Records, step: int, planned: int | None, wall: float | None = None) -> None:
        """Closes the one before, and opens the next."""
        self.close(records)
        self.step, self.planned, self.wall = step, planned, wall

    def close(self, records: Records) -> None:
        """Adds the record, if anything was read of it; what follows belongs to the same step."""
        if self.values:
            records.add(self.step, self.values, self.wall)
            records.planned = self.planned
        self.values = {}

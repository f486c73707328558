"""The default store: one SQLite file, safe with many processes that write and read at once."""

from __future__ import annotations

from pathlib import Path

from midflight.store._database import Database
from midflight.store._evaluations import EvaluationTable
from midflight.store._findings import FindingTable
from midflight.store._items import ItemTable
from midflight.store._leases import LeaseTable
from midflight.store._overviews import OverviewTable
from midflight.store._pulse import PulseTable
from midflight.store._runs import RunTable
from midflight.store._series import SeriesTable
from midflight.store._upkeep import UpkeepTable
from midflight.store._verdicts import VerdictTable
from midflight.store._workflows import WorkflowTable


class SQLiteStore(
    RunTable,
    SeriesTable,
    OverviewTable,
    PulseTable,
    EvaluationTable,
    ItemTable,
    FindingTable,
    LeaseTable,
    VerdictTable,
    WorkflowTable,
    UpkeepTable,
):
    """Runs, points, evaluations, findings, verdicts and what workflows did in one file.

    Args:
        path: The file; made if it does not exist.
        create: Whether it may be made.
        read_only: Whether nothing is ever written to it.

    Raises:
        StoreError: If it cannot be opened, is no Midflight store, or was written by a newer version.
    """

    def __init__(self, path: str | Path, create: bool = True, read_only: bool = False) -> None:
        self.database = Database(path, create, read_only)
        self.url = f"sqlite:///{path}"
        self._key_ids = {}

    @property
    def location(self) -> str:
        """URL at which any process of this machine finds it."""
        return f"sqlite:///{self.database.path}"

    def close(self) -> None:
        """Closes this thread's connection; it opens again when it is used."""
        self.database.close()

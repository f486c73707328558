"""Databases of trackio: a SQLite file with a row a record, ``metrics(timestamp, run_name, step, metrics)``."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from midflight.analyse.importers._json import json_object, plain_values
from midflight.analyse.importers._numbers import stamp, step_of
from midflight.analyse.importers._records import Records
from midflight.analyse.importers._source import Source
from midflight.analyse.importers.base import Importer
from midflight.errors import ConfigError

_MAGIC = b"SQLite format 3\0"
_ROWS = "SELECT run_name, step, timestamp, metrics FROM metrics ORDER BY run_name, id"


class Trackio(Importer):
    """The runs of a project."""

    label = "trackio database"

    @classmethod
    def recognises(cls, source: Source) -> bool:
        """By its table."""
        if not source.head.startswith(_MAGIC):
            return False
        try:
            with closing(_opened(source)) as database:
                database.execute(f"{_ROWS} LIMIT 1").fetchone()
        except sqlite3.Error:
            return False
        return True

    def read(self, source: Source, records: Records) -> None:
        """Reads run by run."""
        name = None
        try:
            with closing(_opened(source)) as database:
                for run, step, timestamp, text in database.execute(_ROWS):
                    if run != name:
                        name = run
                        records.begin_run("a run of its own")
                        records.name = str(run)
                    raw = json_object(str(text), source)
                    if raw is None:
                        source.skip("broken JSON", str(text))
                    elif values := plain_values(raw, source):
                        records.add(step_of(step), values, stamp(str(timestamp)))
        except sqlite3.Error as error:
            raise ConfigError(f"log {source.path}: broken database", got=str(error)) from None


def _opened(source: Source) -> sqlite3.Connection:
    return sqlite3.connect(f"{source.path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)

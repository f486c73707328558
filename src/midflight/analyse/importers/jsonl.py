"""JSON objects, one a line: LLaMA-Factory's ``trainer_log.jsonl``, Tinker's ``metrics.jsonl``, and any others."""

from __future__ import annotations

from midflight.analyse.importers._json import json_object, plain_values
from midflight.analyse.importers._numbers import step_of
from midflight.analyse.importers._records import Records
from midflight.analyse.importers._table import OF_SAMPLES, Table
from midflight.analyse.importers.base import LineImporter

_MAX_NUMBERS = 10_000
_PLANNED = ("total_steps", "max_steps")


class JSONL(LineImporter):
    """Each object is a record; names of nested ones are joined with ``/``."""

    label = "JSON lines"

    def __init__(self) -> None:
        self._table: Table | None = None

    def line(self, text: str, records: Records) -> bool:
        """Reads one line."""
        if not text.startswith("{"):
            return False
        raw = json_object(text, records.source)
        if raw is None:
            records.source.skip("broken JSON", text)
            return False
        if not OF_SAMPLES.isdisjoint(raw):  # data, or outputs of a model
            return False
        values = plain_values(raw, records.source)
        if not values or len(values) > _MAX_NUMBERS:  # a vocabulary is one object, too
            return False
        for key in _PLANNED:
            if (planned := step_of(values.pop(key, None))) is not None:
                records.planned = planned
        if self._table is None:
            self._table = Table(records)
        self._table.add(values, {key: value for key, value in raw.items() if isinstance(value, str)})
        return True

    def end(self, records: Records) -> None:
        """Adds the rows that wait."""
        if self._table is not None:
            self._table.end()

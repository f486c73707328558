"""JSON objects, one a line: LLaMA-Factory's ``trainer_log.jsonl``, ms-swift's ``logging.jsonl``, and any others."""

from __future__ import annotations

from midflight.analyse.importers._json import json_object, plain_values
from midflight.analyse.importers._records import Records
from midflight.analyse.importers._table import OF_SAMPLES, Table
from midflight.analyse.importers.base import LineImporter

_MAX_NUMBERS = 10_000
_OF_PLANNED = "global_step/max_steps"
"""ms-swift: ``"10/438"``."""
_OF_THE_WHOLE = frozenset({"train_runtime", "log_history"})
"""Keys of an object that sums the run up, as HF's Trainer and ms-swift write it last: no point of a curve."""


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
        if isinstance(steps := raw.get(_OF_PLANNED), str):
            del raw[_OF_PLANNED]
            raw["global_step"], _, raw["max_steps"] = steps.partition("/")
        values = plain_values(raw, records.source)
        if not values or len(values) > _MAX_NUMBERS:  # a vocabulary is one object, too
            return False
        if "loss" not in raw and not _OF_THE_WHOLE.isdisjoint(raw):
            records.summary.update(values)
            return True
        if self._table is None:
            self._table = Table(records)
        self._table.add(values, {key: value for key, value in raw.items() if isinstance(value, str)})
        return True

    def end(self, records: Records) -> None:
        """Adds the rows that wait."""
        if self._table is not None:
            self._table.end()

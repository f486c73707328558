"""A JSON array of records, ``[{"step": 1, "loss": 2.3}, …]``, or an object that holds one."""

from __future__ import annotations

import re

from midflight.analyse.importers._json import items, members, plain_values
from midflight.analyse.importers._records import Records
from midflight.analyse.importers._source import Source
from midflight.analyse.importers._table import NO_RECORDS, OF_SAMPLES, Table
from midflight.analyse.importers.base import Importer

_ARRAY = re.compile(r"\s*\[\s*\{")
_HOLDER = re.compile(r'\s*\{[^\[\]{}]{0,4000}"(history|logs?|metrics|records|train_log|data)"\s*:\s*\[\s*\{')


class JSONRecords(Importer):
    """Each object of the array is a record."""

    label = "JSON records"

    @classmethod
    def recognises(cls, source: Source) -> bool:
        """By an array of objects."""
        text = source.head_text
        return not source.is_binary and (_ARRAY.match(text) or _HOLDER.match(text)) is not None

    def read(self, source: Source, records: Records) -> None:
        """Reads record by record; members of the object beside the array are its configuration."""
        table = Table(records)
        holder = _HOLDER.match(source.head_text)
        pairs = members(source) if holder else (("", item) for item in items(source))
        for key, raw in pairs:
            if isinstance(raw, dict) and not OF_SAMPLES.isdisjoint(raw):
                source.skip(NO_RECORDS, str(raw)[:200])
            elif isinstance(raw, dict) and (holder is None or key == holder[1]):
                texts = {name: value for name, value in raw.items() if isinstance(value, str)}
                table.add(plain_values(raw, source), texts)
            elif holder is not None and isinstance(raw, str | int | float | bool):
                records.config[key] = raw
            else:
                source.skip("items that are no record", str(raw)[:200])
        table.end()

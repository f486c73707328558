"""Console of OLMo and OLMo-core: ``[step=10/739328]`` and below it ``train/CrossEntropyLoss=9.331``."""

from __future__ import annotations

import re

from midflight.analyse.importers._numbers import NUMBER, SCALE, scaled, stamp
from midflight.analyse.importers._open_record import OpenRecord
from midflight.analyse.importers._records import Records
from midflight.analyse.importers.base import LineImporter

_HEAD = re.compile(r"\[step=([\d,]{1,24})/([\d,]{1,24})(?:,epoch=(\d{1,18}))?[^\]]{0,100}\]")
_VALUE = re.compile(rf"\s+([A-Za-z][^=]{{0,200}})=\s*({NUMBER}){SCALE}%?\s*$")
_TEXT = re.compile(r"\s+[A-Za-z_]+/[^=]{1,200}=")


class OLMoConsole(LineImporter):
    """A heading and the lines below it are one record; evaluations that follow belong to its step."""

    label = "OLMo console"

    def __init__(self) -> None:
        self._record = OpenRecord()
        self._epoch: float | None = None

    def line(self, text: str, records: Records) -> bool:
        """Reads one line."""
        if "[step=" in text and (found := _HEAD.search(text)) is not None:
            step, planned = (int(part.replace(",", "")) for part in (found[1], found[2]))
            self._record.open(records, step, planned, stamp(text[: found.start()]))
            self._epoch = None if found[3] is None else float(found[3])
            return True
        if self._record.step is None or "=" not in text or not text[0].isspace():
            return False
        found = _VALUE.match(text)
        if found is None:
            if _TEXT.match(text):
                records.source.skip("texts among the values", text)
            return False
        self._record.values[found[1]] = scaled(found[2], found[3] or "")
        if self._epoch is not None:
            self._record.values["epoch"] = self._epoch
        return True

    def end(self, records: Records) -> None:
        """Adds the record that is open."""
        self._record.close(records)

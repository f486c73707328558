"""Console of AReaL: tables of statistics in boxes, below a line that names the step."""

from __future__ import annotations

import re

from midflight.analyse.importers._numbers import number, stamp
from midflight.analyse.importers._open_record import OpenRecord
from midflight.analyse.importers._records import Records
from midflight.analyse.importers.base import LineImporter

_STEP = re.compile(r"Train step (\d{1,18})/(\d{1,18}) done")
_BAR = "│"
_CORNERS = "╒╞├╘┌└═─"


class ARealConsole(LineImporter):
    """A table is one record; one that breaks off gives the values before the break."""

    label = "AReaL console"

    def __init__(self) -> None:
        self._record = OpenRecord()

    def line(self, text: str, records: Records) -> bool:
        """Reads one line."""
        if _BAR in text:
            return self._row(text, records)
        if "╒" in text or "╘" in text:
            self._record.close(records)
            return True
        if "rain step" in text and (found := _STEP.search(text)) is not None:
            self._record.open(records, int(found[1]), int(found[2]), stamp(text[: found.start()]))
            return True
        return "├" in text or "╞" in text

    def _row(self, text: str, records: Records) -> bool:
        if self._record.step is None:  # a table of something else
            return False
        cells = [cell.strip() for cell in text.split(_BAR)[1:]]
        for name, value in zip(cells[::2], cells[1::2], strict=False):
            found = number(value)
            if name and found is not None:
                self._record.values[name] = found
            elif name:
                records.source.skip("texts among the values", f"{name}: {value}")
        return True

    def end(self, records: Records) -> None:
        """Keeps the values of a table that breaks off."""
        if self._record.values:
            records.note_run(f"the last table, of step {self._record.step}, breaks off")
        self._record.close(records)

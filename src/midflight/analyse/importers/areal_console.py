"""Console of AReaL: tables of statistics in boxes, below a line that names the step."""

from __future__ import annotations

import re

from midflight.analyse.importers._numbers import number, stamp
from midflight.analyse.importers._records import Records
from midflight.analyse.importers.base import LineImporter

_STEP = re.compile(r"Train step (\d{1,18})/(\d{1,18}) done")
_BAR = "│"
_CORNERS = "╒╞├╘┌└═─"


class ARealConsole(LineImporter):
    """A table is one record; one that breaks off gives the values before the break."""

    label = "AReaL console"

    def __init__(self) -> None:
        self._step: int | None = None
        self._planned: int | None = None
        self._wall: float | None = None
        self._values: dict[str, float] = {}

    def line(self, text: str, records: Records) -> bool:
        """Reads one line."""
        if _BAR in text:
            return self._row(text, records)
        if "╒" in text or "╘" in text:
            self._close(records)
            return True
        if "rain step" in text and (found := _STEP.search(text)) is not None:
            self._close(records)
            self._step, self._planned = int(found[1]), int(found[2])
            self._wall = stamp(text[: found.start()])
            return True
        return "├" in text or "╞" in text

    def _row(self, text: str, records: Records) -> bool:
        if self._step is None:  # a table of something else
            return False
        cells = [cell.strip() for cell in text.split(_BAR)[1:]]
        for name, value in zip(cells[::2], cells[1::2], strict=False):
            found = number(value)
            if name and found is not None:
                self._values[name] = found
            elif name:
                records.source.skip("texts among the values", f"{name}: {value}")
        return True

    def _close(self, records: Records) -> None:
        if self._values and self._step is not None:
            records.add(self._step, self._values, self._wall)
            records.planned = self._planned
            self._values = {}

    def end(self, records: Records) -> None:
        """Keeps the values of a table that breaks off."""
        if self._values:
            records.note_run(f"the last table, of step {self._step}, breaks off")
        self._close(records)

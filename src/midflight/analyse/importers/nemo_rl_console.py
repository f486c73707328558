"""Console of NeMo-RL: ``==== Step 3/100 ====``, and below it ``• Loss: 0.0123``, ``• Avg Reward: 0.41``."""

from __future__ import annotations

import re

from midflight.analyse.importers._numbers import NUMBER
from midflight.analyse.importers._records import Records
from midflight.analyse.importers.base import LineImporter

_HEAD = re.compile(r"={3,} (?:Step|Epoch \d+/\d+, Step) (\d{1,18})/(\d{1,18}) ={3,}")
_SECTION = re.compile(r"(Training Results|Validation Results|Timing|Validation Timing|Performance Metrics):\s*$")
_VALUE = re.compile(
    rf"\s*(?:\([^)]{{1,80}}\) ?)?\s*[•-] ([^:]{{1,120}}): ({NUMBER})(?:s| tokens| steps|%)?(?: \([^)]{{0,40}}\))?\s*$"
)
_TRAINED = "Training Results"
_VALIDATED = "Validation Results"


class NemoRLConsole(LineImporter):
    """Sections below the heading of a step are one record; without headings, each training section is the next step."""

    label = "NeMo-RL console"

    def __init__(self) -> None:
        self._step: int | None = None
        self._planned: int | None = None
        self._headed = False
        self._section = ""
        self._values: dict[str, float] = {}

    def line(self, text: str, records: Records) -> bool:
        """Reads one line."""
        if "===" in text and (found := _HEAD.search(text)) is not None:
            self.end(records)
            self._step, self._planned, self._headed = int(found[1]), int(found[2]), True
            return True
        if (section := _SECTION.search(text)) is not None:
            self._section = section[1]
            if section[1] == _TRAINED and not self._headed:
                self.end(records)
                self._step = (self._step or 0) + 1
                records.note("steps: the number of the record; the log names none")
            return True
        if not self._section or ("•" not in text and "- " not in text):
            return False
        found = _VALUE.match(text)
        if found is None:
            return False
        prefix = "validation/" if self._section.startswith("Validation") else ""
        self._values[f"{prefix}{found[1]}"] = float(found[2].replace(",", ""))
        return True

    def end(self, records: Records) -> None:
        """Adds the record that is open."""
        if self._values:
            records.add(self._step, self._values)
            records.planned = self._planned
        self._values = {}

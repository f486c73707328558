"""Console of NeMo-RL: ``==== Step 3/100 ====``, and below it ``• Loss: 0.0123``, ``• Avg Reward: 0.41``."""

from __future__ import annotations

import re

from midflight.analyse.importers._numbers import NUMBER
from midflight.analyse.importers._open_record import OpenRecord
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
        self._record = OpenRecord()
        self._headed = False
        self._section = ""

    def line(self, text: str, records: Records) -> bool:
        """Reads one line."""
        if "===" in text and (found := _HEAD.search(text)) is not None:
            self._record.open(records, int(found[1]), int(found[2]))
            self._headed = True
            return True
        if (section := _SECTION.search(text)) is not None:
            self._section = section[1]
            if section[1] == _TRAINED and not self._headed:
                self._record.open(records, (self._record.step or 0) + 1, None)
                records.note("steps: the number of the record; the log names none")
            return True
        if not self._section or ("•" not in text and "- " not in text):
            return False
        found = _VALUE.match(text)
        if found is None:
            return False
        prefix = "validation/" if self._section.startswith("Validation") else ""
        self._record.values[f"{prefix}{found[1]}"] = float(found[2].replace(",", ""))
        return True

    def end(self, records: Records) -> None:
        """Adds the record that is open."""
        self._record.close(records)

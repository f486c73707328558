"""Logs of nanochat: ``step 00012/16704 (0.07%) | loss: 7.35 | dt: 651.46ms``, ``Step 00250 | Validation bpb: 1.08``."""

from __future__ import annotations

import re

from midflight.analyse.importers._numbers import NUMBER, UNIT
from midflight.analyse.importers._records import Records
from midflight.analyse.importers.base import LineImporter

_LINE = re.compile(r"[Ss]tep (\d+)(?:/(\d+))?(?: \([\d.]+%\))? \| (?=[A-Za-z])")
_PAIR = re.compile(rf"([A-Za-z][\w/@. -]{{0,99}}): ({NUMBER}){UNIT}\s*(?:\||$)")


class Nanochat(LineImporter):
    """Base training, and evaluations between its lines; numbers are in the units of the log."""

    label = "nanochat"

    def line(self, text: str, records: Records) -> bool:
        """Reads one line."""
        if "tep " not in text or (found := _LINE.search(text)) is None:
            return False
        values = {key: float(value.replace(",", "")) for key, value in _PAIR.findall(text, found.end())}
        if not values:
            return False
        planned = int(found[2]) if found[2] else None
        records.add_line(text, found.start(), int(found[1]), values, planned, evaluation=text[found.start()] == "S")
        return True

"""Logs of nanochat: ``step 00012/16704 (0.07%) | loss: 7.35 | dt: 651.46ms``, ``Step 00250 | Validation bpb: 1.08``."""

from __future__ import annotations

import re

from midflight.analyse.importers._numbers import NUMBER, UNIT
from midflight.analyse.importers._records import Records
from midflight.analyse.importers.base import LineImporter

_LINE = re.compile(
    r"(?:step (\d{1,18})(?:/(\d{1,18}))? \([\d.]+%\)|Step (\d{5,18})(?:/(\d{1,18}))?) \| "
    r"(?=[A-Za-z][\w/@. -]{0,99}: )"
)
_OF_NANOCHAT = re.compile(
    r"(valid|core|chatcore|pass@)|training loss$|average (?:reward|sequence length)$", re.IGNORECASE
)
"""What it logs after ``Step 12 | ``; many logs begin so. In a group: what is measured on held-out data."""
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
        step, planned = found[1] or found[3], found[2] or found[4]
        ours = [_OF_NANOCHAT.match(name) for name in values] if found[3] is not None else []
        if not all(ours):
            return False
        evaluation = bool(ours) and all(one is not None and one[1] for one in ours)
        records.add_line(text, found.start(), int(step), values, int(planned) if planned else None, evaluation)
        return True

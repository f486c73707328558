"""Console of MMEngine, on which XTuner stands: ``Iter(train) [ 10/720]  lr: 9.0001e-05  loss: 2.6900``."""

from __future__ import annotations

import re

from midflight.analyse.importers._numbers import NUMBER
from midflight.analyse.importers._records import Records
from midflight.analyse.importers.base import LineImporter

_LINE = re.compile(r"(?:Iter|Epoch)\((train|val|test)\)\s+(?:\[\s*(\d{1,18})\])?\[\s*(\d{1,18})/(\d{1,18})\](?=\s)")
_PAIR = re.compile(rf"\s([A-Za-z_][^\s:]{{0,120}}): ({NUMBER})(?=\s|$)(?!\s+days?\b)")


class MMEngineConsole(LineImporter):
    """Batches of an epoch go on counting; what validation measures belongs to the step before it."""

    label = "MMEngine console"

    def line(self, text: str, records: Records) -> bool:
        """Reads one line."""
        if "(train)" not in text and "(val)" not in text and "(test)" not in text:
            return False
        found = _LINE.search(text)
        if found is None:
            return False
        values = {key: float(value.replace(",", "")) for key, value in _PAIR.findall(text, found.end())}
        if not values:
            return True  # a progress of validation
        kind, epoch, batch, of = found[1], found[2], int(found[3]), int(found[4])
        if kind != "train":
            records.add_line(text, found.start(), None, {f"{kind}/{key}": value for key, value in values.items()})
        elif epoch is None:
            records.add_line(text, found.start(), batch, values, of)
        else:
            values["epoch"] = float(epoch)
            records.add_line(text, found.start(), (int(epoch) - 1) * of + batch, values)
        return True

"""Console of LitGPT: ``Epoch 1 | iter 2 step 1 | loss train: 1.660, val: n/a | iter time: 548.72 ms (step)``.

An iteration is a micro-batch; the optimizer's step, which several of them share, is a series of its own.
"""

from __future__ import annotations

import re

from midflight.analyse.importers._numbers import NUMBER
from midflight.analyse.importers._records import Records
from midflight.analyse.importers.base import LineImporter

_LINE = re.compile(
    r"(?:Epoch (\d{1,18}) \| )?iter (\d{1,18})(?: step (\d{1,18}))?(?: \||:) "
    rf"(?:loss(?: train:)?|train loss) ({NUMBER}),"
)
_VAL = re.compile(rf" val: ({NUMBER}) \|")
_TIME = re.compile(rf" (?:iter )?time: ({NUMBER})\s?ms")
_VALIDATION = re.compile(rf"(?:iter|step) (\d{{1,18}}): val loss ({NUMBER})")


class LitGPT(LineImporter):
    """The validation loss stands on each line until the next one: it counts where it changes."""

    label = "LitGPT console"

    def __init__(self) -> None:
        self._validated: str | None = None

    def line(self, text: str, records: Records) -> bool:
        """Reads one line."""
        if "loss" not in text or "iter" not in text:
            return False
        if (found := _LINE.search(text)) is None or "time" not in text:
            return self._validation(text, records)
        values = {"train loss": float(found[4])}
        for name, part in (("epoch", found[1]), ("optimizer step", found[3])):
            if part is not None:
                values[name] = float(part)
        if (time := _TIME.search(text, found.end())) is not None:
            values["iter time"] = float(time[1].replace(",", ""))
        val = _VAL.search(text, found.end() - 1)
        if val is not None and val[1] != self._validated:
            self._validated = val[1]
            values["val loss"] = float(val[1])
        records.add_line(text, found.start(), int(found[2]), values)
        return True

    def _validation(self, text: str, records: Records) -> bool:
        found = _VALIDATION.search(text)
        if found is None or "val time" not in text:
            return False
        records.add_line(text, found.start(), int(found[1]), {"val loss": float(found[2])})
        return True

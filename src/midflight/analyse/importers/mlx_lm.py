"""Console of mlx-lm: ``Iter 10: Train loss 2.458, Learning Rate 1.000e-05, It/sec 3.036, Trained Tokens 1899``."""

from __future__ import annotations

import re

from midflight.analyse.importers._numbers import NUMBER
from midflight.analyse.importers._records import Records
from midflight.analyse.importers.base import LineImporter

_LINE = re.compile(rf"\bIter (\d{{1,18}}): (?=(?:Train|Val) loss {NUMBER})")
_PAIR = re.compile(rf"\s*([A-Z][A-Za-z/ ]{{0,60}}) ({NUMBER})(?:s| GB)?\s*")
_PLANNED = re.compile(r"\bStarting training\W{1,10}iters: (\d{1,18})")
_TEST = re.compile(rf"\bTest loss ({NUMBER}), Test ppl ({NUMBER})")


class MLXLM(LineImporter):
    """Training and validation lines; the test at the end is a number about the run."""

    label = "mlx-lm"

    def __init__(self) -> None:
        self._planned: int | None = None

    def line(self, text: str, records: Records) -> bool:
        """Reads one line."""
        if "loss" in text and (found := _LINE.search(text)) is not None:
            pairs = (_PAIR.fullmatch(part) for part in text[found.end() :].split(","))
            values = {pair[1]: float(pair[2]) for pair in pairs if pair is not None}
            records.add_line(text, found.start(), int(found[1]), values, self._planned)
            return True
        if "iters" in text and (planned := _PLANNED.search(text)) is not None:
            self._planned = int(planned[1])
        elif "Test loss" in text and (test := _TEST.search(text)) is not None:
            records.summary.update({"Test loss": float(test[1]), "Test ppl": float(test[2])})
            return True
        return False

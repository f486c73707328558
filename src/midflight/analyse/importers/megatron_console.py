"""Console of Megatron-LM: `` iteration  5/ 100 | consumed samples: 1280 | lm loss: 1.2E+01 | grad norm: 3.0 |``."""

from __future__ import annotations

import re

from midflight.analyse.importers._numbers import NUMBER
from midflight.analyse.importers._records import Records
from midflight.analyse.importers.base import LineImporter

_LINE = re.compile(r"\biteration\s+(\d+)/\s*(\d+) \|")
_PAIR = re.compile(rf"\s*([A-Za-z][^|:]{{0,200}}):\s*({NUMBER})\s*(?:\||$)")
_EVAL = re.compile(r"\b(validation|test) loss at iteration (\d+)[^|]*\|(?= )")
_EVAL_VALUE = re.compile(rf"\s*([A-Za-z][^|:]{{0,200}}): ({NUMBER})\s*\|")


class MegatronConsole(LineImporter):
    """Training and validation lines; times per iteration are in ms."""

    label = "Megatron-LM console"

    def line(self, text: str, records: Records) -> bool:
        """Reads one line."""
        if "iteration" not in text:
            return False
        if (found := _LINE.search(text)) is not None:
            values = {key.strip(): float(value) for key, value in _PAIR.findall(text, found.end())}
            if values:
                records.add_line(text, found.start(), int(found[1]), values, int(found[2]))
            return bool(values)
        if (found := _EVAL.search(text)) is not None:
            pairs = _EVAL_VALUE.findall(text, found.end())
            values = {f"{found[1]} {key.strip()}": float(value) for key, value in pairs}
            if values:
                records.add_line(text, found.start(), int(found[2]), values, evaluation=True)
            return bool(values)
        return False

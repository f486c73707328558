"""Console of Megatron-LM: `` iteration  5/ 100 | consumed samples: 1280 | lm loss: 1.2E+01 | grad norm: 3.0 |``."""

from __future__ import annotations

import re

from midflight.analyse.importers._numbers import number
from midflight.analyse.importers._records import Records
from midflight.analyse.importers.base import LineImporter

_LINE = re.compile(r"\biteration\s+(\d{1,18})/\s*(\d{1,18}) \|")
_EVAL = re.compile(r"\b(validation|test) loss at iteration (\d{1,18})[^|]*\|(?= )")


class MegatronConsole(LineImporter):
    """Training and validation lines; times per iteration are in ms."""

    label = "Megatron-LM console"

    def line(self, text: str, records: Records) -> bool:
        """Reads one line."""
        if "iteration" not in text:
            return False
        if (found := _LINE.search(text)) is not None:
            values = _values(text[found.end() :])
            if values:
                records.add_line(text, found.start(), int(found[1]), values, int(found[2]))
            return bool(values)
        if (found := _EVAL.search(text)) is not None:
            values = {f"{found[1]} {key}": value for key, value in _values(text[found.end() :]).items()}
            if values:
                records.add_line(text, found.start(), int(found[2]), values, evaluation=True)
            return bool(values)
        return False


def _values(text: str) -> dict[str, float]:
    """What stands between the bars."""
    pairs = (part.rpartition(":") for part in text.split("|"))
    return {key.strip(): found for key, _, value in pairs if key.strip() and (found := number(value)) is not None}

"""Console of verl: ``step:12 - actor/pg_loss:0.001 - val/test_score/openai/gsm8k:0.187``, behind Ray's prefix."""

from __future__ import annotations

import re

from midflight.analyse.importers._numbers import number
from midflight.analyse.importers._records import Records
from midflight.analyse.importers.base import LineImporter

_LINE = re.compile(r"\bstep:(\d{1,18}) - (?=[A-Za-z_])")
_TOTAL = re.compile(r"[Tt]otal (?:training )?steps: (\d{1,18})")


class VerlConsole(LineImporter):
    """What verl's console logger prints after each step."""

    label = "verl console"

    def __init__(self) -> None:
        self._total: int | None = None

    def line(self, text: str, records: Records) -> bool:
        """Reads one line."""
        if "step:" not in text or (found := _LINE.search(text)) is None:
            if "otal " in text and (total := _TOTAL.search(text)) is not None:
                self._total = int(total[1]) or None
            return False
        values: dict[str, float] = {}
        for part in text[found.end() :].split(" - "):
            key, _, value = part.rpartition(":")
            value = value.strip()
            if value.startswith("np."):  # np.float64(0.5)
                value = value[value.find("(") + 1 : -1]
            if key and (one := number(value)) is not None:
                values[key] = one
            else:
                records.source.skip("texts among the values", part)
        if not values:
            return False
        records.add_line(text, found.start(), int(found[1]), values, self._total)
        return True

"""Console of verl: ``step:12 - actor/pg_loss:0.001 - val/test_score/openai/gsm8k:0.187``, behind Ray's prefix."""

from __future__ import annotations

import re

from midflight.analyse.importers._numbers import NUMBER
from midflight.analyse.importers._records import Records
from midflight.analyse.importers.base import LineImporter

_LINE = re.compile(r"\bstep:(\d+) - (?=[A-Za-z_])")
_PAIR = re.compile(rf"([^\s:][^:]{{0,400}}?):(?:np\.\w+\()?({NUMBER})\)?(?: - |\s*$)")
_TOTAL = re.compile(r"[Tt]otal (?:training )?steps: (\d+)")


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
        values = {key: float(value.replace(",", "")) for key, value in _PAIR.findall(text, found.end())}
        if not values:
            return False
        if missing := text.count(" - ", found.end()) + 1 - len(values):
            for _ in range(missing):
                records.source.skip("texts among the values", text)
        records.add_line(text, found.start(), int(found[1]), values, self._total)
        return True

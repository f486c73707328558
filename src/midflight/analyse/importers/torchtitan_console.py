"""Console of torchtitan: ``step:  2  loss: 11.07  grad_norm: 55.5  memory: 165.10GiB(92.57%)  tps: 11,047``."""

from __future__ import annotations

import re

from midflight.analyse.importers._numbers import NUMBER, UNIT
from midflight.analyse.importers._records import Records
from midflight.analyse.importers.base import LineImporter

_LINE = re.compile(r"(?:(validate) )?step:\s+(\d{1,18})\s{2,}(?=[a-z])")
_PAIR = re.compile(rf"\b([a-z]\w{{0,99}}):\s*({NUMBER}){UNIT}(?:\([\d.]+%\))?(?:\s|$)")
_MISSING = re.compile(r"\b([a-z]\w{0,99}):\s*N/A")
_TOTAL = re.compile(r"total steps (\d{1,18})")


class TorchtitanConsole(LineImporter):
    """Training and validation lines of a rank."""

    label = "torchtitan console"

    def __init__(self) -> None:
        self._total: int | None = None

    def line(self, text: str, records: Records) -> bool:
        """Reads one line."""
        if "step:" not in text or (found := _LINE.search(text)) is None:
            if "total steps" in text and (total := _TOTAL.search(text)) is not None:
                self._total = int(total[1])
            return False
        values = {key: float(value.replace(",", "")) for key, value in _PAIR.findall(text, found.end())}
        if not values:
            return False
        for name in _MISSING.findall(text, found.end()):
            records.source.skip("missing values", f"{name}: N/A")
        records.add_line(text, found.start(), int(found[2]), values, self._total, evaluation=found[1] is not None)
        return True

"""Logs of modded-nanogpt: ``step:125/3200 val_loss:4.5 train_time:13ms step_avg:95.6ms``; its source code before."""

from __future__ import annotations

import re

from midflight.analyse.importers._numbers import NUMBER
from midflight.analyse.importers._records import Records
from midflight.analyse.importers.base import LineImporter

_LINE = re.compile(rf"step:(\d{{1,18}})/(\d{{1,18}})((?: [A-Za-z_]\w*:{NUMBER}(?:ms|s)?)+)\s*$")
_PAIR = re.compile(rf"(\w+):({NUMBER})")


class ModdedNanoGPT(LineImporter):
    """Training and validation lines; numbers are in the units of the log (ms)."""

    label = "modded-nanogpt"

    def line(self, text: str, records: Records) -> bool:
        """Reads one line."""
        if "step:" not in text or (found := _LINE.search(text)) is None:
            return False
        values = {key: float(value.replace(",", "")) for key, value in _PAIR.findall(found[3])}
        records.add_line(text, found.start(), int(found[1]), values, int(found[2]))
        return True

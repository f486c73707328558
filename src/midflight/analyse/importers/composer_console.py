"""Console of Composer and LLM Foundry: ``[batch=35/100]:`` and below it ``Train loss/train/total: 8.02``."""

from __future__ import annotations

import re

from midflight.analyse.importers._numbers import NUMBER, stamp
from midflight.analyse.importers._open_record import OpenRecord
from midflight.analyse.importers._records import Records
from midflight.analyse.importers.base import LineImporter

_HEAD = re.compile(r"\[(?:epoch=\d+(?:/\d+)?\]\[)?(?:Eval )?batch=(\d{1,18})/(\d{1,18})\]:\s*$|\[Eval batch=\d+/\d+\]")
_VALUE = re.compile(rf"\s+(Train|Eval) (\S[^:]{{0,400}}): ({NUMBER})\s*$")


class ComposerConsole(LineImporter):
    """A heading and the lines below it are one record; a batch is a step."""

    label = "Composer console"

    def __init__(self) -> None:
        self._record = OpenRecord()

    def line(self, text: str, records: Records) -> bool:
        """Reads one line."""
        if "batch=" in text and (found := _HEAD.search(text)) is not None:
            wall = stamp(text[: found.start()])
            if found[1] is not None and "Eval" not in found[0]:
                self._record.open(records, int(found[1]), int(found[2]), wall)
            elif self._record.step is not None:  # an evaluation, of the step that was trained last
                self._record.open(records, self._record.step, self._record.planned, wall)
            return True
        found = _VALUE.match(text)
        if found is None or self._record.step is None:
            return False
        name = found[2] if found[1] == "Train" else f"eval/{found[2]}"
        self._record.values[name] = float(found[3].replace(",", ""))
        return True

    def end(self, records: Records) -> None:
        """Adds the record that is open."""
        self._record.close(records)

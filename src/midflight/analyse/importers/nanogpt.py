"""Logs of nanoGPT: ``iter 10: loss 3.2, time 250.00ms, mfu 40.10%``, ``step 0: train loss 10.9, val loss 10.9``."""

from __future__ import annotations

import re

from midflight.analyse.importers._numbers import NUMBER
from midflight.analyse.importers._records import Records
from midflight.analyse.importers.base import LineImporter

_LINE = re.compile(rf"(iter|step) (\d{{1,18}}): ((?:train |val )?loss {NUMBER}.*)$")
_PAIR = re.compile(rf"\s*([a-z][a-z /]{{0,60}}) ({NUMBER})(?:ms|s|%| [A-Za-z]{{1,20}})?\s*")


class NanoGPT(LineImporter):
    """Training lines, and the losses over both splits that it estimates now and then."""

    label = "nanoGPT"

    def line(self, text: str, records: Records) -> bool:
        """Reads one line."""
        if "loss " not in text or (found := _LINE.search(text)) is None:
            return False
        pairs = (_PAIR.fullmatch(part) for part in found[3].split(","))
        values = {pair[1]: float(pair[2]) for pair in pairs if pair is not None}
        if not values:
            return False
        records.add_line(text, found.start(), int(found[2]), values, evaluation=found[1] == "step")
        return True

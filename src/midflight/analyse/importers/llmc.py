"""Logs of llm.c: ``main.log`` (``s:250 trl:6.4 lr:6e-4 norm:1.2``, ``tel`` = validation) and what it prints."""

from __future__ import annotations

import re

from midflight.analyse.importers._numbers import NUMBER
from midflight.analyse.importers._records import Records
from midflight.analyse.importers.base import LineImporter

_MAIN = re.compile(rf"s:(\d{{1,18}})((?: [a-z_]+:{NUMBER})+)\s*$")
_PAIR = re.compile(rf"([a-z_]+):({NUMBER})")
_STEP = re.compile(
    rf"step\s+(\d{{1,18}})/(\d{{1,18}}) \| (?:train )?loss ({NUMBER}) .*?\| norm ({NUMBER}) .*?\| lr ({NUMBER})"
)
_RATES = (
    ("ms", re.compile(rf"\| ({NUMBER}) ms")),
    ("MFU", re.compile(rf"\| ({NUMBER})% (?:\w+ )?MFU")),
    ("tok/s", re.compile(rf"\| ({NUMBER}) tok/s")),
)
_VAL = re.compile(rf"val loss ({NUMBER})\s*$")


class LLMC(LineImporter):
    """Both logs of llm.c; its printed validation losses belong to the step before them."""

    label = "llm.c"

    def line(self, text: str, records: Records) -> bool:
        """Reads one line."""
        if text.startswith("s:"):
            found = _MAIN.match(text)
            if found is None:
                return False
            values = {key: float(value) for key, value in _PAIR.findall(found[2])}
            records.add(int(found[1]), values, None, "tel" in values or "eval" in values)
            return True
        if text.startswith("step") and (found := _STEP.match(text)) is not None:
            values = {"loss": float(found[3]), "norm": float(found[4]), "lr": float(found[5])}
            for name, pattern in _RATES:
                if (rate := pattern.search(text, found.end())) is not None:
                    values[name] = float(rate[1].replace(",", ""))
            records.add(int(found[1]), values)
            records.planned = int(found[2])
            return True
        if text.startswith("val loss") and (found := _VAL.match(text)) is not None:
            records.add(None, {"val loss": float(found[1])}, None, True)
            return True
        return False

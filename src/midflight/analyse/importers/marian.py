"""Logs of Marian: ``Ep. 1 : Up. 500 : Sen. 662,406 : Cost 91.62 : Time 704.91s : 8907.95 words/s : L.r. 9.3e-06``."""

from __future__ import annotations

import re

from midflight.analyse.importers._numbers import NUMBER, is_missing, step_of
from midflight.analyse.importers._records import Records
from midflight.analyse.importers.base import LineImporter

_LINE = re.compile(r"(\[valid\] )?\[?Ep\. (\d{1,9}(?:\.\d{1,6})?) : Up\. (\d{1,18}) : ")
_PAIR = re.compile(rf"(Sen\.|Cost|gNorm|L\.r\.|Time) ({NUMBER})s?(?=[ \]:]|$)")
_SPEED = re.compile(rf" ({NUMBER}) (words/s)")
_VALID = re.compile(rf"([a-z][\w-]{{0,60}}) : ({NUMBER})(?= :|\s*$)")
_SETTING = re.compile(r"\[config\] ([a-z][\w-]{0,60}): (\S.{0,200})")
_UPDATES = "after-batches"


class Marian(LineImporter):
    """Updates are steps. ``Cost`` is in the unit of ``cost-type``: of a sentence or of a word."""

    label = "Marian"

    def line(self, text: str, records: Records) -> bool:
        """Reads one line."""
        if "Up. " in text and (found := _LINE.search(text)) is not None:
            rest = text[found.end() :]
            if found[1]:
                values = {f"valid/{name}": _float(value) for name, value in _VALID.findall(rest)}
            else:
                values = {name: _float(value) for name, value in _PAIR.findall(rest)}
                values.update({name: _float(value) for value, name in _SPEED.findall(rest)})
                values["epoch"] = float(found[2])
            if not values:
                return False
            records.add_line(text, found.start(), int(found[3]), values)
            return True
        if "[config] " in text and (setting := _SETTING.search(text)) is not None and not is_missing(setting[2]):
            records.config.setdefault(setting[1], setting[2])
            if setting[1] == _UPDATES:
                records.planned = step_of(setting[2].rstrip("u")) or None
        return False


def _float(text: str) -> float:
    return float(text.replace(",", ""))

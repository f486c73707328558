"""Console of Keras: ``Epoch 3/10``, and below it ``1875/1875 [====] - 8s 4ms/step - loss: 0.25 - val_loss: 0.31``."""

from __future__ import annotations

import re

from midflight.analyse.importers._numbers import NUMBER
from midflight.analyse.importers._records import Records
from midflight.analyse.importers.base import LineImporter

_EPOCH = re.compile(r"[\s#]*Epoch (\d{1,18})/(\d{1,18})\s*$")
_BAR = re.compile(r"[\s\x08#]*(\d{1,18})/(\d{1,18}) (?:\[=*\]|━+)(?= .*loss: )")
_PAIR = re.compile(rf" - ([A-Za-z_][\w@ ]{{0,100}}): ({NUMBER})(?=\s|$)")


class KerasConsole(LineImporter):
    """An epoch is a step; its last bar holds the means over it."""

    label = "Keras console"

    def __init__(self) -> None:
        self._epoch: int | None = None
        self._planned: int | None = None

    def line(self, text: str, records: Records) -> bool:
        """Reads one line."""
        if "Epoch " in text and (epoch := _EPOCH.match(text)) is not None:
            self._epoch, self._planned = int(epoch[1]), int(epoch[2])
            return False
        if self._epoch is None or "loss: " not in text or (found := _BAR.match(text)) is None:
            return False
        values = {key: float(value) for key, value in _PAIR.findall(text, found.end())}
        if found[1] != found[2] or not values:
            return False
        records.note("steps: epochs")
        records.add_line(text, 0, self._epoch, values, self._planned)
        return True

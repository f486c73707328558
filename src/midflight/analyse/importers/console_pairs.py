"""Any other log with a step and numbers by name on a line: ``[Epoch 1/3] Step 20/500 | loss=2.31, lr: 1e-4``.

Also progress bars that carry numbers: ``60%|…| 120/200 [00:10<…, loss=0.53]``. Steps that begin again with each epoch
go on counting.
"""

from __future__ import annotations

import re

from midflight.analyse.importers._numbers import NUMBER, UNIT
from midflight.analyse.importers._records import Records
from midflight.analyse.importers.base import LineImporter
from midflight.analyse.names import canonical_name

_STEP = re.compile(
    r"(?<![\w/.-])(?:global[_ ]?step|train[_ ]?step|step|iter(?:ation)?|update|batch|it)s?\b"
    r"[\]\s:=#\[(]{1,4}(\d{1,18})(?!\.?\d)(?:\s*(?:/|of)\s*(\d{1,18}))?",
    re.IGNORECASE,
)
_EPOCH = re.compile(r"(?<![\w/.-])epochs?\b[\]\s:=#\[(]{1,4}(\d{1,18})(?:\s*(?:/|of)\s*(\d{1,18}))?\]?", re.IGNORECASE)
_AFTER_EPOCH = re.compile(r"[\s,|:]*[\[(]?(\d{1,18})\s*/\s*(\d{1,18})[\])]?(?=[\s,:])")
_BAR = re.compile(r"\d+%\|[^|]*\|\s*(\d{1,18})/(\d{1,18}) \[[^\]]*?, (?=[A-Za-z])")
_PAIR = re.compile(
    rf"(?<![\w/@.-])([A-Za-z_][\w/@.-]{{0,120}}(?: [A-Za-z][\w/@.-]{{0,60}})?)\s*[:=]\s*({NUMBER}){UNIT}"
    r"(?=[\s,|;)\]}]|$)"
)
_NOT_VALUES = frozenset({"step", "steps", "iter", "iteration", "epoch", "update", "batch", "it", "global_step"})


class ConsolePairs(LineImporter):
    """Lines that name a step and a quantity that Midflight knows, such as a loss."""

    label = "console lines"
    specific = False

    def __init__(self) -> None:
        self._offset, self._last = 0, -1
        self._epoch: int | None = None

    def line(self, text: str, records: Records) -> bool:
        """Reads one line."""
        if (":" not in text and "=" not in text) or len(text) > 20_000:
            return False
        found = _step(text)
        if found is None:
            return False
        at, step, planned, epoch, num_epochs = found
        pairs = _PAIR.findall(text, at)
        values = {key: float(value.replace(",", "")) for key, value in pairs if key.lower() not in _NOT_VALUES}
        if not any(canonical_name(key) for key in values):
            return False
        step = self._counted_on(step, planned, epoch)
        if epoch is not None:
            values.setdefault("epoch", float(epoch))
        if planned is not None and self._offset:  # it is of one epoch
            planned, records.planned = planned * num_epochs if num_epochs else None, None
        records.add_line(text, at, step, values, planned)
        return True

    def _counted_on(self, step: int, planned: int | None, epoch: int | None) -> int:
        """The step since the first epoch, where the log counts them anew in each."""
        if epoch is not None:
            if self._epoch is not None and epoch > self._epoch and step <= self._last:
                self._offset += planned if planned is not None else self._last
            elif self._epoch is not None and epoch < self._epoch:
                self._offset = 0
            self._epoch = epoch
        self._last = step
        return self._offset + step


def _step(text: str) -> tuple[int, int, int | None, int | None, int | None] | None:
    """Where a record begins, its step, planned steps, epoch and planned epochs."""
    epoch = _EPOCH.search(text)
    if "%|" in text and (bar := _BAR.search(text)) is not None:
        return bar.end(), int(bar[1]), int(bar[2]), int(epoch[1]) if epoch is not None else None, None
    step = _STEP.search(text)
    if epoch is None and step is None:
        return None
    epochs = (int(epoch[1]), int(epoch[2]) if epoch[2] else None) if epoch is not None else (None, None)
    if step is None and epoch is not None:  # minimind: Epoch:[1/3](20/4292)
        step = _AFTER_EPOCH.match(text, epoch.end())
    if step is None:
        return None
    ends = [step.start(), *([epoch.start()] if epoch is not None else [])]
    return min(ends), int(step[1]), int(step[2]) if step[2] else None, *epochs

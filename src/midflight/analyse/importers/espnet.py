"""Logs of ESPnet and FunASR: ``2epoch:train:1-50batch: iter_time=0.006, loss=50.87``, ``2epoch results: [train] …``."""

from __future__ import annotations

import re

from midflight.analyse.importers._numbers import NUMBER
from midflight.analyse.importers._records import Records
from midflight.analyse.importers.base import LineImporter

_LINE = re.compile(r"\b(\d{1,9})epoch:train:(\d{1,18})-(\d{1,18})batch:(?:(\d{1,18})num_updates)?:? ")
_RESULTS = re.compile(r"\b(\d{1,9})epoch results: (?=\[)")
_PART = re.compile(r"\[(\w{1,60})\] ([^\[\]]*)")
_PAIR = re.compile(rf"(\w{{1,100}})=({NUMBER})(?=,|\s*$)")
_STARTED = re.compile(r"\b(\d{1,9})/(\d{1,9})epoch started")
_COUNT = "total_count"


class ESPnet(LineImporter):
    """Batches counted on from epoch to epoch are steps, or updates where the log names them.

    Times are called ``time/…``: ``iter_time`` is what a batch waits for its data, ``train_time`` what an update takes.
    """

    label = "ESPnet"

    def __init__(self) -> None:
        self._epochs, self._last = 0, 0
        self._starts: dict[int, int] = {}

    def line(self, text: str, records: Records) -> bool:
        """Reads one line."""
        if "epoch" not in text:
            return False
        if (found := _LINE.search(text)) is not None:
            if not (values := _values(text[found.end() :])):
                return False
            step = int(found[4]) if found[4] else self._counted_on(int(found[1]), int(found[3]))
            self._last = step
            records.add_line(text, found.start(), step, {**values, "epoch": float(found[1])})
            return True
        if (results := _RESULTS.search(text)) is not None:
            return self._results(text, results, records)
        if (started := _STARTED.search(text)) is not None:
            self._epochs = int(started[2])
        return False

    def _counted_on(self, epoch: int, batch: int) -> int:
        """The batch since the first epoch of the log."""
        if epoch not in self._starts:
            self._starts = {one: start for one, start in self._starts.items() if one < epoch}
            self._starts[epoch] = self._last if self._starts else 0
        return self._starts[epoch] + batch

    def _results(self, text: str, found: re.Match[str], records: Records) -> bool:
        """Means over an epoch: those of training are left out where the log has them by the batch."""
        epoch = int(found[1])
        parts = {part: _values(rest) for part, rest in _PART.findall(text, found.end())}
        count = int(parts.get("train", {}).get(_COUNT, 0))
        if not self._starts or self._starts.get(1) == 0:
            self._last = max(self._last, count)
            if count and count % epoch == 0 and self._epochs:
                records.planned = count // epoch * self._epochs
        read = False
        for part, values in parts.items():
            values.pop(_COUNT, None)
            if part == "train" and self._starts:
                records.source.skip("means of an epoch, logged by the batch as well", text)
            elif values and part.startswith(("train", "valid", "test", "dev")):
                named = values if part == "train" else {f"{part}/{name}": value for name, value in values.items()}
                records.add_line(text, found.start(), self._last or epoch, {**named, "epoch": float(epoch)})
                read = True
        return read


def _values(text: str) -> dict[str, float]:
    """Numbers by name; a time such as ``2 minutes and 3.5 seconds`` is none."""
    return {
        f"time/{name}" if name.endswith("_time") or name == "time" else name: float(value)
        for name, value in _PAIR.findall(text)
    }

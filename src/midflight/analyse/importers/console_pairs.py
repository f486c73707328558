"""Any other log with a step and numbers by name on a line: ``[Epoch 1/3] Step 20/500 | loss=2.31, lr: 1e-4``.

Also progress bars that carry numbers: ``60%|…| 120/200 [00:10<…, loss=0.53]``. Steps that begin again with each epoch
go on counting. Where no line names a step, an epoch is one, or, if epochs have several lines, the number of the record.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable

from midflight.analyse.importers._numbers import NUMBER, SCALE, UNIT, scaled
from midflight.analyse.importers._records import Records
from midflight.analyse.importers.base import LineImporter
from midflight.analyse.names import CLOCKS, canonical_name, is_evaluation

_STEP = re.compile(
    r"(?:(?<![\w/.-])(?:global[_ ]?step|train[_ ]?step|step|iter(?:ation)?|update|batch|it)s?\b|^[#\s]*i\b(?=[:=]))"
    r"[\]\s:=#\[(]{1,12}(\d{1,18})(?!\.?\d)(?:\s*(?:/|of)\s*(\d{1,18}))?",
    re.IGNORECASE,
)
_EPOCH = re.compile(
    r"(?<![\w/.-])(?:epochs?|ep|epoch_(?:num|idx|id))\b[\]\s:=#\[(]{1,12}(\d{1,18})(?!\.?\d)(?:\s*(?:/|of)\s*(\d{1,18}))?\]?",
    re.IGNORECASE,
)
_HEADING = re.compile(r"[\W\d]*epoch[\s:=#\[(]{0,4}(\d{1,9})(?:\s*(?:/|of)\s*(\d{1,9}))?\W*", re.IGNORECASE)
"""A line above the steps of an epoch, ``Epoch 3/10``, that names it for them."""
_AFTER_EPOCH = re.compile(r"[\s,|:]*[\[(]?(\d{1,18})\s*/\s*(\d{1,18})[\])]?(?=[\s,:])")
_BAR = re.compile(r"\d+%\|[^|]*\|\s*(\d{1,18})/(\d{1,18}) \[[^\]]*?, (?=[A-Za-z])")
_NAME = r"[A-Za-z_][\w/@.-]{0,120}(?: [A-Za-z][\w/@.-]{0,60})?"
_END = r"(?=[\s,|;)\]}]|$)(?!\s+days?\b)"
_LONG_NAME = r"(?<=\| )[A-Za-z][\w/@.-]{0,60}(?: [A-Za-z][\w/@.-]{0,60}){2,4}"
_PAIR = re.compile(rf"({_LONG_NAME}|(?<![\w/@.-]){_NAME}(?: in s)?)\s*[:=]\s*({NUMBER}){SCALE}{UNIT}{_END}")
_BLANK_PAIR = re.compile(rf"(?:[|,;:\])]|\s-|(?<=\d)\s|\s\s)\s*({_NAME}) {{1,9}}({NUMBER}){SCALE}{UNIT}{_END}")
"""A name and a number with nothing between, ``| loss 2.31 |``: believed only of a quantity that is known."""
_HELD_OUT = r"(valid(?:ation)?|val|eval(?:uation)?|test|dev)"
_EVAL_BEFORE = re.compile(rf"(?:^|[\s\[(|>]){_HELD_OUT}\s?(?:set\s?)?[\])|:>,-]{{0,3}}\s*$", re.IGNORECASE)
_EVAL_AFTER = re.compile(
    r"(?:[A-Za-z_]{1,20}[\s:=#\[(]{1,4}\d{1,18}(?:\s*(?:/|of)\s*\d{1,18})?[\])\s|,:-]{1,4}){1,2}"
    rf"[\[(]?{_HELD_OUT}\s?(?:set\s?)?[\])|:>-](?!\s*[-+.\d])",
    re.IGNORECASE,
)
"""A word beside the step that says that all of the line was measured on held-out data."""
_AMBIGUOUS = frozenset({"test", "dev"})
_COLUMN = re.compile(rf"(?<![\w/@.-])([A-Za-z_][\w/@.-]{{0,60}}) {{1,9}}({NUMBER})(?=\s|$)")
_BETWEEN = re.compile(r"[\s|]*")
_SIGNS = (":", "=", "|", ",", "loss ", "  ")
_SHORT = 100
_NOT_VALUES = frozenset(
    {
        "step",
        "steps",
        "iter",
        "iteration",
        "epoch",
        "ep",
        "update",
        "batch",
        "it",
        "global_step",
        "micro_step",
        "epoch_num",
        "epoch_idx",
        "epoch_id",
        "i",
    }
)


class ConsolePairs(LineImporter):
    """Lines that name a step and a quantity that Midflight knows, such as a loss."""

    label = "console lines"
    specific = False

    def __init__(self) -> None:
        self._offset, self._last = 0, -1
        self._epoch: int | None = None
        self._heading: tuple[int | None, int | None] = (None, None)
        self._epochs, self._planned = array("q"), 0
        self._of_epoch: set[str] = set()
        self._repeats = False
        self._named: set[str] = set()

    def line(self, text: str, records: Records) -> bool:
        """Reads one line."""
        if len(text) < _SHORT and "poch" in text.lower() and (heading := _HEADING.fullmatch(text)) is not None:
            self._heading = int(heading[1]), int(heading[2]) if heading[2] else None
            return False
        if len(text) > 20_000 or not any(sign in text for sign in _SIGNS):
            return False
        found = _step(text)
        if found is None:
            return False
        at, step, planned, epoch, num_epochs = found
        if epoch is None:
            epoch, num_epochs = self._heading
        values = _values(text, at)
        if not values:
            return False
        values = self._held_out(text, at, values)
        if step is None:
            self._of_an_epoch(text[:at], epoch or 0, num_epochs, values, records)
            return True
        step = self._counted_on(step, planned, epoch)
        if epoch is not None:
            values.setdefault("epoch", float(epoch))
        if planned is not None and self._offset:  # it is of one epoch
            planned, records.planned = planned * num_epochs if num_epochs else None, None
        if self._epochs:  # said of epochs before the first step
            records.relabel([0] * len(self._epochs))
            self._epochs = array("q")
        self._named.update(values)
        records.add_line(text, at, step, values, planned)
        return True

    def _held_out(self, text: str, at: int, values: dict[str, float]) -> dict[str, float]:
        """Values of a line that calls itself an evaluation get its word before them: ``valid/loss``."""
        found = _EVAL_BEFORE.search(text, max(0, at - _SHORT), at) or _EVAL_AFTER.match(text, at)
        if found is None or (found[1].lower() in _AMBIGUOUS and not self._named.intersection(values)):
            return values
        prefix = found[1].lower()
        return {name if is_evaluation(name) else f"{prefix}/{name}": value for name, value in values.items()}

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

    def _of_an_epoch(
        self, before: str, epoch: int, num_epochs: int | None, values: dict[str, float], records: Records
    ) -> None:
        """A line that names an epoch alone: between steps it holds what was measured at its end."""
        if self._last >= 0:
            means = self._named.intersection(values)
            for name in means:
                records.source.skip("means of an epoch, logged by the step as well", f"{name}: {values.pop(name)}")
            if values:
                records.add_line(before, len(before), None, values)
            return
        if self._epochs and self._epochs[0] < epoch < self._epochs[-1]:
            records.note_run(f"resumed: at epoch {epoch:,} after {self._epochs[-1]:,}")
        elif self._epochs and epoch < self._epochs[-1]:
            self.end(records)
            records.begin_run(f"the epoch falls from {self._epochs[-1]} to {epoch}")
            self._epochs, self._repeats = array("q"), False
        if not self._epochs or epoch != self._epochs[-1]:
            self._of_epoch = set()
        self._repeats |= not self._of_epoch.isdisjoint(values)
        self._of_epoch.update(values)
        self._epochs.append(epoch)
        self._planned = num_epochs or 0
        records.add_line(before, len(before), len(self._epochs), {**values, "epoch": float(epoch)})

    def end(self, records: Records) -> None:
        """Gives lines that name epochs alone their steps."""
        if not self._epochs or records.num_records != len(self._epochs):
            return
        if self._repeats:
            records.note_run("steps: the number of the record; the log names epochs alone")
            return
        records.relabel(self._epochs)
        records.planned = self._planned or None
        records.note_run("steps: epochs; the log names no other")


def _values(text: str, at: int) -> dict[str, float]:
    """Numbers by name from a place on, if one is a quantity that is known; else those known that stand before it."""
    values = _numbers(_PAIR.findall(text, at))
    if len(values) > 1 and ") " in text:
        values = _named_apart(text, at)
    known = _known(_numbers(_BLANK_PAIR.findall(text, max(at - 1, 0))))
    if known and not values:
        columns = _columns(text, at)
        return columns if known.keys() <= columns.keys() else known
    if known or _known(values):
        return {**known, **values}
    return _known(_numbers([*_PAIR.findall(text[:at]), *_BLANK_PAIR.findall(text[:at])]))


def _columns(text: str, at: int) -> dict[str, float]:
    """All numbers of a line of nothing but names and numbers, ``epoch 3/9  train 2.66  val 2.36  lr 8e-05``."""
    found = list(_COLUMN.finditer(text, at))
    ends = [*(one.start() for one in found[1:]), len(text)]
    if not found or not all(_BETWEEN.fullmatch(text, one.end(), end) for one, end in zip(found, ends, strict=True)):
        return {}
    return _numbers((one[1], one[2], "") for one in found)


def _named_apart(text: str, at: int) -> dict[str, float]:
    """Numbers by name, where one in brackets that is there already gets the name before the bracket: ``val/acc``."""
    values: dict[str, float] = {}
    outer, last, depth = "", at, 0
    for found in _PAIR.finditer(text, at):
        name, value, factor = found.groups(default="")
        between = text[last : found.start()]
        last, depth = found.start(), depth + between.count("(") - between.count(")")
        if depth <= 0:
            outer = name
        elif name in values and outer:
            name = f"{outer}/{name}"
        if name.lower() not in _NOT_VALUES:
            values[name] = scaled(value, factor)
    return values


def _numbers(pairs: Iterable[tuple[str, str, str]]) -> dict[str, float]:
    return {name: scaled(value, factor) for name, value, factor in pairs if name.lower() not in _NOT_VALUES}


def _known(values: dict[str, float]) -> dict[str, float]:
    """Those that were measured: a clock alone is no record."""
    return {key: value for key, value in values.items() if (canonical_name(key) or "epoch") not in CLOCKS}


def _step(text: str) -> tuple[int, int | None, int | None, int | None, int | None] | None:
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
            return epoch.start(), None, None, *epochs
    assert step is not None
    ends = [step.start(), *([epoch.start()] if epoch is not None else [])]
    return min(ends), int(step[1]), int(step[2]) if step[2] else None, *epochs

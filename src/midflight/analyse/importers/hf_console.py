"""Dicts that the Hugging Face Trainer prints, ``{'loss': 0.5, 'epoch': 0.1}``, between progress bars and other lines.

Mostly they hold no step. It is taken from the progress bar beside them (transformers redraws it after each dict) where
those steps rise by one and the same interval, or with the epoch; where dicts come late, for a buffer held them back and
not the bar, from their epochs and the bar's total. Else a record's step is its number. Which of these it is is noted.
An epoch that falls back to the first begins another run; one that falls back less far, a resume.
"""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from midflight.analyse.importers._numbers import NUMBER, step_of, value_of
from midflight.analyse.importers._records import Records
from midflight.analyse.importers.base import LineImporter
from midflight.analyse.names import canonical_name, is_evaluation

_DICT = re.compile(r"\{\s*['\"][^{}]{1,100000}\}")
_PAIR = re.compile(
    rf"['\"]([^'\"{{}}]{{1,500}})['\"]\s*:\s*(?:[\w.]+\()?(?:({NUMBER})|['\"]\s*({NUMBER})\s*['\"])\)?\s*(?=[,}}])"
)
_CLOCK = re.compile(r"'(percentage|elapsed_time|remaining_time)':\s*'([^'{}]{1,60})'")
_NUM_KEYS = re.compile(r"['\"]\s*:")
_BAR = re.compile(r"(?:^|[\]}])\s*\d+%(?:\|[^|]*\|)?\s*(\d{1,18})/(\d{1,18}) \[")
"""A bar without a label (Colab draws none); where carriage returns were lost, one stands behind the other."""
_NAMED_STEP = re.compile(
    r"(?<![\w/.-])(?:(?:global|train)[_ ]?step|step|iter(?:ation)?|update|rollout|perf|eval)[\s=:#\[(]{1,3}"
    r"(\d{1,18})(?:/(\d{1,18}))?[\])\s:,|-]{0,4}$",
    re.IGNORECASE,
)
"""A step just before a dict: ``step 12: {…}`` (slime), ``Global step 3: {…}`` (OpenRLHF)."""
_BEFORE = 60
_SOME, _ROUNDED = 3, 0.01
_MAX_EPOCHS, _TELLS_APART = 1000, 0.45
_DECIMALS, _SIGNIFICANT = 2, 4
_OF_PLANNED = re.compile(r"['\"]global_step/max_steps['\"]\s*:\s*['\"](\d{1,18})/(\d{1,18})['\"]")
"""ms-swift."""
_TOTAL = re.compile(r"\s*Total optimization steps = ([\d,]+)")
_STEP_KEYS = ("step", "global_step", "train/global_step", "current_steps", "train/step", "rollout/step")
_OF_A_RECORD = frozenset({"loss", "eval_loss", "reward", "epoch"})
SUMMARY = frozenset({"train_runtime", "train_loss"})
"""A dict with the first of these and no `loss` sums the run up: it is no point of a curve."""


class HFConsole(LineImporter):
    """The printed records of a Trainer."""

    label = "HF / TRL console"
    is_part = True

    def __init__(self) -> None:
        self._next_total: int | None = None
        self._begin()

    def _begin(self) -> None:
        self._total: int | None = None
        self._bar, self._numbered = 0, 0
        self._epochs: list[float] = []
        self._before, self._after, self._is_eval = array("q"), array("q"), array("b")

    def line(self, text: str, records: Records) -> bool:
        """Reads all dicts of a line; a progress bar is noted."""
        if text.startswith('{"'):  # JSON lines
            return False
        found, end = False, 0
        if "{" in text:
            for raw in _DICT.finditer(text):
                self._bars(text[end : raw.start()])
                end = raw.end()
                found |= self._dict(raw[0], text, raw.start(), records)
        if "%" in text:
            self._bars(text[end:])
        elif "Total opt" in text and (total := _TOTAL.match(text)) is not None:
            self._next_total = step_of(total[1])
            if not self._before:
                self._total = records.planned = self._next_total
        return found

    def _bars(self, text: str) -> None:
        if "%|" in text or "% " in text:
            for bar in _BAR.finditer(text):
                self._see(int(bar[1]), int(bar[2]))

    def _see(self, done: int, total: int) -> None:
        if self._total is None:
            self._total = total
        if total == self._total:
            self._bar = done
            if self._after and self._after[-1] < 0:
                self._after[-1] = done

    def _dict(self, raw: str, text: str, at: int, records: Records) -> bool:
        found = _PAIR.findall(raw)
        values = {key: float((plain or quoted).replace(",", "")) for key, plain, quoted in found}
        if not any(key in _OF_A_RECORD or key in _STEP_KEYS or canonical_name(key) for key in values):
            return False
        num_read = len(found)
        if "percentage" in raw:
            clocks = {key: value for key, text in _CLOCK.findall(raw) if (value := value_of(key, text)) is not None}
            num_read += len(clocks.keys() - values.keys())
            values.update(clocks)
        step, planned = _step_beside(raw, text[max(0, at - _BEFORE) : at])
        for _ in range(len(_NUM_KEYS.findall(raw)) - num_read - ("global_step/" in raw)):
            records.source.skip("texts among the values", raw)
        if "train_runtime" in values and "loss" not in values:
            records.summary.update(values)
            return True
        own = [step_of(values.pop(key)) for key in _STEP_KEYS if key in values]
        step = next((one for one in own if one is not None), step)
        if step is not None:
            records.add_line(text, at, step, values, planned)
            return True
        self._without_step(text, at, values, records)
        return True

    def _without_step(self, text: str, at: int, values: dict[str, float], records: Records) -> None:
        evaluation = all(key == "epoch" or is_evaluation(key) for key in values)
        epoch = values.get("epoch", self._epochs[-1] if self._epochs else 0.0)
        if self._epochs and not evaluation and epoch < self._epochs[-1]:
            self._fall_back(epoch, records)
        if not evaluation:
            self._epochs.append(epoch)
        self._numbered += not evaluation
        self._before.append(self._bar)
        self._after.append(-1)
        self._is_eval.append(evaluation)
        records.add_line(text, at, self._numbered, values)

    def _fall_back(self, epoch: float, records: Records) -> None:
        """Another run, or one that was resumed: its next record is the one that has this epoch in the first attempt."""
        if epoch <= self._epochs[0]:
            self.end(records)
            records.begin_run(f"the epoch falls from {self._epochs[-1]:g} to {epoch:g}")
            self._begin()
            self._total = records.planned = self._next_total
        else:
            self._numbered = bisect_left(self._epochs, epoch)
            del self._epochs[self._numbered :]

    def end(self, records: Records) -> None:
        """Gives the records of a run their steps."""
        if not self._before or records.num_records != len(self._before):
            return
        if self._after[-1] < 0:
            self._after[-1] = self._before[-1]
        if self._total is not None and self._total > 1:
            records.planned, records.reached = records.planned or self._total, self._bar or None
        for steps in (self._after, self._before):
            trained = [step for step, is_eval in zip(steps, self._is_eval, strict=True) if not is_eval]
            if _rise_evenly(trained) or _rise_with(trained, self._epochs):
                records.relabel(steps)
                records.note_run("steps: from the progress bar beside each record")
                return
        of_epochs = _of_epochs(self._epochs, self._before, self._is_eval, self._total)
        if of_epochs is not None:
            records.relabel(of_epochs)
            records.note_run("steps: from the epoch of each record and the progress bar's total")
            return
        records.note_run("steps: the number of the record; the log names none")


def _step_beside(raw: str, before: str) -> tuple[int | None, int | None]:
    """The step, and the planned ones, that a dict holds as a text, or that stand just before it."""
    found = _OF_PLANNED.search(raw) if "global_step/" in raw else _NAMED_STEP.search(before)
    return (None, None) if found is None else (int(found[1]), int(found[2]) if found[2] else None)


def _rise_evenly(steps: Sequence[int]) -> bool:
    """Whether steps are multiples of one interval, each the next one, but for a first step 1 and a last one between.

    A resume falls back to an earlier multiple.
    """
    if len(steps) < 2 or steps[0] < 1:
        return False
    gaps = [b - a for a, b in pairwise(steps)]
    interval = max(set(gaps), key=gaps.count)
    if interval < 1 or steps[0] not in (1, interval):
        return False
    return all(
        gap == interval
        or (number == 0 and gap == interval - steps[0] > 0)
        or (number == len(gaps) - 1 and 0 < gap < interval)
        or (gap < 0 and steps[number + 1] % interval == 0)
        for number, gap in enumerate(gaps)
    )


def _rise_with(steps: Sequence[int], epochs: Sequence[float]) -> bool:
    """Whether steps are those of the epochs, as exactly as the log rounds these (to two digits at least)."""
    if len(steps) != len(epochs) or len(steps) < _SOME or not epochs[-1]:
        return False
    per_epoch = steps[-1] / epochs[-1]
    rounding = _ROUNDED * per_epoch + 1
    return all(b - a > 2 * rounding for a, b in pairwise(steps)) and all(
        abs(step - per_epoch * epoch) <= rounding for step, epoch in zip(steps, epochs, strict=True)
    )


def _of_epochs(
    epochs: Sequence[float], bars: Sequence[int], is_eval: Sequence[int], total: int | None
) -> list[int] | None:
    """Steps from epochs, in as few epochs of the total as the bars allow: nothing is printed before it was measured.

    Records must be evenly spaced, the last close to its bar, and the first epoch exact enough to tell its step.
    """
    trained = [bar for bar, is_one in zip(bars, is_eval, strict=True) if not is_one]
    if total is None or len(epochs) != len(trained) or len(epochs) < _SOME:
        return None
    for num_epochs in range(max(1, int(epochs[-1])), _MAX_EPOCHS):
        per_epoch = total / num_epochs
        if all(epoch * (per_epoch - 1) <= bar + _TELLS_APART for epoch, bar in zip(epochs, trained, strict=True)):
            break
    else:
        return None
    interval = round(epochs[0] * per_epoch)
    steps = [interval * number for number in range(1, len(epochs) + 1)]
    rounding = [per_epoch * unknown for unknown in _unknown(epochs)]
    if (
        interval < 1
        or total % num_epochs
        or rounding[0] > _TELLS_APART
        or not 0 <= trained[-1] - steps[-1] <= 2 * interval
        # an epoch that the batches do not fill is counted as a whole one in the total
        or any(abs(e * per_epoch - n) > r + e + _ROUNDED for e, n, r in zip(epochs, steps, rounding, strict=True))
    ):
        return None
    beside = iter(steps)
    now, found = 0, []
    for is_one in is_eval:
        now = now if is_one else next(beside)
        found.append(now)
    return found


def _unknown(epochs: Sequence[float]) -> list[float]:
    """How far epochs may be from what was printed: four significant digits, before transformers 5 two decimals."""
    if max(len(str(epoch).partition(".")[2]) for epoch in epochs) <= _DECIMALS:
        return [0.5 * 10.0**-_DECIMALS] * len(epochs)
    return [0.5 * 10.0 ** (math.floor(math.log10(epoch)) + 1 - _SIGNIFICANT) if epoch > 0 else 0.0 for epoch in epochs]

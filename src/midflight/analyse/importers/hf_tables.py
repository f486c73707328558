"""Tables of the Hugging Face Trainer: a notebook's output, as HTML or copied as text, and those of a model card.

    Step    Training Loss   Validation Loss   Wer
    500     0.926500        0.484265          0.2894

Headings are what the Trainer makes of its names, ``Validation Loss`` of ``eval_loss``; they are turned back. A table
of epochs gets its steps from the bar above it, ``[784/784 30:52, Epoch 4/4]``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from midflight.analyse.importers._numbers import NUMBER, is_missing, number, step_of
from midflight.analyse.importers._records import Records
from midflight.analyse.importers.base import LineImporter

_BAR = re.compile(r"\[\s*(\d{1,18})/(\d{1,18}) [\d:]+[^\]]{0,80}, Epoch [\d.]+/(\d{1,18})\]")
_TAG = re.compile(r"<(t[hd])(?: [^<>]{0,200})?>([^<]{0,500})</t[hd]>|</(tr|table)>")
_RULE = re.compile(r"[\s|:-]+")
_TRAINED = re.compile(r"\bTrainOutput\(global_step=\d{1,18}, training_loss=[^{}]{1,60}, metrics=\{([^{}]{0,5000})")
_PAIR = re.compile(rf"'([\w/.-]{{1,200}})': ({NUMBER})(?=[,}}]|$)")
_SETTING = re.compile(r"- (\w{1,60}): (\S.{0,200}?)\s*")
_SETTINGS = "hyperparameters were used during training"
_STEP, _EPOCH, _LOSS, _EVAL_LOSS, _NO_LOG = "step", "epoch", "training loss", "validation loss", "no log"
_MAX_CELLS = 500


class HFTables(LineImporter):
    """Row by row; a cell without a number, ``No log``, is no value."""

    label = "HF tables"

    def __init__(self) -> None:
        self._names: list[str] = []
        self._is_html = False
        self._cells: list[str] = []
        self._is_head = False
        self._shown: set[tuple[str, ...]] = set()
        self._has_settings = False
        self._planned: int | None = None
        self._reached: int | None = None
        self._per_epoch: int | None = None

    def line(self, text: str, records: Records) -> bool:
        """Reads a row, or the part of one that stands on a line of HTML."""
        if "<t" in text or "</t" in text:
            return self._html(text, records)
        if "\t" in text or "|" in text:
            return self._row([cell.strip() for cell in _split(text)], text, records)
        if not self._is_html and text.strip():
            self._names = []
        if "Epoch" in text and (bar := _BAR.search(text)) is not None:
            self._planned, self._reached = int(bar[2]), int(bar[1])
            self._per_epoch = int(bar[2]) // int(bar[3]) if int(bar[3]) and not int(bar[2]) % int(bar[3]) else None
        elif "TrainOutput" in text and (trained := _TRAINED.search(text)) is not None:
            records.summary.update({name: float(value) for name, value in _PAIR.findall(trained[1])})
        elif _SETTINGS in text:
            self._has_settings = True
        elif self._has_settings and (setting := _SETTING.fullmatch(text)) is not None:
            records.config.setdefault(setting[1], setting[2])
            if setting[1] == "training_steps":
                self._planned = step_of(setting[2])
        elif text.startswith("#"):
            self._has_settings = False
        return False

    def _html(self, text: str, records: Records) -> bool:
        found = False
        for tag, cell, end in _TAG.findall(text):
            if tag and len(self._cells) < _MAX_CELLS:
                self._cells.append(cell.strip())
                self._is_html = True
            elif end == "tr":
                found |= self._row(self._cells, text, records)
                self._cells = []
            elif end == "table":
                self._names, self._cells, self._is_html = [], [], False
        return found

    def _row(self, cells: Sequence[str], text: str, records: Records) -> bool:
        heads = [cell.lower() for cell in cells]
        if (_LOSS in heads or _EVAL_LOSS in heads) and (_STEP in heads or _EPOCH in heads):
            self._names = _names(cells)
            return False
        if not self._names or _RULE.fullmatch(text):
            return False
        if len(cells) != len(self._names):
            self._names = []
            return False
        if tuple(cells) in self._shown:  # a notebook that shows the table as it grows
            records.source.skip("rows shown before", text)
            return False
        return self._record(dict(zip(self._names, cells, strict=True)), text, records)

    def _record(self, row: dict[str, str], text: str, records: Records) -> bool:
        values: dict[str, float] = {}
        for name, cell in row.items():
            if (value := number(cell)) is not None:
                values[name] = value
            elif not is_missing(cell) and cell.lower() != _NO_LOG:
                records.source.skip("texts among the values", text)
        step = step_of(values.pop(_STEP, None))
        epoch = values.get(_EPOCH)
        if step is None and epoch is not None:
            step = step_of(epoch * (self._per_epoch or 1))
            if self._per_epoch is None:
                records.note("steps: epochs; the table names no other")
        if step is None or values.keys() <= {_EPOCH}:
            return False
        self._shown.add(tuple(row.values()))
        planned = self._planned if _STEP in row or self._per_epoch is not None else None
        records.add_line(text, 0, step, values, planned)
        records.reached = self._reached
        return True


def _split(text: str) -> list[str]:
    """Cells of a row of text."""
    return text.strip().strip("|").split("|") if "|" in text else text.split("\t")


def _names(cells: Sequence[str]) -> list[str]:
    """The Trainer's names for the headings of a table; beside a validation loss all others are of the evaluation."""
    heads = {_STEP: _STEP, _EPOCH: _EPOCH, _LOSS: "loss", _EVAL_LOSS: "eval_loss"}
    evaluated = any(cell.lower() == _EVAL_LOSS for cell in cells)
    names = []
    for cell in cells:
        plain = cell.replace(" / ", "/")
        plain = f"eval_{plain.lower().replace(' ', '_')}" if evaluated else plain
        names.append(heads.get(cell.lower(), plain))
    return names

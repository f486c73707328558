"""Rows with columns of any name: which one is the step, decided by name and monotony over the first rows, and said."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from midflight.analyse.importers._numbers import number, stamp, step_of
from midflight.analyse.importers._records import Records
from midflight.analyse.names import canonical_name, is_evaluation

SAMPLE = 500
STEP_NAMES = (
    "step", "global_step", "train/global_step", "trainer/global_step", "current_steps", "training_step", "train_step",
    "training/global_step", "iteration", "iter", "update", "num_updates", "progress/batch", "batch", "steps", "_step",
    "epoch",
)  # fmt: skip
"""Names of a step, the best first; case and blanks do not count."""
_LIKE_A_STEP = re.compile(r".*[_/.](?:steps?|iter(?:ation)?s?|updates?)")
"""Any other column that counts, such as ``opt_step``: looked for before the epoch."""
WALL_NAMES = ("timestamp", "_timestamp", "timestamp_utc", "wall_time", "walltime", "time", "datetime", "date",
              "created_at")  # fmt: skip
_NAME_COLUMNS, _VALUE_COLUMNS = ("metric", "tag", "key", "metric_name", "name"), ("value", "metric_value")
_SPLIT_COLUMNS = ("split", "phase", "mode", "stage", "subset", "type")
_NOT_VALUES = re.compile(r"(?:.*[_ ])?(?:index|id|idx|seed)", re.IGNORECASE)
_FALLS, _PRESENT = 1 / 3, 0.5  # a log with restarts rises mostly; a table sorted by something else does not
_PLANNED = ("total_steps", "max_steps", "max_iters", "max_iter")
"""Names of a column that says how many steps were to be trained."""
STEP_IN_TEXT = re.compile(
    r"(?:step|checkpoint|ckpt|iter|global_step)[-_= ]?(\d{1,18})(?!.*(?:step|checkpoint|ckpt|iter)[-_= ]?\d)"
)
"""A step that stands in a name, such as ``run_step_4400`` or ``checkpoint-500``; the last one."""

OF_SAMPLES = frozenset({"doc_id", "prompt", "messages", "instruction", "completion", "response"})
"""Names by which a row of JSON is data, or an output of a model, and no record."""
NO_RECORDS = "rows that are no record"

Row = tuple[Mapping[str, float], Mapping[str, str]]
"""Numbers and texts by column."""


class Table:
    """Takes rows and adds them to records once it knows which column is the step.

    Args:
        records: Where they go.
    """

    def __init__(self, records: Records) -> None:
        self._records = records
        self._rows: list[Row] | None = []
        self._step: str | None = None
        self._wall: str | None = None
        self._number = 0
        self._sorts = self._began = False
        self._refused = False
        self._measured: frozenset[str] = frozenset()

    def add(self, values: Mapping[str, float], texts: Mapping[str, str]) -> None:
        """Takes a row."""
        if self._refused:
            self._refuse((values, texts))
            return
        if texts:
            values = _renamed(values, texts, self._records)
        if self._rows is None:
            self._emit(values, texts)
        else:
            self._rows.append((values, texts))
            if len(self._rows) == SAMPLE and not self._sorts:
                self._decide(self._rows)

    def end(self) -> None:
        """Adds what waits."""
        rows = self._rows
        if rows and not self._sorts:
            self._decide(rows)
        rows = self._rows
        if rows:
            self._rows = None
            if self._step is None:
                self._average(rows)
            else:
                step = self._step
                for values, texts in sorted(rows, key=lambda row: row[0].get(step, math.inf)):
                    self._emit(values, texts)

    def _refuse(self, row: Row) -> None:
        self._records.source.skip(NO_RECORDS, str({**row[0], **row[1]}))

    def _decide(self, rows: Sequence[Row]) -> None:
        if not _are_records(rows):
            self._refused, self._rows = True, None
            for row in rows:
                self._refuse(row)
            return
        names = {_plain(name): name for values, _ in reversed(rows) for name in values}
        candidates = [names[name] for name in _step_names(names) if name in names]
        usable = {name: steps for name in candidates if (steps := _steps(rows, name)) is not None}
        self._step = next((name for name, steps in usable.items() if _rises(steps)), None)
        walls = {_plain(name): name for values, texts in reversed(rows) for name in (*values, *texts)}
        self._wall = next((walls[name] for name in WALL_NAMES if name in walls), None)
        if self._step is None and usable:
            self._step = next(iter(usable))
            self._sorts = True
            self._records.note(f"steps: column {self._step!r}, sorted; rows are not in its order")
        elif self._step is not None:
            self._records.note(f"steps: column {self._step!r}")
            self._measured = frozenset(name for values, _ in rows if self._step in values for name in values)
        elif any(_step_in_text(texts) is not None for _, texts in rows):
            self._sorts = True
        else:
            self._records.note("steps: the number of the record; no column is one")
        if not self._sorts:
            self._rows = None
            for values, texts in rows:
                self._emit(values, texts)

    def _emit(self, values: Mapping[str, float], texts: Mapping[str, str]) -> None:
        points = dict(values)
        for name in _PLANNED:
            if (planned := step_of(points.pop(name, None))) is not None:
                self._records.planned = planned
        wall = None
        if self._wall is not None:
            wall = _wall(points.pop(self._wall, None), texts.get(self._wall))
        if self._step is None:
            self._number += 1
            self._records.add(self._number, points, wall)
        else:
            self._add(step_of(points.pop(self._step, None)), points, texts, wall)

    def _add(self, step: int | None, points: dict[str, float], texts: Mapping[str, str], wall: float | None) -> None:
        """Adds a row; one before the first step, of columns that no row with a step has, is the configuration."""
        if step is None and not self._began and self._measured and self._measured.isdisjoint(points):
            self._records.config.update({**points, **texts})
            self._records.note("a row before the first step is the configuration")
            return
        self._began = True
        self._records.add(step, points, wall)

    def _average(self, rows: Sequence[Row]) -> None:
        """Rows that name their step in a text are items of an evaluation of those weights: their means are a curve."""
        found: dict[int, dict[str, list[float]]] = {}
        for values, texts in rows:
            step = _step_in_text(texts)
            if step is None:
                self._records.source.skip("rows without a step", str(dict(texts)))
                continue
            for name, value in values.items():
                if not _NOT_VALUES.fullmatch(name):
                    found.setdefault(step, {}).setdefault(name, []).append(value)
        sizes = {len(column) for columns in found.values() for column in columns.values()}
        means = f"means of {min(sizes)} to {max(sizes)} rows a step" if max(sizes, default=1) > 1 else "one row a step"
        self._records.note(f"steps: from a text of each row; {means}")
        for step in sorted(found):
            values = {name: math.fsum(column) / len(column) for name, column in found[step].items()}
            self._records.add(step, values, evaluation=True)


def _renamed(values: Mapping[str, float], texts: Mapping[str, str], records: Records) -> Mapping[str, float]:
    """A row of a long table under the name that it holds, a row of the validation split under names that say so."""
    plain = {_plain(name): text for name, text in texts.items()}
    name = next((plain[column] for column in _NAME_COLUMNS if column in plain), None)
    value = next((column for column in values if _plain(column) in _VALUE_COLUMNS), None)
    if name and value is not None:
        values = {name if column == value else column: number for column, number in values.items()}
    split = next((plain[column] for column in _SPLIT_COLUMNS if column in plain), "")
    if is_evaluation(split):
        records.note(f"rows of {split!r} are evaluations, with names under {split}/")
        values = {
            column if _plain(column) in (*STEP_NAMES, *WALL_NAMES) else f"{split}/{column}": number
            for column, number in values.items()
        }
    return values


def _step_names(names: Iterable[str]) -> list[str]:
    """Names of steps, the best first: those that are known, then those that look like one, then the epoch."""
    *known, epoch = STEP_NAMES
    others = [name for name in names if _LIKE_A_STEP.fullmatch(name) and name not in known and not is_evaluation(name)]
    return [*known, *sorted(others, key=lambda name: "micro" in name), epoch]


def _are_records(rows: Sequence[Row]) -> bool:
    """Whether rows may be a log: they name a step, a time or a known quantity, or are numbers and several.

    Else they may be anything: labels of data, a list of prices.
    """
    numbers, texts = ({name for row in rows for name in row[i]} for i in (0, 1))
    names = {_plain(name) for name in (*numbers, *texts)}
    if not names.isdisjoint((*_step_names(names), *WALL_NAMES)):
        return True
    if any(canonical_name(name) is not None for name in numbers):
        return True
    if any(_step_in_text(row[1]) is not None for row in rows):
        return True
    return len(rows) > 1 and not texts and not any(_NOT_VALUES.fullmatch(name) for name in numbers)


def _plain(name: str) -> str:
    return name.strip().lower().replace(" ", "_")


def _steps(rows: Sequence[Row], name: str) -> list[int] | None:
    """Steps that a column holds; None if it is no column of steps."""
    found = [values[name] for values, _ in rows if name in values]
    steps = [step for value in found if (step := step_of(value)) is not None]
    return steps if steps and len(steps) == len(found) and len(steps) >= _PRESENT * len(rows) else None


def _rises(steps: Sequence[int]) -> bool:
    falls = sum(b < a for a, b in pairwise(steps))
    return falls <= _FALLS * (len(steps) - 1) and (len(steps) == 1 or min(steps) < max(steps))


def _step_in_text(texts: Mapping[str, str]) -> int | None:
    for text in texts.values():
        if (found := STEP_IN_TEXT.search(text[-500:])) is not None:
            return step_of(found[1])
    return None


def _wall(value: float | None, text: str | None) -> float | None:
    if text is not None:
        return stamp(text) if number(text) is None else None
    if value is None or not 1e9 < value < 1e14:  # a time since the start is none since the epoch
        return None
    return value / 1000 if value > 1e11 else value  # milliseconds

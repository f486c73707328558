"""Records become runs: which belong together, which supersede which.

A record whose step is below the one before it, and which repeats a series, went back:

- to the first step that the run logged (or, if that is 0, the one after it): another run begins;
- further up: training was resumed from a checkpoint. Series by series, what the earlier attempt has from there on is
  superseded, also where the resumed one logs at other steps: it was measured on weights that are gone.

Series measured on held-out data may come late and out of order: there only the same step supersedes, as it does in a
training series of which more than a tenth of the records go back: those were written by several processes at once.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from midflight.analyse.importers._numbers import stamp
from midflight.analyse.importers._source import Source
from midflight.analyse.importers.base import ImportedRun, Series
from midflight.analyse.names import CLOCKS, canonical_name, canonical_names, is_evaluation
from midflight.errors import is_text
from midflight.run import MAX_KEY
from midflight.store.base import Ints

MAX_SERIES = 20_000
_RANK = re.compile(r"\[(?:rank|default)\s?(\d+)\]")
_DISORDER, _SOME, _EARLY = 0.1, 3, 1000
_MAX_SHAPES = 10_000


@dataclass
class _Column:
    rows: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))


class _OneRun:
    """Records of one run, as they come."""

    def __init__(self) -> None:
        self.steps, self.walls = array("q"), array("d")
        self.columns: dict[str, _Column] = {}
        self.evaluations: set[str] = set()
        self.last = -1
        self.resumed: list[int] = []
        self.start: int | None = None
        self.notes: list[str] = []

    def repeats(self, step: int, values: Iterable[str]) -> bool:
        """Whether a series has this step behind it already."""
        columns = (self.columns.get(key) for key in values)
        return any(column is not None and self.steps[column.rows[-1]] >= step for column in columns)

    def begins_again(self, step: int) -> bool:
        """Whether a step is the first of the run, or the one after a first step 0."""
        if self.start is None:
            early = self.steps[:_EARLY]
            self.start = min(early) or min((one for one in early if one > 0), default=0)
        return step <= self.start

    def has(self, step: int, values: Iterable[str]) -> bool:
        """Whether a series has a value at this very step."""
        columns = (self.columns.get(key) for key in values)
        return any(column is not None and any(self.steps[row] == step for row in column.rows) for column in columns)


class Records:
    """Takes the records of one source and makes runs of them.

    Args:
        source: Where they come from; counts what cannot be kept.
        name: Name of the first run.
    """

    def __init__(self, source: Source, name: str) -> None:
        self.source, self.name = source, name
        self.config: dict[str, Any] = {}
        self.summary: dict[str, float] = {}
        self.planned: int | None = None
        self.reached: int | None = None
        self._runs: list[tuple[str, _OneRun, int | None, int | None, dict[str, float]]] = []
        self._now = _OneRun()
        self._notes: list[str] = []
        self._rank: str | None = None
        self._left_out: dict[tuple[bool | str, ...], frozenset[str]] = {}

    @property
    def last_step(self) -> int | None:
        """Step of the last record of the present run."""
        return self._now.last if self._now.steps else None

    @property
    def num_records(self) -> int:
        """Records of the present run so far."""
        return len(self._now.steps)

    def last_point(self, key: str) -> tuple[int, float] | None:
        """Step and value that the present run last logged of a series."""
        column = self._now.columns.get(key)
        return None if column is None else (self._now.steps[column.rows[-1]], column.values[-1])

    def note(self, text: str) -> None:
        """Says something about the whole source, once."""
        if text not in self._notes:
            self._notes.append(text)

    def note_run(self, text: str) -> None:
        """Says something about the present run."""
        self._now.notes.append(text)

    def add_line(
        self,
        text: str,
        at: int,
        step: int | None,
        values: Mapping[str, float],
        planned: int | None = None,
        evaluation: bool = False,
    ) -> None:
        """Adds a record that was read from a line, unless another rank printed it, too.

        Args:
            text: The line.
            at: Where the record begins; a time and a rank may stand before it.
            step: The step; None = the one before it.
            values: By original name.
            planned: Steps to be trained, if it stands beside.
            evaluation: Whether all of it was measured on held-out data.
        """
        wall = None
        if at:
            before = text[:at]
            wall = stamp(before)
            if "[" in before and (rank := _RANK.search(before)) is not None:
                self._rank = self._rank or rank[1]
                if rank[1] != self._rank:
                    self.source.skip("records of other ranks", text)
                    return
        self.add(step, values, wall, evaluation)
        if planned is not None and planned != self.planned:
            self.planned = max(planned, self.planned or 0)

    def add(
        self, step: int | None, values: Mapping[str, float], wall: float | None = None, evaluation: bool = False
    ) -> None:
        """Adds what was logged at one step.

        Args:
            step: The step; None = the one before it, 0 if there is none.
            values: By original name.
            wall: Seconds since the epoch.
            evaluation: Whether all of it was measured on held-out data.
        """
        shape: tuple[bool | str, ...] = (evaluation, *values)
        left_out = self._left_out.get(shape)
        if left_out is None:
            left_out = self._left_out[shape] = self._beside_evaluation(tuple(values), evaluation)
        if left_out:
            values = {key: value for key, value in values.items() if key not in left_out}
        now = self._now
        if step is None:
            step = max(now.last, 0)
        if step >= now.last or self._went_back(step, values):  # else it came late
            now = self._now
            now.last = step
        row = len(now.steps)
        now.steps.append(step)
        now.walls.append(math.nan if wall is None else wall)
        columns = now.columns
        for key, value in values.items():
            column = columns.get(key)
            if column is None:
                if not self._can_keep(key):
                    continue
                column = columns[key] = _Column()
                if evaluation or is_evaluation(key):
                    now.evaluations.add(key)
            column.rows.append(row)
            column.values.append(value)

    def _beside_evaluation(self, names: tuple[str, ...], evaluation: bool) -> frozenset[str]:
        """Clocks in a record that measured nothing in training: its own time, no point of a training series."""
        evals = {name for name in names if evaluation or is_evaluation(name)}
        clocks = frozenset(name for name in names if canonical_name(name) in CLOCKS) - evals
        if len(self._left_out) == _MAX_SHAPES:
            self._left_out.clear()
        return clocks if evals and evals | clocks == set(names) else frozenset()

    def _went_back(self, step: int, values: Iterable[str]) -> bool:
        """Whether a record with a smaller step begins another run or a resume."""
        now = self._now
        if not now.repeats(step, values):
            return False
        trained = [key for key in values if key in now.columns and key not in now.evaluations]
        if now.begins_again(step) and (trained or now.has(step, values)):  # a late evaluation begins no run
            self.begin_run(f"begins again at step {step}, after {now.last}")
            return True
        if trained and now.repeats(step, trained):
            now.resumed.append(len(now.steps))
            return True
        return False

    def begin_run(self, why: str) -> None:
        """Ends the present run, if it has records, and begins another one."""
        if self._now.steps:
            self._runs.append((self.name, self._now, self.planned, self.reached, self.summary))
            self._now, self.planned, self.reached, self.summary = _OneRun(), None, None, {}
            self.note_run(f"run {len(self._runs) + 1} in one file: {why}")

    def relabel(self, steps: Iterable[int]) -> None:
        """Gives the records of the present run other steps, as many as there are."""
        self._now.steps = array("q", steps)
        self._now.last = self._now.steps[-1] if self._now.steps else -1

    def runs(self, key: str) -> list[ImportedRun]:
        """The runs of the source.

        Args:
            key: Key of the importer that read it.
        """
        ours = [*self._runs, (self.name, self._now, self.planned, self.reached, self.summary)]
        found = [one for one in ours if one[1].columns]
        if not found and (self.summary or self._notes):
            found = ours[-1:]
        named: dict[str, int] = {}
        runs = []
        for name, one, planned, reached, summary in found:
            number = named[name] = named.get(name, 0) + 1
            run = self._run(f"{name}-{number}" if number > 1 else name, one, planned, reached, key)
            runs.append(replace(run, summary=summary))
        return runs

    def _run(self, name: str, one: _OneRun, planned: int | None, reached: int | None, key: str) -> ImportedRun:
        series, superseded, disordered = {}, 0, []
        steps = np.frombuffer(one.steps, np.int64) if one.steps else np.empty(0, np.int64)
        walls = np.frombuffer(one.walls, np.float64) if one.walls else np.empty(0)
        for original, column in one.columns.items():
            rows = np.frombuffer(column.rows, np.int64)
            values = np.frombuffer(column.values, np.float64)
            order, in_order = newest(steps[rows], late=original in one.evaluations)
            rows, values = rows[order], values[order]
            when = walls[rows]
            series[original] = Series(steps[rows], values, None if np.isnan(when).any() else when)
            superseded += 0 if canonical_name(original) in CLOCKS else len(column.values) - len(rows)
            disordered += [] if in_order else [original]
        evals = frozenset(one.evaluations)
        run = ImportedRun(
            name=name,
            files=(str(self.source.path),),
            formats=(key,),
            series=series,
            canonical=canonical_names(series),
            eval_keys=evals,
            config=self.config,
            planned_steps=planned,
            reached_step=reached,
            num_superseded=superseded,
            unread=self.source.unread(),
        )
        notes = [*one.notes, *self._notes, *_resumes(one)]
        if disordered:
            notes.append(f"written out of order and sorted: {', '.join(disordered[:3])}{' …' * (len(disordered) > 3)}")
        return replace(run, notes=(*notes, *run.ending()))

    def _can_keep(self, key: str) -> bool:
        if not key or len(key) > MAX_KEY or not is_text(key):
            self.source.skip("names that cannot be kept", key)
            return False
        if len(self._now.columns) >= MAX_SERIES:
            self.source.skip(f"series beyond {MAX_SERIES:,}", key)
            return False
        return True


def newest(steps: Ints, late: bool) -> tuple[Ints, bool]:
    """Which values of a series count, by step, and whether they came in order.

    Args:
        steps: Steps in the order of writing.
        late: Whether values may come late, so that only the same step supersedes.
    """
    n = len(steps)
    falls = int((np.diff(steps) < 0).sum())
    disorder = falls > max(_SOME, _DISORDER * n)
    if falls and (late or disorder):
        order = np.argsort(steps, kind="stable")
        ordered = steps[order]
        return order[np.append(ordered[1:] != ordered[:-1], True)], late
    later = np.minimum.accumulate(steps[::-1])[::-1]  # the smallest step from here on
    return np.flatnonzero(np.append(steps[:-1] < later[1:], True)), True


def _resumes(one: _OneRun) -> list[str]:
    if not one.resumed:
        return []
    shown = ", ".join(f"at step {one.steps[row]:,} after {one.steps[row - 1]:,}" for row in one.resumed[:_SOME])
    times = "once" if len(one.resumed) == 1 else f"{len(one.resumed):,} times"
    return [f"resumed {times}: {shown}{' …' * (len(one.resumed) > _SOME)}"]

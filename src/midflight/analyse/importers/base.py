"""What an importer is: one file a format of training logs, recognised by what stands in the file and not by its name.

Importer       reads a whole file (JSON, TFRecord, tables)
LineImporter   reads a log line by line and passes over whatever stands between its records

Both hand records to `Records` (`_records.py`), which makes runs of them: restarts, resumes, repeated steps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from midflight.analyse.importers._source import Source, Unread
from midflight.analyse.names import CLOCKS
from midflight.store.base import Floats, Ints

if TYPE_CHECKING:
    from midflight.analyse.importers._records import Records


@dataclass(frozen=True, slots=True)
class Series:
    """One quantity over training, sorted by step; one value a step, the last that was written.

    Attributes:
        steps: Steps (N), increasing.
        values: Values (N); NaN and ±inf are values, what is missing is not there.
        walls: Seconds since the epoch (N), times without a zone taken as UTC; None if the log does not say for all.
    """

    steps: Ints
    values: Floats
    walls: Floats | None = None

    def __len__(self) -> int:
        return len(self.steps)


@dataclass(frozen=True)
class ImportedRun:
    """One training run as a log tells it.

    Attributes:
        name: From the file's name, or its folder's where the file is called as all of its kind; the second run of a
            file ends in ``-2``.
        files: Where it was read from.
        formats: Keys of the importers that read them.
        series: By original name.
        canonical: The name of Midflight's vocabulary, for the originals that have one; see `midflight.analyse.names`.
        eval_keys: Originals that were measured on held-out data, or by a benchmark.
        config: What the log says of the configuration.
        summary: Numbers about the whole run, such as HF's ``train_runtime``.
        planned_steps: Steps that were to be trained; None if the log does not say.
        reached_step: Step that training reached after its last record; None if the log does not say.
        num_superseded: Values that a later one of the same series replaced.
        unread: What was passed over, by kind.
        notes: What a reader has to know: where steps come from, restarts, resumes, a log that ends early.
    """

    name: str
    files: tuple[str, ...]
    formats: tuple[str, ...]
    series: Mapping[str, Series]
    canonical: Mapping[str, str] = field(default_factory=dict)
    eval_keys: frozenset[str] = frozenset()
    config: Mapping[str, Any] = field(default_factory=dict)
    summary: Mapping[str, float] = field(default_factory=dict)
    planned_steps: int | None = None
    reached_step: int | None = None
    num_superseded: int = 0
    unread: tuple[Unread, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def trained(self) -> frozenset[str]:
        """Originals that were measured in training; clocks such as the epoch are none."""
        clocks = {name for name, canonical in self.canonical.items() if canonical in CLOCKS}
        return frozenset(self.series.keys() - self.eval_keys - clocks)

    @property
    def num_records(self) -> int:
        """Steps at which something was measured in training."""
        return self._num_steps(self.trained)

    @property
    def num_eval_records(self) -> int:
        """Steps at which something was evaluated."""
        return self._num_steps(self.eval_keys)

    @property
    def first_step(self) -> int | None:
        """Smallest step of what was measured in training, or of all if nothing was; None without series."""
        return min((int(self.series[key].steps[0]) for key in self.trained or self.series), default=None)

    @property
    def last_step(self) -> int | None:
        """Largest step of what was logged in training, or of all if nothing was; None without series."""
        keys = self.series.keys() - self.eval_keys if self.trained else self.series
        return max((int(self.series[key].steps[-1]) for key in keys), default=None)

    @property
    def truncated(self) -> bool:
        """Whether it ends before the planned number of steps; steps that count from 0 end one below it."""
        first, last = self.first_step, self.last_step
        if self.planned_steps is None or first is None or last is None:
            return False
        return max(last + (first == 0), self.reached_step or 0) < self.planned_steps

    def ending(self) -> tuple[str, ...]:
        """A note if it ends early."""
        reached = max(self.last_step or 0, self.reached_step or 0)
        return (f"ends at step {reached:,} of {self.planned_steps:,} planned",) if self.truncated else ()

    def find(self, canonical: str) -> Series | None:
        """The series of a canonical name, such as ``loss``; None if the log has none."""
        original = next((name for name, one in self.canonical.items() if one == canonical), None)
        return None if original is None else self.series[original]

    def _num_steps(self, keys: Iterable[str]) -> int:
        steps = [self.series[key].steps for key in keys]
        return len(np.unique(np.concatenate(steps))) if steps else 0


class Importer(ABC):
    """A format of training logs.

    Attributes:
        label: What a user sees.
    """

    label: ClassVar[str]

    @classmethod
    @abstractmethod
    def recognises(cls, source: Source) -> bool:
        """Whether a file is of this format, from its first 64 KiB."""

    @abstractmethod
    def read(self, source: Source, records: Records) -> None:
        """Reads a file of this format; what cannot be read is counted in `source`, never guessed.

        Raises:
            ConfigError: If it turns out to be none.
        """


class LineImporter(Importer):
    """A format in which a log of lines holds records. An object of it reads one file.

    Attributes:
        specific: False for one that takes lines which belong to no format in particular; others go first.
        is_part: True for one whose records may stand in lines of other formats; those go first at as many lines.
    """

    specific: ClassVar[bool] = True
    is_part: ClassVar[bool] = False

    @classmethod
    def recognises(cls, source: Source) -> bool:
        """Any text may hold lines of the format; which format it is shows when lines are read (`_read.py`)."""
        return not source.is_binary

    @abstractmethod
    def line(self, text: str, records: Records) -> bool:
        """Reads one line; True if it belongs to the format, whether or not it completes a record."""

    def end(self, records: Records) -> None:
        """Called at the end of the file, to complete what is open."""
        return

    def read(self, source: Source, records: Records) -> None:
        """Reads line by line; a line that is no record is counted once: under what is wrong with it, if that shows."""
        line, other = self.line, source.passed_over
        for text in source.lines():
            before = source.num_skipped
            if not line(text, records) and source.num_skipped == before and text and not text.isspace():
                other(text)
        self.end(records)

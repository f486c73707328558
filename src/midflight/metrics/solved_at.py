"""solved@k: solved within the first k turns of a conversation that goes on until the answer is right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from midflight.metrics.base import Grade, GroupMetric, num_correct
from midflight.records import Sample


class SolvedAt(GroupMetric):
    """Share of samples whose last answer is correct and came in turn k or before.

    It takes for granted that the task ends a conversation at the first correct answer, as a task with feedback does.
    """

    low: ClassVar[float | None] = 0.0
    high: ClassVar[float | None] = 1.0

    @property
    def min_samples(self) -> int:
        """One: k counts turns, not samples."""
        return 1

    def score_group(self, grades: Sequence[Grade], samples: Sequence[Sample]) -> float:
        """The share."""
        early = [g for g, sample in zip(grades, samples, strict=True) if len(sample.outputs) <= self.k]
        return num_correct(early) / len(grades)

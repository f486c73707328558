"""The answer is the target, letter for letter, surrounding space aside; or one of them, if the target is a list."""

from __future__ import annotations

from typing import ClassVar

from midflight.metrics.base import SampleMetric
from midflight.records import Sample


class ExactMatch(SampleMetric):
    """1 if the prediction equals the target, else 0.

    >>> ExactMatch().compute(["4", " 5 ", "six"], [4, "5", ["6", "six"]])
    1.0
    """

    low: ClassVar[float | None] = 0.0
    high: ClassVar[float | None] = 1.0

    def grade(self, sample: Sample) -> float:
        """1 or 0."""
        targets = sample.item.target if isinstance(sample.item.target, list | tuple) else [sample.item.target]
        answer = None if sample.prediction is None else str(sample.prediction).strip()
        return float(answer is not None and any(answer == str(target).strip() for target in targets))

"""The likeliest choice is the right one (lm-evaluation-harness' `acc`)."""

from __future__ import annotations

from typing import ClassVar

from midflight.metrics.base import SampleMetric
from midflight.records import Sample


class ChoiceAccuracy(SampleMetric):
    """1 if the choice with the highest log-probability is the target, else 0; the first one where several tie.

    >>> ChoiceAccuracy().compute([2, 0, 1], [2, 1, 1])
    0.6666666666666666
    """

    low: ClassVar[float | None] = 0.0
    high: ClassVar[float | None] = 1.0

    def grade(self, sample: Sample) -> float:
        """1 or 0."""
        return float(sample.prediction == sample.item.target)

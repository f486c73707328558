"""The chosen answer gets more than the rejected one; a tie, which a collapsed reward model always gives, is half."""

from __future__ import annotations

from typing import ClassVar

from midflight.metrics.base import SampleMetric
from midflight.records import Sample


class PairwiseAccuracy(SampleMetric):
    """1 if the margin is positive, ½ if it is exactly 0, else 0."""

    low: ClassVar[float | None] = 0.0
    high: ClassVar[float | None] = 1.0

    def grade(self, sample: Sample) -> float:
        """1, ½ or 0."""
        margin = float(sample.prediction)
        return 0.5 if margin == 0 else float(margin > 0)

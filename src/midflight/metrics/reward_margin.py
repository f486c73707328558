"""By how much the chosen answer's reward (or log-likelihood) exceeds the rejected one's."""

from __future__ import annotations

from midflight.metrics.base import SampleMetric
from midflight.records import Sample


class RewardMargin(SampleMetric):
    """Value of the chosen minus value of the rejected answer."""

    def grade(self, sample: Sample) -> float:
        """The margin."""
        return float(sample.prediction)

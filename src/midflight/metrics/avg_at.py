"""avg@k: mean score of the first k samples."""

from __future__ import annotations

from collections.abc import Sequence

from midflight.metrics.base import Grade, GroupMetric
from midflight.records import Sample


class AvgAt(GroupMetric):
    """Mean over k samples.

    >>> AvgAt(2).score_group([Grade(1.0), Grade(0.0), Grade(1.0)], [])
    0.5
    """

    def score_group(self, grades: Sequence[Grade], samples: Sequence[Sample]) -> float:
        """The mean."""
        return sum(grade.value or 0.0 for grade in grades[: self.k]) / self.k

"""avg@k: mean score of the first k samples."""

from __future__ import annotations

from collections.abc import Sequence

from midflight.metrics.base import Grade, GroupMetric
from midflight.records import Sample


class AvgAt(GroupMetric):
    """Mean over k samples. Its bounds, unit and direction are those of the metric that grades them.

    >>> AvgAt(2).score_group([Grade(1.0), Grade(0.0), Grade(1.0)], [])
    0.5
    """

    @property
    def low(self) -> float | None:  # type: ignore[override]
        """The grader's lower bound."""
        return self.grader.low if self.grader else None

    @property
    def high(self) -> float | None:  # type: ignore[override]
        """The grader's upper bound."""
        return self.grader.high if self.grader else None

    @property
    def unit(self) -> str:  # type: ignore[override]
        """The grader's unit."""
        return self.grader.unit if self.grader else ""

    @property
    def higher_is_better(self) -> bool | None:  # type: ignore[override]
        """The grader's direction."""
        return self.grader.higher_is_better if self.grader else None

    def score_group(self, grades: Sequence[Grade], samples: Sequence[Sample]) -> float:
        """The mean."""
        return sum(grade.value or 0.0 for grade in grades[: self.k]) / self.k

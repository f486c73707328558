"""Share of answers that were cut off at the token limit."""

from __future__ import annotations

from typing import ClassVar

from midflight.metrics.base import SampleMetric
from midflight.records import Sample


class TruncationRate(SampleMetric):
    """1 if a turn was cut at `max_tokens`, else 0."""

    higher_is_better: ClassVar[bool | None] = False
    low: ClassVar[float | None] = 0.0
    high: ClassVar[float | None] = 1.0

    def grade(self, sample: Sample) -> float:
        """1 or 0."""
        return float(any(output.finish == "length" for output in sample.outputs))

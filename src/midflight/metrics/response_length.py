"""Tokens that an answer takes, over all its turns."""

from __future__ import annotations

from typing import ClassVar

from midflight.metrics.base import SampleMetric
from midflight.records import Sample


class ResponseLength(SampleMetric):
    """Generated tokens, the end token included."""

    higher_is_better: ClassVar[bool | None] = None
    unit: ClassVar[str] = "tokens"
    low: ClassVar[float | None] = 0.0

    def grade(self, sample: Sample) -> float:
        """Tokens of all turns."""
        return float(sum(output.num_tokens for output in sample.outputs))

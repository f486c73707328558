"""The choice likeliest for its length is the right one (lm-evaluation-harness' `acc_norm`)."""

from __future__ import annotations

from typing import ClassVar

from midflight.errors import MetricError
from midflight.metrics.base import SampleMetric
from midflight.records import Sample


class ChoiceAccuracyNorm(SampleMetric):
    """1 if the choice with the highest log-probability a character is the target, else 0; ties go to the first."""

    low: ClassVar[float | None] = 0.0
    high: ClassVar[float | None] = 1.0

    def grade(self, sample: Sample) -> float:
        """1 or 0."""
        if len(sample.choices) != len(sample.outputs):
            raise MetricError("choice_accuracy_norm is for multiple choice", got=f"{len(sample.choices)} choices")
        per_character = [
            (output.logprob or 0.0) / max(1, len(choice))
            for output, choice in zip(sample.outputs, sample.choices, strict=True)
        ]
        return float(per_character.index(max(per_character)) == sample.item.target)

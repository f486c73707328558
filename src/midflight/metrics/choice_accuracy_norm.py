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
        logprobs = [output.logprob for output in sample.outputs if output.logprob is not None]
        if len(logprobs) < len(sample.choices):
            raise MetricError("a choice has no log-probability")
        per_character = [
            logprob / max(1, len(choice)) for logprob, choice in zip(logprobs, sample.choices, strict=True)
        ]
        return float(per_character.index(max(per_character)) == sample.item.target)

"""Perplexity by token: exp of the mean negative log-likelihood of all tokens."""

from __future__ import annotations

import math
from typing import ClassVar

from midflight.metrics.base import RatioMetric
from midflight.records import Sample


class Perplexity(RatioMetric):
    """exp(−Σ log p ÷ Σ tokens). Depends on the tokenizer: compare models of one only, others by bits per byte."""

    higher_is_better: ClassVar[bool | None] = False
    low: ClassVar[float | None] = 1.0

    def terms(self, sample: Sample) -> tuple[float, float] | None:
        """Negative log-likelihood in nats, and the number of units that it is divided by."""
        values = [output.logprob for output in sample.outputs]
        if len(values) != 1 or values[0] is None:
            return None
        return -values[0], self.units(sample)

    def units(self, sample: Sample) -> float:
        """Tokens scored."""
        return float(sample.output.num_tokens)

    def transform(self, ratio: float) -> float:
        """exp; infinite where it exceeds what a float can hold."""
        return math.exp(ratio) if ratio < 709.0 else math.inf

    def slope(self, ratio: float) -> float:
        """Exp is its own derivative."""
        return self.transform(ratio)

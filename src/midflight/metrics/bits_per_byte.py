"""Bits per byte: how far the text could be compressed; independent of the tokenizer."""

from __future__ import annotations

import math
from typing import ClassVar

from midflight.metrics.base import RatioMetric
from midflight.records import Sample


class BitsPerByte(RatioMetric):
    """−Σ log₂ p ÷ Σ bytes of the counted text in UTF-8, without those that have no log-probability."""

    higher_is_better: ClassVar[bool | None] = False
    unit: ClassVar[str] = "bits/byte"
    low: ClassVar[float | None] = 0.0

    def terms(self, sample: Sample) -> tuple[float, float] | None:
        """Bits and bytes."""
        logprob = sample.output.logprob
        if logprob is None:
            return None
        num_bytes = len(str(sample.item.target).encode("utf-8", "surrogatepass")) - sample.output.unscored_bytes
        return -logprob / math.log(2), float(num_bytes)

"""Speed of the evaluation: tokens read, scored and generated a second of wall time."""

from __future__ import annotations

from typing import ClassVar

from midflight.metrics.base import CostMetric
from midflight.records import Cost


class TokensPerSecond(CostMetric):
    """All tokens ÷ wall seconds."""

    unit: ClassVar[str] = "tokens/s"
    low: ClassVar[float | None] = 0.0

    def measure(self, cost: Cost) -> float | None:
        """The speed; None if it took no time or the engine counts no tokens."""
        return cost.tokens_per_second or None

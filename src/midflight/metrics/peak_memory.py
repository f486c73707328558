"""Highest memory of the accelerator, or of the process where there is none."""

from __future__ import annotations

from typing import ClassVar

from midflight.metrics.base import CostMetric
from midflight.records import Cost


class PeakMemory(CostMetric):
    """Bytes."""

    higher_is_better: ClassVar[bool | None] = False
    unit: ClassVar[str] = "bytes"
    low: ClassVar[float | None] = 0.0

    def measure(self, cost: Cost) -> float | None:
        """The peak; None where the platform does not tell."""
        return None if cost.peak_memory_bytes is None else float(cost.peak_memory_bytes)

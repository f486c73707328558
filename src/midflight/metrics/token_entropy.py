"""Policy entropy: how undecided the model is about the next token, mean over the tokens that it generated."""

from __future__ import annotations

from typing import ClassVar

from midflight.metrics.base import RatioMetric
from midflight.records import Sample


class TokenEntropy(RatioMetric):
    """Σ entropy ÷ Σ tokens, of the next-token distribution at temperature 1, over all turns."""

    higher_is_better: ClassVar[bool | None] = None
    unit: ClassVar[str] = "nats"
    low: ClassVar[float | None] = 0.0
    needs: ClassVar[frozenset[str]] = frozenset({"entropy"})

    def terms(self, sample: Sample) -> tuple[float, float] | None:
        """Sum of entropies, and tokens."""
        counted = [(o.entropy * o.num_tokens, o.num_tokens) for o in sample.outputs if o.entropy is not None]
        return (sum(e for e, _ in counted), float(sum(n for _, n in counted))) if counted else None

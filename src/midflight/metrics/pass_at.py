"""pass@k: the chance that at least one of k samples is correct, unbiased from n ≥ k samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from midflight.metrics.base import Grade, GroupMetric, num_correct
from midflight.records import Sample


class PassAt(GroupMetric):
    """1 − C(n−c, k) ÷ C(n, k), where c of n samples are correct (Chen et al. 2021, arXiv:2107.03374).

    >>> PassAt(1).score_group([Grade(1.0), Grade(0.0), Grade(0.0), Grade(0.0)], [])
    0.25
    """

    low: ClassVar[float | None] = 0.0
    high: ClassVar[float | None] = 1.0

    def score_group(self, grades: Sequence[Grade], samples: Sequence[Sample]) -> float:
        """The unbiased estimate."""
        n, c = len(grades), num_correct(grades)
        return 1.0 - math.comb(n - c, self.k) / math.comb(n, self.k)

"""pass^k: the chance that all of k samples are correct, unbiased from n ≥ k samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from midflight.metrics.base import Grade, GroupMetric, num_correct
from midflight.records import Sample


class PassHat(GroupMetric):
    """C(c, k) ÷ C(n, k), where c of n samples are correct (Yao et al. 2024, arXiv:2406.12045).

    >>> PassHat(2).score_group([Grade(1.0), Grade(1.0), Grade(0.0)], [])
    0.3333333333333333
    """

    low: ClassVar[float | None] = 0.0
    high: ClassVar[float | None] = 1.0

    def score_group(self, grades: Sequence[Grade], samples: Sequence[Sample]) -> float:
        """The unbiased estimate."""
        n, c = len(grades), num_correct(grades)
        return math.comb(c, self.k) / math.comb(n, self.k)

"""Mean reward that a reward model gives, over chosen and rejected answers alike (as TRL's `mean_reward`)."""

from __future__ import annotations

from typing import ClassVar

from midflight.metrics.base import SampleMetric
from midflight.records import Sample


class RewardMean(SampleMetric):
    """The mean of an item's rewards; drifts, where a reward model's scale does."""

    higher_is_better: ClassVar[bool | None] = None

    def grade(self, sample: Sample) -> float | None:
        """Mean over the item's answers."""
        rewards = [output.reward for output in sample.outputs if output.reward is not None]
        return sum(rewards) / len(rewards) if rewards else None

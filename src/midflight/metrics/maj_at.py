"""maj@k: the answer given most often among k samples is correct (self-consistency)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from midflight.metrics.base import Grade, GroupMetric
from midflight.records import Sample


class MajAt(GroupMetric):
    """Score of the most frequent answer; over n > k samples, mean over consecutive blocks of k.

    Answers that could not be read have no vote. Where several answers tie, each counts in equal parts, which is the
    expectation of breaking the tie at random. Wang et al. 2022, arXiv:2203.11171.
    """

    low: ClassVar[float | None] = 0.0
    high: ClassVar[float | None] = 1.0

    def score_group(self, grades: Sequence[Grade], samples: Sequence[Sample]) -> float:
        """The mean over whole blocks of k."""
        starts = range(0, len(grades) - self.k + 1, self.k)
        blocks = [self._vote(grades[s : s + self.k], samples[s : s + self.k]) for s in starts]
        return sum(blocks) / len(blocks)

    def _vote(self, grades: Sequence[Grade], samples: Sequence[Sample]) -> float:
        votes: dict[str, list[float]] = {}
        for grade, sample in zip(grades, samples, strict=True):
            answer = grade.answer if grade.answer is not None else sample.prediction
            if answer is not None and grade.state != "unparsed":
                votes.setdefault(str(answer).strip(), []).append(grade.value or 0.0)
        if not votes:
            return 0.0
        most = max(len(ballots) for ballots in votes.values())
        winners = [ballots for ballots in votes.values() if len(ballots) == most]
        return sum(sum(ballots) / len(ballots) for ballots in winners) / len(winners)

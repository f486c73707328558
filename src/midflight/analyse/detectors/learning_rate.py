"""The learning rate is 0 long before the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from midflight.analyse.detectors.base import Detector, Moment, Streak
from midflight.records import Finding, Severity

IN_A_ROW = 10
PRINTED = 1e-6
"""A rate that was never larger may be printed as 0."""
LEFT = 0.1
"""Share of the planned steps that are still to come."""


class LearningRate(Detector):
    """A rate of exactly 0 for ten records, with a tenth of the planned steps to come."""

    severity: ClassVar[Severity] = "warn"
    needs: ClassVar[Sequence[str]] = ("learning_rate",)
    meaning = "Steps cost compute and change nothing: the schedule was planned for fewer steps than are run."
    advice = "Set the schedule's length to the steps that are run; look at restarts and gradient accumulation."
    confirm = "Do the weights still change?"

    def __init__(self) -> None:
        self._streak = Streak()

    def update(self, now: Moment) -> Finding | None:
        """Looks at the rate."""
        track, planned = now.past["learning_rate"], now.facts.planned_steps
        self.enough = self.enough or track.count >= IN_A_ROW
        still = self._streak.hold(now.step, track.last == 0 and track.highest > PRINTED)
        if still < IN_A_ROW or planned is None or now.step > (1 - LEFT) * planned:
            return None
        text = f"learning rate 0 since step {self._streak.onset} of {planned}; it was {track.highest:.3g}"
        return self.finding(now, self._streak.onset, ["learning_rate"], text, highest=track.highest, planned=planned)

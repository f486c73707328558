"""The loss climbs away from its best level and stays up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from midflight.analyse.detectors.base import SUPERVISED, Detector, Moment, Streak, start_level
from midflight.records import Finding, Severity

WINDOW = 16
"""Records whose median is the level."""
NOISE_WINDOW = 128
SIGMA = 3.0
"""Robust standard deviations of single records by which the level has to be above its best."""
GIVEN_BACK = 0.2
"""Share of all that was gained so far which has to be lost again."""
IN_A_ROW = 32
"""Records for which it has to stay up: a spike that heals is none."""


class Divergence(Detector):
    """For 32 records the level stands above its best by 3 robust standard deviations and a fifth of the gain."""

    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[Sequence[str]] = ("loss",)
    algorithms = SUPERVISED
    meaning = "Training undoes what it had learned, and does not come back by itself."
    advice = (
        "Stop; go back to the checkpoint of the best level; lower the learning rate, lengthen the warm-up, look at "
        "what changed there: data, schedule, precision."
    )
    confirm = "Does a held-out loss rise as well? Did the gradient norm grow before?"

    def __init__(self) -> None:
        self._best = float("inf")
        self._streak = Streak()

    def update(self, now: Moment) -> Finding | None:
        """Looks at the level."""
        track = now.past["loss"]
        if track.count < 2 * WINDOW:
            return None
        self.enough = True
        level = track.median(WINDOW)
        self._best = min(self._best, level)
        gained = max(0.0, start_level(track) - self._best)
        _, spread = track.centre_and_spread(NOISE_WINDOW)
        bound = self._best + max(SIGMA * spread, GIVEN_BACK * gained, 0.05 * abs(self._best))
        if self._streak.hold(now.step, level > bound) < IN_A_ROW:
            return None
        text = f"loss {level:.4g} (median of {WINDOW}) after {self._best:.4g} at its best, for {IN_A_ROW} records"
        return self.finding(now, self._streak.onset, ["loss"], text, level=level, best=self._best, spread=spread)

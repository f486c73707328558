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
MOST_WINDOW, MOST_GIVEN_BACK, MOST_IN_A_ROW = 5, 0.5, 8
"""The same where most of what was gained is lost: there is less to wait for, and short logs have few records."""
SMALL = 0.1
"""Share of the best level that is no rise: another mixture of data moves the loss as much."""


class Divergence(Detector):
    """For 32 records the level is above its best by 3 robust standard deviations and a fifth of the gain.

    Or for 8 records by as many standard deviations and half of the gain.
    """

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
        self._streak, self._most = Streak(), Streak()

    def update(self, now: Moment) -> Finding | None:
        """Looks at the level."""
        track = now.past["loss"]
        if track.count < WINDOW:
            return None
        self.enough = True
        usual = self._best <= track.last <= (1 + SMALL) * self._best
        if usual and not (self._most.count or self._streak.count):
            return None  # neither a new best nor the beginning of a rise
        level = track.median(WINDOW)
        self._best = min(self._best, level)
        gained, noise = max(0.0, start_level(track) - self._best), track.noise(NOISE_WINDOW)
        rise = max(SIGMA * noise, GIVEN_BACK * gained, SMALL * abs(self._best))
        most = max(SIGMA * noise, MOST_GIVEN_BACK * gained, SMALL * abs(self._best))
        newest = track.median(MOST_WINDOW)
        for streak, value, bound, needed in (
            (self._most, newest, most, MOST_IN_A_ROW),
            (self._streak, level, rise, IN_A_ROW),
        ):
            if streak.hold(now.step, value > self._best + bound) >= needed:
                text = f"loss {value:.4g} after {self._best:.4g} at its best, for {needed} records"
                return self.finding(now, streak.onset, ["loss"], text, level=value, best=self._best, noise=noise)
        return None

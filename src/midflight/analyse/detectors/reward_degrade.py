"""The reward falls back from what it had reached, and stays down."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

from midflight.analyse.detectors.base import Detector, Moment, Streak, start_level
from midflight.records import Finding, Severity

LEVEL = 20
"""Records whose mean is the level."""
SIGMA = 5.0
"""Standard errors of the difference of two levels; the best of many levels is lucky by some."""
CHANGE_TO_SD = math.sqrt(math.pi) / 2
"""Standard deviation of normal values over the mean size of their changes (von Neumann)."""
SMALL = 0.1
"""Share of the range of the reward that is no loss."""
GIVEN_BACK = 0.5
"""Share of the gain since the start that is lost again."""
IN_A_ROW = 20


class RewardDegrade(Detector):
    """For 20 records the level is below its best by 5 standard errors, half of the gain and a tenth of the range."""

    severity: ClassVar[Severity] = "warn"
    needs: ClassVar[Sequence[str]] = ("reward",)
    algorithms = frozenset({"rl"})
    meaning = "The policy gets worse at what it is trained for."
    advice = "Go back to the best checkpoint; lower the learning rate; look at entropy, KL and lengths at the onset."
    confirm = (
        "Did the prompts change (curriculum, a new epoch), or the policy? Evaluate both checkpoints on fixed items."
    )

    def __init__(self) -> None:
        self._best = -math.inf
        self._streak = Streak()

    def update(self, now: Moment) -> Finding | None:
        """Looks at the level against its best."""
        track = now.past["reward"]
        if track.count < 2 * LEVEL:
            return None
        self.enough = True
        newest = track.newest(LEVEL)
        level = sum(newest) / LEVEL
        self._best = max(self._best, level)
        lost, gained = self._best - level, max(0.0, self._best - start_level(track, n=10))
        much = lost > max(GIVEN_BACK * gained, SMALL * (track.highest - track.lowest))
        spread = _spread(track.newest(4 * LEVEL)) if much else math.nan
        if self._streak.hold(now.step, much and lost > SIGMA * spread * math.sqrt(2 / LEVEL)) < IN_A_ROW:
            return None
        text = f"reward {level:.3g} (mean of {LEVEL} records) after {self._best:.3g} at its best"
        return self.finding(now, self._streak.onset, ["reward"], text, level=level, best=self._best, spread=spread)


def _spread(values: Sequence[float]) -> float:
    """Standard deviation of single values, trends aside."""
    changes = [abs(after - before) for before, after in pairwise(values)]
    return CHANGE_TO_SD * sum(changes) / len(changes)

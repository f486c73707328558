"""Completions grow without a gain in reward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from midflight.analyse.detectors.base import Detector, Moment, at_its_top, start_level
from midflight.records import Finding, Severity

LEVEL = 10
"""Records whose median is the present level."""
TIMES = 3.0
"""Times the length of the start."""


class LengthExplosion(Detector):
    """Three times the length of the start, and the reward is not above its start."""

    severity: ClassVar[Severity] = "warn"
    needs: ClassVar[Sequence[str]] = ("completion_length",)
    algorithms = frozenset({"rl"})
    meaning = "Answers become long and no better: rambling, loops, or a reward that likes length."
    advice = "Read the longest answers; normalise the loss by a constant length (Dr. GRPO), add an overlong penalty."
    confirm = "Do longer answers score higher than shorter ones to the same prompt?"

    def update(self, now: Moment) -> Finding | None:
        """Looks at the level against the start's."""
        track, reward = now.past["completion_length"], now.past.get("reward")
        if track.count < 2 * LEVEL or reward is None or reward.count < 2 * LEVEL:
            return None
        self.enough = True
        start = start_level(track)
        if not track.last > TIMES * start:  # what brings a median above is itself above
            return None
        level = track.median(LEVEL)
        if level <= TIMES * start or reward.median(LEVEL) > start_level(reward) or at_its_top(reward, LEVEL):
            return None
        text = f"mean length {level:.4g} tokens after {start:.4g} at the start, reward no higher"
        return self.finding(
            now, track.step_of_newest(LEVEL), ["completion_length", "reward"], text, level=level, start=start
        )

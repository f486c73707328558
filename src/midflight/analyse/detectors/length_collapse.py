"""Completions shrink to almost nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from midflight.analyse.detectors.base import Detector, Moment, start_level
from midflight.records import Finding, Severity

LEVEL = 5
"""Records whose median is the level, and the start."""
LEFT = 0.2
"""Share of the length at the start."""
BARE_START, BARE_LEVEL = 3, 2
"""First records whose longest is the start, and records that are enough, where answers are bare."""
BARE = 16.0
"""Tokens that hold no reasoning."""


class LengthCollapse(Detector):
    """Less than a fifth of the length of the start is left over five records; over two, at 16 tokens or less."""

    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[Sequence[str]] = ("completion_length",)
    algorithms = frozenset({"rl"})
    meaning = "The model has found that saying less pays, or that a bare answer is enough: reasoning is gone."
    advice = "Read answers; take length out of the reward's reach; reward the steps, or mask degenerate answers."
    confirm = "Does the held-out score hold? Which part of the reward rose when lengths fell?"

    def update(self, now: Moment) -> Finding | None:
        """Looks at the level against the start's."""
        track = now.past["completion_length"]
        if track.count < BARE_START:
            return None
        self.enough = True
        start = start_level(track, max, BARE_START)
        if track.last >= LEFT * start:  # what brings a median below is itself below
            return None
        level, records = track.median(BARE_LEVEL), BARE_LEVEL
        if level > BARE and track.count >= 2 * LEVEL:
            start, level, records = start_level(track, n=LEVEL), track.median(LEVEL), LEVEL
        elif level > BARE:
            return None
        if level >= LEFT * start:
            return None
        text = f"mean length {level:.3g} tokens after {start:.3g} at the start"
        return self.finding(now, track.step_of_newest(records), ["completion_length"], text, level=level, start=start)

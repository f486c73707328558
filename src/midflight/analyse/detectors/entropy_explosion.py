"""The policy becomes uncertain of everything it says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from midflight.analyse.detectors.base import Detector, Moment, start_level
from midflight.records import Finding, Severity

LEVEL = 5
"""Records whose median is the present level."""
TIMES = 3.0
"""Times the entropy of the start."""
NATS = 1.0
"""Entropy from which on text is garbled; below it a small start multiplies easily."""


class EntropyExplosion(Detector):
    """Three times the entropy of the start, and more than one nat a token."""

    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[Sequence[str]] = ("entropy",)
    algorithms = frozenset({"rl"})
    meaning = "The model drifts towards random tokens; answers become garbled and long."
    advice = "Lower the learning rate and the entropy bonus; add a KL term; mask what differs from the sampler."
    confirm = "Read answers of these steps. Are lengths growing, too?"

    def update(self, now: Moment) -> Finding | None:
        """Looks at the level against the start's."""
        track = now.past["entropy"]
        if track.count < 2 * LEVEL:
            return None
        self.enough = True
        start, level = start_level(track), track.median(LEVEL)
        if level <= max(TIMES * start, NATS):
            return None
        text = f"entropy {level:.3g} after {start:.3g} at the start"
        return self.finding(now, track.step_of_newest(LEVEL), ["entropy"], text, level=level, start=start)

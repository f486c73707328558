"""The policy becomes uncertain of everything it says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from midflight.analyse.detectors.base import Detector, Moment, start_level
from midflight.records import Finding, Severity

START = 5
"""First records, whose median is the start."""
LEVEL = 10
"""Records whose median is the present level."""
TIMES = 3.0
"""Times the entropy of the start."""
NATS = 1.0
"""Entropy from which on text is garbled; below it a small start multiplies easily."""
FAR_LEVEL, FAR = 5, 2.0
"""Records that are enough where it is twice as far."""


class EntropyExplosion(Detector):
    """Over ten records three times the entropy of the start, and more than one nat a token; over five, twice as far."""

    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[Sequence[str]] = ("entropy",)
    algorithms = frozenset({"rl"})
    meaning = "The model drifts towards random tokens; answers become garbled and long."
    advice = "Lower the learning rate and the entropy bonus; add a KL term; mask what differs from the sampler."
    confirm = "Read answers of these steps. Are lengths growing, too?"

    def update(self, now: Moment) -> Finding | None:
        """Looks at the level against the start's."""
        track = now.past["entropy"]
        if track.count < START + FAR_LEVEL:
            return None
        self.enough = True
        start = start_level(track, n=START)
        bound = max(TIMES * start, NATS)
        if not track.last > bound:  # what brings a median above is itself above
            return None
        level, records = track.median(FAR_LEVEL), FAR_LEVEL
        if level <= FAR * bound:
            level, records = track.median(LEVEL), LEVEL
        if level <= bound or track.count < START + records:
            return None
        text = f"entropy {level:.3g} after {start:.3g} at the start"
        return self.finding(now, track.step_of_newest(records), ["entropy"], text, level=level, start=start)
